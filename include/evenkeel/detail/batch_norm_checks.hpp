#pragma once

#include <string>
#include <utility>

#include "evenkeel/detail/position_mask.hpp"
#include "evenkeel/ops/batch_norm_options.hpp"
#include "evenkeel/ops/channel_affine.hpp"

/// What is checked of the tensors and statistics of a BatchNorm, before anything is written.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// x and y of a forward.
struct BatchNormAxes {
  ChannelAxes x, y;
  Index channels() const noexcept { return x.channel.extent; }
  Index values_per_channel() const noexcept { return x.outer.extent * x.inner.extent; }
};

template <class Scalar>
BatchNormAxes require_forward(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                              const BatchNormOptions<Scalar>& o) {
  require_vectorized_scalar<Scalar>();
  require_eps(where, o.eps);
  BatchNormAxes axes;
  axes.x = channel_axes(where, "x", x, o.channel_axis);
  require_like_x<Scalar>(where, "y", y, x);
  axes.y = channel_axes(where, "y", y, o.channel_axis);
  require_channels_if(o.gamma.is_given(), where, "gamma", o.gamma, x.shape(), o.channel_axis);
  require_channels_if(o.beta.is_given(), where, "beta", o.beta, x.shape(), o.channel_axis);
  require_in_place_or_no_overlap(where, "y", y, "x", x);
  require_no_overlap(where, "y", y, "gamma", o.gamma.bytes());
  require_no_overlap(where, "y", y, "beta", o.beta.bytes());
  align({&axes.x, &axes.y});
  return axes;
}

/// Throws unless a batch has values enough for a variance.
inline void require_values(const char* where, Index values_per_channel, bool allow_one, const Shape& x) {
  if (values_per_channel != 1 || allow_one) return;
  raise_invalid_argument(where, "1 row per channel in training, expected at least 2 (" + has_shape("x", x) + ")");
}

/// Throws unless every variance is a number, and not negative.
template <class T>
void require_variances(const char* where, const ChannelView<const T>& var) {
  for (Index c = 0; c < var.size(); ++c) {
    const auto value = static_cast<double>(var[c]);
    if (value >= 0) continue;
    raise_invalid_argument(
        where, "running var of channel " + std::to_string(c) + " is " + number_string(value) + ", expected at least 0");
  }
}

/// Throws unless running statistics can be normalized with.
template <class Scalar>
void require_running(const char* where, const RunningStatistics<Scalar>& running, const TensorView<const Scalar>& x,
                     const TensorView<Scalar>& y, int channel_axis) {
  require_channels_if(running.mean.is_given(), where, "running mean", running.mean, x.shape(), channel_axis);
  require_channels_if(running.var.is_given(), where, "running var", running.var, x.shape(), channel_axis);
  require_no_overlap(where, "y", y, "running mean", running.mean.view());
  require_no_overlap(where, "y", y, "running var", running.var.view());
  require_variances(where, running.var);
}

/// Throws unless batches are counted where their number is needed, and the count can be one.
template <class Scalar>
void require_counter(const char* where, const RunningUpdate<Scalar>& update) {
  if (update.batches == nullptr && update.average.is_cumulative()) {
    raise_invalid_argument(where, "a cumulative average has no batches, expected a counter of them");
  }
  if (update.batches) require_at_least(where, "batches", *update.batches, 0);
}

/// Throws unless running statistics can be updated.
template <class Scalar>
void require_update(const char* where, const RunningUpdate<Scalar>& update, const TensorView<const Scalar>& x,
                    const TensorView<Scalar>& y, const BatchNormOptions<Scalar>& o) {
  require_no_overlap(where, "running mean", update.mean.view(), "running var", update.var.view());
  for (const auto& [name, view] : {std::pair{"running mean", &update.mean}, std::pair{"running var", &update.var}}) {
    require_channels_if(view->is_given(), where, name, *view, x.shape(), o.channel_axis);
    require_no_overlap(where, name, view->view(), "x", x);
    require_no_overlap(where, name, view->view(), "y", y);
    require_no_overlap(where, name, view->view(), "gamma", o.gamma.bytes());
    require_no_overlap(where, name, view->view(), "beta", o.beta.bytes());
  }
  require_counter(where, update);
}

/// Throws unless `saved` comes from a forward of a tensor with x's shape along the same channel axis.
template <class Scalar>
void require_saved(const char* where, const BatchNormStatistics<Scalar>& saved, const Shape& x, int channel_axis) {
  if (saved.is_empty()) {
    raise_logic_error(where, "saved is empty, expected what a forward of x has saved (" + has_shape("x", x) + ")");
  }
  require_same_shape(where, "x", x, "the x that was saved", saved.shape);
  const int axis = resolved_axis(where, channel_axis, x);
  if (axis == saved.channel_axis) return;
  raise_invalid_argument(where, "channel axis is " + std::to_string(axis) + ", expected " +
                                    std::to_string(saved.channel_axis) + ", that of the forward (" + has_shape("x", x) +
                                    ")");
}

/// Throws if gradients do not fit x, or overlap anything that is read, or one another.
template <class Scalar>
void require_gradients(const char* where, const BatchNormGradients<Scalar>& to, const TensorView<const Scalar>& dy,
                       const TensorView<const Scalar>& x, const ParameterView<Scalar>& gamma, int channel_axis) {
  require_channels_if(to.dgamma.is_wanted(), where, "dgamma", to.dgamma, x.shape(), channel_axis);
  require_channels_if(to.dbeta.is_wanted(), where, "dbeta", to.dbeta, x.shape(), channel_axis);
  require_gradient_memory(where, to, dy, x, gamma);
}

/// dy, x and dx of a backward. Where dx is not wanted, it is dy.
struct BatchNormBackwardAxes {
  ChannelAxes dy, x, dx;
  Index values_per_channel() const noexcept { return x.outer.extent * x.inner.extent; }
};

template <class Scalar>
BatchNormBackwardAxes require_backward(const char* where, const TensorView<const Scalar>& dy,
                                       const TensorView<const Scalar>& x, const BatchNormStatistics<Scalar>& saved,
                                       const BatchNormOptions<Scalar>& o, const BatchNormGradients<Scalar>& to) {
  BatchNormBackwardAxes axes;
  axes.x = channel_axes(where, "x", x, o.channel_axis);
  require_saved(where, saved, x.shape(), o.channel_axis);
  require_like_x<Scalar>(where, "dy", dy, x);
  axes.dy = axes.dx = channel_axes(where, "dy", dy, o.channel_axis);
  if (to.dx.is_wanted()) {
    require_like_x<Scalar>(where, "dx", to.dx.view(), x);
    axes.dx = channel_axes(where, "dx", to.dx.view(), o.channel_axis);
  }
  require_channels_if(o.gamma.is_given(), where, "gamma", o.gamma, x.shape(), o.channel_axis);
  require_gradients(where, to, dy, x, o.gamma, o.channel_axis);
  align({&axes.dy, &axes.x, &axes.dx});
  return axes;
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
