#pragma once

#include <utility>

#include "evenkeel/residual/residual.hpp"
#include "evenkeel/sublayers/parallel_sublayers.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// y = x + A(N(x)) + M(N(x)): attention and feed-forward side by side, behind one norm: GPT-J (Wang, Komatsuzaki 2021),
/// PaLM (Chowdhery et al. 2022, arXiv:2204.02311).
///
/// It is a Residual whose sublayer is the sum of two, and stands in a Stack as any other.
/// @code
///   ParallelBlock block(LayerNorm<float>(256), SelfAttention<float>(256, 4), FeedForward<float>(256, 1024));
/// @endcode
template <Norm N, class A, class M>
class ParallelBlock : public Residual<N, ParallelSublayers<A, M>> {
 public:
  ParallelBlock(N norm, A attention, M feed_forward)
      : Residual<N, ParallelSublayers<A, M>>({std::move(attention), std::move(feed_forward)}, {.in = std::move(norm)}) {
  }
};

template <class N, class A, class M>
ParallelBlock(N, A, M) -> ParallelBlock<N, A, M>;

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
