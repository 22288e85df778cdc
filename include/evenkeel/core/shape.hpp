#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>

#include "evenkeel/core/error.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// An extent, stride or position, in elements.
using Index = std::ptrdiff_t;

/// The most axes a tensor can have.
inline constexpr int max_rank = 8;

namespace detail {

/// A number for each of up to 8 axes.
///
/// Copies are made number by number. Whole arrays would be copied in vectors, which wait until the single numbers that
/// were stored last have left the processor's store queue: that took a sixth of a call for one row.
template <class T>
struct PerAxis {
  std::array<T, max_rank> values{};  // zero past the count
  int count = 0;

  PerAxis() = default;
  PerAxis(const std::array<T, max_rank>& of, int number) noexcept : count(number) { copy(of, number); }
  PerAxis(const PerAxis& other) noexcept : PerAxis(other.values, other.count) {}
  PerAxis& operator=(const PerAxis& other) noexcept {
    copy(other.values, std::max(count, other.count));
    count = other.count;
    return *this;
  }

  const T& operator[](int axis) const noexcept { return values[static_cast<std::size_t>(axis)]; }
  T& operator[](int axis) noexcept { return values[static_cast<std::size_t>(axis)]; }

  friend bool operator==(const PerAxis& a, const PerAxis& b) noexcept {
    if (a.count != b.count) return false;
    for (int axis = 0; axis < a.count; ++axis) {
      if (a[axis] != b[axis]) return false;
    }
    return true;
  }

 private:
  void copy(const std::array<T, max_rank>& of, int number) noexcept {
    for (std::size_t axis = 0; axis < max_rank; ++axis) {
      if (static_cast<int>(axis) == number) break;  // not a loop that compilers make a copy of vectors
      values[axis] = of[axis];
    }
  }
};

}  // namespace detail

/// The extents of a tensor, in logical order: Shape{4, 128, 768}. A single number is a shape of rank 1.
///
/// Errors    throws std::invalid_argument for more than 8 axes or a negative extent.
class Shape {
 public:
  Shape() = default;
  Shape(Index extent) : Shape({extent}) {}  // NOLINT(google-explicit-constructor): a size is a shape of rank 1
  Shape(std::initializer_list<Index> extents) {
    for (const Index extent : extents) append(extent);
  }

  void append(Index extent) {
    if (rank() == max_rank) raise_invalid_argument("Shape", [] { return "more than 8 axes, expected at most 8"; });
    if (extent < 0) {
      raise_invalid_argument("Shape", [=] { return "extent is " + std::to_string(extent) + ", expected at least 0"; });
    }
    extents_[extents_.count++] = extent;
  }

  int rank() const noexcept { return extents_.count; }
  Index operator[](int axis) const noexcept { return extents_[axis]; }

  /// The axes [first, first + count).
  Shape part(int first, int count) const noexcept {
    Shape axes;
    for (int& axis = axes.extents_.count; axis < count; ++axis) axes.extents_[axis] = (*this)[first + axis];
    return axes;
  }

  /// The number of elements; 1 for rank 0.
  Index size() const noexcept {
    Index product = 1;
    for (int axis = 0; axis < rank(); ++axis) product *= (*this)[axis];
    return product;
  }

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  detail::PerAxis<Index> extents_;
};

/// "[4, 128, 768]"
inline std::string shape_string(const Shape& shape) {
  std::string text = "[";
  for (int axis = 0; axis < shape.rank(); ++axis) {
    text += (axis > 0 ? ", " : "") + std::to_string(shape[axis]);
  }
  return text + "]";
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
