#pragma once

#include "evenkeel/kernels/row_norm_backward.hpp"
#include "evenkeel/kernels/row_norm_forward.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

template <class X, class P = X>
using LayerNormForwardArgs = RowNormForward<X, P>;
template <class X, class P = X>
using LayerNormBackwardArgs = RowNormBackward<X, P>;

/// Layer normalization of each row: y = (x - mean) * rstd * gamma + beta.
///
/// mean and var are over the row (var biased: divided by features); rstd = 1 / sqrt(var + eps).
///
/// Shapes    x, y [rows, features]; gamma, beta [features]; mean, mean_rest, rstd [rows].
/// Units     eps is in units of x squared; gamma and beta scale and shift y.
/// Aliasing  y may be x; nothing else may overlap.
/// Writes    y; mean, mean_rest and rstd where given. Nothing for zero rows or features.
/// Numerics  one pass around a shift near the mean, merged in double; within 4 ulp of max(|y|, 1) against a long
///           double reference for gamma 1, beta 0 (LayerNormAccuracy tests). A constant row gives exactly beta.
/// Cost      x read once from memory and once from cache, y written once; no allocation.
/// Errors    none: sizes are the caller's duty.
/// Source    Ba, Kiros, Hinton 2016, arXiv:1607.06450; agrees with torch.nn.LayerNorm.
template <class Arch = native, class X, class P>
inline void layer_norm_forward(const LayerNormForwardArgs<X, P>& args) noexcept {
  row_norm_forward<Arch, LayerNormRow>(args);
}

/// Gradients of layer_norm_forward, from its x and statistics: with g = gamma * dy,
/// dx = rstd * (g - mean(g) - x_hat * mean(g * x_hat)); dgamma = sum over rows of dy * x_hat; dbeta = sum of dy.
///
/// Shapes    dy, x, dx [rows, features]; gamma, dgamma, dbeta [features]; mean, mean_rest, rstd [rows].
/// Aliasing  dx may be dy; nothing else may overlap.
/// Writes    dx, dgamma, dbeta where given: added to where add_* says so, else overwritten.
/// Numerics  dx within 4 ulp of rstd * (max|g| + max|x_hat| * |mean(g * x_hat)|), dgamma and dbeta within
///           4 * sqrt(rows) ulp of max|dy| * max|x_hat| (LayerNormAccuracy tests); dx is exactly 0 for one feature.
/// Cost      x and dy read once from memory and once from cache, dx written once; no allocation.
/// Errors    none: sizes are the caller's duty, workspace of layer_norm_backward_workspace_bytes included.
template <class Arch = native, class X, class P>
inline void layer_norm_backward(const LayerNormBackwardArgs<X, P>& args) noexcept {
  row_norm_backward<Arch, LayerNormRow>(args);
}

/// Bytes of workspace that layer_norm_backward takes for dgamma and dbeta.
template <class X>
inline std::size_t layer_norm_backward_workspace_bytes(Index rows, Index features) noexcept {
  return row_norm_backward_workspace_bytes<X>(rows, features);
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
