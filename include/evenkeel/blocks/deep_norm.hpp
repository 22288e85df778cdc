#pragma once

#include <utility>

#include "evenkeel/residual/residual.hpp"
#include "evenkeel/residual/scales.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// y = N(alpha * x + F(x)): DeepNet (Wang et al. 2022, arXiv:2203.00555), GLM-130B. alpha and the gain of F's weights
/// come from the number of layers: residual/scales.hpp.
/// @code
///   const DeepNormScales scales = deepnorm_scales::decoder_only(24);
///   FeedForward<float> f(256, 1024);
///   init_deepnorm(f, seed, "blocks.0.sublayer.", scales.init_gain);
///   DeepNorm block(LayerNorm<float>(256), f, scales);
/// @endcode
template <Norm N, class F>
class DeepNorm : public Residual<N, F> {
 public:
  DeepNorm(N norm, F sublayer, double alpha)
      : Residual<N, F>(std::move(sublayer), {.trunk = std::move(norm)}, {.alpha = alpha}) {}
  DeepNorm(N norm, F sublayer, const DeepNormScales& scales)
      : DeepNorm(std::move(norm), std::move(sublayer), scales.alpha) {}
};

template <class N, class F>
DeepNorm(N, F, double) -> DeepNorm<N, F>;
template <class N, class F>
DeepNorm(N, F, DeepNormScales) -> DeepNorm<N, F>;

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
