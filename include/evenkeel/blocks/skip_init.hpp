#pragma once

#include <utility>

#include "evenkeel/residual/residual.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// y = x + lambda * F(x), lambda a learned number at the end of F that starts from 0 or small: what takes the place of
/// BatchNorm in deep residual networks (De, Smith 2020, arXiv:2002.10444). N is that of the stack it can be part of.
/// @code
///   SkipInit<BatchNorm<float>, Linear<float>> block(Linear<float>(256, 256), 0.1);
/// @endcode
template <Norm N, class F>
class SkipInit : public Residual<N, F> {
 public:
  explicit SkipInit(F sublayer, double initial = 0)
      : Residual<N, F>(std::move(sublayer), {}, {.lambda = Lambda<typename N::Scalar>::learned_scalar(initial)}) {}
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
