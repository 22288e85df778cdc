#pragma once

#include <complex>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include "evenkeel/core/axis_view.hpp"
#include "evenkeel/core/context.hpp"
#include "evenkeel/core/overlap.hpp"
#include "evenkeel/core/parameter_view.hpp"
#include "evenkeel/kernels/row_norm_backward.hpp"
#include "evenkeel/kernels/row_norm_forward.hpp"
#include "evenkeel/ops/norm_statistics.hpp"

/// LayerNorm and RMSNorm between tensors and kernels: everything is checked here, then one kernel is called.
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

/// Throws unless the parameters are one number for each feature, in the order in which x has them.
template <class P, class Scalar>
void require_parameters(const char* where, const char* name, const TensorView<P>& parameters,
                        const TensorView<const Scalar>& x, const Axes& axes) {
  const int first = axes.first(where, x.shape());
  Shape normalized;
  int longer_than_1 = 0;
  for (int k = 0; k < axes.count(); ++k) {
    normalized.append(x.shape()[first + k]);
    longer_than_1 += x.shape()[first + k] > 1;
  }
  if (parameters.size() != normalized.size()) {
    raise_invalid_argument(where, std::string(name) + " has " + std::to_string(parameters.size()) +
                                      " elements, expected " + std::to_string(normalized.size()) +
                                      features_context(x.shape(), normalized, parameters.size()));
  }
  if (parameters.rank() > 1 && parameters.shape() != normalized) {
    raise_invalid_argument(where, std::string(name) + " has shape " + shape_string(parameters.shape()) + ", expected " +
                                      shape_string(normalized) +
                                      features_context(x.shape(), normalized, parameters.size()));
  }
  if (longer_than_1 < 2) return;
  const StorageOrder order = parameters.rank() > 1 ? parameters.order() : StorageOrder::row_major;
  if (order != x.order()) {
    raise_invalid_argument(where, std::string(name) + " over several axes is " + order_string(order) +
                                      (parameters.rank() > 1 ? "" : " (as every flat one is)") + ", expected " +
                                      order_string(x.order()) + " as x is (" + has_shape("x", x.shape()) + ")");
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
    const auto type = [](bool is_wide) { return is_wide ? "float" : "16-bit"; };
    raise_invalid_argument(where, std::string(parameter.name) + " has " + type(parameter.is_wide) +
                                      " elements, expected " + type(first->is_wide) + " ones as " + first->name +
                                      " has");
  }
  return first && first->is_wide;
}

/// The rows of a tensor that has to have the shape and the order of another.
template <class Scalar>
Rows rows_like(const char* where, const char* name, const TensorView<const Scalar>& output, const char* like_name,
               const TensorView<const Scalar>& like, const Axes& axes) {
  require_same_shape(where, name, output.shape(), like_name, like.shape());
  require_same_order(where, name, output, like_name, like);
  return contiguous_rows(where, name, output, axes);
}

/// With parameters of type P.
template <template <class, class, bool> class NormRow, class Scalar, class P>
void normalize_with(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                    const TensorView<const P>& gamma, const TensorView<const P>& beta, double eps, const Axes& axes,
                    NormStatistics<Scalar>* saved) {
  require_eps(where, eps);
  const Rows in = contiguous_rows(where, "x", x, axes);
  const Rows out = rows_like<Scalar>(where, "y", y, "x", x, axes);
  require_optional(where, "gamma", gamma, x, axes);
  require_optional(where, "beta", beta, x, axes);
  require_in_place_or_no_overlap(where, "y", y, "x", x);
  require_no_overlap(where, "y", y, "gamma", gamma);
  require_no_overlap(where, "y", y, "beta", beta);

  constexpr bool centred = NormRow<native, float, false>::centred;
  if (saved) {
    saved->mean.resize(centred ? static_cast<std::size_t>(in.rows) : 0);
    saved->mean_rest.resize(centred ? static_cast<std::size_t>(in.rows) : 0);
    saved->rstd.resize(static_cast<std::size_t>(in.rows));
    saved->shape = x.shape();
  }
  kernels::row_norm_forward<native, NormRow>(
      kernels::RowNormForward<Scalar, P>{.x = x.data(),
                                         .gamma = gamma.data(),
                                         .beta = beta.data(),
                                         .y = y.data(),
                                         .mean = saved && centred ? saved->mean.data() : nullptr,
                                         .mean_rest = saved && centred ? saved->mean_rest.data() : nullptr,
                                         .rstd = saved ? saved->rstd.data() : nullptr,
                                         .rows = in.rows,
                                         .features = in.features,
                                         .x_stride = in.stride,
                                         .y_stride = out.stride,
                                         .eps = eps});
}

template <template <class, class, bool> class NormRow, class Scalar>
void normalize(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
               const ParameterView<Scalar>& gamma, const ParameterView<Scalar>& beta, double eps, const Axes& axes,
               NormStatistics<Scalar>* saved) {
  require_supported_scalar<Scalar>();
  const bool is_wide = require_one_type(where, {named_type("gamma", gamma), named_type("beta", beta)});
  const auto with = [&]<class P>(std::type_identity<P>) {
    normalize_with<NormRow, Scalar, P>(where, x, y, gamma.template as<const P>(), beta.template as<const P>(), eps,
                                       axes, saved);
  };
  is_wide ? with(std::type_identity<kernels::Compute<Scalar>>()) : with(std::type_identity<Scalar>());
}

/// Throws unless `saved` comes from a forward of a tensor with x's shape along the same axes.
template <class Scalar>
void require_saved(const char* where, const NormStatistics<Scalar>& saved, const Shape& x, Index rows, bool centred) {
  if (saved.is_empty()) {
    raise_logic_error(where, "saved is empty, expected what a forward of x has saved (" + has_shape("x", x) + ")");
  }
  require_same_shape(where, "x", x, "the x that was saved", saved.shape);
  const auto expected = static_cast<std::size_t>(rows);
  if (saved.rstd.size() != expected || saved.mean.size() != (centred ? expected : 0)) {
    raise_invalid_argument(where, "saved has statistics of " + std::to_string(saved.rstd.size()) + " rows and " +
                                      std::to_string(saved.mean.size()) + " means, expected " + std::to_string(rows) +
                                      " and " + std::to_string(centred ? rows : 0) +
                                      " (saved by another norm, or along another axis?)");
  }
}

template <class Scalar>
struct RowNormGradients {
  TensorGradient<Scalar> dx;
  ParameterGradient<Scalar> dgamma, dbeta;
};

/// Throws if gradients overlap anything that is read, or one another.
template <class Scalar, class P>
void require_gradients(const char* where, const RowNormGradients<Scalar>& to, const TensorView<const Scalar>& dy,
                       const TensorView<const Scalar>& x, const TensorView<const P>& gamma, const Axes& axes) {
  const TensorView<const Scalar> dx = to.dx.view();
  const TensorView<const P> dgamma = to.dgamma.template as<P>(), dbeta = to.dbeta.template as<P>();
  require_optional(where, "dgamma", dgamma, x, axes);
  require_optional(where, "dbeta", dbeta, x, axes);
  require_in_place_or_no_overlap(where, "dx", dx, "dy", dy);
  require_no_overlap(where, "dx", dx, "x", x);
  require_no_overlap(where, "dx", dx, "gamma", gamma);
  require_no_overlap(where, "dx", dx, "dgamma", dgamma);
  require_no_overlap(where, "dx", dx, "dbeta", dbeta);
  require_no_overlap(where, "dgamma", dgamma, "dbeta", dbeta);
  for (const auto& [name, out] : {std::pair{"dgamma", dgamma}, std::pair{"dbeta", dbeta}}) {
    require_no_overlap(where, name, out, "dy", dy);
    require_no_overlap(where, name, out, "x", x);
    require_no_overlap(where, name, out, "gamma", gamma);
  }
}

/// With parameters of type P.
template <template <class, class, bool> class NormRow, class Scalar, class P>
void normalize_backward_with(const char* where, const TensorView<const Scalar>& dy, const TensorView<const Scalar>& x,
                             const NormStatistics<Scalar>& saved, const TensorView<const P>& gamma, const Axes& axes,
                             const RowNormGradients<Scalar>& to, const Context& context) {
  constexpr bool centred = NormRow<native, float, false>::centred;
  const Rows in = contiguous_rows(where, "x", x, axes);
  require_saved(where, saved, x.shape(), in.rows, centred);
  const Rows upstream = rows_like<Scalar>(where, "dy", dy, "x", x, axes);
  const Rows out = to.dx.is_wanted() ? rows_like<Scalar>(where, "dx", to.dx.view(), "x", x, axes) : Rows{};
  require_optional(where, "gamma", gamma, x, axes);
  require_gradients(where, to, dy, x, gamma, axes);

  const bool with_parameters = to.dgamma.is_wanted() || to.dbeta.is_wanted();
  const std::size_t bytes =
      with_parameters ? kernels::row_norm_backward_workspace_bytes<Scalar>(in.rows, in.features) : 0;
  Scratch scratch(where, context, Scratch::bytes_of(bytes));
  kernels::row_norm_backward<native, NormRow>(
      kernels::RowNormBackward<Scalar, P>{.dy = dy.data(),
                                          .x = x.data(),
                                          .gamma = gamma.data(),
                                          .mean = saved.mean.data(),
                                          .mean_rest = saved.mean_rest.empty() ? nullptr : saved.mean_rest.data(),
                                          .rstd = saved.rstd.data(),
                                          .dx = to.dx.view().data(),
                                          .dgamma = to.dgamma.template as<P>().data(),
                                          .dbeta = to.dbeta.template as<P>().data(),
                                          .add_dx = to.dx.adds(),
                                          .add_dgamma = to.dgamma.adds(),
                                          .add_dbeta = to.dbeta.adds(),
                                          .rows = in.rows,
                                          .features = in.features,
                                          .dy_stride = upstream.stride,
                                          .x_stride = in.stride,
                                          .dx_stride = out.stride,
                                          .workspace = scratch.take_bytes(bytes)});
}

template <template <class, class, bool> class NormRow, class Scalar>
void normalize_backward(const char* where, const TensorView<const Scalar>& dy, const TensorView<const Scalar>& x,
                        const NormStatistics<Scalar>& saved, const ParameterView<Scalar>& gamma, const Axes& axes,
                        const RowNormGradients<Scalar>& to, const Context& context) {
  require_supported_scalar<Scalar>();
  const bool is_wide = require_one_type(
      where, {named_type("gamma", gamma), named_type("dgamma", to.dgamma), named_type("dbeta", to.dbeta)});
  const auto with = [&]<class P>(std::type_identity<P>) {
    normalize_backward_with<NormRow, Scalar, P>(where, dy, x, saved, gamma.template as<const P>(), axes, to, context);
  };
  is_wide ? with(std::type_identity<kernels::Compute<Scalar>>()) : with(std::type_identity<Scalar>());
}

/// Bytes of workspace for the backward of a norm over `axes` of a tensor of this shape.
template <class Scalar>
std::size_t normalize_backward_workspace_bytes(const char* where, const Shape& x, const Axes& axes) {
  const int first = axes.first(where, x);
  Index features = 1;
  for (int k = 0; k < axes.count(); ++k) features *= x[first + k];
  const Index rows = features == 0 ? 0 : x.size() / features;
  return Scratch::bytes_of(kernels::row_norm_backward_workspace_bytes<Scalar>(rows, features));
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
