#pragma once

#include <initializer_list>
#include <string>

#include "evenkeel/core/shape_check.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

namespace detail {

/// An axis of x, counted from the first.
///
/// Errors    throws std::invalid_argument if it is out of range.
inline int resolve_axis(const char* where, const char* name, int axis, const Shape& x) {
  if (axis >= -x.rank() && axis < x.rank()) return axis < 0 ? axis + x.rank() : axis;
  raise_invalid_argument(where, [=, &x] {
    return std::string(name) + " is " + std::to_string(axis) + ", expected " + std::to_string(-x.rank()) + " to " +
           std::to_string(x.rank() - 1) + " (" + has_shape("x", x) + ")";
  });
}

}  // namespace detail

/// Which axes are normalized together: one, `-1`, or several adjacent ones, `{-2, -1}`. Negative axes count from the
/// end.
class Axes {
 public:
  Axes(int axis) : Axes({axis}) {}  // NOLINT(google-explicit-constructor): an axis is a set of one
  Axes(std::initializer_list<int> axes) {
    if (axes.size() < 1 || axes.size() > max_rank) {
      raise_invalid_argument("Axes", std::to_string(axes.size()) + " axes, expected 1 to 8");
    }
    for (const int axis : axes) axes_[axes_.count++] = axis;
  }

  /// The last `count` axes.
  static Axes last(int count) {
    if (count < 1 || count > max_rank) {
      raise_invalid_argument("Axes::last", std::to_string(count) + " axes, expected 1 to 8");
    }
    Axes axes(-count);
    axes.axes_.count = count;
    for (int k = 0; k < count; ++k) axes.axes_[k] = k - count;
    return axes;
  }

  int count() const noexcept { return axes_.count; }

  /// The first of the axes in a tensor x of this shape.
  ///
  /// Errors    throws std::invalid_argument if an axis is out of range or the axes are not adjacent and ascending.
  int first(const char* where, const Shape& x) const {
    const int first = detail::resolve_axis(where, "axis", axes_[0], x);
    for (int k = 1; k < count(); ++k) {
      const int axis = detail::resolve_axis(where, "axis", axes_[k], x);
      if (axis != first + k) {
        raise_invalid_argument(where, [=, &x] {
          return "axis " + std::to_string(axis) + " follows axis " + std::to_string(first + k - 1) +
                 ", expected axis " + std::to_string(first + k) + ": axes are adjacent and ascending (" +
                 has_shape("x", x) + ")";
        });
      }
    }
    return first;
  }

 private:
  detail::PerAxis<int> axes_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
