#pragma once

#include <cstddef>
#include <type_traits>

#include "evenkeel/core/axes.hpp"
#include "evenkeel/core/context.hpp"
#include "evenkeel/core/parameter_view.hpp"
#include "evenkeel/kernels/simd.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// What kernels take as gamma and beta: numbers of type P in the order in which x has the features.
///
/// The caller's are taken as they are, unless their type is another, gamma is stored around zero or is one number, or
/// they stand in another order over several axes (flat ones are row-major): then kernels get a copy, and their
/// gradients are copied back (that of one number, summed up).
template <class P>
class KernelParameters {
 public:
  template <class Scalar>
  KernelParameters(const char* where, const TensorView<const Scalar>& x, const Axes& axes)
      : order_(x.order()), shape_(x.shape().part(axes.first(where, x.shape()), axes.count())) {}

  template <class Given>
  std::size_t workspace_bytes(const TensorView<Given>& given, const ParameterForm& form = {}) const noexcept {
    return is_taken(given, form) ? 0 : Scratch::bytes<P>(shape_.size());
  }

  /// gamma or beta; 1 is added to one that is stored around zero.
  template <class Given>
  const P* values(const TensorView<const Given>& given, Scratch& scratch, const ParameterForm& form = {}) const {
    if constexpr (std::is_same_v<Given, P>) {
      if (is_taken(given, form)) return given.data();
    }
    if (!given.data()) return nullptr;
    auto* copy = scratch.take<P>(shape_.size());
    for_each(given, form, copy, [&](const Given& from, P& to) {
      using Wide = kernels::Compute<Given>;
      to = kernels::from_compute<P>(Wide(kernels::to_compute(from) + Wide(form.is_around_zero ? 1.0 : 0.0)));
    });
    return copy;
  }

  /// Where a kernel writes a gradient, which take_gradient then brings to where it is wanted. The kernel adds to what
  /// is there if the caller wants so and the gradient is not that of one number.
  template <class Given>
  P* gradient(const TensorView<Given>& wanted, bool adds, Scratch& scratch, const ParameterForm& form = {}) const {
    if constexpr (std::is_same_v<Given, P>) {
      if (is_taken(wanted, gradient_form(form))) return wanted.data();
    }
    if (!wanted.data()) return nullptr;
    auto* copy = scratch.take<P>(shape_.size());
    if (adds && !form.is_scalar) {
      for_each(wanted, form, copy, [](const Given& from, P& to) { to = converted<P>(from); });
    }
    return copy;
  }
  template <class Given>
  void take_gradient(const TensorView<Given>& wanted, bool adds, P* written, const ParameterForm& form = {}) const {
    if (written == nullptr || static_cast<const void*>(written) == wanted.data()) return;
    if (form.is_scalar) return take_sum(*wanted.data(), adds, written);
    for_each(wanted, form, written, [](Given& to, const P& from) { to = converted<Given>(from); });
  }
  /// The gradient of gamma is the same, however gamma is stored around 0 or 1.
  static ParameterForm gradient_form(const ParameterForm& form) noexcept { return {false, form.is_scalar}; }

 private:
  template <class Given>
  void take_sum(Given& to, bool adds, const P* written) const {
    using T = kernels::Compute<P>;
    kernels::Wide<T> sum(adds ? kernels::to_compute(to) : T(0.0));
    for (Index j = 0; j < shape_.size(); ++j) sum = kernels::Wide<T>(sum + kernels::to_compute(written[j]));
    to = kernels::from_compute<Given>(static_cast<T>(sum));
  }

  template <class To, class From>
  static To converted(const From& from) noexcept {
    return kernels::from_compute<To>(kernels::to_compute(from));
  }

  /// Whether it is taken as it is: absent, or of the type, the form and the order of the kernel.
  template <class Given>
  bool is_taken(const TensorView<Given>& given, const ParameterForm& form) const noexcept {
    if (given.data() == nullptr) return true;
    if (form.is_around_zero || form.is_scalar) return false;
    return std::is_same_v<std::remove_const_t<Given>, P> && (given_order(given) == order_ || longer_than_1() < 2);
  }
  int longer_than_1() const noexcept {
    int count = 0;
    for (int axis = 0; axis < shape_.rank(); ++axis) count += shape_[axis] > 1;
    return count;
  }
  template <class Given>
  static StorageOrder given_order(const TensorView<Given>& given) noexcept {
    return given.rank() > 1 ? given.order() : StorageOrder::row_major;
  }

  /// copy(element of `given`, the same of `ours`) for all elements; the only one of a scalar, again and again.
  template <class Given, class Copy>
  void for_each(const TensorView<Given>& given, const ParameterForm& form, P* ours, const Copy& copy) const {
    const TensorView<Given> from = form.is_scalar ? TensorView<Given>(given.data(), shape_, {}, order_)
                                                  : TensorView<Given>(given.data(), shape_, given_order(given));
    const TensorView<P> to(ours, shape_, order_);
    for (Index i = 0; i < shape_.size(); ++i) {
      Index rest = i, from_offset = 0, to_offset = 0;
      for (int axis = shape_.rank() - 1; axis >= 0; --axis) {
        from_offset += rest % shape_[axis] * from.stride(axis);
        to_offset += rest % shape_[axis] * to.stride(axis);
        rest /= shape_[axis];
      }
      copy(given.data()[from_offset], ours[to_offset]);
    }
  }

  StorageOrder order_;
  Shape shape_;
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
