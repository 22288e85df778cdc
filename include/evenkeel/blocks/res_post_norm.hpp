#pragma once

#include <utility>

#include "evenkeel/residual/residual.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// y = x + N(F(x)): Swin v2 (Liu et al. 2021, arXiv:2111.09883), OLMo 2. F sees the stream as it is.
/// @code
///   ResPostNorm block(LayerNorm<float>(256), FeedForward<float>(256, 1024));
/// @endcode
template <Norm N, class F>
class ResPostNorm : public Residual<N, F> {
 public:
  ResPostNorm(N norm, F sublayer) : Residual<N, F>(std::move(sublayer), {.branch = std::move(norm)}) {}
};

template <class N, class F>
ResPostNorm(N, F) -> ResPostNorm<N, F>;

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
