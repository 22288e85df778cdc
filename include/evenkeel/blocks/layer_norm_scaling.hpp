#pragma once

#include <utility>

#include "evenkeel/residual/residual.hpp"
#include "evenkeel/residual/scales.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// y = x + F(N(x) / sqrt(l)) in layer l: LayerNorm Scaling (Sun et al. 2025, arXiv:2502.05795), Pre-Norm whose stream
/// grows less with depth. The first layer is 1; both blocks of a transformer layer have its number.
/// @code
///   LayerNormScaling block(RMSNorm<float>(256), FeedForward<float>(256, 1024), 3);
/// @endcode
template <Norm N, class F>
class LayerNormScaling : public Residual<N, F> {
 public:
  LayerNormScaling(N norm, F sublayer, int layer)
      : Residual<N, F>(std::move(sublayer), {.in = std::move(norm)}, {.in_scale = layer_norm_scale(layer)}) {}
};

template <class N, class F>
LayerNormScaling(N, F, int) -> LayerNormScaling<N, F>;

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
