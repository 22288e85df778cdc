#pragma once

#include <cstddef>
#include <utility>

#include "evenkeel/detail/row_norm_op.hpp"
#include "evenkeel/kernels/rms_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// How to normalize. The backward takes the same options; of them it reads gamma, axis and mask.
template <class Scalar>
struct RMSNormOptions {
  ParameterView<Scalar> gamma = {};    ///< [features]; absent: 1
  double eps = default_eps;            ///< in units of x squared
  Axes axis = -1;                      ///< the axis, or adjacent axes {-2, -1}, that are normalized together
  MaskView mask = {};                  ///< which rows are valid, of x's shape without the normalized axes; absent: all
  Rounding rounding = Rounding::once;  ///< of 16 bits; before_gamma is Llama's
};

namespace detail {
template <class Scalar>
RowNormOptions<Scalar> row_norm_options(const RMSNormOptions<Scalar>& o) {
  return {o.gamma, {}, o.eps, o.axis, &o.mask, o.rounding};
}
}  // namespace detail

/// The gradients that are asked for; `add_to(t)` adds to t instead of overwriting it.
template <class Scalar>
struct RMSNormGradients {
  TensorGradient<Scalar> dx = {};         ///< shape of x
  ParameterGradient<Scalar> dgamma = {};  ///< [features]
};

/// Root mean square normalization: y = x * rstd * gamma, rstd = 1 / sqrt(mean(x^2) + eps) over the normalized axes.
///
/// Of a masked row y is exactly 0, whatever x holds there, and what is saved is 0.
///
/// Shapes    x, y alike, in the same storage order; gamma [features], the size of the normalized axes.
/// Aliasing  y may be x, the identical view; any other overlap is an error.
/// Numerics  within 4 ulp of max(|y|, 1), see kernels/rms_norm.hpp.
/// Errors    throws std::invalid_argument, before anything is written, as layer_norm_into does.
/// Source    Zhang, Sennrich 2019, arXiv:1910.07467; agrees with torch.nn.RMSNorm.
template <class X, class Y>
void rms_norm_into(const X& x, Y&& y, const RMSNormOptions<ScalarOf<X>>& options = {}, const Context& context = {}) {
  detail::normalize<kernels::RMSNormRow, ScalarOf<X>>("rms_norm_into", input_view<ScalarOf<X>>(x),
                                                      output_view<ScalarOf<X>>(std::forward<Y>(y)),
                                                      detail::row_norm_options(options), nullptr, context);
}

/// As above, and keeps in `saved` what rms_norm_backward takes.
template <class X, class Y>
void rms_norm_into(const X& x, Y&& y, NormStatistics<ScalarOf<X>>& saved,
                   const RMSNormOptions<ScalarOf<X>>& options = {}, const Context& context = {}) {
  detail::normalize<kernels::RMSNormRow, ScalarOf<X>>("rms_norm_into", input_view<ScalarOf<X>>(x),
                                                      output_view<ScalarOf<X>>(std::forward<Y>(y)),
                                                      detail::row_norm_options(options), &saved, context);
}

/// The normalization of x as a new tensor of x's scalar, rank and storage order. See rms_norm_into.
template <class X>
OwnedOf<X> rms_norm(const X& x, const RMSNormOptions<ScalarOf<X>>& options = {}) {
  auto y = make_like(x);
  rms_norm_into(x, y, options);
  return y;
}

/// As above, and keeps in `saved` what rms_norm_backward takes.
template <class X>
OwnedOf<X> rms_norm(const X& x, NormStatistics<ScalarOf<X>>& saved, const RMSNormOptions<ScalarOf<X>>& options = {}) {
  auto y = make_like(x);
  rms_norm_into(x, y, saved, options);
  return y;
}

/// Gradients of rms_norm, from its x and what it has saved: with g = gamma * dy,
/// dx = rstd * (g - x_hat * mean(g * x_hat)); dgamma = sum over rows of dy * x_hat.
///
/// Shapes, aliasing, writes, numerics and errors are those of layer_norm_backward.
template <class DY, class X>
void rms_norm_backward(const DY& dy, const X& x, const NormStatistics<ScalarOf<X>>& saved,
                       const RMSNormOptions<ScalarOf<X>>& options, const RMSNormGradients<ScalarOf<X>>& to,
                       const Context& context = {}) {
  detail::normalize_backward<kernels::RMSNormRow, ScalarOf<X>>(
      "rms_norm_backward", input_view<ScalarOf<X>>(dy), input_view<ScalarOf<X>>(x), saved,
      detail::row_norm_options(options), {to.dx, to.dgamma, {}}, context);
}

/// Bytes of workspace with which rms_norm_into and rms_norm_backward allocate nothing, in any layout.
template <class Scalar>
std::size_t rms_norm_workspace_bytes(const Shape& x, const Axes& axis = -1) {
  return detail::normalize_backward_workspace_bytes<Scalar>("rms_norm_workspace_bytes", x, axis);
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
