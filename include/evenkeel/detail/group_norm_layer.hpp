#pragma once

#include <cstddef>
#include <string>

#include "evenkeel/detail/group_norm_op.hpp"
#include "evenkeel/detail/norm_layer.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// What GroupNorm and InstanceNorm are as layers. `Op` names the norm and the texts of its errors. P is the type of the
/// parameters: S, or float where S has 16 bits.
template <class S, class P, class Op>
class GroupNormLayer : public NormLayer<GroupNormLayer<S, P, Op>, S, P, Op> {
  using Base = NormLayer<GroupNormLayer, S, P, Op>;

 public:
  using Scalar = S;

  /// Bytes of workspace with which forward_into and backward_into allocate nothing for x of this shape, whatever its
  /// layout.
  std::size_t workspace_bytes(const Shape& x) const {
    return group_norm_workspace_bytes<Scalar>(Op::forward, x, axes_);
  }

  Index channels() const noexcept { return channels_; }
  int channel_axis() const noexcept { return axes_.channel; }
  int batch_axis() const noexcept { return axes_.batch; }

  Parameter<P>& gamma() noexcept { return this->gamma_; }
  Parameter<P>& beta() noexcept { return this->beta_; }
  const Parameter<P>& gamma() const noexcept { return this->gamma_; }
  const Parameter<P>& beta() const noexcept { return this->beta_; }

 protected:
  template <class Settings>
  GroupNormLayer(Index groups, Index channels, const Settings& settings)
      : Base(settings.eps), groups_(groups), channels_(channels), axes_{settings.batch_axis, settings.channel_axis} {
    require_at_least(Op::name, "channels", channels, 1);
    require_groups(Op::name, groups, channels);
    if (settings.with_gamma) this->gamma_ = Parameter<P>(channels, P(1));
    if (settings.with_beta) this->beta_ = Parameter<P>(channels, P(0));
  }

  /// The settings that it was made with.
  template <class Settings>
  Settings current_settings() const {
    return {this->eps_, !gamma().is_absent(), !beta().is_absent(), axes_.channel, axes_.batch};
  }

  Index groups_, channels_;
  ImageAxes axes_;

 private:
  friend Base;

  void require_shape(const Shape& x) const {
    const int axis = resolve_image_axes(Op::forward, axes_, x).channel;
    if (x[axis] == channels_) return;
    raise_invalid_argument(Op::forward, "axis " + std::to_string(axis) + " of x has " + std::to_string(x[axis]) +
                                            " channels, expected " + std::to_string(channels_) + " (" +
                                            has_shape("x", x) + ")");
  }
  void normalize(const TensorView<const Scalar>& x, const TensorView<Scalar>& y, NormStatistics<Scalar>* saved,
                 const Context& context) const {
    require_shape(x.shape());
    normalize_groups<Scalar>(Op::forward, x, y, this->gamma_option(), this->beta_option(), this->eps_, {groups_, axes_},
                             saved, context);
  }
  void differentiate(const TensorView<const Scalar>& dy, const TensorView<const Scalar>& x,
                     const NormStatistics<Scalar>& saved, const RowNormGradients<Scalar>& to,
                     const Context& context) const {
    differentiate_groups<Scalar>(Op::backward, dy, x, saved, this->gamma_option(), {groups_, axes_}, to, context);
  }
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
