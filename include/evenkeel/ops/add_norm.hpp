#pragma once

#include <cstddef>
#include <utility>

#include "evenkeel/detail/add_norm_op.hpp"
#include "evenkeel/ops/layer_norm.hpp"
#include "evenkeel/ops/rms_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// How to add, and how to normalize. The backward takes the same options.
template <class Scalar>
struct AddLayerNormOptions {
  ResidualSumOptions<Scalar> sum = {};  ///< alpha, lambda or lambdas, bias, drop
  LayerNormOptions<Scalar> norm = {};   ///< gamma, beta, eps, axis, mask, rounding
};
/// The same for RMSNorm.
template <class Scalar>
struct AddRMSNormOptions {
  ResidualSumOptions<Scalar> sum = {};  ///< alpha, lambda or lambdas, bias, drop
  RMSNormOptions<Scalar> norm = {};     ///< gamma, eps, axis, mask, rounding
};

/// The gradients that are asked for; `add_to(t)` adds to t instead of overwriting it.
template <class Scalar>
struct AddLayerNormGradients {
  TensorGradient<Scalar> dx = {};          ///< shape of x
  TensorGradient<Scalar> dh = {};          ///< shape of h
  ParameterGradient<Scalar> dgamma = {};   ///< [features]
  ParameterGradient<Scalar> dbeta = {};    ///< [features]
  ParameterGradient<Scalar> dlambda = {};  ///< [last axis] of lambdas, or one number, of lambda
  ParameterGradient<Scalar> dbias = {};    ///< [last axis]
};
/// The same for RMSNorm.
template <class Scalar>
struct AddRMSNormGradients {
  TensorGradient<Scalar> dx = {};          ///< shape of x
  TensorGradient<Scalar> dh = {};          ///< shape of h
  ParameterGradient<Scalar> dgamma = {};   ///< [features]
  ParameterGradient<Scalar> dlambda = {};  ///< [last axis] of lambdas, or one number, of lambda
  ParameterGradient<Scalar> dbias = {};    ///< [last axis]
};

/// The tensors from which a backward starts, all alike.
template <class Scalar>
struct AddNormInputs {
  TensorInput<Scalar> dy;       ///< the gradient at y
  TensorInput<Scalar> s;        ///< what the forward has written
  TensorInput<Scalar> ds = {};  ///< the gradient at s, where s went on; not given: 0
  TensorInput<Scalar> h = {};   ///< the forward's, for dlambda alone
};

/// Layer normalization of a residual sum: s = alpha * x + lambda * drop(h + bias), y = N(s).
///
/// s is rounded to its type before its statistics are taken: s and y are, to the last bit, what residual_add_into and
/// layer_norm_into give one after the other, and what Dropout gives before them. ONNX Runtime calls this
/// SkipLayerNormalization.
///
/// sum.drop is the mask of one training step, drawn where it is needed and never stored; the backward takes the same.
/// Inference leaves it out.
/// @code
///   options.sum.drop = DropoutMask(0.1, random_key(seed, "blocks.3.drop"), step);
/// @endcode
///
/// Of a row that norm.mask leaves out y is exactly 0; s is the sum there as everywhere.
///
/// Shapes    x, h, s, y alike, in the same storage order; lambdas, bias [last axis]; gamma, beta [features], the size
///           of the normalized axes.
/// Aliasing  s may be x or h, and y may be x or h where s is not, the identical view; any other overlap is an error.
/// Writes    s and y.
/// Numerics  y within 4 ulp of max(|y|, 1) of the norm of s as it is written, see kernels/layer_norm.hpp.
/// Errors    throws std::invalid_argument, before anything is written, as residual_add_into and layer_norm_into do.
/// Cost      along contiguous features x and h are read once, s and y are written once. Along other axes s is written
///           first, and read again; so it is where sum.drop drops samples, see residual_add_into.
/// Source    Ba, Kiros, Hinton 2016, arXiv:1607.06450; He et al. 2015, arXiv:1512.03385.
template <Tensor X, Tensor H, Tensor S, Tensor Y>
void add_layer_norm_into(const X& x, const H& h, S&& s, Y&& y, const AddLayerNormOptions<ScalarOf<X>>& options = {},
                         const Context& context = {}) {
  using Scalar = ScalarOf<X>;
  detail::add_normalize_both<kernels::LayerNormRow, Scalar>(
      "add_layer_norm_into", input_view<Scalar>(x), input_view<Scalar>(h), output_view<Scalar>(std::forward<S>(s)),
      output_view<Scalar>(std::forward<Y>(y)), options.sum, detail::row_norm_options(options.norm), nullptr, context);
}

/// As above, and keeps in `saved` what add_layer_norm_backward takes.
template <Tensor X, Tensor H, Tensor S, Tensor Y>
void add_layer_norm_into(const X& x, const H& h, S&& s, Y&& y, NormStatistics<ScalarOf<X>>& saved,
                         const AddLayerNormOptions<ScalarOf<X>>& options = {}, const Context& context = {}) {
  using Scalar = ScalarOf<X>;
  detail::add_normalize_both<kernels::LayerNormRow, Scalar>(
      "add_layer_norm_into", input_view<Scalar>(x), input_view<Scalar>(h), output_view<Scalar>(std::forward<S>(s)),
      output_view<Scalar>(std::forward<Y>(y)), options.sum, detail::row_norm_options(options.norm), &saved, context);
}

/// The same where only y is wanted; y may be x or h.
template <Tensor X, Tensor H, Tensor Y>
void add_layer_norm_into(const X& x, const H& h, Y&& y, const AddLayerNormOptions<ScalarOf<X>>& options = {},
                         const Context& context = {}) {
  const auto sum_and_y = output_view<ScalarOf<X>>(std::forward<Y>(y));
  detail::add_normalize<kernels::LayerNormRow, ScalarOf<X>>(
      "add_layer_norm_into", input_view<ScalarOf<X>>(x), input_view<ScalarOf<X>>(h), sum_and_y, sum_and_y, options.sum,
      detail::row_norm_options(options.norm), nullptr, context);
}

/// Gradients of add_layer_norm_into: with ds_total = ds + N'(dy), rounded to the type of s,
/// dx = alpha * ds_total; dh = drop(lambda * ds_total), by the mask of the forward; dlambda = sum of ds_total * drop(h
/// + bias); dbias = sum of dh, without what dh is added to; dgamma and dbeta as layer_norm_backward.
///
/// Of a row that norm.mask leaves out ds_total is ds. dlambda takes h of all rows: a NaN there reaches it.
///
/// Shapes    dy, ds, s, h, dx, dh alike, in the same storage order; parameters' gradients as the parameters.
/// Aliasing  dx may be ds, or dy where there is no ds, the identical view; any other overlap is an error.
/// Writes    the gradients that are given, and nothing else.
/// Numerics  the norm's part as layer_norm_backward; sums of parameters in double, rounded once.
/// Errors    throws std::invalid_argument, before anything is written, as layer_norm_backward does, and if dlambda is
///           wanted without h.
/// Cost      along contiguous features dy, ds, s and h are read once, dx and dh written once: a few rows at a time go
///           through all steps. A temporary tensor where neither dx nor dh is overwritten, and with a drop another
///           for dlambda, and where dh is not overwritten.
template <class Scalar>
void add_layer_norm_backward(const AddNormInputs<Scalar>& from, const NormStatistics<Scalar>& saved,
                             const AddLayerNormOptions<Scalar>& options, const AddLayerNormGradients<Scalar>& to,
                             const Context& context = {}) {
  detail::add_normalize_backward<kernels::LayerNormRow, Scalar>(
      "add_layer_norm_backward", {from.dy.view(), from.ds.view(), from.s.view(), from.h.view()}, saved, options.sum,
      detail::row_norm_options(options.norm), {to.dx, to.dh, to.dlambda, to.dbias}, {{}, to.dgamma, to.dbeta}, context);
}

/// Bytes of workspace with which add_layer_norm_into and add_layer_norm_backward allocate nothing, in any layout.
template <class Scalar>
std::size_t add_layer_norm_workspace_bytes(const Shape& x, const Axes& axis = -1) {
  return detail::add_normalize_workspace_bytes<Scalar>("add_layer_norm_workspace_bytes", x, axis);
}

/// Root mean square normalization of a residual sum: s = alpha * x + lambda * drop(h + bias), y = N(s).
///
/// Masks, shapes, aliasing, writes, numerics, errors and cost are those of add_layer_norm_into.
///
/// Source    Zhang, Sennrich 2019, arXiv:1910.07467; He et al. 2015, arXiv:1512.03385.
template <Tensor X, Tensor H, Tensor S, Tensor Y>
void add_rms_norm_into(const X& x, const H& h, S&& s, Y&& y, const AddRMSNormOptions<ScalarOf<X>>& options = {},
                       const Context& context = {}) {
  using Scalar = ScalarOf<X>;
  detail::add_normalize_both<kernels::RMSNormRow, Scalar>(
      "add_rms_norm_into", input_view<Scalar>(x), input_view<Scalar>(h), output_view<Scalar>(std::forward<S>(s)),
      output_view<Scalar>(std::forward<Y>(y)), options.sum, detail::row_norm_options(options.norm), nullptr, context);
}

/// As above, and keeps in `saved` what add_rms_norm_backward takes.
template <Tensor X, Tensor H, Tensor S, Tensor Y>
void add_rms_norm_into(const X& x, const H& h, S&& s, Y&& y, NormStatistics<ScalarOf<X>>& saved,
                       const AddRMSNormOptions<ScalarOf<X>>& options = {}, const Context& context = {}) {
  using Scalar = ScalarOf<X>;
  detail::add_normalize_both<kernels::RMSNormRow, Scalar>(
      "add_rms_norm_into", input_view<Scalar>(x), input_view<Scalar>(h), output_view<Scalar>(std::forward<S>(s)),
      output_view<Scalar>(std::forward<Y>(y)), options.sum, detail::row_norm_options(options.norm), &saved, context);
}

/// The same where only y is wanted; y may be x or h.
template <Tensor X, Tensor H, Tensor Y>
void add_rms_norm_into(const X& x, const H& h, Y&& y, const AddRMSNormOptions<ScalarOf<X>>& options = {},
                       const Context& context = {}) {
  const auto sum_and_y = output_view<ScalarOf<X>>(std::forward<Y>(y));
  detail::add_normalize<kernels::RMSNormRow, ScalarOf<X>>("add_rms_norm_into", input_view<ScalarOf<X>>(x),
                                                          input_view<ScalarOf<X>>(h), sum_and_y, sum_and_y, options.sum,
                                                          detail::row_norm_options(options.norm), nullptr, context);
}

/// Gradients of add_rms_norm_into, as add_layer_norm_backward.
template <class Scalar>
void add_rms_norm_backward(const AddNormInputs<Scalar>& from, const NormStatistics<Scalar>& saved,
                           const AddRMSNormOptions<Scalar>& options, const AddRMSNormGradients<Scalar>& to,
                           const Context& context = {}) {
  detail::add_normalize_backward<kernels::RMSNormRow, Scalar>(
      "add_rms_norm_backward", {from.dy.view(), from.ds.view(), from.s.view(), from.h.view()}, saved, options.sum,
      detail::row_norm_options(options.norm), {to.dx, to.dh, to.dlambda, to.dbias}, {{}, to.dgamma, {}}, context);
}

/// Bytes of workspace with which add_rms_norm_into and add_rms_norm_backward allocate nothing, in any layout.
template <class Scalar>
std::size_t add_rms_norm_workspace_bytes(const Shape& x, const Axes& axis = -1) {
  return detail::add_normalize_workspace_bytes<Scalar>("add_rms_norm_workspace_bytes", x, axis);
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
