#pragma once

#include "evenkeel/core/axes.hpp"
#include "evenkeel/core/context.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// Parameters over several axes, whose order in memory may be another than that of x: a flat one is row-major.
///
/// Where it is another, kernels get a copy in the order of x.
class ParameterOrder {
 public:
  template <class Scalar>
  ParameterOrder(const char* where, const TensorView<const Scalar>& x, const Axes& axes) : order_(x.order()) {
    const int first = axes.first(where, x.shape());
    for (int k = 0; k < axes.count(); ++k) shape_.append(x.shape()[first + k]);
  }

  template <class P>
  std::size_t workspace_bytes(const TensorView<P>& parameters) const noexcept {
    return is_in_order(parameters) ? 0 : Scratch::bytes<P>(shape_.size());
  }

  /// The parameters in the order of x.
  template <class P>
  const P* in_order(const TensorView<const P>& parameters, Scratch& scratch) const {
    if (is_in_order(parameters)) return parameters.data();
    auto* copy = scratch.take<P>(shape_.size());
    for_each(parameters.data(), copy, [](const P& given, P& copied) { copied = given; });
    return copy;
  }

  /// Where a kernel writes a gradient, which take_gradient then copies to where it is wanted.
  template <class P>
  P* gradient_in_order(const TensorView<P>& gradient, bool adds, Scratch& scratch) const {
    if (is_in_order(gradient)) return gradient.data();
    auto* copy = scratch.take<P>(shape_.size());
    if (adds) for_each(gradient.data(), copy, [](const P& given, P& copied) { copied = given; });
    return copy;
  }
  template <class P>
  void take_gradient(const TensorView<P>& gradient, P* written) const {
    if (is_in_order(gradient)) return;
    for_each(gradient.data(), written, [](P& wanted, const P& computed) { wanted = computed; });
  }

 private:
  template <class P>
  bool is_in_order(const TensorView<P>& parameters) const noexcept {
    int longer_than_1 = 0;
    for (int axis = 0; axis < shape_.rank(); ++axis) longer_than_1 += shape_[axis] > 1;
    return parameters.data() == nullptr || longer_than_1 < 2 || order_of(parameters) == order_;
  }
  template <class P>
  static StorageOrder order_of(const TensorView<P>& parameters) noexcept {
    return parameters.rank() > 1 ? parameters.order() : StorageOrder::row_major;
  }

  /// copy(element of `given`, which has the other order, element of `ours`) for all elements.
  template <class Given, class Scalar, class Copy>
  void for_each(Given* given, Scalar* ours, const Copy& copy) const {
    const auto other = order_ == StorageOrder::row_major ? StorageOrder::column_major : StorageOrder::row_major;
    const TensorView<Given> from(given, shape_, other);
    const TensorView<Scalar> to(ours, shape_, order_);
    for (Index i = 0; i < shape_.size(); ++i) {
      Index rest = i, from_offset = 0, to_offset = 0;
      for (int axis = shape_.rank() - 1; axis >= 0; --axis) {
        from_offset += rest % shape_[axis] * from.stride(axis);
        to_offset += rest % shape_[axis] * to.stride(axis);
        rest /= shape_[axis];
      }
      copy(given[from_offset], ours[to_offset]);
    }
  }

  StorageOrder order_;
  Shape shape_;
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
