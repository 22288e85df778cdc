#pragma once

#include <utility>

#include "evenkeel/residual/residual.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// y = N(x + F(x)): the 2017 Transformer (Vaswani et al., arXiv:1706.03762), BERT. Every gradient passes the norm.
/// @code
///   PostNorm block(LayerNorm<float>(256), FeedForward<float>(256, 1024));
/// @endcode
template <Norm N, class F>
class PostNorm : public Residual<N, F> {
 public:
  PostNorm(N norm, F sublayer) : Residual<N, F>(std::move(sublayer), {.trunk = std::move(norm)}) {}
};

template <class N, class F>
PostNorm(N, F) -> PostNorm<N, F>;

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
