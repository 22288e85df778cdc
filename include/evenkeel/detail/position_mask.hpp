#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "evenkeel/core/axis_view.hpp"
#include "evenkeel/core/mask_view.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// A mask, and the positions that it is of: those of x without some axes, from the slowest axis in x's memory to the
/// fastest. So positions are counted, whatever the mask's own order.
///
/// Errors    throws std::invalid_argument if there is a mask, and its shape is not that of the positions.
class PositionMask {
 public:
  /// Of x without the axes [first, first + count); it views `mask`, which may be null. `slowest` is an axis that is
  /// taken as the slowest instead.
  template <class Scalar>
  PositionMask(const char* where, const MaskView* mask, const TensorView<Scalar>& x, int first, int count,
               std::optional<int> slowest = {})
      : mask_(mask) {
    if (!is_given()) return;
    Shape shape;
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (axis < first || axis >= first + count) shape.append(x.shape()[axis]);
    }
    require_shape(where, shape, x.shape());
    const TensorView<const char> row_major(nullptr, shape);
    if (slowest) append(axis_of(row_major, *slowest - (*slowest > first ? count : 0)));
    for (int k = 0; k < x.rank(); ++k) {
      const int axis = x.order() == StorageOrder::row_major ? k : x.rank() - 1 - k;
      if (axis == slowest || (axis >= first && axis < first + count)) continue;
      append(axis_of(row_major, axis - (axis > first ? count : 0)));
    }
  }

  bool is_given() const noexcept { return mask_ && mask_->is_given(); }
  Index size() const noexcept { return size_from(0); }
  /// The positions at each index along the slowest axis.
  Index inner_size() const noexcept { return size_from(1); }

  /// Writes 1 for each valid position and 0 for each other. Returns how many are valid.
  Index read(std::uint8_t* flags) const noexcept { return read_axes(0, 0, flags); }
  /// The same for the positions at one index along the slowest axis.
  Index read_inner(Index index, std::uint8_t* flags) const noexcept {
    return read_axes(1, index * axes_[0].stride, flags);
  }

  /// Throws std::invalid_argument if an output shares memory with the mask.
  template <class Scalar>
  void require_no_overlap(const char* where, const char* name, const TensorView<Scalar>& output) const {
    if (is_given()) evenkeel::require_no_overlap(where, name, output, "mask", mask_->bytes());
  }

 private:
  void require_shape(const char* where, const Shape& expected, const Shape& x) const {
    const Shape& given = mask_->shape();
    if (mask_->is_flat() ? given.size() == expected.size() : given == expected) return;
    const std::string context = "; " + has_shape("x", x) + ")";
    if (!mask_->is_flat()) {
      raise_invalid_argument(where, has_shape("mask", given) + ", expected " + shape_string(expected) +
                                        " (one element for each position" + context);
    }
    raise_invalid_argument(where, "mask has " + std::to_string(given.size()) + " elements, expected " +
                                      std::to_string(expected.size()) + " (one for each position of " +
                                      shape_string(expected) + context);
  }

  Axis axis_of(const TensorView<const char>& row_major, int axis) const noexcept {
    const Index stride = mask_->is_flat() ? row_major.stride(axis) * mask_->stride(0) : mask_->stride(axis);
    return {row_major.shape()[axis], stride};
  }
  void append(const Axis& axis) noexcept { axes_[count_++] = axis; }

  Index size_from(std::size_t k) const noexcept {
    Index product = 1;
    for (; k < count_; ++k) product *= axes_[k].extent;
    return product;
  }
  /// Of the axes from k on; `flags` moves on.
  Index read_axes(std::size_t k, Index offset, std::uint8_t*& flags) const noexcept {
    if (k == count_) return *flags++ = (*mask_)[offset] ? 1 : 0;
    Index valid = 0;
    for (Index i = 0; i < axes_[k].extent; ++i) valid += read_axes(k + 1, offset + i * axes_[k].stride, flags);
    return valid;
  }

  const MaskView* mask_;
  std::array<Axis, max_rank> axes_{};
  std::size_t count_ = 0;
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
