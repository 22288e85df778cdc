#pragma once

#include "evenkeel/core/axes.hpp"
#include "evenkeel/core/context.hpp"
#include "evenkeel/core/parameter_view.hpp"

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

  template <class Scalar>
  std::size_t workspace_bytes(const TensorView<const Scalar>& parameters) const noexcept {
    return is_in_order(parameters) ? 0 : Scratch::bytes<Scalar>(shape_.size());
  }

  /// The parameters in the order of x.
  template <class Scalar>
  const Scalar* in_order(const TensorView<const Scalar>& parameters, Scratch& scratch) const {
    if (is_in_order(parameters)) return parameters.data();
    auto* copy = scratch.take<Scalar>(shape_.size());
    for_each(parameters.data(), copy, [](const Scalar& given, Scalar& copied) { copied = given; });
    return copy;
  }

  /// Where a kernel writes a gradient, which take_gradient then copies to where it is wanted.
  template <class Scalar>
  Scalar* gradient_in_order(const ParameterGradient<Scalar>& gradient, Scratch& scratch) const {
    if (is_in_order(gradient.view())) return gradient.data();
    auto* copy = scratch.take<Scalar>(shape_.size());
    if (gradient.adds()) for_each(gradient.data(), copy, [](const Scalar& given, Scalar& copied) { copied = given; });
    return copy;
  }
  template <class Scalar>
  void take_gradient(const ParameterGradient<Scalar>& gradient, Scalar* written) const {
    if (is_in_order(gradient.view())) return;
    for_each(gradient.data(), written, [](Scalar& wanted, const Scalar& computed) { wanted = computed; });
  }

 private:
  template <class Scalar>
  bool is_in_order(const TensorView<const Scalar>& parameters) const noexcept {
    int longer_than_1 = 0;
    for (int axis = 0; axis < shape_.rank(); ++axis) longer_than_1 += shape_[axis] > 1;
    return parameters.data() == nullptr || longer_than_1 < 2 || order_of(parameters) == order_;
  }
  template <class Scalar>
  static StorageOrder order_of(const TensorView<const Scalar>& parameters) noexcept {
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
