#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>

#include "evenkeel/detail/batch_norm_checks.hpp"
#include "evenkeel/detail/channel_norm_call.hpp"
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
  return kernels::are_short_runs<kernels::Compute<Scalar>>(x.channel.extent, x.inner.extent, is_dense);
}

/// Statistics of each channel, where they are to be saved, and y.
///
/// Channels that lie side by side are lanes, if there are enough to fill vectors. Others are groups of segments: a
/// segment for each outer index. Short runs are taken by the caller's thread alone.
template <class Scalar>
void normalize_channels(const Executor& executor, const Scalar* x, Scalar* y, BatchNormAxes axes,
                        const ChannelNormForward<kernels::Compute<Scalar>>& call) {
  using T = kernels::Compute<Scalar>;
  const bool is_short = call.mean && has_short_runs<Scalar>({&axes.x, &axes.y});
  if (are_lanes({&axes.x, &axes.y}) && !is_short) {
    auto args = forward_args<kernels::LaneNormForward<Scalar, T>>(x, y, call);
    args.outer = 1, args.length = axes.x.outer.extent, args.lanes = axes.channels();
    args.x_stride = axes.x.outer.stride, args.y_stride = axes.y.outer.stride;
    args.parameters_per_lane = true;
    return kernels::lane_norm_forward<native, kernels::LayerNormRow>(args, InBlocks(executor));
  }
  auto args = forward_args<kernels::SegmentNormForward<Scalar>>(x, y, call);
  args.outer = 1, args.groups = axes.channels(), args.segments = axes.x.outer.extent,
  args.columns = axes.x.inner.extent;
  args.x_group_stride = axes.x.channel.stride, args.x_segment_stride = axes.x.outer.stride;
  args.y_group_stride = axes.y.channel.stride, args.y_segment_stride = axes.y.outer.stride;
  args.parameter_group_step = 1;
  if (is_short) return kernels::short_run_norm_forward<native>(args);
  kernels::segment_norm_forward<native>(args, InBlocks(executor));
}

/// The layouts are those of normalize_channels.
template <class Scalar>
void differentiate_channels(const Executor& executor, const Scalar* dy, const Scalar* x, Scalar* dx,
                            BatchNormBackwardAxes axes, const ChannelNormBackward<kernels::Compute<Scalar>>& call) {
  using T = kernels::Compute<Scalar>;
  const bool is_short = has_short_runs<Scalar>({&axes.x, &axes.dy, &axes.dx});
  if (are_lanes({&axes.x, &axes.dy, &axes.dx}) && !is_short) {
    auto args = backward_args<kernels::LaneNormBackward<Scalar, T>>(dy, x, dx, call);
    args.outer = 1, args.length = axes.x.outer.extent, args.lanes = axes.x.channel.extent;
    args.dy_stride = axes.dy.outer.stride, args.x_stride = axes.x.outer.stride, args.dx_stride = axes.dx.outer.stride;
    args.parameters_per_lane = true;
    return kernels::lane_norm_backward<native, kernels::LayerNormRow>(args, InBlocks(executor));
  }
  auto args = backward_args<kernels::SegmentNormBackward<Scalar>>(dy, x, dx, call);
  args.outer = 1, args.groups = axes.x.channel.extent, args.segments = axes.x.outer.extent,
  args.columns = axes.x.inner.extent;
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
