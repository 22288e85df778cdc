#pragma once

#include <utility>

#include "evenkeel/residual/residual.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// y = N_out(x + F(N_in(x))): this library's meaning of "sandwich"; the other is PeriNorm.
/// @code
///   SandwichNorm block(LayerNorm<float>(256), LayerNorm<float>(256), FeedForward<float>(256, 1024));
/// @endcode
template <Norm N, class F>
class SandwichNorm : public Residual<N, F> {
 public:
  SandwichNorm(N norm_in, N norm_out, F sublayer)
      : Residual<N, F>(std::move(sublayer), {.in = std::move(norm_in), .trunk = std::move(norm_out)}) {}
};

template <class N, class F>
SandwichNorm(N, N, F) -> SandwichNorm<N, F>;

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
