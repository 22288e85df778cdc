#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "evenkeel/core/context.hpp"
#include "evenkeel/detail/kernel_parameters.hpp"
#include "evenkeel/detail/row_mask.hpp"
#include "evenkeel/detail/row_norm_checks.hpp"
#include "evenkeel/ops/norm_statistics.hpp"

/// LayerNorm and RMSNorm between tensors and kernels: everything is checked here, then one kernel is called.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// How rows are normalized; the backward reads all but beta, eps and rounding.
template <class Scalar>
struct RowNormOptions {
  ParameterView<Scalar> gamma = {}, beta = {};
  double eps = default_eps;
  Axes axes = -1;
  const MaskView* mask = nullptr;  ///< null: all rows are valid
  Rounding rounding = Rounding::once;
};

/// The rows that a mask is of: x without the normalized axes.
template <class Scalar>
PositionMask row_mask(const char* where, const RowNormOptions<Scalar>& o, const TensorView<const Scalar>& x) {
  return {where, o.mask, x, o.axes.first(where, x.shape()), o.axes.count()};
}

/// x and y of a forward, and its mask: all that does not depend on the type of parameters.
template <class Scalar>
struct RowNormOperands {
  const TensorView<const Scalar>& x;
  const TensorView<Scalar>& y;
  NormOperand<const Scalar> in;
  NormOperand<Scalar> out;
  PositionMask mask;

  std::size_t workspace_bytes() const noexcept {
    return mask.is_given() ? masked_norm_workspace_bytes<Scalar>(in.rows(), in.features())
                           : norm_workspace_bytes(in, out);
  }
};

template <class Scalar>
RowNormOperands<Scalar> require_operands(const char* where, const TensorView<const Scalar>& x,
                                         const TensorView<Scalar>& y, const RowNormOptions<Scalar>& o) {
  require_eps(where, o.eps);
  const RowNormOperands<Scalar> operands{x, y, norm_operand(where, "x", x, o.axes),
                                         operand_like(where, "y", y, "x", x, o.axes), row_mask(where, o, x)};
  require_in_place_or_no_overlap(where, "y", y, "x", x);
  operands.mask.require_no_overlap(where, "y", y);
  return operands;
}

/// Makes room for the statistics of `rows`, which are 0 where a row is masked.
template <class Scalar>
void reset(NormStatistics<Scalar>& saved, const Shape& x, Index rows, bool centred, bool is_masked) {
  for (auto* statistic : {&saved.mean, &saved.mean_rest, &saved.rstd}) {
    if (is_masked) statistic->clear();
    statistic->resize(centred || statistic == &saved.rstd ? static_cast<std::size_t>(rows) : 0);
  }
  saved.shape = x;
  saved.first_axis = saved.axes = 0;
}

/// dy, x and dx of a backward, and its mask.
template <class Scalar>
struct RowNormBackwardOperands {
  const TensorView<const Scalar>&dy, &x;
  NormBackwardOperands<Scalar> at;
  PositionMask mask;

  /// Whether a kernel is called for some rows after others, and adds to their parameters' gradients.
  bool is_in_parts() const noexcept { return mask.is_given() || !(at.are_lanes() || at.are_rows()); }
  std::size_t workspace_bytes(const Executor& executor, bool wants_parameters) const {
    if (!mask.is_given()) return NormBackwardWorkspace<Scalar>(executor, at, wants_parameters).bytes();
    return Scratch::bytes<std::uint8_t>(mask.size()) +
           norm_backward_workspace_bytes<Scalar>(at.x.rows(), at.x.features());
  }
};

/// What has been checked, run by the kernels of the norm alone.
template <template <class, class, bool> class NormRow, class Scalar>
struct PlainNorm {
  const Executor& executor;

  template <class P>
  void forward(const char* where, const RowNormOperands<Scalar>& t, const RowNormCall<Scalar, P>& call,
               Scratch& scratch) const {
    t.mask.is_given() ? run_masked_norm<NormRow>(where, executor, t.mask, t.in, t.out, call, scratch)
                      : run_norm<NormRow>(executor, t.in, t.out, call, scratch);
  }
  template <class P>
  void backward(const char* where, const RowNormBackwardOperands<Scalar>& t,
                const kernels::RowNormBackward<Scalar, P>& a, Scratch& scratch) const {
    t.mask.is_given() ? run_masked_norm_backward<NormRow>(where, executor, t.mask, t.at, a, scratch)
                      : run_norm_backward<NormRow>(executor, t.at, a, scratch);
  }
};

/// With parameters of type Given, which kernels take as P.
template <template <class, class, bool> class NormRow, class Scalar, class Given, class P, class Run>
void normalize_with(const Run& run, const char* where, const RowNormOperands<Scalar>& t,
                    const RowNormOptions<Scalar>& o, NormStatistics<Scalar>* saved, const Context& context) {
  const TensorView<const Given> gamma = o.gamma.template as<const Given>();
  const TensorView<const Given> beta = o.beta.template as<const Given>();
  if (!o.gamma.form().is_scalar) require_optional(where, "gamma", gamma, t.x, o.axes);
  require_optional(where, "beta", beta, t.x, o.axes);
  require_no_overlap(where, "y", t.y, "gamma", gamma);
  require_no_overlap(where, "y", t.y, "beta", beta);

  const KernelParameters<P> parameters(where, t.x, o.axes);
  Scratch scratch(
      where, context,
      parameters.workspace_bytes(gamma, o.gamma.form()) + parameters.workspace_bytes(beta) + t.workspace_bytes());
  constexpr bool centred = NormRow<native, float, false>::centred;
  if (saved) {
    reset(*saved, t.x.shape(), t.in.rows(), centred, t.mask.is_given());
    saved->first_axis = o.axes.first(where, t.x.shape());
    saved->axes = o.axes.count();
  }
  const RowNormCall<Scalar, P> call{{.gamma = parameters.values(gamma, scratch, o.gamma.form()),
                                     .beta = parameters.values(beta, scratch),
                                     .mean = saved && centred ? saved->mean.data() : nullptr,
                                     .mean_rest = saved && centred ? saved->mean_rest.data() : nullptr,
                                     .rstd = saved ? saved->rstd.data() : nullptr,
                                     .eps = o.eps},
                                    o.rounding};
  run.forward(where, t, call, scratch);
}

/// y = N(x), as `run` has it: PlainNorm, or what does something more on the way (add_norm_op.hpp).
template <template <class, class, bool> class NormRow, class Scalar, class Run>
void normalize_by(const Run& run, const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                  const RowNormOptions<Scalar>& o, NormStatistics<Scalar>* saved, const Context& context) {
  require_supported_scalar<Scalar>();
  require_plain(where, "beta", o.beta);
  const bool is_wide = require_one_type(where, {named_type("gamma", o.gamma), named_type("beta", o.beta)});
  const auto operands = require_operands(where, x, y, o);
  with_parameter_types<Scalar>(is_wide, o.gamma.form().is_around_zero,
                               [&]<class Given, class P>(std::type_identity<Given>, std::type_identity<P>) {
                                 normalize_with<NormRow, Scalar, Given, P>(run, where, operands, o, saved, context);
                               });
}

template <template <class, class, bool> class NormRow, class Scalar>
void normalize(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
               const RowNormOptions<Scalar>& o, NormStatistics<Scalar>* saved, const Context& context) {
  normalize_by<NormRow>(PlainNorm<NormRow, Scalar>{context.executor}, where, x, y, o, saved, context);
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
void require_saved_axes(const char* where, const NormStatistics<Scalar>& saved, int first, int count) {
  if (saved.axes == 0 || (saved.first_axis == first && saved.axes == count)) return;
  const auto axes = [](int from, int number) {
    return std::to_string(number) + (number == 1 ? " axis" : " axes") + " from " + std::to_string(from) + " on";
  };
  raise_invalid_argument(where, "saved is of a forward over " + axes(saved.first_axis, saved.axes) + ", expected " +
                                    axes(first, count) + ", as the options have it");
}

template <class Scalar>
struct RowNormGradients {
  TensorGradient<Scalar> dx;
  ParameterGradient<Scalar> dgamma, dbeta;
};

/// Throws if gradients overlap anything that is read, or one another.
template <class Gradients, class Scalar>
void require_gradient_memory(const char* where, const Gradients& to, const TensorView<const Scalar>& dy,
                             const TensorView<const Scalar>& x, const ParameterView<Scalar>& gamma_view) {
  const TensorView<const Scalar> dx = to.dx.view();
  const auto gamma = gamma_view.bytes(), dgamma = to.dgamma.bytes(), dbeta = to.dbeta.bytes();
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
                       const TensorView<const Scalar>& x, const TensorView<const P>& gamma,
                       const RowNormOptions<Scalar>& o) {
  const TensorView<const P> dgamma = to.dgamma.template as<P>();
  if (!o.gamma.form().is_scalar) {
    require_optional(where, "gamma", gamma, x, o.axes);
    require_optional(where, "dgamma", dgamma, x, o.axes);
  } else if (to.dgamma.is_wanted() && dgamma.size() != 1) {
    raise_invalid_argument(where, "dgamma has " + std::to_string(dgamma.size()) +
                                      " elements, expected 1 (gamma is one number for all features)");
  }
  require_optional(where, "dbeta", to.dbeta.template as<P>(), x, o.axes);
  require_gradient_memory(where, to, dy, x, o.gamma);
}

template <class Scalar>
RowNormBackwardOperands<Scalar> require_backward_operands(const char* where, const TensorView<const Scalar>& dy,
                                                          const TensorView<const Scalar>& x,
                                                          const NormStatistics<Scalar>& saved,
                                                          const RowNormOptions<Scalar>& o, bool centred,
                                                          const RowNormGradients<Scalar>& to) {
  const auto in = norm_operand(where, "x", x, o.axes);
  require_saved(where, saved, x.shape(), in.rows(), centred);
  require_saved_axes(where, saved, o.axes.first(where, x.shape()), o.axes.count());
  const auto upstream = operand_like(where, "dy", dy, "x", x, o.axes);
  const auto out = to.dx.is_wanted() ? operand_like(where, "dx", to.dx.view(), "x", x, o.axes) : NormOperand<Scalar>{};
  const PositionMask mask = row_mask(where, o, x);
  mask.require_no_overlap(where, "dx", to.dx.view());
  return {dy, x, {upstream, in, out}, mask};
}

/// With parameters of type Given, which kernels take as P.
template <template <class, class, bool> class NormRow, class Scalar, class Given, class P, class Run>
void normalize_backward_with(const Run& run, const char* where, const RowNormBackwardOperands<Scalar>& t,
                             const NormStatistics<Scalar>& saved, const RowNormOptions<Scalar>& o,
                             const RowNormGradients<Scalar>& to, const Context& context) {
  const TensorView<const Given> gamma = o.gamma.template as<const Given>();
  require_gradients(where, to, t.dy, t.x, gamma, o);

  const KernelParameters<P> parameters(where, t.x, o.axes);
  const ParameterForm form = o.gamma.form(), of_gradient = parameters.gradient_form(form);
  const TensorView<Given> dgamma = to.dgamma.template as<Given>(), dbeta = to.dbeta.template as<Given>();
  const bool wants_parameters = to.dgamma.is_wanted() || to.dbeta.is_wanted();
  Scratch scratch(where, context,
                  parameters.workspace_bytes(gamma, form) + parameters.workspace_bytes(dgamma, of_gradient) +
                      parameters.workspace_bytes(dbeta) + t.workspace_bytes(context.executor, wants_parameters));
  const kernels::RowNormBackward<Scalar, P> args{
      .gamma = parameters.values(gamma, scratch, form),
      .mean = saved.mean.data(),
      .mean_rest = saved.mean_rest.empty() ? nullptr : saved.mean_rest.data(),
      .rstd = saved.rstd.data(),
      .dgamma = parameters.gradient(dgamma, to.dgamma.adds(), scratch, of_gradient),
      .dbeta = parameters.gradient(dbeta, to.dbeta.adds(), scratch),
      .add_dx = to.dx.adds(),
      .add_dgamma = to.dgamma.adds() && !form.is_scalar,
      .add_dbeta = to.dbeta.adds()};
  run.backward(where, t, args, scratch);
  parameters.take_gradient(dgamma, to.dgamma.adds(), args.dgamma, of_gradient);
  parameters.take_gradient(dbeta, to.dbeta.adds(), args.dbeta);
}

/// Gradients of parameters that come together from several calls, or features, are rounded to 16 bits at the end alone.
template <template <class, class, bool> class NormRow, class Scalar, class Run>
void normalize_backward_by(const Run& run, const char* where, const TensorView<const Scalar>& dy,
                           const TensorView<const Scalar>& x, const NormStatistics<Scalar>& saved,
                           const RowNormOptions<Scalar>& o, const RowNormGradients<Scalar>& to,
                           const Context& context) {
  require_supported_scalar<Scalar>();
  const bool is_wide = require_one_type(
      where, {named_type("gamma", o.gamma), named_type("dgamma", to.dgamma), named_type("dbeta", to.dbeta)});
  constexpr bool centred = NormRow<native, float, false>::centred;
  const auto operands = require_backward_operands(where, dy, x, saved, o, centred, to);
  const bool is_widened = o.gamma.form().is_around_zero || o.gamma.form().is_scalar || operands.is_in_parts();
  with_parameter_types<Scalar>(
      is_wide, is_widened, [&]<class Given, class P>(std::type_identity<Given>, std::type_identity<P>) {
        normalize_backward_with<NormRow, Scalar, Given, P>(run, where, operands, saved, o, to, context);
      });
}

template <template <class, class, bool> class NormRow, class Scalar>
void normalize_backward(const char* where, const TensorView<const Scalar>& dy, const TensorView<const Scalar>& x,
                        const NormStatistics<Scalar>& saved, const RowNormOptions<Scalar>& o,
                        const RowNormGradients<Scalar>& to, const Context& context) {
  normalize_backward_by<NormRow>(PlainNorm<NormRow, Scalar>{context.executor}, where, dy, x, saved, o, to, context);
}

/// Bytes of workspace for the backward of a norm over `axes` of a tensor of this shape.
template <class Scalar>
std::size_t normalize_backward_workspace_bytes(const char* where, const Shape& x, const Axes& axes) {
  const Index features = normalized_shape(where, x, axes).size();
  const Index rows = features == 0 ? 0 : x.size() / features;
  const std::size_t copies = 3 * Scratch::bytes<kernels::Compute<Scalar>>(features);  // KernelParameters
  return norm_backward_workspace_bytes<Scalar>(rows, features) + Scratch::bytes<std::uint8_t>(rows) + copies;
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
