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
#include "evenkeel/detail/kernel_parameters.hpp"
#include "evenkeel/detail/norm_kernels.hpp"
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

/// What norms of channels take.
template <class Scalar>
constexpr void require_float_or_double() {
  static_assert(std::is_same_v<Scalar, float> || std::is_same_v<Scalar, double>,
                "evenkeel: norms of channels (BatchNorm, GroupNorm, InstanceNorm) take tensors of float or double");
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
  const int first = axes.first(where, x);
  Shape normalized;
  for (int k = 0; k < axes.count(); ++k) normalized.append(x[first + k]);
  return normalized;
}

/// Throws unless the parameters are one number for each feature.
template <class P, class Scalar>
void require_parameters(const char* where, const char* name, const TensorView<P>& parameters,
                        const TensorView<const Scalar>& x, const Axes& axes) {
  const Shape normalized = normalized_shape(where, x.shape(), axes);
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

/// body(type of the caller's parameters, type that kernels take). 1 + gamma has more digits than 16 bits hold.
template <class Scalar, class Body>
void with_parameter_types(bool is_wide, bool is_around_zero, const Body& body) {
  const std::type_identity<Scalar> narrow;
  const std::type_identity<kernels::Compute<Scalar>> wide;
  if (is_wide) return body(wide, wide);
  if (is_around_zero) return body(narrow, wide);
  body(narrow, narrow);
}

template <class Scalar>
NormOperand<Scalar> norm_operand(const char* where, const char* name, const TensorView<Scalar>& view, const Axes& axes) {
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

/// How what has been checked is run: by the kernels of the norm alone. (add_norm_op.hpp has another way.)
template <template <class, class, bool> class NormRow, class Scalar>
struct PlainNorm {
  std::size_t workspace_bytes(const NormOperand<const Scalar>& x, const NormOperand<Scalar>& y) const noexcept {
    return norm_workspace_bytes(x, y);
  }
  template <class P>
  void forward(const NormOperand<const Scalar>& x, const NormOperand<Scalar>& y,
               const kernels::RowNormForward<Scalar, P>& a, Scratch& scratch) const {
    run_norm<NormRow>(x, y, a, scratch);
  }
  template <class P>
  void backward(const NormBackwardOperands<Scalar>& t, const kernels::RowNormBackward<Scalar, P>& a,
                const NormBackwardWorkspace<Scalar>& workspace, Scratch& scratch) const {
    run_norm_backward<NormRow>(t, a, workspace, scratch);
  }
};

/// With parameters of type Given, which kernels take as P.
template <template <class, class, bool> class NormRow, class Scalar, class Given, class P, class Run>
void normalize_with(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                    const ParameterView<Scalar>& any_gamma, const ParameterView<Scalar>& any_beta, double eps,
                    const Axes& axes, NormStatistics<Scalar>* saved, const Context& context, const Run& run) {
  const TensorView<const Given> gamma = any_gamma.template as<const Given>();
  const TensorView<const Given> beta = any_beta.template as<const Given>();
  require_eps(where, eps);
  const auto in = norm_operand(where, "x", x, axes);
  const auto out = operand_like(where, "y", y, "x", x, axes);
  require_optional(where, "gamma", gamma, x, axes);
  require_optional(where, "beta", beta, x, axes);
  require_in_place_or_no_overlap(where, "y", y, "x", x);
  require_no_overlap(where, "y", y, "gamma", gamma);
  require_no_overlap(where, "y", y, "beta", beta);

  const KernelParameters<P> parameters(where, x, axes);
  Scratch scratch(where, context,
                  parameters.workspace_bytes(gamma, any_gamma.is_around_zero()) + parameters.workspace_bytes(beta) +
                      run.workspace_bytes(in, out));
  const P* kernel_gamma = parameters.values(gamma, scratch, any_gamma.is_around_zero());
  const P* kernel_beta = parameters.values(beta, scratch);

  constexpr bool centred = NormRow<native, float, false>::centred;
  if (saved) {
    const auto rows = static_cast<std::size_t>(in.rows());
    saved->mean.resize(centred ? rows : 0);
    saved->mean_rest.resize(centred ? rows : 0);
    saved->rstd.resize(rows);
    saved->shape = x.shape();
  }
  run.forward(in, out,
              kernels::RowNormForward<Scalar, P>{.gamma = kernel_gamma,
                                                 .beta = kernel_beta,
                                                 .mean = saved && centred ? saved->mean.data() : nullptr,
                                                 .mean_rest = saved && centred ? saved->mean_rest.data() : nullptr,
                                                 .rstd = saved ? saved->rstd.data() : nullptr,
                                                 .eps = eps},
              scratch);
}

template <template <class, class, bool> class NormRow, class Scalar, class Run>
void normalize_by(const Run& run, const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                  const ParameterView<Scalar>& gamma, const ParameterView<Scalar>& beta, double eps, const Axes& axes,
                  NormStatistics<Scalar>* saved, const Context& context) {
  require_supported_scalar<Scalar>();
  require_around_one(where, "beta", beta);
  const bool is_wide = require_one_type(where, {named_type("gamma", gamma), named_type("beta", beta)});
  with_parameter_types<Scalar>(is_wide, gamma.is_around_zero(), [&]<class Given, class P>(std::type_identity<Given>, std::type_identity<P>) {
    normalize_with<NormRow, Scalar, Given, P>(where, x, y, gamma, beta, eps, axes, saved, context, run);
  });
}

template <template <class, class, bool> class NormRow, class Scalar>
void normalize(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
               const ParameterView<Scalar>& gamma, const ParameterView<Scalar>& beta, double eps, const Axes& axes,
               NormStatistics<Scalar>* saved, const Context& context) {
  normalize_by<NormRow>(PlainNorm<NormRow, Scalar>(), where, x, y, gamma, beta, eps, axes, saved, context);
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
void require_gradient_memory(const char* where, const RowNormGradients<Scalar>& to, const TensorView<const Scalar>& dy,
                             const TensorView<const Scalar>& x, const TensorView<const P>& gamma) {
  const TensorView<const Scalar> dx = to.dx.view();
  const TensorView<const P> dgamma = to.dgamma.template as<P>(), dbeta = to.dbeta.template as<P>();
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

template <class Scalar, class P>
void require_gradients(const char* where, const RowNormGradients<Scalar>& to, const TensorView<const Scalar>& dy,
                       const TensorView<const Scalar>& x, const TensorView<const P>& gamma, const Axes& axes) {
  require_optional(where, "dgamma", to.dgamma.template as<P>(), x, axes);
  require_optional(where, "dbeta", to.dbeta.template as<P>(), x, axes);
  require_gradient_memory(where, to, dy, x, gamma);
}

/// With parameters of type Given, which kernels take as P.
template <template <class, class, bool> class NormRow, class Scalar, class Given, class P, class Run>
void normalize_backward_with(const char* where, const TensorView<const Scalar>& dy, const TensorView<const Scalar>& x,
                             const NormStatistics<Scalar>& saved, const ParameterView<Scalar>& any_gamma,
                             const Axes& axes, const RowNormGradients<Scalar>& to, const Context& context,
                             const Run& run) {
  const TensorView<const Given> gamma = any_gamma.template as<const Given>();
  constexpr bool centred = NormRow<native, float, false>::centred;
  const auto in = norm_operand(where, "x", x, axes);
  require_saved(where, saved, x.shape(), in.rows(), centred);
  const auto upstream = operand_like(where, "dy", dy, "x", x, axes);
  const auto out = to.dx.is_wanted() ? operand_like(where, "dx", to.dx.view(), "x", x, axes) : NormOperand<Scalar>{};
  require_optional(where, "gamma", gamma, x, axes);
  require_gradients(where, to, dy, x, gamma, axes);

  const KernelParameters<P> parameters(where, x, axes);
  const TensorView<Given> dgamma = to.dgamma.template as<Given>(), dbeta = to.dbeta.template as<Given>();
  const NormBackwardOperands<Scalar> operands{upstream, in, out};
  const NormBackwardWorkspace<Scalar> workspace(operands, to.dgamma.is_wanted() || to.dbeta.is_wanted());
  Scratch scratch(where, context,
                  parameters.workspace_bytes(gamma, any_gamma.is_around_zero()) + parameters.workspace_bytes(dgamma) +
                      parameters.workspace_bytes(dbeta) + workspace.bytes());
  const P* kernel_gamma = parameters.values(gamma, scratch, any_gamma.is_around_zero());
  P* kernel_dgamma = parameters.gradient(dgamma, to.dgamma.adds(), scratch);
  P* kernel_dbeta = parameters.gradient(dbeta, to.dbeta.adds(), scratch);
  run.backward(
      operands,
      kernels::RowNormBackward<Scalar, P>{.gamma = kernel_gamma,
                                          .mean = saved.mean.data(),
                                          .mean_rest = saved.mean_rest.empty() ? nullptr : saved.mean_rest.data(),
                                          .rstd = saved.rstd.data(),
                                          .dgamma = kernel_dgamma,
                                          .dbeta = kernel_dbeta,
                                          .add_dx = to.dx.adds(),
                                          .add_dgamma = to.dgamma.adds(),
                                          .add_dbeta = to.dbeta.adds()},
      workspace, scratch);
  parameters.take_gradient(dgamma, kernel_dgamma);
  parameters.take_gradient(dbeta, kernel_dbeta);
}

template <template <class, class, bool> class NormRow, class Scalar, class Run>
void normalize_backward_by(const Run& run, const char* where, const TensorView<const Scalar>& dy,
                           const TensorView<const Scalar>& x, const NormStatistics<Scalar>& saved,
                           const ParameterView<Scalar>& gamma, const Axes& axes, const RowNormGradients<Scalar>& to,
                           const Context& context) {
  require_supported_scalar<Scalar>();
  const bool is_wide = require_one_type(
      where, {named_type("gamma", gamma), named_type("dgamma", to.dgamma), named_type("dbeta", to.dbeta)});
  with_parameter_types<Scalar>(is_wide, gamma.is_around_zero(), [&]<class Given, class P>(std::type_identity<Given>, std::type_identity<P>) {
    normalize_backward_with<NormRow, Scalar, Given, P>(where, dy, x, saved, gamma, axes, to, context, run);
  });
}

template <template <class, class, bool> class NormRow, class Scalar>
void normalize_backward(const char* where, const TensorView<const Scalar>& dy, const TensorView<const Scalar>& x,
                        const NormStatistics<Scalar>& saved, const ParameterView<Scalar>& gamma, const Axes& axes,
                        const RowNormGradients<Scalar>& to, const Context& context) {
  normalize_backward_by<NormRow>(PlainNorm<NormRow, Scalar>(), where, dy, x, saved, gamma, axes, to, context);
}

/// Bytes of workspace for the backward of a norm over `axes` of a tensor of this shape.
template <class Scalar>
std::size_t normalize_backward_workspace_bytes(const char* where, const Shape& x, const Axes& axes) {
  const Index features = normalized_shape(where, x, axes).size();
  const Index rows = features == 0 ? 0 : x.size() / features;
  const std::size_t copies = 3 * Scratch::bytes<kernels::Compute<Scalar>>(features);  // KernelParameters
  return norm_backward_workspace_bytes<Scalar>(rows, features) + copies;
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
