#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>

#include "evenkeel/detail/batch_norm_checks.hpp"
#include "evenkeel/detail/in_blocks.hpp"
#include "evenkeel/kernels/lane_norm_backward.hpp"
#include "evenkeel/kernels/lane_norm_forward.hpp"
#include "evenkeel/kernels/segment_norm_backward.hpp"
#include "evenkeel/kernels/segment_norm_forward.hpp"
#include "evenkeel/kernels/short_run_norm.hpp"

/// Which kernel takes the channels of a BatchNorm as they lie in memory. Decided here alone.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

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
/// segment for each outer index. Short runs are taken by the caller's thread alone.
template <class Scalar>
void normalize_channels(const Executor& executor, const Scalar* x, Scalar* y, BatchNormAxes axes,
                        const BatchNormOptions<Scalar>& o, BatchNormStatistics<Scalar>* saved) {
  const bool is_short = saved && has_short_runs<Scalar>({&axes.x, &axes.y});
  if (are_lanes({&axes.x, &axes.y}) && !is_short) {
    auto args = forward_args<kernels::LaneNormForward<Scalar>>(x, y, o, saved);
    args.length = axes.x.outer.extent, args.lanes = axes.channels();
    args.x_stride = axes.x.outer.stride, args.y_stride = axes.y.outer.stride;
    args.parameters_per_lane = true;
    return kernels::lane_norm_forward<native, kernels::LayerNormRow>(args, InBlocks(executor));
  }
  auto args = forward_args<kernels::SegmentNormForward<Scalar>>(x, y, o, saved);
  args.groups = axes.channels(), args.segments = axes.x.outer.extent, args.columns = axes.x.inner.extent;
  args.x_group_stride = axes.x.channel.stride, args.x_segment_stride = axes.x.outer.stride;
  args.y_group_stride = axes.y.channel.stride, args.y_segment_stride = axes.y.outer.stride;
  args.parameter_group_step = 1;
  if (is_short) return kernels::short_run_norm_forward<native>(args);
  kernels::segment_norm_forward<native>(args, InBlocks(executor));
}

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
void differentiate_channels(const Executor& executor, const Scalar* dy, const Scalar* x, BatchNormBackwardAxes axes,
                            const BatchNormStatistics<Scalar>& saved, const ParameterView<Scalar>& gamma,
                            const BatchNormGradients<Scalar>& to, void* workspace) {
  const bool is_short = has_short_runs<Scalar>({&axes.x, &axes.dy, &axes.dx});
  if (are_lanes({&axes.x, &axes.dy, &axes.dx}) && !is_short) {
    auto args = backward_args<kernels::LaneNormBackward<Scalar>>(dy, x, saved, gamma, to, workspace);
    args.length = axes.x.outer.extent, args.lanes = axes.x.channel.extent;
    args.dy_stride = axes.dy.outer.stride, args.x_stride = axes.x.outer.stride, args.dx_stride = axes.dx.outer.stride;
    args.parameters_per_lane = true;
    return kernels::lane_norm_backward<native, kernels::LayerNormRow>(args, InBlocks(executor));
  }
  auto args = backward_args<kernels::SegmentNormBackward<Scalar>>(dy, x, saved, gamma, to, workspace);
  args.groups = axes.x.channel.extent, args.segments = axes.x.outer.extent, args.columns = axes.x.inner.extent;
  args.dy_group_stride = axes.dy.channel.stride, args.dy_segment_stride = axes.dy.outer.stride;
  args.x_group_stride = axes.x.channel.stride, args.x_segment_stride = axes.x.outer.stride;
  args.dx_group_stride = axes.dx.channel.stride, args.dx_segment_stride = axes.dx.outer.stride;
  args.parameter_group_step = 1;
  if (is_short && kernels::short_run_norm_backward<native>(args)) return;
  kernels::segment_norm_backward<native>(args, InBlocks(executor));
}

template <class Scalar>
std::size_t batch_norm_backward_bytes(Index channels) {
  return std::max(kernels::lane_norm_backward_workspace_bytes<Scalar>(channels),
                  kernels::segment_norm_backward_workspace_bytes<Scalar>(channels));
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
