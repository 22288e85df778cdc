#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "evenkeel/core/axis_view.hpp"
#include "evenkeel/core/mask_view.hpp"

/// What a mask of rows means for those who compute with all rows: what is not valid is written as 0, before and after.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// x without its last axis.
inline Shape rows_shape(const Shape& x) {
  Shape shape;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) shape.append(x[axis]);
  return shape;
}

/// Throws std::invalid_argument unless the mask is absent, or has one element for each row of x.
inline void require_row_mask(const char* where, const char* name, const MaskView& mask, const Shape& x) {
  if (!mask.is_given()) return;
  const Shape rows = rows_shape(x);
  const bool is_list = mask.shape().rank() == 1 && mask.shape().size() == rows.size();
  if (is_list || mask.shape() == rows) return;
  raise_invalid_argument(where, has_shape(name, mask.shape()) + ", expected " + shape_string(rows) +
                                    " (one element for each row; " + has_shape("x", x) + ")");
}

/// Calls visit(row, is_valid, index along each axis) for every row of x, in row-major order.
template <class Visit>
void for_each_row(const MaskView& mask, const Shape& x, const Visit& visit) {
  const Shape rows = rows_shape(x);
  std::array<Index, max_rank> index{};
  for (Index row = 0; row < rows.size(); ++row) {
    Index offset = mask.shape().rank() == 1 ? row * mask.stride(0) : 0;
    for (int axis = 0; mask.shape().rank() > 1 && axis < rows.rank(); ++axis) {
      offset += index[static_cast<std::size_t>(axis)] * mask.stride(axis);
    }
    visit(row, mask[offset], index);
    for (int axis = rows.rank(); axis-- > 0;) {
      auto& i = index[static_cast<std::size_t>(axis)];
      if (++i < rows[axis]) break;
      i = 0;
    }
  }
}

/// Clears the flag of every row that is not valid; `flags` [rows].
inline void clear_invalid_flags(const MaskView& mask, const Shape& x, std::uint8_t* flags) {
  if (!mask.is_given()) return;
  for_each_row(mask, x, [&](Index row, bool is_valid, const auto&) {
    if (!is_valid) flags[row] = 0;
  });
}

/// Where the row at these indices begins.
template <class Scalar>
Scalar* row_at(const TensorView<Scalar>& x, const std::array<Index, max_rank>& index) {
  Scalar* row = x.data();
  for (int axis = 0; axis + 1 < x.rank(); ++axis) row += index[static_cast<std::size_t>(axis)] * x.stride(axis);
  return row;
}

/// Writes 0 to every row of x that is not valid.
template <class Scalar>
void zero_invalid_rows(const MaskView& mask, const TensorView<Scalar>& x) {
  if (!mask.is_given() || x.size() == 0) return;
  const int last = x.rank() - 1;
  for_each_row(mask, x.shape(), [&](Index, bool is_valid, const auto& index) {
    if (is_valid) return;
    Scalar* row = row_at(x, index);
    for (Index j = 0; j < x.shape()[last]; ++j) row[j * x.stride(last)] = Scalar(0);
  });
}

/// Copies x, with 0 for every row that is not valid.
template <class Scalar>
TensorView<const Scalar> copy_valid_rows(const MaskView& mask, const TensorView<const Scalar>& x,
                                         const TensorView<Scalar>& copy) {
  const int last = x.rank() - 1;
  if (x.size() == 0) return copy;
  for_each_row(mask, x.shape(), [&](Index, bool is_valid, const auto& index) {
    const Scalar* from = row_at(x, index);
    Scalar* to = row_at(copy, index);
    for (Index j = 0; j < x.shape()[last]; ++j) {
      to[j * copy.stride(last)] = is_valid ? from[j * x.stride(last)] : Scalar(0);
    }
  });
  return copy;
}

/// What a training forward keeps of a mask: its own copy, and the x that was computed with.
template <class Scalar>
class KeptMask {
 public:
  /// x or, where there is a mask, a copy with 0 for every row that is not valid.
  TensorView<const Scalar> keep(const MaskView& mask, const TensorView<const Scalar>& x) {
    const Shape rows = rows_shape(x.shape());
    is_valid_.assign(mask.is_given() ? static_cast<std::size_t>(rows.size()) : 0, 1);
    if (!mask.is_given()) return x;
    clear_invalid_flags(mask, x.shape(), is_valid_.data());
    valid_x_.resize(static_cast<std::size_t>(x.size()));
    return copy_valid_rows(mask, x, TensorView<Scalar>(valid_x_.data(), x.shape(), x.order()));
  }
  MaskView view() const { return is_valid_.empty() ? MaskView() : MaskView(is_valid_); }

 private:
  std::vector<std::uint8_t> is_valid_;  // [rows]; empty: there was no mask
  std::vector<Scalar> valid_x_;
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
