#pragma once

#include "evenkeel/kernels/row_norm_any.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Data is of type X: float, double, one of 16 bits, which is computed in float, or any other type of numbers.
template <class X>
struct ResidualAddArgs {
  const X* x;  ///< [rows, features], rows x_stride apart
  const X* d;  ///< [rows, features], rows d_stride apart, or null: 0
  X* s;        ///< [rows, features], rows s_stride apart; may be x or d
  Compute<X> alpha, lambda;
  Index rows, features, x_stride, d_stride, s_stride;
};

/// alpha * x + lambda * d: the product of lambda is rounded, the sum is rounded once more. The one place where the
/// residual sum is written down, so that every use of it gives the same bits.
template <class Arch, class T>
struct ResidualSum {
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;
  Batch alpha, lambda;

  ResidualSum(T alpha_, T lambda_) noexcept : alpha(S::broadcast(alpha_)), lambda(S::broadcast(lambda_)) {}
  Batch operator()(const Batch& x, const Batch& d) const noexcept { return S::fma(alpha, x, keep(lambda * d)); }
};

/// One row of it, where X has no vectors.
template <class X>
inline void any_residual_add(const X* x, const X* d, X* s, Index n, const X& alpha, const X& lambda) {
  for (Index j = 0; j < n; ++j) {
    const X skip = alpha * x[j];
    s[j] = d ? X(skip + X(lambda * d[j])) : skip;
  }
}

/// The sum of a residual connection: s = alpha * x + lambda * d.
///
/// Shapes    x, d, s [rows, features].
/// Aliasing  s may be x, d or both; nothing else may overlap.
/// Cost      x and d read once, s written once; no allocation.
/// Errors    none: sizes are the caller's duty.
template <class Arch = native, class X>
[[gnu::flatten]] inline void residual_add(const ResidualAddArgs<X>& a) noexcept {
  for (Index i = 0; i < a.rows; ++i) {
    const X* x = a.x + i * a.x_stride;
    const X* d = a.d ? a.d + i * a.d_stride : nullptr;
    X* s = a.s + i * a.s_stride;
    if constexpr (is_vectorized<X>) {
      using T = Compute<X>;
      const ResidualSum<Arch, T> sum(a.alpha, a.lambda);
      for_each_vector<Arch, T, accumulators>(a.features, [&](auto, Index j, auto lanes) {
        const auto x_j = lanes.load(x + j);
        lanes.store(s + j, d ? sum(x_j, lanes.load(d + j)) : sum.alpha * x_j);
      });
    } else {
      any_residual_add(x, d, s, a.features, a.alpha, a.lambda);
    }
  }
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
