#pragma once

#include <utility>

#include "evenkeel/residual/residual.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// y = x + F(x): ResNet (He et al. 2015, arXiv:1512.03385). No norm; N is that of the stack it can be part of.
/// @code
///   PlainResidual<LayerNorm<float>, FeedForward<float>> block(FeedForward<float>(256, 1024));
/// @endcode
template <Norm N, class F>
class PlainResidual : public Residual<N, F> {
 public:
  explicit PlainResidual(F sublayer) : Residual<N, F>(std::move(sublayer)) {}
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
