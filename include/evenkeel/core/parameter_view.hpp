#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

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

/// Whether parameters beside data of type Scalar may be of type P: of Scalar's, or float where Scalar has 16 bits.
template <class P, class Scalar>
inline constexpr bool is_parameter_of = std::is_same_v<P, Scalar> || std::is_same_v<P, kernels::Compute<Scalar>>;

template <class V>
auto parameter_data(V& v) {
  if constexpr (Tensor<V>) {
    return tensor_view(v).data();
  } else {
    return v.data();
  }
}
/// float or const float, for a vector of floats.
template <class V>
using ParameterElement = std::remove_pointer_t<decltype(parameter_data(std::declval<V&>()))>;

/// Contiguous parameters, as a view of what they are.
template <class V>
auto parameter_view(V& v) {
  using Element = ParameterElement<V>;
  if constexpr (Tensor<V>) {
    const TensorView<Element> view = tensor_view(v);
    if (!is_dense(view)) {
      raise_invalid_argument("parameters", "elements of a parameter of shape " + shape_string(view.shape()) +
                                               " have gaps between them, expected contiguous memory");
    }
    return view;
  } else {
    return TensorView<Element>(v.data(), Shape(static_cast<Index>(v.size())));
  }
}

/// Parameters whose type is known when the program runs: Scalar, or float where Scalar has 16 bits.
template <class Scalar>
class AnyParameter {
 public:
  bool is_there() const noexcept { return is_there_; }
  /// Whether they are float beside data of 16 bits.
  bool is_wide() const noexcept { return is_wide_; }
  /// As what they are: Scalar, or float.
  template <class P>
  TensorView<P> as() const noexcept {
    return {static_cast<P*>(data_), layout_.shape(), layout_.strides(), layout_.order()};
  }
  /// Their memory, which is contiguous.
  TensorView<const std::byte> bytes() const noexcept {
    using Narrow = std::remove_const_t<Scalar>;
    const std::size_t size = is_wide_ ? sizeof(kernels::Compute<Narrow>) : sizeof(Narrow);
    return {static_cast<const std::byte*>(data_), Shape(layout_.size() * static_cast<Index>(size))};
  }

 protected:
  AnyParameter() = default;
  template <class V>
  explicit AnyParameter(V& v) {
    using P = std::remove_const_t<ParameterElement<V>>;
    static_assert(is_parameter_of<P, std::remove_const_t<Scalar>>,
                  "evenkeel: parameters have the scalar type of x, or are float where x has 16 bits");
    static_assert(std::is_const_v<Scalar> || !std::is_const_v<ParameterElement<V>>,
                  "evenkeel: cannot write to const parameters");
    set(parameter_view(v));
  }
  template <class P>
  void set(const TensorView<P>& view) noexcept {
    data_ = const_cast<std::remove_const_t<P>*>(view.data());
    layout_ = {nullptr, view.shape(), view.strides(), view.order()};
    is_there_ = true;
    is_wide_ = !std::is_same_v<std::remove_const_t<P>, std::remove_const_t<Scalar>>;
  }

 private:
  using Memory = std::conditional_t<std::is_const_v<Scalar>, const void, void>;
  Memory* data_ = nullptr;
  TensorView<Scalar> layout_;
  bool is_there_ = false;
  bool is_wide_ = false;
};

}  // namespace detail

/// What `around_zero` makes: a gamma that is stored as its distance from 1.
template <class V>
struct AroundZero {
  const V& values;
};

/// Says of a gamma that it is stored as its distance from 1, as Gemma does: {.gamma = around_zero(weight)} multiplies
/// by 1 + weight. Its gradient is that of gamma.
template <class V>
AroundZero<V> around_zero(const V& values) {
  return {values};
}

/// What `scalar_gamma` makes: one number that is gamma everywhere.
template <class P>
struct ScalarGamma {
  const P& value;
};

/// Says of a gamma that it is one number for all features: {.gamma = scalar_gamma(scale)}. Its gradient is one number
/// too: {.dgamma = {&dscale, 1}}. LayerNorm and RMSNorm take it, and around_zero(scalar_gamma(scale)).
template <class P>
ScalarGamma<P> scalar_gamma(const P& value) {
  return {value};
}

/// How the numbers that an operation is given make a gamma for each feature.
struct ParameterForm {
  bool is_around_zero = false;  ///< gamma is 1 more
  bool is_scalar = false;       ///< there is one for all
};

/// gamma or beta, as an operation takes it: a view of contiguous numbers, or absent (gamma 1, beta 0).
///
/// Made from a std::vector, array or span, a contiguous Eigen vector, a Tensor, or {pointer, size}, of Scalar, or of
/// float where Scalar has 16 bits. Over several axes it is flat, in row-major order of those axes, or has their shape.
///
/// Errors    throws std::invalid_argument for a tensor with gaps between its elements.
template <class Scalar>
class ParameterView : public detail::AnyParameter<const Scalar> {
 public:
  ParameterView() = default;
  ParameterView(const Scalar* data, Index size) { this->set(TensorView<const Scalar>(data, Shape(size))); }
  ParameterView(const float* data, Index size) requires(kernels::is_16_bit<Scalar>) {
    this->set(TensorView<const float>(data, Shape(size)));
  }
  template <class V>
  requires(Tensor<V> || detail::VectorLike<V>) ParameterView(const V& v)
      : detail::AnyParameter<const Scalar>(v) {}  // NOLINT(google-explicit-constructor): an option is given as it is
  template <class V>
  ParameterView(const AroundZero<V>& gamma)  // NOLINT(google-explicit-constructor): an option is given as it is
      : ParameterView(gamma.values) {
    form_.is_around_zero = true;
  }
  template <class P>
  requires(detail::is_parameter_of<P, Scalar>) ParameterView(const ScalarGamma<P>& gamma)  // NOLINT: as it is
      : ParameterView(&gamma.value, 1) {
    form_.is_scalar = true;
  }

  bool is_given() const noexcept { return this->is_there(); }
  const ParameterForm& form() const noexcept { return form_; }
  /// Where it is of Scalars; `as<float>()` of a wide one.
  TensorView<const Scalar> view() const noexcept { return this->template as<const Scalar>(); }
  const Scalar* data() const noexcept { return view().data(); }

 private:
  ParameterForm form_;
};

/// Throws std::invalid_argument if parameters are stored around zero, or as one number, where that is not provided for.
template <class Scalar>
void require_plain(const char* where, const char* name, const ParameterView<Scalar>& parameters) {
  if (parameters.form().is_around_zero) {
    raise_invalid_argument(where, [=] {
      return std::string(name) +
             " is given around_zero, expected the numbers themselves (around_zero is for gamma of LayerNorm and "
             "RMSNorm)";
    });
  }
  if (parameters.form().is_scalar) {
    raise_invalid_argument(where, [=] {
      return std::string(name) +
             " is given as scalar_gamma, expected a number for each (scalar_gamma is for gamma of LayerNorm and "
             "RMSNorm)";
    });
  }
}

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
class ParameterGradient : public detail::AnyParameter<Scalar> {
 public:
  ParameterGradient() = default;
  ParameterGradient(Scalar* data, Index size) { this->set(TensorView<Scalar>(data, Shape(size))); }
  ParameterGradient(float* data, Index size) requires(kernels::is_16_bit<Scalar>) {
    this->set(TensorView<float>(data, Shape(size)));
  }
  template <class V>
  requires(Tensor<V> || detail::VectorLike<std::remove_reference_t<V>>) ParameterGradient(V&& v)
      : detail::AnyParameter<Scalar>(v) {}  // NOLINT(google-explicit-constructor): an output is given as it is
  template <class Target>
  ParameterGradient(AddTo<Target> output)  // NOLINT(google-explicit-constructor): an output is given as it is
      : ParameterGradient(static_cast<Target&>(output.target)) {
    adds_ = true;
  }

  bool is_wanted() const noexcept { return this->is_there(); }
  bool adds() const noexcept { return adds_; }
  /// Where it is of Scalars; `as<float>()` of a wide one.
  TensorView<Scalar> view() const noexcept { return this->template as<Scalar>(); }
  Scalar* data() const noexcept { return view().data(); }

 private:
  bool adds_ = false;
};

/// A tensor that is read where it is, as an option of an operation; or absent.
template <class Scalar>
class TensorInput {
 public:
  TensorInput() = default;
  template <Tensor X>
  TensorInput(const X& x)  // NOLINT(google-explicit-constructor): an option is given as it is
      : view_(input_view<Scalar>(x)) {}
  const TensorView<const Scalar>& view() const noexcept { return view_; }

 private:
  TensorView<const Scalar> view_;
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
