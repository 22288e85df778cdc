#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "evenkeel/core/context.hpp"
#include "evenkeel/kernels/lane_norm_backward.hpp"
#include "evenkeel/kernels/lane_norm_forward.hpp"
#include "evenkeel/kernels/segment_norm_backward.hpp"
#include "evenkeel/kernels/segment_norm_forward.hpp"
#include "evenkeel/kernels/short_run_norm.hpp"
#include "evenkeel/ops/batch_norm_options.hpp"
#include "evenkeel/ops/channel_affine.hpp"

/// BatchNorm between tensors and kernels: everything is checked here, then one kernel is called.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {

namespace detail {

// ---------------------------------------------------------------- training

template <class Scalar>
void reset(BatchNormStatistics<Scalar>& saved, const Shape& x, int channel_axis, Index channels, bool is_of_batch) {
  for (auto* statistic : {&saved.mean, &saved.mean_rest, &saved.rstd, &saved.var_biased}) {
    statistic->resize(static_cast<std::size_t>(channels));
    if (x.size() == 0 || !is_of_batch) std::fill(statistic->begin(), statistic->end(), Scalar(0));
  }
  saved.shape = x;
  saved.channel_axis = channel_axis;
  saved.is_of_batch = is_of_batch;
}

/// Updates the running number of each channel c with that of the batch, batch(c) in double: a loop that compilers
/// vectorize where the running ones lie side by side.
template <class Scalar, class Batch>
void update_running(const ChannelView<Scalar>& running, RunningAverage::Weights weights, const Batch& batch) {
  Scalar* const data = running.view().data();
  const Index size = running.size(), stride = running.view().stride(0);
  const auto update = [=](Scalar& r, Index c) {
    r = static_cast<Scalar>(RunningAverage::updated(weights, static_cast<double>(r), batch(c)));
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
  const Scalar *mean = batch.mean.data(), *rest = batch.mean_rest.data(), *var = batch.var_biased.data();
  update_running(update.mean, weights,
                 [=](Index c) { return static_cast<double>(mean[c]) + static_cast<double>(rest[c]); });
  if (values_per_channel > 1) {
    update_running(update.var, weights, [=](Index c) { return static_cast<double>(var[c]) * correction; });
  }
  if (update.batches) ++*update.batches;
}

/// Whether runs of one channel are too short to fill vectors, and lie side by side in all of some aligned tensors.
template <class Scalar>
bool has_short_runs(std::initializer_list<ChannelAxes*> tensors) noexcept {
  const ChannelAxes& x = **tensors.begin();
  const bool is_dense = std::all_of(tensors.begin(), tensors.end(), [](const ChannelAxes* t) {
    return t->channel.extent == 1 || t->channel.stride == t->inner.extent;
  });
  return kernels::are_short_runs<Scalar>(x.channel.extent, x.inner.extent, is_dense);
}

/// What the kernels of either layout take alike.
template <class Args, class Scalar>
Args forward_args(const Scalar* x, Scalar* y, const BatchNormOptions<Scalar>& o, BatchNormStatistics<Scalar>* saved) {
  Args args;
  args.x = x, args.y = y, args.gamma = o.gamma.data(), args.beta = o.beta.data(), args.eps = o.eps, args.outer = 1;
  if (!saved) return args;
  args.mean = saved->mean.data(), args.mean_rest = saved->mean_rest.data();
  args.rstd = saved->rstd.data(), args.var = saved->var_biased.data();
  return args;
}

/// Statistics of each channel, where they are to be saved, and y.
///
/// Channels that lie side by side are lanes, if there are enough to fill vectors. Others are groups of segments: a
/// segment for each outer index.
template <class Scalar>
void normalize_channels(const Scalar* x, Scalar* y, BatchNormAxes axes, const BatchNormOptions<Scalar>& o,
                        BatchNormStatistics<Scalar>* saved) {
  const bool is_short = saved && has_short_runs<Scalar>({&axes.x, &axes.y});
  if (are_lanes({&axes.x, &axes.y}) && !is_short) {
    auto args = forward_args<kernels::LaneNormForward<Scalar>>(x, y, o, saved);
    args.length = axes.x.outer.extent, args.lanes = axes.channels();
    args.x_stride = axes.x.outer.stride, args.y_stride = axes.y.outer.stride;
    args.parameters_per_lane = true;
    return kernels::lane_norm_forward<native, kernels::LayerNormRow>(args);
  }
  auto args = forward_args<kernels::SegmentNormForward<Scalar>>(x, y, o, saved);
  args.groups = axes.channels(), args.segments = axes.x.outer.extent, args.columns = axes.x.inner.extent;
  args.x_group_stride = axes.x.channel.stride, args.x_segment_stride = axes.x.outer.stride;
  args.y_group_stride = axes.y.channel.stride, args.y_segment_stride = axes.y.outer.stride;
  args.parameter_group_step = 1;
  is_short ? kernels::short_run_norm_forward<native>(args) : kernels::segment_norm_forward<native>(args);
}

template <class Scalar>
void batch_norm_training(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                         BatchNormStatistics<Scalar>& saved, const BatchNormOptions<Scalar>& o,
                         const RunningUpdate<Scalar>& update) {
  const BatchNormAxes axes = require_forward(where, x, y, o);
  const Index values = axes.values_per_channel();
  require_values(where, values, o.allow_one_value, x.shape());
  require_update(where, update, x, y, o);

  reset(saved, x.shape(), resolved_axis(where, o.channel_axis, x.shape()), axes.channels(), true);
  if (x.size() == 0) return;
  normalize_channels(x.data(), y.data(), axes, o, &saved);
  update_running(update, saved, values);
}

/// Normalizes with the statistics of the batch, and keeps nothing.
template <class Scalar>
void batch_norm_untracked(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                          const BatchNormOptions<Scalar>& o) {
  const BatchNormAxes axes = require_forward(where, x, y, o);
  require_values(where, axes.values_per_channel(), o.allow_one_value, x.shape());
  if (x.size() != 0) normalize_channels<Scalar>(x.data(), y.data(), axes, o, nullptr);
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
template <class Scalar>
const Scalar* side_by_side(const ChannelView<const Scalar>& numbers, Index first, Index count, Scalar absent,
                           Scalar* copy) {
  if (numbers.is_given() && numbers.view().stride(0) == 1) return &numbers[first];
  for (Index c = 0; c < count; ++c) copy[c] = numbers.is_given() ? numbers[first + c] : absent;
  return copy;
}

/// y = activation((x - mean) * scale + beta), for a block of channels at a time, whose coefficients are on the stack.
template <class Scalar, class Activation>
void apply_running(const TensorView<const Scalar>& x, const TensorView<Scalar>& y, const BatchNormAxes& axes,
                   const RunningStatistics<Scalar>& running, const BatchNormOptions<Scalar>& o,
                   const Activation& activation) {
  constexpr Index block = 16384 / static_cast<Index>(sizeof(Scalar));
  Scalar numbers[block], scale[block];
  for (Index first = 0; first < axes.channels(); first += block) {
    const Index count = std::min(block, axes.channels() - first);
    const Scalar* var = side_by_side(running.var, first, count, Scalar(1), numbers);
    kernels::channel_scales<native>(var, o.gamma.is_given() ? o.gamma.data() + first : nullptr, o.eps, count, scale);
    auto args = affine_args(x.data(), axes.x, y.data(), axes.y, first, count);
    args.center = running.mean.is_given() ? side_by_side(running.mean, first, count, Scalar(0), numbers) : nullptr;
    args.scale = scale;
    args.shift = o.beta.is_given() ? o.beta.data() + first : nullptr;
    kernels::channel_affine<native>(args, activation);
  }
}

template <class Scalar, class Activation>
void batch_norm_inference(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                          const RunningStatistics<Scalar>& running, const BatchNormOptions<Scalar>& o,
                          const Activation& activation) {
  const BatchNormAxes axes = require_forward(where, x, y, o);
  require_running(where, running, x, y, o.channel_axis);
  apply_running(x, y, axes, running, o, activation);
}

/// The same, and keeps what a backward takes: statistics that do not depend on x.
template <class Scalar>
void batch_norm_frozen(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                       const RunningStatistics<Scalar>& running, BatchNormStatistics<Scalar>& saved,
                       const BatchNormOptions<Scalar>& o) {
  const BatchNormAxes axes = require_forward(where, x, y, o);
  require_running(where, running, x, y, o.channel_axis);
  reset(saved, x.shape(), resolved_axis(where, o.channel_axis, x.shape()), axes.channels(), false);
  for (Index c = 0; c < axes.channels(); ++c) {
    const auto i = static_cast<std::size_t>(c);
    saved.mean[i] = running.mean.is_given() ? running.mean[c] : Scalar(0);
    saved.var_biased[i] = running.var.is_given() ? running.var[c] : Scalar(1);
    saved.rstd[i] = static_cast<Scalar>(reciprocal_std(running, c, o.eps));
  }
  apply_running(x, y, axes, running, o, kernels::Identity());
}

// ---------------------------------------------------------------- backward

/// What the kernels of either layout take alike.
template <class Args, class Scalar>
Args backward_args(const Scalar* dy, const Scalar* x, const BatchNormStatistics<Scalar>& saved,
                   const ParameterView<Scalar>& gamma, const BatchNormGradients<Scalar>& to, void* workspace) {
  Args args;
  args.dy = dy, args.x = x, args.gamma = gamma.data(), args.outer = 1;
  args.mean = saved.mean.data(), args.mean_rest = saved.mean_rest.data(), args.rstd = saved.rstd.data();
  args.constant_statistics = !saved.is_of_batch;
  args.dx = to.dx.view().data(), args.dgamma = to.dgamma.data(), args.dbeta = to.dbeta.data();
  args.add_dx = to.dx.adds(), args.add_dgamma = to.dgamma.adds(), args.add_dbeta = to.dbeta.adds();
  args.workspace = workspace;
  return args;
}

/// The layouts are those of normalize_channels.
template <class Scalar>
void differentiate_channels(const Scalar* dy, const Scalar* x, BatchNormBackwardAxes axes,
                            const BatchNormStatistics<Scalar>& saved, const ParameterView<Scalar>& gamma,
                            const BatchNormGradients<Scalar>& to, void* workspace) {
  const bool is_short = has_short_runs<Scalar>({&axes.x, &axes.dy, &axes.dx});
  if (are_lanes({&axes.x, &axes.dy, &axes.dx}) && !is_short) {
    auto args = backward_args<kernels::LaneNormBackward<Scalar>>(dy, x, saved, gamma, to, workspace);
    args.length = axes.x.outer.extent, args.lanes = axes.x.channel.extent;
    args.dy_stride = axes.dy.outer.stride, args.x_stride = axes.x.outer.stride, args.dx_stride = axes.dx.outer.stride;
    args.parameters_per_lane = true;
    return kernels::lane_norm_backward<native, kernels::LayerNormRow>(args);
  }
  auto args = backward_args<kernels::SegmentNormBackward<Scalar>>(dy, x, saved, gamma, to, workspace);
  args.groups = axes.x.channel.extent, args.segments = axes.x.outer.extent, args.columns = axes.x.inner.extent;
  args.dy_group_stride = axes.dy.channel.stride, args.dy_segment_stride = axes.dy.outer.stride;
  args.x_group_stride = axes.x.channel.stride, args.x_segment_stride = axes.x.outer.stride;
  args.dx_group_stride = axes.dx.channel.stride, args.dx_segment_stride = axes.dx.outer.stride;
  args.parameter_group_step = 1;
  if (is_short && kernels::short_run_norm_backward<native>(args)) return;
  kernels::segment_norm_backward<native>(args);
}

template <class Scalar>
std::size_t batch_norm_backward_bytes(Index channels) {
  return std::max(kernels::lane_norm_backward_workspace_bytes<Scalar>(channels),
                  kernels::segment_norm_backward_workspace_bytes<Scalar>(channels));
}

template <class Scalar>
void batch_norm_backward(const char* where, const TensorView<const Scalar>& dy, const TensorView<const Scalar>& x,
                         const BatchNormStatistics<Scalar>& saved, const BatchNormOptions<Scalar>& o,
                         const BatchNormGradients<Scalar>& to, const Context& context) {
  require_float_or_double<Scalar>();
  const BatchNormBackwardAxes axes = require_backward(where, dy, x, saved, o, to);
  const bool with_parameters = to.dgamma.is_wanted() || to.dbeta.is_wanted();
  const std::size_t bytes = with_parameters ? batch_norm_backward_bytes<Scalar>(axes.x.channel.extent) : 0;
  Scratch scratch(where, context, Scratch::bytes_of(bytes));
  differentiate_channels(dy.data(), x.data(), axes, saved, o.gamma, to, scratch.take_bytes(bytes));
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
