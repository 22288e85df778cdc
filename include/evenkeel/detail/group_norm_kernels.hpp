#pragma once

#include <cstddef>
#include <type_traits>

#include "evenkeel/core/images.hpp"
#include "evenkeel/detail/channel_norm_call.hpp"
#include "evenkeel/detail/in_blocks.hpp"
#include "evenkeel/kernels/group_lanes_backward.hpp"
#include "evenkeel/kernels/group_lanes_forward.hpp"
#include "evenkeel/kernels/lane_norm_backward.hpp"
#include "evenkeel/kernels/lane_norm_forward.hpp"
#include "evenkeel/kernels/segment_norm_backward.hpp"
#include "evenkeel/kernels/segment_norm_forward.hpp"

/// Which kernel takes images as they lie in memory, and how they are handed to it.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// What is contiguous in images: the pixels of a channel, the channels of a pixel, the examples of a channel and those
/// of the next one, or nothing that a kernel takes.
enum class GroupLayout { pixels_contiguous, channels_contiguous, examples_contiguous, other };

template <class Scalar>
GroupLayout group_layout(const Images<Scalar>& images) noexcept {
  const auto pixels = images.joined_pixels();
  if (!pixels) return GroupLayout::other;
  if (pixels->extent > 1 && pixels->stride == 1) return GroupLayout::pixels_contiguous;
  if (images.channels().extent == 1 || images.channels().stride == 1) return GroupLayout::channels_contiguous;
  const bool examples_follow = images.batch().stride == 1 && images.channels().stride == images.batch().extent;
  return examples_follow ? GroupLayout::examples_contiguous : GroupLayout::other;
}

/// The layout of all of them; `other` if they differ.
template <class Scalar, class... Others>
GroupLayout common_layout(const Images<Scalar>& images, const Others&... others) noexcept {
  const GroupLayout layout = group_layout(images);
  return ((group_layout(others) == layout) && ...) ? layout : GroupLayout::other;
}

/// The kernel for a layout: that of segments, that of lanes, or, for groups of several lanes, that of their groups.
enum class GroupKernel { segments, lanes, group_lanes };

template <class Scalar>
GroupKernel group_kernel(GroupLayout layout, const Images<Scalar>& images, Index groups) noexcept {
  using T = kernels::Compute<std::remove_const_t<Scalar>>;
  constexpr Index short_segment = 256 / static_cast<Index>(sizeof(T));  // shorter ones are mostly overhead
  if (layout == GroupLayout::examples_contiguous) return GroupKernel::group_lanes;
  if (layout != GroupLayout::channels_contiguous || images.pixels() == 1) return GroupKernel::segments;
  const Index group_channels = images.channels().extent / groups;
  if (group_channels == 1) return GroupKernel::lanes;
  return group_channels < short_segment ? GroupKernel::group_lanes : GroupKernel::segments;
}

template <class Scalar>
kernels::LaneGroups lane_groups(GroupLayout layout, const Images<Scalar>& images, Index groups) noexcept {
  const Index examples = layout == GroupLayout::examples_contiguous ? images.batch().extent : 1;
  return {groups, images.channels().extent / groups, examples, images.pixels()};
}

/// Bytes of workspace for a forward, and for a backward (where it is that of parameters too).
template <class Scalar>
std::size_t forward_bytes(GroupLayout layout, const Images<Scalar>& images, Index groups) noexcept {
  using X = std::remove_const_t<Scalar>;
  if (group_kernel(layout, images, groups) != GroupKernel::group_lanes) return 0;
  return kernels::group_lanes_forward_workspace_bytes<X>(lane_groups(layout, images, groups).lanes());
}
template <class Scalar>
std::size_t backward_bytes(GroupLayout layout, const Images<Scalar>& images, Index groups) noexcept {
  using X = std::remove_const_t<Scalar>;
  const Index channels = images.channels().extent;
  if (group_kernel(layout, images, groups) != GroupKernel::group_lanes) {
    return kernels::segment_norm_backward_workspace_bytes<X>(channels);
  }
  return kernels::group_lanes_backward_workspace_bytes<X>(lane_groups(layout, images, groups).lanes(), channels);
}

struct GroupStrides {
  Index outer, group, segment;
};
template <class Scalar>
GroupStrides group_strides(GroupLayout layout, const Images<Scalar>& images, Index groups) noexcept {
  const Axis& channels = images.channels();
  const Index group_channels = channels.extent / groups;
  if (layout == GroupLayout::pixels_contiguous) {
    return {images.batch().stride, group_channels * channels.stride, channels.stride};
  }
  return {images.batch().stride, group_channels, images.joined_pixels()->stride};
}

/// The extents that both kernels' arguments have.
template <class Args, class Scalar>
void set_extents(Args& args, GroupLayout layout, const Images<Scalar>& x, Index groups) noexcept {
  const Index group_channels = x.channels().extent / groups;
  const bool per_segment = layout == GroupLayout::pixels_contiguous;
  args.outer = x.batch().extent;
  args.groups = groups;
  args.segments = per_segment ? group_channels : x.pixels();
  args.columns = per_segment ? x.pixels() : group_channels;
  args.parameter_group_step = group_channels;
  args.parameter_segment_step = per_segment ? 1 : 0;
  args.parameter_column_step = per_segment ? 0 : 1;
}

/// What both kernels of lanes take alike, whose rows are segments.
template <class Args, class Scalar>
Args lane_args(const kernels::SegmentNormForward<Scalar>& a) noexcept {
  Args args;
  args.x = a.x, args.gamma = a.gamma, args.beta = a.beta, args.y = a.y, args.eps = a.eps;
  args.mean = a.mean, args.mean_rest = a.mean_rest, args.rstd = a.rstd;
  args.x_outer_stride = a.x_outer_stride, args.x_stride = a.x_segment_stride;
  args.y_outer_stride = a.y_outer_stride, args.y_stride = a.y_segment_stride;
  return args;
}
template <class Args, class Scalar>
Args lane_args(const kernels::SegmentNormBackward<Scalar>& a) noexcept {
  Args args;
  args.dy = a.dy, args.x = a.x, args.gamma = a.gamma, args.workspace = a.workspace;
  args.mean = a.mean, args.mean_rest = a.mean_rest, args.rstd = a.rstd;
  args.dx = a.dx, args.dgamma = a.dgamma, args.dbeta = a.dbeta;
  args.add_dx = a.add_dx, args.add_dgamma = a.add_dgamma, args.add_dbeta = a.add_dbeta;
  args.dy_outer_stride = a.dy_outer_stride, args.dy_stride = a.dy_segment_stride;
  args.x_outer_stride = a.x_outer_stride, args.x_stride = a.x_segment_stride;
  args.dx_outer_stride = a.dx_outer_stride, args.dx_stride = a.dx_segment_stride;
  return args;
}

template <class Scalar>
void normalize_lanes(const kernels::SegmentNormForward<Scalar>& a, const InBlocks& run) noexcept {
  auto args = lane_args<kernels::LaneNormForward<Scalar, kernels::Compute<Scalar>>>(a);
  args.outer = a.outer, args.length = a.segments, args.lanes = a.groups, args.parameters_per_lane = true;
  kernels::lane_norm_forward<native, kernels::LayerNormRow>(args, run);
}
template <class Scalar>
void differentiate_lanes(const kernels::SegmentNormBackward<Scalar>& a, const InBlocks& run) noexcept {
  auto args = lane_args<kernels::LaneNormBackward<Scalar, kernels::Compute<Scalar>>>(a);
  args.outer = a.outer, args.length = a.segments, args.lanes = a.groups, args.parameters_per_lane = true;
  kernels::lane_norm_backward<native, kernels::LayerNormRow>(args, run);
}

template <class Scalar>
void normalize_group_lanes(const kernels::SegmentNormForward<Scalar>& a, const kernels::LaneGroups& lanes,
                           void* workspace) noexcept {
  auto args = lane_args<kernels::GroupLanesForward<Scalar>>(a);
  args.lanes = lanes, args.outer = a.outer / lanes.examples, args.workspace = workspace;
  kernels::group_lanes_forward<native>(args);
}
template <class Scalar>
void differentiate_group_lanes(const kernels::SegmentNormBackward<Scalar>& a,
                               const kernels::LaneGroups& lanes) noexcept {
  auto args = lane_args<kernels::GroupLanesBackward<Scalar>>(a);
  args.lanes = lanes, args.outer = a.outer / lanes.examples;
  kernels::group_lanes_backward<native>(args);
}

/// Calls the kernel; `first` is the first group that there are statistics of in `call`. Groups of lanes are taken by
/// the caller's thread alone.
template <class Scalar>
void normalize_images(const Executor& executor, const ChannelNormForward<kernels::Compute<Scalar>>& call,
                      GroupLayout layout, const Images<const Scalar>& x, const Images<Scalar>& y, Index groups,
                      Index first, void* workspace) noexcept {
  const GroupStrides from = group_strides(layout, x, groups), to = group_strides(layout, y, groups);
  auto args = forward_args<kernels::SegmentNormForward<Scalar>>(x.data(), y.data(), call);
  set_extents(args, layout, x, groups);
  args.x_outer_stride = from.outer, args.x_group_stride = from.group, args.x_segment_stride = from.segment;
  args.y_outer_stride = to.outer, args.y_group_stride = to.group, args.y_segment_stride = to.segment;
  for (kernels::Compute<Scalar>** statistics : {&args.mean, &args.mean_rest, &args.rstd}) {
    if (*statistics) *statistics += first;
  }
  switch (group_kernel(layout, x, groups)) {
    case GroupKernel::segments:
      return kernels::segment_norm_forward<native>(args, InBlocks(executor));
    case GroupKernel::lanes:
      return normalize_lanes(args, InBlocks(executor));
    case GroupKernel::group_lanes:
      return normalize_group_lanes(args, lane_groups(layout, x, groups), workspace);
  }
}

/// Calls the kernel; `first` is the first group that there are statistics of in `call`.
template <class Scalar>
void differentiate_images(const Executor& executor, const ChannelNormBackward<kernels::Compute<Scalar>>& call,
                          GroupLayout layout, const Images<const Scalar>& dy, const Images<const Scalar>& x,
                          const Images<Scalar>& dx, Index groups, Index first) noexcept {
  const GroupStrides dy_stride = group_strides(layout, dy, groups), x_stride = group_strides(layout, x, groups);
  auto args = backward_args<kernels::SegmentNormBackward<Scalar>>(dy.data(), x.data(), dx.data(), call);
  set_extents(args, layout, x, groups);
  args.dy_outer_stride = dy_stride.outer, args.dy_group_stride = dy_stride.group;
  args.dy_segment_stride = dy_stride.segment;
  args.x_outer_stride = x_stride.outer, args.x_group_stride = x_stride.group, args.x_segment_stride = x_stride.segment;
  if (dx.data()) {
    const GroupStrides dx_stride = group_strides(layout, dx, groups);
    args.dx_outer_stride = dx_stride.outer, args.dx_group_stride = dx_stride.group;
    args.dx_segment_stride = dx_stride.segment;
  }
  args.mean += first, args.mean_rest += first, args.rstd += first;
  switch (group_kernel(layout, x, groups)) {
    case GroupKernel::segments:
      return kernels::segment_norm_backward<native>(args, InBlocks(executor));
    case GroupKernel::lanes:
      return differentiate_lanes(args, InBlocks(executor));
    case GroupKernel::group_lanes:
      return differentiate_group_lanes(args, lane_groups(layout, x, groups));
  }
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
