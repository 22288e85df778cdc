#pragma once

#include "evenkeel/kernels/in_one_piece.hpp"
#include "evenkeel/kernels/row_norm.hpp"

/// What forward and backward of groups of segments share: the norms of channels-first images, where a group (or, for
/// BatchNorm, a channel) lies in runs of contiguous elements.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Groups whose segments lie between each other's are taken together, up to this many.
inline constexpr Index most_bundle_groups = 64;
inline Index bundle_groups(Index segments, Index segment_stride, Index group_stride) noexcept {
  return segments > 1 && std::abs(segment_stride) > std::abs(group_stride) ? most_bundle_groups : 1;
}

struct Bundle {
  Index outer, first, groups;
};

/// body(bundle) for all groups, in the order of memory.
template <class Args, class Body>
inline void for_each_bundle(const Args& a, Body&& body) noexcept {
  const Index at_once = bundle_groups(a.segments, a.x_segment_stride, a.x_group_stride);
  for (Index o = 0; o < a.outer; ++o) {
    for (Index g = 0; g < a.groups; g += at_once) body(Bundle{o, g, std::min(at_once, a.groups - g)});
  }
}

/// body(outer index, first group, number of groups) for groups [first, last) of those of all outer indices.
template <class Body>
inline void for_each_outer(Index groups, Index first, Index last, const Body& body) noexcept {
  for (Index count; first < last; first += count) {
    count = std::min(last - first, groups - first % groups);
    body(first / groups, first % groups, count);
  }
}

/// Bytes of a group of data of type X.
template <class X, class Args>
inline Index group_bytes(const Args& a) noexcept {
  return a.segments * a.columns * static_cast<Index>(sizeof(X));
}

/// gamma or beta of a segment that has one of it (or, where there is none, Default).
template <class Arch, class T, int Default>
struct SegmentParameter {
  using Batch = typename Simd<Arch, T>::Batch;
  static constexpr bool per_column = false;
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
  static constexpr bool per_column = true;
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
