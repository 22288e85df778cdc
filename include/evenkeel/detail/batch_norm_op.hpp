#pragma once

#include <algorithm>
#include <cmath>

#include "evenkeel/core/context.hpp"
#include "evenkeel/detail/masked_batch_norm.hpp"

/// BatchNorm between tensors and kernels: everything is checked here, then one kernel is called.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {

namespace detail {

// ---------------------------------------------------------------- training

template <class Scalar>
void reset(BatchNormStatistics<Scalar>& saved, const Shape& x, int channel_axis, Index channels, bool is_of_batch,
           bool is_empty = false) {
  for (auto* statistic : {&saved.mean, &saved.mean_rest, &saved.rstd, &saved.var_biased}) {
    statistic->resize(static_cast<std::size_t>(channels));
    if (is_empty || !is_of_batch) std::fill(statistic->begin(), statistic->end(), 0);
  }
  saved.shape = x;
  saved.channel_axis = channel_axis;
  saved.is_of_batch = is_of_batch;
}

/// Updates the running number of each channel c with that of the batch, batch(c) in double: a loop that compilers
/// vectorize where the running ones lie side by side.
template <class T, class Batch>
void update_running(const ChannelView<T>& running, RunningAverage::Weights weights, const Batch& batch) {
  T* const data = running.view().data();
  const Index size = running.size(), stride = running.view().stride(0);
  const auto update = [=](T& r, Index c) {
    r = static_cast<T>(RunningAverage::updated(weights, static_cast<double>(r), batch(c)));
  };
  if (stride == 1) {
    for (Index c = 0; c < size; ++c) update(data[c], c);
  } else {
    for (Index c = 0; c < size; ++c) update(data[c * stride], c);
  }
}

/// Lets a batch enter the running statistics.
template <class Scalar>
void update_running(const RunningUpdate<Scalar>& update, const BatchNormStatistics<Scalar>& batch,
                    Index values_per_channel) {
  const auto weights = update.average.weights(update.batches ? *update.batches : 0);
  const double n = static_cast<double>(values_per_channel);
  const double correction = update.variance == RunningVariance::unbiased ? n / (n - 1) : 1;
  const auto *mean = batch.mean.data(), *rest = batch.mean_rest.data(), *var = batch.var_biased.data();
  update_running(update.mean, weights,
                 [=](Index c) { return static_cast<double>(mean[c]) + static_cast<double>(rest[c]); });
  if (values_per_channel > 1) {
    update_running(update.var, weights, [=](Index c) { return static_cast<double>(var[c]) * correction; });
  }
  if (update.batches) ++*update.batches;
}

/// The mask of a call: of x without the channels.
template <class Scalar>
PositionMask channel_mask(const char* where, const BatchNormOptions<Scalar>& o, const TensorView<const Scalar>& x,
                          const TensorView<const Scalar>& output, const char* output_name) {
  const PositionMask mask(where, &o.mask, x, resolved_axis(where, o.channel_axis, x.shape()), 1);
  mask.require_no_overlap(where, output_name, output);
  return mask;
}

/// What kernels take of the options.
template <class Scalar>
ChannelNormForward<kernels::Compute<Scalar>> forward_call(const BatchNormOptions<Scalar>& o, Scratch& scratch) {
  return {.gamma = widened(o.gamma, scratch), .beta = widened(o.beta, scratch), .eps = o.eps};
}
/// The same, with places for statistics.
template <class T, class Scalar>
ChannelNormForward<T> saved_to(BatchNormStatistics<Scalar>& saved, ChannelNormForward<T> call) {
  call.mean = saved.mean.data(), call.mean_rest = saved.mean_rest.data();
  call.rstd = saved.rstd.data(), call.var = saved.var_biased.data();
  return call;
}

/// Statistics, and y, of the valid positions; zeros elsewhere.
template <class Scalar>
void normalize_positions(const Executor& executor, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                         const BatchNormAxes& axes, const ValidPositions& valid, int channel_axis,
                         const ChannelNormForward<kernels::Compute<Scalar>>& call, Scratch& scratch) {
  if (valid.count == axes.values_per_channel()) return normalize_channels(executor, x.data(), y.data(), axes, call);
  const Images<Scalar> to(y, channel_axis);
  if (valid.count > 0) normalize_valid(executor, Images<const Scalar>(x, channel_axis), to, valid, call, scratch);
  if (y.data()) write_zeros_where_masked(to, valid);
}

template <class Scalar>
void batch_norm_training(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                         BatchNormStatistics<Scalar>& saved, const BatchNormOptions<Scalar>& o,
                         const RunningUpdate<Scalar>& update, const Context& context) {
  const BatchNormAxes axes = require_forward(where, x, y, o);
  const PositionMask mask = channel_mask<Scalar>(where, o, x, y, "y");
  require_update(where, update, x, y, o);
  Scratch scratch(where, context, masked_batch_norm_bytes<Scalar>(mask, 1) + widened_bytes(o.gamma, o.beta));
  const ValidPositions valid = valid_positions(mask, axes.values_per_channel(), scratch);
  require_values(where, valid.count, o.allow_one_value, x.shape());

  const int channel_axis = resolved_axis(where, o.channel_axis, x.shape());
  reset(saved, x.shape(), channel_axis, axes.channels(), true, valid.count == 0);
  if (x.size() == 0) return;
  const auto call = saved_to(saved, forward_call(o, scratch));
  normalize_positions(context.executor, x, y, axes, valid, channel_axis, call, scratch);
  if (valid.count > 0) update_running(update, saved, valid.count);
}

/// The statistics of a batch alone, as a training forward saves them. Returns the values of each channel.
template <class Scalar>
Index measure_channels(const char* where, const TensorView<const Scalar>& x, const BatchNormOptions<Scalar>& o,
                       BatchNormStatistics<Scalar>& saved, const Context& context) {
  require_vectorized_scalar<Scalar>();
  BatchNormAxes axes;
  axes.x = axes.y = channel_axes(where, "x", x, o.channel_axis);
  align({&axes.x, &axes.y});
  const int channel_axis = resolved_axis(where, o.channel_axis, x.shape());
  const PositionMask mask(where, &o.mask, x, channel_axis, 1);
  Scratch scratch(where, context, masked_batch_norm_bytes<Scalar>(mask, 1));
  const ValidPositions valid = valid_positions(mask, axes.values_per_channel(), scratch);
  reset(saved, x.shape(), channel_axis, axes.channels(), true, valid.count == 0);
  const TensorView<Scalar> no_y(nullptr, x.shape(), x.strides(), x.order());
  const auto call = saved_to(saved, ChannelNormForward<kernels::Compute<Scalar>>{.eps = o.eps});
  if (x.size() > 0) normalize_positions(context.executor, x, no_y, axes, valid, channel_axis, call, scratch);
  return valid.count;
}

/// Normalizes with the statistics of the batch, and keeps nothing.
template <class Scalar>
void batch_norm_untracked(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                          const BatchNormOptions<Scalar>& o, const Context& context) {
  const BatchNormAxes axes = require_forward(where, x, y, o);
  const PositionMask mask = channel_mask<Scalar>(where, o, x, y, "y");
  Scratch scratch(where, context, masked_batch_norm_bytes<Scalar>(mask, 1) + widened_bytes(o.gamma, o.beta));
  const ValidPositions valid = valid_positions(mask, axes.values_per_channel(), scratch);
  require_values(where, valid.count, o.allow_one_value, x.shape());
  if (x.size() == 0) return;
  const int channel_axis = resolved_axis(where, o.channel_axis, x.shape());
  normalize_positions(context.executor, x, y, axes, valid, channel_axis, forward_call(o, scratch), scratch);
}

// ---------------------------------------------------------------- running statistics

/// 1 / sqrt(var + eps), and 0 where that is 1 / 0.
template <class Scalar>
double reciprocal_std(const RunningStatistics<Scalar>& running, Index c, double eps) {
  const double radicand = (running.var.is_given() ? static_cast<double>(running.var[c]) : 1.0) + eps;
  return radicand == 0 ? 0.0 : 1 / std::sqrt(radicand);
}

/// gamma / sqrt(var + eps), rounded once.
template <class Scalar>
double scale_of(const RunningStatistics<Scalar>& running, const ParameterView<Scalar>& gamma, double eps, Index c) {
  return (gamma.is_given() ? static_cast<double>(gamma.data()[c]) : 1.0) * reciprocal_std(running, c, eps);
}

/// Numbers for some channels side by side: where they are, or copied into `copy`.
template <class T>
const T* side_by_side(const ChannelView<const T>& numbers, Index first, Index count, T absent, T* copy) {
  if (numbers.is_given() && numbers.view().stride(0) == 1) return &numbers[first];
  for (Index c = 0; c < count; ++c) copy[c] = numbers.is_given() ? numbers[first + c] : absent;
  return copy;
}

/// y = activation((x - mean) * scale + beta), for a block of channels at a time, whose coefficients are on the stack.
template <class Scalar, class Activation>
void apply_running(const Executor& executor, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                   const BatchNormAxes& axes, const RunningStatistics<Scalar>& running,
                   const ChannelNormForward<kernels::Compute<Scalar>>& call, const Activation& activation) {
  using T = kernels::Compute<Scalar>;
  constexpr Index block = 16384 / static_cast<Index>(sizeof(T));
  T numbers[block], scale[block];
  for (Index first = 0; first < axes.channels(); first += block) {
    const Index count = std::min(block, axes.channels() - first);
    const T* var = side_by_side(running.var, first, count, T(1), numbers);
    kernels::channel_scales<native>(var, call.gamma ? call.gamma + first : nullptr, call.eps, count, scale);
    auto args = affine_args(x.data(), axes.x, y.data(), axes.y, first, count);
    args.center = running.mean.is_given() ? side_by_side(running.mean, first, count, T(0), numbers) : nullptr;
    args.scale = scale;
    args.shift = call.beta ? call.beta + first : nullptr;
    kernels::channel_affine<native>(args, activation, InBlocks(executor));
  }
}

template <class Scalar, class Activation>
void batch_norm_inference(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                          const RunningStatistics<Scalar>& running, const BatchNormOptions<Scalar>& o,
                          const Activation& activation, const Context& context) {
  const BatchNormAxes axes = require_forward(where, x, y, o);
  const PositionMask mask = channel_mask<Scalar>(where, o, x, y, "y");
  require_running(where, running, x, y, o.channel_axis);
  Scratch scratch(where, context, masked_batch_norm_bytes<Scalar>(mask, 0) + widened_bytes(o.gamma, o.beta));
  apply_running(context.executor, x, y, axes, running, forward_call(o, scratch), activation);
  if (!mask.is_given()) return;
  const Images<Scalar> to(y, resolved_axis(where, o.channel_axis, x.shape()));
  write_zeros_where_masked(to, valid_positions(mask, axes.values_per_channel(), scratch));
}

/// The same, and keeps what a backward takes: statistics that do not depend on x.
template <class Scalar>
void batch_norm_frozen(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                       const RunningStatistics<Scalar>& running, BatchNormStatistics<Scalar>& saved,
                       const BatchNormOptions<Scalar>& o, const Context& context) {
  using T = kernels::Compute<Scalar>;
  batch_norm_inference(where, x, y, running, o, kernels::Identity(), context);
  const int channel_axis = resolved_axis(where, o.channel_axis, x.shape());
  const Index channels = x.shape()[channel_axis];
  reset(saved, x.shape(), channel_axis, channels, false);
  for (Index c = 0; c < channels; ++c) {
    const auto i = static_cast<std::size_t>(c);
    saved.mean[i] = running.mean.is_given() ? running.mean[c] : T(0);
    saved.var_biased[i] = running.var.is_given() ? running.var[c] : T(1);
    saved.rstd[i] = static_cast<T>(reciprocal_std(running, c, o.eps));
  }
}

// ---------------------------------------------------------------- backward

/// dx of the valid positions, zeros elsewhere, and gradients of parameters.
template <class Scalar>
void differentiate_positions(const Executor& executor, const TensorView<const Scalar>& dy,
                             const TensorView<const Scalar>& x, const TensorGradient<Scalar>& to,
                             const BatchNormBackwardAxes& axes, const ValidPositions& valid, int channel_axis,
                             const ChannelNormBackward<kernels::Compute<Scalar>>& call, Scratch& scratch) {
  if (valid.count == axes.values_per_channel())
    return differentiate_channels(executor, dy.data(), x.data(), to.view().data(), axes, call);
  const TensorView<Scalar> dx = to.is_wanted() ? to.view() : TensorView<Scalar>(nullptr, x.shape(), {}, x.order());
  const MaskedGradientImages<Scalar> images{Images<const Scalar>(dy, channel_axis),
                                            Images<const Scalar>(x, channel_axis), Images<Scalar>(dx, channel_axis)};
  differentiate_valid(executor, images, valid, call, scratch);
}

template <class Scalar>
void batch_norm_backward(const char* where, const TensorView<const Scalar>& dy, const TensorView<const Scalar>& x,
                         const BatchNormStatistics<Scalar>& saved, const BatchNormOptions<Scalar>& o,
                         const BatchNormGradients<Scalar>& to, const Context& context) {
  require_vectorized_scalar<Scalar>();
  const BatchNormBackwardAxes axes = require_backward(where, dy, x, saved, o, to);
  const PositionMask mask = channel_mask<Scalar>(where, o, x, to.dx.view(), "dx");
  const bool with_parameters = to.dgamma.is_wanted() || to.dbeta.is_wanted();
  const std::size_t bytes = with_parameters ? batch_norm_backward_bytes<Scalar>(axes.x.channel.extent) : 0;
  Scratch scratch(where, context,
                  Scratch::bytes_of(bytes) + masked_batch_norm_bytes<Scalar>(mask, 2) +
                      widened_bytes(o.gamma, to.dgamma, to.dbeta));
  const ChannelNormBackward<kernels::Compute<Scalar>> call{.gamma = widened(o.gamma, scratch),
                                                           .mean = saved.mean.data(),
                                                           .mean_rest = saved.mean_rest.data(),
                                                           .rstd = saved.rstd.data(),
                                                           .constant_statistics = !saved.is_of_batch,
                                                           .dgamma = widened(to.dgamma, scratch),
                                                           .dbeta = widened(to.dbeta, scratch),
                                                           .add_dx = to.dx.adds(),
                                                           .add_dgamma = to.dgamma.adds(),
                                                           .add_dbeta = to.dbeta.adds(),
                                                           .workspace = scratch.take_bytes(bytes)};
  const ValidPositions valid = valid_positions(mask, axes.values_per_channel(), scratch);
  differentiate_positions(context.executor, dy, x, to.dx, axes, valid, resolved_axis(where, o.channel_axis, x.shape()),
                          call, scratch);
  round_gradient(call.dgamma, to.dgamma);
  round_gradient(call.dbeta, to.dbeta);
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
