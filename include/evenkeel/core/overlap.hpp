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

/// Bytes [begin, end) hold all of a tensor; within them, `used` bytes out of every `period`.
struct MemoryRange {
  std::uintptr_t begin = 0, end = 0;
  std::uintptr_t period = 0, used = 0;
};

template <class Scalar>
MemoryRange memory_range(const TensorView<Scalar>& view) noexcept {
  if (view.data() == nullptr || view.size() == 0) return {};
  std::uintptr_t span = 1, period = 0, used = 1;
  for (int axis = 0; axis < view.rank(); ++axis) {
    const auto reach =
        static_cast<std::uintptr_t>(view.shape()[axis] - 1) * static_cast<std::uintptr_t>(view.stride(axis));
    span += reach;
    if (reach > 0 && static_cast<std::uintptr_t>(view.stride(axis)) > period) {
      period = static_cast<std::uintptr_t>(view.stride(axis));
      used = reach;  // of the slowest axis: what is left of the span without it is used in each period
    }
  }
  used = period == 0 ? span : span - used;
  const auto begin = reinterpret_cast<std::uintptr_t>(view.data());
  return {begin, begin + span * sizeof(Scalar), period * sizeof(Scalar), used * sizeof(Scalar)};
}

/// Whether a byte is in both. Exact for neighbouring columns of one matrix, else whether the ranges meet.
inline bool meet(const MemoryRange& a, const MemoryRange& b) noexcept {
  if (a.begin >= b.end || b.begin >= a.end) return false;
  if (a.period != b.period || a.period == 0) return true;
  const std::uintptr_t offset =
      b.begin >= a.begin ? (b.begin - a.begin) % a.period : (a.period - (a.begin - b.begin) % a.period) % a.period;
  return offset < a.used || offset + b.used > a.period;
}

}  // namespace detail

/// Whether the two tensors share memory.
template <class A, class B>
bool overlaps(const TensorView<A>& a, const TensorView<B>& b) noexcept {
  return detail::meet(detail::memory_range(a), detail::memory_range(b));
}

/// Throws std::invalid_argument if an output shares memory with something else.
template <class A, class B>
void require_no_overlap(const char* where, const char* output_name, const TensorView<A>& output, const char* name,
                        const TensorView<B>& other) {
  if (!overlaps(output, other)) return;
  raise_invalid_argument(where,
                         std::string(output_name) + " overlaps " + name + " in memory, expected memory of its own");
}

/// Throws std::invalid_argument unless each element of an output has a place of its own.
template <class Scalar>
void require_distinct_elements(const char* where, const char* output_name, const TensorView<Scalar>& output) {
  if (output.size() < 2) return;
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
      raise_invalid_argument(where, std::string(output_name) + " has stride " + std::to_string(stride) +
                                        " across elements that span " + std::to_string(span) +
                                        ", expected a place of its own for each element");
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
  raise_invalid_argument(where, std::string(output_name) + " overlaps " + name +
                                    " in memory, expected the identical view or memory of its own");
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
