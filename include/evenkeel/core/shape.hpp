#pragma once

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
    if (rank_ == max_rank) raise_invalid_argument("Shape", [] { return "more than 8 axes, expected at most 8"; });
    if (extent < 0) {
      raise_invalid_argument("Shape", [=] { return "extent is " + std::to_string(extent) + ", expected at least 0"; });
    }
    extents_[static_cast<std::size_t>(rank_++)] = extent;
  }

  int rank() const noexcept { return rank_; }
  Index operator[](int axis) const noexcept { return extents_[static_cast<std::size_t>(axis)]; }

  /// The axes [first, first + count).
  Shape part(int first, int count) const noexcept {
    Shape axes;
    for (axes.rank_ = 0; axes.rank_ < count; ++axes.rank_) {
      axes.extents_[static_cast<std::size_t>(axes.rank_)] = (*this)[first + axes.rank_];
    }
    return axes;
  }

  /// The number of elements; 1 for rank 0.
  Index size() const noexcept {
    Index product = 1;
    for (int axis = 0; axis < rank_; ++axis) product *= (*this)[axis];
    return product;
  }

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<Index, max_rank> extents_{};  // zero past the rank, so that == compares what counts
  int rank_ = 0;
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
