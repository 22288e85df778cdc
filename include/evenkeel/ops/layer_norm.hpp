#pragma once

#include <cstddef>
#include <utility>

#include "evenkeel/detail/row_norm_op.hpp"
#include "evenkeel/kernels/layer_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// How to normalize. The backward takes the same options; of them it reads gamma, axis and mask.
template <class Scalar>
struct LayerNormOptions {
  ParameterView<Scalar> gamma = {};    ///< [features]; absent: 1
  ParameterView<Scalar> beta = {};     ///< [features]; absent: 0
  double eps = default_eps;            ///< in units of x squared
  Axes axis = -1;                      ///< the axis, or adjacent axes {-2, -1}, that are normalized together
  MaskView mask = {};                  ///< which rows are valid, of x's shape without the normalized axes; absent: all
  Rounding rounding = Rounding::once;  ///< of 16 bits, whether x_hat is rounded before gamma too
};

namespace detail {
template <class Scalar>
RowNormOptions<Scalar> row_norm_options(const LayerNormOptions<Scalar>& o) {
  return {o.gamma, o.beta, o.eps, o.axis, &o.mask, o.rounding};
}
}  // namespace detail

/// The gradients that are asked for; `add_to(t)` adds to t instead of overwriting it.
template <class Scalar>
struct LayerNormGradients {
  TensorGradient<Scalar> dx = {};         ///< shape of x
  ParameterGradient<Scalar> dgamma = {};  ///< [features]
  ParameterGradient<Scalar> dbeta = {};   ///< [features]
};

/// Layer normalization: y = (x - mean) * rstd * gamma + beta, with mean and var over the normalized axes.
///
/// var is biased (divided by features); rstd = 1 / sqrt(var + eps).
///
/// Of a masked row y is exactly 0, whatever x holds there, and what is saved is 0.
///
/// Shapes    x, y alike, in the same storage order; gamma, beta [features], the size of the normalized axes.
/// Aliasing  y may be x, the identical view; any other overlap is an error.
/// Numerics  within 4 ulp of max(|y|, 1), see kernels/layer_norm.hpp.
/// Errors    throws std::invalid_argument, before anything is written, if shapes or storage orders do not match, eps is
///           negative or NaN, an axis is out of range, memory overlaps, or the workspace of the context is too small.
/// Cost      any axis is normalized where it is: contiguous ones row by row, strided ones many rows at a time. Only
///           where neither features nor rows are contiguous, rows are copied into workspace first. With a mask each run
///           of valid rows is a call of its own: padding at the end costs nothing, a mask of single rows does.
/// Source    Ba, Kiros, Hinton 2016, arXiv:1607.06450; agrees with torch.nn.LayerNorm.
template <class X, class Y>
void layer_norm_into(const X& x, Y&& y, const LayerNormOptions<ScalarOf<X>>& options = {},
                     const Context& context = {}) {
  detail::normalize<kernels::LayerNormRow, ScalarOf<X>>("layer_norm_into", input_view<ScalarOf<X>>(x),
                                                        output_view<ScalarOf<X>>(std::forward<Y>(y)),
                                                        detail::row_norm_options(options), nullptr, context);
}

/// As above, and keeps in `saved` what layer_norm_backward takes.
template <class X, class Y>
void layer_norm_into(const X& x, Y&& y, NormStatistics<ScalarOf<X>>& saved,
                     const LayerNormOptions<ScalarOf<X>>& options = {}, const Context& context = {}) {
  detail::normalize<kernels::LayerNormRow, ScalarOf<X>>("layer_norm_into", input_view<ScalarOf<X>>(x),
                                                        output_view<ScalarOf<X>>(std::forward<Y>(y)),
                                                        detail::row_norm_options(options), &saved, context);
}

/// The layer normalization of x as a new tensor of x's scalar, rank and storage order. See layer_norm_into.
template <class X>
OwnedOf<X> layer_norm(const X& x, const LayerNormOptions<ScalarOf<X>>& options = {}) {
  auto y = make_like(x);
  layer_norm_into(x, y, options);
  return y;
}

/// As above, and keeps in `saved` what layer_norm_backward takes.
template <class X>
OwnedOf<X> layer_norm(const X& x, NormStatistics<ScalarOf<X>>& saved,
                      const LayerNormOptions<ScalarOf<X>>& options = {}) {
  auto y = make_like(x);
  layer_norm_into(x, y, saved, options);
  return y;
}

/// Gradients of layer_norm, from its x and what it has saved: with g = gamma * dy,
/// dx = rstd * (g - mean(g) - x_hat * mean(g * x_hat)); dgamma = sum over rows of dy * x_hat; dbeta = sum of dy.
///
/// Of a masked row dx is exactly 0 (nothing is added, in add mode), and dgamma and dbeta leave it out.
///
/// Shapes    dy, x, dx alike, in the same storage order; gamma, dgamma, dbeta [features]; dgamma one number if gamma is
///           given as scalar_gamma.
/// Aliasing  dx may be dy, the identical view; any other overlap is an error.
/// Writes    the gradients that are given, and nothing else.
/// Numerics  see kernels/layer_norm.hpp.
/// Errors    throws std::invalid_argument, before anything is written, as layer_norm_into does, and if `saved` is empty
///           or of another shape, or the context's workspace is too small.
template <class DY, class X>
void layer_norm_backward(const DY& dy, const X& x, const NormStatistics<ScalarOf<X>>& saved,
                         const LayerNormOptions<ScalarOf<X>>& options, const LayerNormGradients<ScalarOf<X>>& to,
                         const Context& context = {}) {
  detail::normalize_backward<kernels::LayerNormRow, ScalarOf<X>>(
      "layer_norm_backward", input_view<ScalarOf<X>>(dy), input_view<ScalarOf<X>>(x), saved,
      detail::row_norm_options(options), {to.dx, to.dgamma, to.dbeta}, context);
}

/// Bytes of workspace with which layer_norm_into and layer_norm_backward allocate nothing, in any layout.
template <class Scalar>
std::size_t layer_norm_workspace_bytes(const Shape& x, const Axes& axis = -1) {
  return detail::normalize_backward_workspace_bytes<Scalar>("layer_norm_workspace_bytes", x, axis);
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
