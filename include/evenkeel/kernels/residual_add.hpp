#pragma once

#include "evenkeel/kernels/row_norm_any.hpp"
#include "evenkeel/kernels/shared_row.hpp"

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
  const Compute<X>* bias = nullptr;     ///< [features], or one number if has_one_bias, added to d; or null: none
  bool has_one_bias = false;
};

/// Some rows of all.
template <class X>
inline ResidualAddArgs<X> rows_of(ResidualAddArgs<X> a, Index first, Index count) noexcept {
  if (a.x) a.x += first * a.x_stride;
  if (a.d) a.d += first * a.d_stride;
  a.s += first * a.s_stride;
  a.rows = count;
  return a;
}

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

/// A row of alpha * x + lambda * (d + bias), from some column on: each call sums one vector and writes it to s.
template <class Arch, class X>
class ResidualRow {
 public:
  using T = Compute<X>;
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;

  /// Columns from `start` on of row i.
  ResidualRow(const ResidualAddArgs<X>& a, Index i, Index start = 0) noexcept
      : sum_(a.alpha, a.lambda),
        x_(a.x ? a.x + i * a.x_stride + start : nullptr),
        d_(a.d ? a.d + i * a.d_stride + start : nullptr),
        s_(a.s + i * a.s_stride + start),
        lambdas_(a.lambdas ? a.lambdas + start : nullptr),
        bias_(a.bias && !a.has_one_bias ? a.bias + start : a.bias),
        has_one_bias_(a.has_one_bias) {}

  /// The sum as it is stored, of columns from j on. x and d are both there.
  template <class Lanes>
  Batch operator()(Index j, Lanes lanes) const noexcept {
    return store(j, lanes, sum_(lanes.load(x_ + j), branch(j, lanes), lambda(j, lanes)));
  }
  /// The same where one of them may not be.
  template <class Lanes>
  void partial(Index j, Lanes lanes) const noexcept {
    if (x_ && d_) {
      (*this)(j, lanes);
    } else {
      store(j, lanes, d_ ? lambda(j, lanes) * branch(j, lanes) : sum_.alpha * lanes.load(x_ + j));
    }
  }

 private:
  template <class Lanes>
  Batch lambda(Index j, Lanes lanes) const noexcept {
    return lambdas_ ? lanes.load(lambdas_ + j) : sum_.lambda;
  }
  template <class Lanes>
  Batch branch(Index j, Lanes lanes) const noexcept {
    const Batch d = lanes.load(d_ + j);
    if (!bias_) return d;
    return keep(d + (has_one_bias_ ? S::broadcast(*bias_) : lanes.load(bias_ + j)));
  }
  template <class Lanes>
  Batch store(Index j, Lanes lanes, const Batch& s) const noexcept {
    lanes.store(s_ + j, s);
    if constexpr (is_16_bit<X>) {
      return lanes.load(s_ + j);
    } else {
      return s;
    }
  }

  ResidualSum<Arch, T> sum_;
  const X *x_, *d_;
  X* s_;
  const T *lambdas_, *bias_;
  bool has_one_bias_;
};

/// One row of it, where X has no vectors.
template <class X>
inline void any_residual_add_row(const ResidualAddArgs<X>& a, const X* x, const X* d, X* s) {
  for (Index j = 0; j < a.features; ++j) {
    X d_j = d ? d[j] : X(0);
    if (d && a.bias) d_j = X(d_j + a.bias[a.has_one_bias ? 0 : j]);
    const X branch = d ? X((a.lambdas ? a.lambdas[j] : a.lambda) * d_j) : X(0);
    s[j] = !x ? branch : d ? X(a.alpha * x[j] + branch) : X(a.alpha * x[j]);
  }
}

/// residual_add of columns [from, to), one row after another.
template <class Arch, class X>
[[gnu::flatten]] inline void residual_add_columns(const ResidualAddArgs<X>& a, Index from, Index to) noexcept {
  for (Index i = 0; i < a.rows; ++i) {
    const ResidualRow<Arch, X> row(a, i, from);
    for_each_vector<Arch, Compute<X>, accumulators>(to - from,
                                                    [&](auto, Index j, auto lanes) { row.partial(j, lanes); });
  }
}

/// Some of the rows.
template <class Arch, class X>
inline void residual_add_rows(const ResidualAddArgs<X>& a) noexcept {
  if constexpr (is_vectorized<X>) {
    residual_add_columns<Arch>(a, 0, a.features);
  } else {
    for (Index i = 0; i < a.rows; ++i) {
      any_residual_add_row(a, a.x ? a.x + i * a.x_stride : nullptr, a.d ? a.d + i * a.d_stride : nullptr,
                           a.s + i * a.s_stride);
    }
  }
}

/// The sum of a residual connection: s = alpha * x + lambda * (d + bias), with one lambda, or one for each feature.
/// Every step is rounded in the type of computation, and s once to its own.
///
/// Without x it is lambda * d, without d alpha * x; one of them is there. Rows, or columns of few
/// long rows, are summed by `run`, see InOnePiece.
///
/// Shapes    x, d, s [rows, features].
/// Aliasing  s may be x, d or both; nothing else may overlap.
/// Cost      x and d read once, s written once; no allocation.
/// Errors    none: sizes are the caller's duty.
template <class Arch = native, class X, class Run = InOnePiece>
inline void residual_add(const ResidualAddArgs<X>& a, const Run& run = {}) noexcept {
  const Index row_bytes = a.features * static_cast<Index>(sizeof(X));
  if constexpr (is_vectorized<X> && !std::is_same_v<Run, InOnePiece>) {
    if (run.cuts(a.rows, row_bytes)) {
      const ColumnBlocks<Arch, Compute<X>> blocks{a.features};
      return run(blocks.count(), a.rows * blocks.template bytes<X>(), [&](Index first, Index last) {
        residual_add_columns<Arch>(a, blocks.start(first), blocks.end(last));
      });
    }
  }
  run(a.rows, row_bytes, [&](Index first, Index last) { residual_add_rows<Arch>(rows_of(a, first, last - first)); });
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
