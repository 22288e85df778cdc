#pragma once

#include <string>
#include <utility>

#include "evenkeel/core/axes.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// An extent and the distance between its elements.
struct Axis {
  Index extent = 1;
  Index stride = 0;
};

/// A tensor seen as [outer, length, inner] in the order of its memory: `length` is what is normalized together.
struct AxisView {
  Axis outer, length, inner;
};

namespace detail {

/// Joins the axes [first, first + count), which must follow one another in memory, into one.
template <class Scalar>
Axis join_axes(const char* where, const char* name, const TensorView<Scalar>& view, int first, int count) {
  Axis joined;
  for (int k = 0; k < count; ++k) {  // from the fastest axis to the slowest
    const int axis = view.order() == StorageOrder::row_major ? first + count - 1 - k : first + k;
    const Index extent = view.shape()[axis];
    if (extent == 1) continue;
    if (joined.extent == 1) {
      joined.stride = view.stride(axis);
    } else if (view.stride(axis) != joined.extent * joined.stride) {
      raise_invalid_argument(where, [=, expected = joined.extent * joined.stride, &view] {
        return std::string(name) + " has stride " + std::to_string(view.stride(axis)) + " along axis " +
               std::to_string(axis) + ", expected " + std::to_string(expected) +
               ": axes that are taken together have no gaps (" + has_shape(name, view.shape()) + ")";
      });
    }
    joined.extent *= extent;
  }
  return joined;
}

}  // namespace detail

/// Errors    throws std::invalid_argument if the axes are not in the tensor, or have gaps between them.
template <class Scalar>
AxisView axis_view(const char* where, const char* name, const TensorView<Scalar>& view, const Axes& axes) {
  const int first = axes.first(where, view.shape()), after = first + axes.count();
  Axis slow = detail::join_axes(where, name, view, 0, first);
  Axis fast = detail::join_axes(where, name, view, after, view.rank() - after);
  if (view.order() == StorageOrder::column_major) std::swap(slow, fast);
  return {slow, detail::join_axes(where, name, view, first, axes.count()), fast};
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
