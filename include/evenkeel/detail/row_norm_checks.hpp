#pragma once

#include <complex>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "evenkeel/core/axis_view.hpp"
#include "evenkeel/core/overlap.hpp"
#include "evenkeel/core/parameter_view.hpp"
#include "evenkeel/detail/norm_kernels.hpp"

/// What is checked of the tensors and parameters of a norm of rows, before anything is written.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

template <class Scalar>
inline constexpr bool is_complex = false;
template <class Real>
inline constexpr bool is_complex<std::complex<Real>> = true;

template <class Scalar>
constexpr void require_supported_scalar() {
  static_assert(
      !std::is_integral_v<Scalar> && !is_complex<Scalar>,
      "evenkeel: operations take tensors of float, double, bfloat16, half, or another type of real numbers, not of "
      "integers or complex numbers");
}

/// What norms of channels take.
template <class Scalar>
constexpr void require_vectorized_scalar() {
  static_assert(kernels::is_vectorized<Scalar>,
                "evenkeel: norms of channels (BatchNorm, GroupNorm, InstanceNorm) take tensors of float, double, "
                "bfloat16 or half");
}

/// Rows of contiguous features.
struct Rows {
  Index rows = 0, features = 0, stride = 0;
};

/// The rows that lie along `axes`, whose elements have to be contiguous.
template <class Scalar>
Rows contiguous_rows(const char* where, const char* name, const TensorView<Scalar>& view, const Axes& axes) {
  const AxisView a = axis_view(where, name, view, axes);
  if (view.size() == 0) return {a.outer.extent * a.inner.extent, a.length.extent, 0};
  if (a.length.extent == 1) {
    const Axis rows = join_axes(where, name, view, 0, view.rank());
    return {rows.extent, 1, rows.stride};
  }
  const int first = axes.first(where, view.shape());
  if (a.length.stride != 1 || a.inner.extent != 1) {
    raise_invalid_argument(where, std::string(name) + " has stride " + std::to_string(a.length.stride) +
                                      " between the elements of axis " + std::to_string(first) +
                                      ", expected contiguous elements along the normalized axes (" +
                                      has_shape(name, view.shape()) + ", " + order_string(view.order()) +
                                      "; choose the axis that is contiguous, or the other storage order)");
  }
  return {a.outer.extent, a.length.extent, a.outer.stride};
}

/// " (the normalized axes of x have shape [768]; x has shape [4, 768])", and an axis that would fit, if there is one.
inline std::string features_context(const Shape& x, const Shape& normalized, Index given) {
  std::string text = " (normalized axes of shape " + shape_string(normalized) + "; " + has_shape("x", x);
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (x[axis] == given) return text + ", whose axis " + std::to_string(axis) + " has " + std::to_string(given) + ")";
  }
  return text + ")";
}

/// The extents of the normalized axes.
inline Shape normalized_shape(const char* where, const Shape& x, const Axes& axes) {
  return x.part(axes.first(where, x), axes.count());
}

/// Throws unless the parameters are one number for each feature.
template <class P, class Scalar>
void require_parameters(const char* where, const char* name, const TensorView<P>& parameters,
                        const TensorView<const Scalar>& x, const Axes& axes) {
  const Shape normalized = normalized_shape(where, x.shape(), axes);
  if (parameters.size() != normalized.size()) {
    raise_invalid_argument(where, [=, given = parameters.size(), &x, &normalized] {
      return std::string(name) + " has " + std::to_string(given) + " elements, expected " +
             std::to_string(normalized.size()) + features_context(x.shape(), normalized, given);
    });
  }
  if (parameters.rank() > 1 && parameters.shape() != normalized) {
    raise_invalid_argument(where, [=, &parameters, &x, &normalized] {
      return has_shape(name, parameters.shape()) + ", expected " + shape_string(normalized) +
             features_context(x.shape(), normalized, parameters.size());
    });
  }
}

/// The same, where there are parameters: an absent one has rank 0.
template <class P, class Scalar>
void require_optional(const char* where, const char* name, const TensorView<P>& parameters,
                      const TensorView<const Scalar>& x, const Axes& axes) {
  if (parameters.rank() > 0) require_parameters(where, name, parameters, x, axes);
}

/// One of the parameters of a call, or its gradient.
struct NamedType {
  const char* name;
  bool is_there, is_wide;
};
template <class Scalar>
NamedType named_type(const char* name, const AnyParameter<Scalar>& parameter) {
  return {name, parameter.is_there(), parameter.is_wide()};
}

/// Whether the parameters of a call are float beside data of 16 bits. Throws unless those that are there agree.
inline bool require_one_type(const char* where, std::initializer_list<NamedType> parameters) {
  const NamedType* first = nullptr;
  for (const NamedType& parameter : parameters) {
    if (!parameter.is_there) continue;
    if (!first) first = &parameter;
    if (parameter.is_wide == first->is_wide) continue;
    raise_invalid_argument(where, [given = parameter, expected = *first] {
      const auto type = [](bool is_wide) { return is_wide ? "float" : "16-bit"; };
      return std::string(given.name) + " has " + type(given.is_wide) + " elements, expected " + type(expected.is_wide) +
             " ones as " + expected.name + " has";
    });
  }
  return first && first->is_wide;
}

/// body(type of the caller's parameters, type that kernels take), the latter wide if it has to be `widened`: 1 + gamma
/// has more digits than 16 bits hold.
template <class Scalar, class Body>
void with_parameter_types(bool is_wide, bool is_widened, const Body& body) {
  const std::type_identity<Scalar> narrow;
  const std::type_identity<kernels::Compute<Scalar>> wide;
  if (is_wide) return body(wide, wide);
  if (is_widened) return body(narrow, wide);
  body(narrow, narrow);
}

template <class Scalar>
NormOperand<Scalar> norm_operand(const char* where, const char* name, const TensorView<Scalar>& view,
                                 const Axes& axes) {
  return {view.data(), axis_view(where, name, view, axes)};
}

/// The operand of a tensor that has to have the shape and the order of another.
template <class Scalar, class Like>
NormOperand<Scalar> operand_like(const char* where, const char* name, const TensorView<Scalar>& view,
                                 const char* like_name, const TensorView<Like>& like, const Axes& axes) {
  require_same_shape(where, name, view.shape(), like_name, like.shape());
  require_same_order(where, name, view, like_name, like);
  return norm_operand(where, name, view, axes);
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
