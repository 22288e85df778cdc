#pragma once

#include "evenkeel/kernels/row_norm_backward.hpp"
#include "evenkeel/kernels/row_norm_forward.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// The members that LayerNorm has beyond RMSNorm (beta, mean, mean_rest, dbeta) are null here.
template <class X, class P = X>
using RMSNormForwardArgs = RowNormForward<X, P>;
template <class X, class P = X>
using RMSNormBackwardArgs = RowNormBackward<X, P>;

/// Root mean square normalization of each row: y = x * rstd * gamma, rstd = 1 / sqrt(mean(x^2) + eps).
///
/// Shapes    x, y [rows, features]; gamma [features]; rstd [rows].
/// Units     eps is in units of x squared; gamma scales y.
/// Aliasing  y may be x; nothing else may overlap.
/// Writes    y; rstd where given. Nothing for zero rows or features.
/// Numerics  within 4 ulp of max(|y|, 1) against a long double reference for gamma 1 (RMSNormAccuracy tests).
/// Cost      x read once from memory and once from cache, y written once; no allocation.
/// Errors    none: sizes are the caller's duty.
/// Source    Zhang, Sennrich 2019, arXiv:1910.07467; agrees with torch.nn.RMSNorm.
template <class Arch = native, class X, class P>
inline void rms_norm_forward(const RMSNormForwardArgs<X, P>& args) noexcept {
  row_norm_forward<Arch, RMSNormRow>(args);
}

/// Gradients of rms_norm_forward, from its x and rstd: with g = gamma * dy,
/// dx = rstd * (g - x_hat * mean(g * x_hat)); dgamma = sum over rows of dy * x_hat.
///
/// Shapes, aliasing, writes, numerics, cost and errors are those of layer_norm_backward.
template <class Arch = native, class X, class P>
inline void rms_norm_backward(const RMSNormBackwardArgs<X, P>& args) noexcept {
  row_norm_backward<Arch, RMSNormRow>(args);
}

/// Bytes of workspace that rms_norm_backward takes for dgamma.
template <class X>
inline std::size_t rms_norm_backward_workspace_bytes(Index rows, Index features) noexcept {
  return row_norm_backward_workspace_bytes<X>(rows, features);
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
