#pragma once

#include "evenkeel/detail/group_norm_layer.hpp"
#include "evenkeel/ops/group_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// How a GroupNorm normalizes, and which parameters it has.
struct GroupNormSettings {
  double eps = default_eps;  ///< in units of x squared
  bool with_gamma = true;
  bool with_beta = true;
  int channel_axis = 1;  ///< negative: counted from the end; -1 is channels last
  int batch_axis = 0;    ///< examples are normalized apart
};

namespace detail {
struct GroupNormLayerOp {
  static constexpr const char* name = "GroupNorm";
  static constexpr const char* forward = "GroupNorm::forward";
  static constexpr const char* backward = "GroupNorm::backward";
};
}  // namespace detail

/// Group normalization with learned gamma and beta: y = (x - mean) * rstd * gamma + beta, with mean and var over the
/// pixels of all channels of a group, for each example.
///
/// gamma starts at 1, beta at 0. The mode is the overload: forward(x) is inference, forward(x, saved) is training; both
/// compute the same.
/// @code
///   GroupNorm<float> norm(32, 64);         // 32 groups of 64 channels; x [N, 64, H, W]
///   GroupNorm<float>::Saved saved;
///   auto y = norm.forward(x, saved);
///   auto dx = norm.backward(dy, saved);    // adds to the gradients of norm.gamma() and norm.beta()
/// @endcode
///
/// Parameters are of x's scalar type by default; beside bfloat16 or half they may be float:
/// `GroupNorm<Eigen::bfloat16, float>`.
///
/// Shapes    x, y with `channels` elements on settings.channel_axis; gamma, beta [channels].
/// Errors    throws std::invalid_argument if the groups do not divide the channels, and as group_norm_into and
///           group_norm_backward do; std::logic_error for a backward without a forward.
/// Source    Wu, He 2018, arXiv:1803.08494; agrees with torch.nn.GroupNorm.
template <class Scalar, class ParameterScalar = Scalar>
class GroupNorm : public detail::GroupNormLayer<Scalar, ParameterScalar, detail::GroupNormLayerOp> {
  using Kind = detail::GroupNormLayer<Scalar, ParameterScalar, detail::GroupNormLayerOp>;

 public:
  using Settings = GroupNormSettings;

  GroupNorm(Index groups, Index channels, const GroupNormSettings& settings = {}) : Kind(groups, channels, settings) {}

  Index groups() const noexcept { return this->groups_; }

  /// A norm with the same settings, and parameters as they start.
  GroupNorm fresh() const {
    return GroupNorm(this->groups_, this->channels_, this->template current_settings<GroupNormSettings>());
  }
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
