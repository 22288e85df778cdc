#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

#include "evenkeel/core/shape.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Which axis runs fastest in memory: the last (row-major) or the first (column-major).
enum class StorageOrder { row_major, column_major };

/// A tensor's memory as every operation sees it: where its elements are. Does not own them.
///
/// Made from plain pointers, it makes any operation usable without Eigen:
/// `layer_norm_into(TensorView<const float>(x, {rows, features}), TensorView<float>(y, {rows, features}))`.
///
/// Units     strides are in elements, one for each axis; `order` says whether the last axis (row-major) or the first
///           (column-major) is the one that runs fastest in memory.
/// Errors    none: that the memory is there is the caller's duty.
template <class Scalar>
class TensorView {
 public:
  TensorView() = default;

  /// Dense elements in row-major order.
  TensorView(Scalar* data, const Shape& shape) noexcept : TensorView(data, shape, StorageOrder::row_major) {}

  /// Dense elements.
  TensorView(Scalar* data, const Shape& shape, StorageOrder order) noexcept
      : data_(data), shape_(shape), order_(order) {
    strides_.count = shape.rank();
    Index step = 1;
    for (int k = 0; k < shape.rank(); ++k) {
      const int axis = order == StorageOrder::row_major ? shape.rank() - 1 - k : k;
      strides_[axis] = step;
      step *= shape[axis];
    }
  }

  /// Rows of contiguous features, `row_stride` apart.
  TensorView(Scalar* data, Index rows, Index features, Index row_stride) noexcept
      : TensorView(data, {rows, features}, {row_stride, 1}, StorageOrder::row_major) {}

  TensorView(Scalar* data, const Shape& shape, const std::array<Index, max_rank>& strides, StorageOrder order) noexcept
      : data_(data), shape_(shape), strides_(strides, shape.rank()), order_(order) {}

  /// A view of mutable elements is one of const elements too.
  operator TensorView<const Scalar>() const noexcept  // NOLINT(google-explicit-constructor): as int* to const int*
      requires(!std::is_const_v<Scalar>) {
    return {data_, shape_, strides(), order_};
  }

  Scalar* data() const noexcept { return data_; }
  const Shape& shape() const noexcept { return shape_; }
  int rank() const noexcept { return shape_.rank(); }
  Index size() const noexcept { return shape_.size(); }
  const std::array<Index, max_rank>& strides() const noexcept { return strides_.values; }
  Index stride(int axis) const noexcept { return strides_[axis]; }
  StorageOrder order() const noexcept { return order_; }

 private:
  Scalar* data_ = nullptr;
  Shape shape_;
  detail::PerAxis<Index> strides_;
  StorageOrder order_ = StorageOrder::row_major;
};

/// Whether elements follow one another in memory in the view's order, without gaps.
template <class Scalar>
bool is_dense(const TensorView<Scalar>& view) noexcept {
  const TensorView<Scalar> dense(view.data(), view.shape(), view.order());
  for (int axis = 0; axis < view.rank(); ++axis) {
    if (view.shape()[axis] > 1 && view.stride(axis) != dense.stride(axis)) return false;
  }
  return true;
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
