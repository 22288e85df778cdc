#pragma once

#include <utility>

#include "evenkeel/residual/residual.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// y = N(x) + F(x): a norm on the skip path only. F sees the stream as it is.
/// @code
///   SkipNorm block(LayerNorm<float>(256), FeedForward<float>(256, 1024));
/// @endcode
template <Norm N, class F>
class SkipNorm : public Residual<N, F> {
 public:
  SkipNorm(N norm, F sublayer) : Residual<N, F>(std::move(sublayer), {.skip = std::move(norm)}) {}
};

template <class N, class F>
SkipNorm(N, F) -> SkipNorm<N, F>;

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
