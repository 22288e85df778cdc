#pragma once

#include <optional>

#include "evenkeel/detail/row_norm_layer.hpp"
#include "evenkeel/ops/rms_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// How an RMSNorm normalizes, and which parameters it has.
struct RMSNormSettings {
  double eps = default_eps;  ///< in units of x squared
  bool with_gamma = true;
  std::optional<Axes> axis = {};       ///< default: the last axes, as many as the normalized shape has
  bool gamma_around_zero = false;      ///< gamma is stored as its distance from 1, and starts at 0 (Gemma)
  Rounding rounding = Rounding::once;  ///< of 16 bits; before_gamma is Llama's
};

namespace detail {
struct RMSNormLayerOp {
  template <class Arch, class T, bool Scaled>
  using Row = kernels::RMSNormRow<Arch, T, Scaled>;
  static constexpr const char* name = "RMSNorm";
  static constexpr const char* forward = "RMSNorm::forward";
  static constexpr const char* backward = "RMSNorm::backward";
};
}  // namespace detail

/// Root mean square normalization with a learned gamma, which starts at 1: y = x * rstd * gamma.
///
/// Used as LayerNorm is.
///
/// Parameters are of x's scalar type by default; beside bfloat16 or half they may be float: `RMSNorm<Eigen::bfloat16,
/// float>`.
///
/// Shapes    x, y [..., normalized_shape] (or along settings.axis); gamma [normalized_shape].
/// Errors    throws std::invalid_argument as rms_norm_into and rms_norm_backward do; std::logic_error for a backward
///           without a forward.
/// Source    Zhang, Sennrich 2019, arXiv:1910.07467; agrees with torch.nn.RMSNorm.
template <class Scalar, class ParameterScalar = Scalar>
class RMSNorm : public detail::RowNormLayer<Scalar, ParameterScalar, detail::RMSNormLayerOp> {
  using Base = detail::RowNormLayer<Scalar, ParameterScalar, detail::RMSNormLayerOp>;

 public:
  using Settings = RMSNormSettings;

  explicit RMSNorm(const Shape& normalized_shape, const RMSNormSettings& settings = {})
      : Base(normalized_shape, settings) {}

  /// A norm with the same settings, and parameters as they start.
  RMSNorm fresh() const {
    return RMSNorm(this->normalized_shape_,
                   {this->eps_, !this->gamma().is_absent(), this->axes_, this->gamma_is_around_zero_, this->rounding_});
  }
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
