#pragma once

#include <utility>

#include "evenkeel/residual/residual.hpp"
#include "evenkeel/residual/scales.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// y = x + lambda * F(N(x)), lambda a learned vector [last axis]: CaiT (Touvron et al. 2021, arXiv:2103.17239), DINOv2.
///
/// lambda starts small, so that a deep stack starts near the identity: 0.1 in networks of up to 18 layers, 1e-5 up to
/// 24, 1e-6 beyond (layer_scale_initial).
/// @code
///   LayerScale block(LayerNorm<float>(256), FeedForward<float>(256, 1024), 256, layer_scale_initial(24));
/// @endcode
template <Norm N, class F>
class LayerScale : public Residual<N, F> {
 public:
  LayerScale(N norm, F sublayer, Index features, double initial = 1e-5)
      : Residual<N, F>(std::move(sublayer), {.in = std::move(norm)},
                       {.lambda = Lambda<typename N::Scalar>::learned_vector(features, initial)}) {}
};

template <class N, class F>
LayerScale(N, F, Index) -> LayerScale<N, F>;
template <class N, class F>
LayerScale(N, F, Index, double) -> LayerScale<N, F>;

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
