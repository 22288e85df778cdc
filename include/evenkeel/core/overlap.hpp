#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "evenkeel/core/tensor_view.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Whether two views are of the very same elements: what "in place" means.
template <class A, class B>
bool is_same_memory(const TensorView<A>& a, const TensorView<B>& b) noexcept {
  if (static_cast<const void*>(a.data()) != b.data() || a.shape() != b.shape()) return false;
  for (int axis = 0; axis < a.rank(); ++axis) {
    if (a.shape()[axis] > 1 && a.stride(axis) != b.stride(axis)) return false;
  }
  return true;
}

namespace detail {

/// Bytes [begin, end) hold all of a tensor; none, if it has no elements.
struct MemoryRange {
  std::uintptr_t begin = 0, end = 0;

  template <class Scalar>
  explicit MemoryRange(const TensorView<Scalar>& view) noexcept {
    if (!view.data()) return;
    std::uintptr_t span = 1;
    for (int axis = 0; axis < view.rank(); ++axis) {
      if (view.shape()[axis] == 0) return;
      span += static_cast<std::uintptr_t>(view.shape()[axis] - 1) * static_cast<std::uintptr_t>(view.stride(axis));
    }
    begin = reinterpret_cast<std::uintptr_t>(view.data());
    end = begin + span * sizeof(Scalar);
  }
};

/// The same, and that within them `used` bytes out of every `period` hold elements.
struct MemoryPattern : MemoryRange {
  std::uintptr_t period = 0, used = 0;

  template <class Scalar>
  explicit MemoryPattern(const TensorView<Scalar>& view) noexcept : MemoryRange(view) {
    Index extent = 1, stride = 0;  // of the slowest axis
    for (int axis = 0; axis < view.rank(); ++axis) {
      if (view.shape()[axis] > 1 && view.stride(axis) > stride) extent = view.shape()[axis], stride = view.stride(axis);
    }
    period = static_cast<std::uintptr_t>(stride) * sizeof(Scalar);
    used = end - begin - static_cast<std::uintptr_t>(extent - 1) * period;
  }
};

/// Whether a byte is in both. Exact for neighbouring columns of one matrix, else whether the ranges meet.
inline bool meet(const MemoryPattern& a, const MemoryPattern& b) noexcept {
  if (a.period != b.period || a.period == 0) return true;
  const std::uintptr_t offset =
      b.begin >= a.begin ? (b.begin - a.begin) % a.period : (a.period - (a.begin - b.begin) % a.period) % a.period;
  return offset < a.used || offset + b.used > a.period;
}

}  // namespace detail

/// Whether the two tensors share memory.
template <class A, class B>
bool overlaps(const TensorView<A>& a, const TensorView<B>& b) noexcept {
  const detail::MemoryRange of_a(a), of_b(b);
  if (of_a.begin >= of_b.end || of_b.begin >= of_a.end) return false;
  return detail::meet(detail::MemoryPattern(a), detail::MemoryPattern(b));
}

/// Throws std::invalid_argument if an output shares memory with something else.
template <class A, class B>
void require_no_overlap(const char* where, const char* output_name, const TensorView<A>& output, const char* name,
                        const TensorView<B>& other) {
  if (!overlaps(output, other)) return;
  raise_invalid_argument(
      where, [=] { return std::string(output_name) + " overlaps " + name + " in memory, expected memory of its own"; });
}

namespace detail {

/// Whether each axis steps over all that the faster ones span: so it is in tensors that are not transposed views.
template <class Scalar>
bool is_nested(const TensorView<Scalar>& view) noexcept {
  Index span = 1;
  for (int k = 0; k < view.rank(); ++k) {
    const int axis = view.order() == StorageOrder::row_major ? view.rank() - 1 - k : k;
    if (view.shape()[axis] < 2) continue;
    if (view.stride(axis) < span) return false;
    span += (view.shape()[axis] - 1) * view.stride(axis);
  }
  return true;
}

}  // namespace detail

/// Throws std::invalid_argument unless each element of an output has a place of its own.
template <class Scalar>
void require_distinct_elements(const char* where, const char* output_name, const TensorView<Scalar>& output) {
  if (detail::is_nested(output) || output.size() < 2) return;
  std::array<std::pair<Index, Index>, max_rank> steps;  // stride and reach of each axis, the smallest first
  std::size_t axes = 0;
  for (int axis = 0; axis < output.rank(); ++axis) {
    const Index extent = output.shape()[axis], stride = std::abs(output.stride(axis));
    if (extent < 2) continue;
    std::size_t k = axes++;
    for (; k > 0 && steps[k - 1].first > stride; --k) steps[k] = steps[k - 1];
    steps[k] = {stride, (extent - 1) * stride};
  }
  Index span = 1;
  for (std::size_t k = 0; k < axes; ++k) {
    const auto& [stride, reach] = steps[k];
    if (stride < span) {
      raise_invalid_argument(where, [=, stride = stride] {
        return std::string(output_name) + " has stride " + std::to_string(stride) + " across elements that span " +
               std::to_string(span) + ", expected a place of its own for each element";
      });
    }
    span += reach;
  }
}

/// Throws std::invalid_argument if an output overlaps itself, or shares memory with something else without being the
/// identical view.
template <class A, class B>
void require_in_place_or_no_overlap(const char* where, const char* output_name, const TensorView<A>& output,
                                    const char* name, const TensorView<B>& other) {
  require_distinct_elements(where, output_name, output);
  if (is_same_memory(output, other) || !overlaps(output, other)) return;
  raise_invalid_argument(where, [=] {
    return std::string(output_name) + " overlaps " + name +
           " in memory, expected the identical view or memory of its own";
  });
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
