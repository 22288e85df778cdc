#pragma once

#include <utility>

#include "evenkeel/residual/residual.hpp"
#include "evenkeel/sublayers/normalized.hpp"
#include "evenkeel/sublayers/parallel_sublayers.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// y = x + A(N_a(x)) + M(N_m(x)): attention and feed-forward side by side, each behind a norm of its own: GPT-NeoX
/// (Black et al. 2022, arXiv:2204.06745). A Stack of them is told its final norm.
/// @code
///   const LayerNorm<float> norm(256);
///   TwoNormParallelBlock block(norm, SelfAttention<float>(256, 4), norm, FeedForward<float>(256, 1024));
/// @endcode
template <Norm N, class A, class M>
class TwoNormParallelBlock : public Residual<N, ParallelSublayers<Normalized<N, A>, Normalized<N, M>>> {
 public:
  using Sublayers = ParallelSublayers<Normalized<N, A>, Normalized<N, M>>;

  TwoNormParallelBlock(N attention_norm, A attention, N feed_forward_norm, M feed_forward)
      : Residual<N, Sublayers>(Sublayers({std::move(attention_norm), std::move(attention)},
                                         {std::move(feed_forward_norm), std::move(feed_forward)})) {}
};

template <class N, class A, class M>
TwoNormParallelBlock(N, A, N, M) -> TwoNormParallelBlock<N, A, M>;

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
