#pragma once

#include "evenkeel/detail/group_norm_layer.hpp"
#include "evenkeel/ops/instance_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// How an InstanceNorm normalizes, and which parameters it has.
struct InstanceNormSettings {
  double eps = default_eps;  ///< in units of x squared
  bool with_gamma = true;
  bool with_beta = true;
  int channel_axis = 1;  ///< negative: counted from the end; -1 is channels last
  int batch_axis = 0;    ///< examples are normalized apart
};

namespace detail {
struct InstanceNormLayerOp {
  static constexpr const char* name = "InstanceNorm";
  static constexpr const char* forward = "InstanceNorm::forward";
  static constexpr const char* backward = "InstanceNorm::backward";
};
}  // namespace detail

/// Instance normalization with learned gamma and beta: y = (x - mean) * rstd * gamma + beta, with mean and var over the
/// pixels of each channel of each example.
///
/// gamma starts at 1, beta at 0 (torch.nn.InstanceNorm has them only with affine=True). There are no running
/// statistics: forward(x) is inference, forward(x, saved) is training; both compute the same.
/// @code
///   InstanceNorm<float> norm(64);          // x [N, 64, H, W]
///   InstanceNorm<float>::Saved saved;
///   auto y = norm.forward(x, saved);
///   auto dx = norm.backward(dy, saved);    // adds to the gradients of norm.gamma() and norm.beta()
/// @endcode
///
/// Parameters are of x's scalar type by default; beside bfloat16 or half they may be float:
/// `InstanceNorm<Eigen::bfloat16, float>`.
///
/// Shapes    x, y with `channels` elements on settings.channel_axis; gamma, beta [channels].
/// Errors    throws std::invalid_argument as instance_norm_into and instance_norm_backward do; std::logic_error for a
///           backward without a forward.
/// Source    Ulyanov, Vedaldi, Lempitsky 2016, arXiv:1607.08022; agrees with torch.nn.InstanceNorm2d.
template <class Scalar, class ParameterScalar = Scalar>
class InstanceNorm : public detail::GroupNormLayer<Scalar, ParameterScalar, detail::InstanceNormLayerOp> {
  using Kind = detail::GroupNormLayer<Scalar, ParameterScalar, detail::InstanceNormLayerOp>;

 public:
  using Settings = InstanceNormSettings;

  explicit InstanceNorm(Index channels, const InstanceNormSettings& settings = {})
      : Kind(channels, channels, settings) {}

  /// A norm with the same settings, and parameters as they start.
  InstanceNorm fresh() const {
    return InstanceNorm(this->channels_, this->template current_settings<InstanceNormSettings>());
  }
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
