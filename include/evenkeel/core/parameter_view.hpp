#pragma once

#include <concepts>
#include <string>
#include <type_traits>

#include "evenkeel/core/overlap.hpp"
#include "evenkeel/core/shape_check.hpp"
#include "evenkeel/core/tensor.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

namespace detail {

/// Contiguous numbers with data() and size(), such as std::vector, std::array, std::span.
template <class V>
concept VectorLike = !Tensor<V> && requires(V & v) {
  {*v.data()};
  { v.size() } -> std::convertible_to<std::size_t>;
};

/// The view of a tensor of parameters, which has to be dense.
template <class Scalar, class V>
TensorView<Scalar> parameter_tensor(V&& v) {
  const auto view = tensor_view(v);
  using Element = std::remove_pointer_t<decltype(view.data())>;
  static_assert(std::is_same_v<std::remove_const_t<Element>, std::remove_const_t<Scalar>>,
                "evenkeel: parameters have the scalar type of x");
  static_assert(std::is_const_v<Scalar> || !std::is_const_v<Element>, "evenkeel: cannot write to const parameters");
  if (!is_dense(view)) {
    raise_invalid_argument("parameters", "elements of a parameter of shape " + shape_string(view.shape()) +
                                             " have gaps between them, expected contiguous memory");
  }
  return view;
}

template <class Scalar, class V>
TensorView<Scalar> parameter_vector(V&& v) {
  using Element = std::remove_reference_t<decltype(*v.data())>;
  static_assert(std::is_same_v<std::remove_const_t<Element>, std::remove_const_t<Scalar>>,
                "evenkeel: parameters have the scalar type of x");
  static_assert(std::is_const_v<Scalar> || !std::is_const_v<Element>, "evenkeel: cannot write to const parameters");
  return TensorView<Scalar>(v.data(), Shape(static_cast<Index>(v.size())));
}

}  // namespace detail

/// gamma or beta, as an operation takes it: a view of contiguous numbers, or absent (gamma 1, beta 0).
///
/// Made from a std::vector, array or span, a contiguous Eigen vector, a Tensor, or {pointer, size}. Over several axes
/// it is flat, in row-major order of those axes, or has their shape.
///
/// Errors    throws std::invalid_argument for a tensor with gaps between its elements.
template <class Scalar>
class ParameterView {
 public:
  ParameterView() = default;
  ParameterView(const Scalar* data, Index size) : view_(data, Shape(size)), is_given_(true) {}
  template <class V>
  requires(Tensor<V> || detail::VectorLike<V>) ParameterView(const V& v)
      : is_given_(true) {  // NOLINT(google-explicit-constructor): an option is given as it is
    if constexpr (Tensor<V>) {
      view_ = detail::parameter_tensor<const Scalar>(v);
    } else {
      view_ = detail::parameter_vector<const Scalar>(v);
    }
  }

  bool is_given() const noexcept { return is_given_; }
  const TensorView<const Scalar>& view() const noexcept { return view_; }
  const Scalar* data() const noexcept { return view_.data(); }

 private:
  TensorView<const Scalar> view_;
  bool is_given_ = false;
};

/// What `add_to` makes: an output that is added to instead of overwritten.
template <class Target>
struct AddTo {
  Target target;
};

/// Says of an output of a backward operation that the gradient is added to what is there: {.dx = add_to(dx)}.
template <class Target>
AddTo<Target> add_to(Target&& target) {
  return {std::forward<Target>(target)};
}

/// dgamma or dbeta, as a backward operation writes it: contiguous memory, or absent (not wanted).
///
/// Made as ParameterView is, from what can be written to; `add_to(v)` adds instead of overwriting.
template <class Scalar>
class ParameterGradient {
 public:
  ParameterGradient() = default;
  ParameterGradient(Scalar* data, Index size) : view_(data, Shape(size)), is_wanted_(true) {}
  template <class V>
  requires(Tensor<V> || detail::VectorLike<std::remove_reference_t<V>>) ParameterGradient(V&& v)
      : is_wanted_(true) {  // NOLINT(google-explicit-constructor): an output is given as it is
    if constexpr (Tensor<V>) {
      view_ = detail::parameter_tensor<Scalar>(v);
    } else {
      view_ = detail::parameter_vector<Scalar>(v);
    }
  }
  template <class Target>
  ParameterGradient(AddTo<Target> output)  // NOLINT(google-explicit-constructor): an output is given as it is
      : ParameterGradient(static_cast<Target&>(output.target)) {
    adds_ = true;
  }

  bool is_wanted() const noexcept { return is_wanted_; }
  bool adds() const noexcept { return adds_; }
  TensorView<const Scalar> view() const noexcept { return view_; }
  Scalar* data() const noexcept { return view_.data(); }

 private:
  TensorView<Scalar> view_;
  bool is_wanted_ = false;
  bool adds_ = false;
};

/// dx, as a backward operation writes it: a tensor with dy's shape, or absent (not wanted). `add_to(dx)` adds.
template <class Scalar>
class TensorGradient {
 public:
  TensorGradient() = default;
  template <Tensor X>
  TensorGradient(X&& x)  // NOLINT(google-explicit-constructor): an output is given as it is
      : view_(output_view<Scalar>(std::forward<X>(x))), is_wanted_(true) {}
  template <class Target>
  TensorGradient(AddTo<Target> output)  // NOLINT(google-explicit-constructor): an output is given as it is
      : TensorGradient(static_cast<Target&>(output.target)) {
    adds_ = true;
  }

  bool is_wanted() const noexcept { return is_wanted_; }
  bool adds() const noexcept { return adds_; }
  const TensorView<Scalar>& view() const noexcept { return view_; }

 private:
  TensorView<Scalar> view_;
  bool is_wanted_ = false;
  bool adds_ = false;
};

/// Throws std::invalid_argument unless dx, where it is wanted, is like x and has memory of its own.
template <class Scalar>
void require_input_gradient(const char* where, const TensorGradient<Scalar>& dx, const TensorView<const Scalar>& dy,
                            const TensorView<const Scalar>& x) {
  if (!dx.is_wanted()) return;
  require_same_shape(where, "dx", dx.view().shape(), "x", x.shape());
  require_same_order(where, "dx", dx.view(), "x", x);
  require_no_overlap(where, "dx", dx.view(), "dy", dy);
  require_no_overlap(where, "dx", dx.view(), "x", x);
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
