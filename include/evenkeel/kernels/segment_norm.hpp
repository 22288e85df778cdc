#pragma once

#include "evenkeel/kernels/row_norm.hpp"

/// What forward and backward of groups of segments share: the norms of channels-first images, where a group (or, for
/// BatchNorm, a channel) lies in runs of contiguous elements.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Fewer, longer segments of the same groups, where memory and parameters allow it. `contiguous` says that each
/// segment starts where the one before has ended, in every tensor.
template <class Args>
inline Args with_longest_segments(Args a, bool has_parameters, bool contiguous) noexcept {
  if (!has_parameters) a.parameter_group_step = a.parameter_segment_step = a.parameter_column_step = 0;
  if (!contiguous || a.segments == 1) return a;
  const bool is_one_column = a.columns == 1 && a.parameter_segment_step <= 1;
  if (is_one_column) a.parameter_column_step = a.parameter_segment_step;
  if (is_one_column || (a.parameter_segment_step == 0 && a.parameter_column_step == 0)) {
    a.columns *= a.segments;
    a.segments = 1;
    a.parameter_segment_step = 0;
  }
  return a;
}

/// Groups whose segments lie between each other's are taken together, up to this many.
inline constexpr Index most_bundle_groups = 64;
inline Index bundle_groups(Index segments, Index segment_stride, Index group_stride) noexcept {
  return segments > 1 && std::abs(segment_stride) > std::abs(group_stride) ? most_bundle_groups : 1;
}

/// gamma or beta of a segment that has one of it (or, where there is none, Default).
template <class Arch, class T, int Default>
struct SegmentParameter {
  using Batch = typename Simd<Arch, T>::Batch;
  Batch value;
  SegmentParameter(const T* parameter, Index) noexcept
      : value(Simd<Arch, T>::broadcast(parameter ? *parameter : T(Default))) {}
  template <class Lanes>
  Batch load(Lanes, Index) const noexcept {
    return value;
  }
};

/// gamma or beta of a block of columns, from `start` on, with one of it for each column.
template <class Arch, class T, int Default>
struct ColumnParameters {
  const T* block;
  ColumnParameters(const T* parameters, Index start) noexcept : block(parameter_block<Default>(parameters, start)) {}
  template <class Lanes>
  typename Simd<Arch, T>::Batch load(Lanes lanes, Index j) const noexcept {
    return lanes.load(block + j);
  }
};

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
