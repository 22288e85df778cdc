#pragma once

#include <optional>

#include "evenkeel/detail/row_norm_layer.hpp"
#include "evenkeel/ops/layer_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// How a LayerNorm normalizes, and which parameters it has.
struct LayerNormSettings {
  double eps = default_eps;  ///< in units of x squared
  bool with_gamma = true;
  bool with_beta = true;
  std::optional<Axes> axis = {};       ///< default: the last axes, as many as the normalized shape has
  bool gamma_around_zero = false;      ///< gamma is stored as its distance from 1, and starts at 0 (Gemma)
  Rounding rounding = Rounding::once;  ///< of 16 bits, whether x_hat is rounded before gamma too
};

namespace detail {
struct LayerNormLayerOp {
  template <class Arch, class T, bool Scaled>
  using Row = kernels::LayerNormRow<Arch, T, Scaled>;
  static constexpr const char* name = "LayerNorm";
  static constexpr const char* forward = "LayerNorm::forward";
  static constexpr const char* backward = "LayerNorm::backward";
};
}  // namespace detail

/// Layer normalization with learned gamma and beta: y = (x - mean) * rstd * gamma + beta.
///
/// gamma starts at 1, beta at 0. The mode is the overload: forward(x) is inference, forward(x, saved) is training.
/// @code
///   LayerNorm<float> norm(768);
///   LayerNorm<float>::Saved saved;
///   auto y = norm.forward(x, saved);       // x [..., 768]
///   auto dx = norm.backward(dy, saved);    // adds to the gradients of norm.gamma() and norm.beta()
/// @endcode
///
/// Parameters are of x's scalar type by default; beside bfloat16 or half they may be float: `LayerNorm<Eigen::bfloat16,
/// float>`.
///
/// Shapes    x, y [..., normalized_shape] (or along settings.axis); gamma, beta [normalized_shape].
/// Errors    throws std::invalid_argument as layer_norm_into and layer_norm_backward do; std::logic_error for a
///           backward without a forward.
/// Source    Ba, Kiros, Hinton 2016, arXiv:1607.06450; agrees with torch.nn.LayerNorm.
template <class Scalar, class ParameterScalar = Scalar>
class LayerNorm : public detail::RowNormLayer<Scalar, ParameterScalar, detail::LayerNormLayerOp> {
  using Base = detail::RowNormLayer<Scalar, ParameterScalar, detail::LayerNormLayerOp>;

 public:
  using Settings = LayerNormSettings;

  explicit LayerNorm(const Shape& normalized_shape, const LayerNormSettings& settings = {})
      : Base(normalized_shape, settings) {
    if (settings.with_beta) this->beta_ = Parameter<ParameterScalar>(normalized_shape, ParameterScalar(0));
  }

  Parameter<ParameterScalar>& beta() noexcept { return this->beta_; }
  const Parameter<ParameterScalar>& beta() const noexcept { return this->beta_; }

  /// A norm with the same settings, and parameters as they start.
  LayerNorm fresh() const {
    return LayerNorm(this->normalized_shape_, {this->eps_, !this->gamma().is_absent(), !beta().is_absent(), this->axes_,
                                               this->gamma_is_around_zero_, this->rounding_});
  }
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
