#pragma once

#include "evenkeel/kernels/row_norm_any.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Data is of type X: float, double, one of 16 bits, which is computed in float, or any other type of numbers.
template <class X>
struct ResidualAddArgs {
  const X* x;  ///< [rows, features], rows x_stride apart, or null: 0
  const X* d;  ///< [rows, features], rows d_stride apart, or null: 0
  X* s;        ///< [rows, features], rows s_stride apart; may be x or d
  Compute<X> alpha, lambda;
  Index rows, features, x_stride, d_stride, s_stride;
  const Compute<X>* lambdas = nullptr;  ///< [features], each in the place of lambda, or null
};

/// alpha * x + lambda * d: the product of lambda is rounded, the sum is rounded once more. The one place where the
/// residual sum is written down, so that every use of it gives the same bits.
template <class Arch, class T>
struct ResidualSum {
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;
  Batch alpha, lambda;

  ResidualSum(T alpha_, T lambda_) noexcept : alpha(S::broadcast(alpha_)), lambda(S::broadcast(lambda_)) {}
  Batch operator()(const Batch& x, const Batch& d) const noexcept { return (*this)(x, d, lambda); }
  Batch operator()(const Batch& x, const Batch& d, const Batch& lambda_j) const noexcept {
    return S::fma(alpha, x, keep(lambda_j * d));
  }
};

/// One row of it, of vectors.
template <class Arch, class X>
inline void residual_add_row(const ResidualAddArgs<X>& a, const X* x, const X* d, X* s) noexcept {
  using T = Compute<X>;
  const ResidualSum<Arch, T> sum(a.alpha, a.lambda);
  for_each_vector<Arch, T, accumulators>(a.features, [&](auto, Index j, auto lanes) {
    const auto lambda = a.lambdas ? lanes.load(a.lambdas + j) : sum.lambda;
    if (!d) {
      lanes.store(s + j, sum.alpha * lanes.load(x + j));
    } else {
      const auto d_j = lanes.load(d + j);
      lanes.store(s + j, x ? sum(lanes.load(x + j), d_j, lambda) : lambda * d_j);
    }
  });
}

/// One row of it, where X has no vectors.
template <class X>
inline void any_residual_add_row(const ResidualAddArgs<X>& a, const X* x, const X* d, X* s) {
  for (Index j = 0; j < a.features; ++j) {
    const X branch = d ? X((a.lambdas ? a.lambdas[j] : a.lambda) * d[j]) : X(0);
    s[j] = !x ? branch : d ? X(a.alpha * x[j] + branch) : X(a.alpha * x[j]);
  }
}

/// The sum of a residual connection: s = alpha * x + lambda * d, with one lambda, or one for each feature.
///
/// Without x it is lambda * d, without d alpha * x; one of them is there.
///
/// Shapes    x, d, s [rows, features].
/// Aliasing  s may be x, d or both; nothing else may overlap.
/// Cost      x and d read once, s written once; no allocation.
/// Errors    none: sizes are the caller's duty.
template <class Arch = native, class X>
[[gnu::flatten]] inline void residual_add(const ResidualAddArgs<X>& a) noexcept {
  for (Index i = 0; i < a.rows; ++i) {
    const X* x = a.x ? a.x + i * a.x_stride : nullptr;
    const X* d = a.d ? a.d + i * a.d_stride : nullptr;
    X* s = a.s + i * a.s_stride;
    if constexpr (is_vectorized<X>) {
      residual_add_row<Arch>(a, x, d, s);
    } else {
      any_residual_add_row(a, x, d, s);
    }
  }
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
