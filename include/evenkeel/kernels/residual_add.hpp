#pragma once

#include <algorithm>

#include "evenkeel/kernels/dropped_branch.hpp"
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
  BranchDrop<X> drop = {};  ///< of d + bias
};

/// Some rows of all.
template <class X>
inline ResidualAddArgs<X> rows_of(ResidualAddArgs<X> a, Index first, Index count) noexcept {
  if (a.x) a.x += first * a.x_stride;
  if (a.d) a.d += first * a.d_stride;
  a.s += first * a.s_stride;
  a.drop.position += static_cast<std::uint64_t>(first * a.features);
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

  /// Columns from `start` on of row i; `dropped` is what is left of d + bias there, or null: nothing is dropped.
  ResidualRow(const ResidualAddArgs<X>& a, Index i, Index start = 0, const X* dropped = nullptr) noexcept
      : sum_(a.alpha, a.lambda),
        x_(a.x ? a.x + i * a.x_stride + start : nullptr),
        d_(dropped ? dropped
           : a.d   ? a.d + i * a.d_stride + start
                   : nullptr),
        s_(a.s + i * a.s_stride + start),
        lambdas_(a.lambdas ? a.lambdas + start : nullptr),
        bias_(dropped                     ? nullptr
              : a.bias && !a.has_one_bias ? a.bias + start
                                          : a.bias),
        has_one_bias_(a.has_one_bias) {}

  /// The sum as it is stored, of columns from j on. x and d are both there.
  template <class Lanes>
  Batch operator()(Index j, Lanes lanes) const noexcept {
    return stored(s_ + j, lanes, sum_(lanes.load(x_ + j), branch(j, lanes), lambda(j, lanes)));
  }
  /// The same where one of them may not be.
  template <class Lanes>
  void partial(Index j, Lanes lanes) const noexcept {
    if (x_ && d_) {
      (*this)(j, lanes);
    } else {
      stored(s_ + j, lanes, d_ ? lambda(j, lanes) * branch(j, lanes) : sum_.alpha * lanes.load(x_ + j));
    }
  }

  /// drop(d + bias) of `count` columns, `kept` being 1 or 0 for each; what is dropped is 0 whatever it was.
  void drop(const T* kept, T scale, Index count, X* dropped) const noexcept {
    const Batch factor = S::broadcast(scale);
    for_each_vector<Arch, T, 1>(count, [&](auto, Index j, auto lanes) {
      const Batch d = stored(dropped + j, lanes, branch(j, lanes));
      lanes.store(dropped + j, S::where(lanes.load(kept + j), d * factor));
    });
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
  /// Writes v, and returns it as it is stored.
  template <class Lanes>
  static Batch stored(X* to, Lanes lanes, const Batch& v) noexcept {
    lanes.store(to, v);
    if constexpr (is_16_bit<X>) {
      return lanes.load(to);
    } else {
      return v;
    }
  }

  ResidualSum<Arch, T> sum_;
  const X *x_, *d_;
  X* s_;
  const T *lambdas_, *bias_;
  bool has_one_bias_;
};

/// The rows of alpha * x + lambda * drop(d + bias), one block of columns after another. What is dropped of a block is
/// in the L1 cache when it is added.
template <class Arch, class X>
class DroppedRows {
 public:
  explicit DroppedRows(const ResidualAddArgs<X>& args) noexcept : a_(args) {}

  /// Columns from `start` on of row i, at most block_columns of them; good until the next call.
  ResidualRow<Arch, X> block(Index i, Index start) noexcept {
    return {a_, i, start, a_.drop.draw ? dropped(i, start) : nullptr};
  }

 private:
  using T = Compute<X>;
  static constexpr Index most_columns = block_columns<Arch, T>;

  [[gnu::noinline, gnu::flatten]] const X* dropped(Index i, Index start) noexcept {
    const Index count = std::min(a_.features - start, most_columns);
    const auto position = a_.drop.position + static_cast<std::uint64_t>(i * a_.features + start);
    const T* kept = kept_.from(*a_.drop.draw, position, count);
    ResidualRow<Arch, X>(a_, i, start).drop(kept, a_.drop.scale, count, dropped_);
    return dropped_;
  }

  const ResidualAddArgs<X>& a_;
  KeptPositions<T, most_columns> kept_;
  X dropped_[most_columns];
};

/// Row i of it, where X has no vectors.
template <class X>
inline void any_residual_add_row(const ResidualAddArgs<X>& a, Index i) {
  const X *x = a.x ? a.x + i * a.x_stride : nullptr, *d = a.d ? a.d + i * a.d_stride : nullptr;
  X* s = a.s + i * a.s_stride;
  for (Index j = 0; j < a.features; ++j) {
    X d_j = d ? d[j] : X(0);
    if (d && a.bias) d_j = X(d_j + a.bias[a.has_one_bias ? 0 : j]);
    if (d && a.drop.draw) {
      const auto position = a.drop.position + static_cast<std::uint64_t>(i * a.features + j);
      d_j = a.drop.draw->keeps(position) ? X(d_j * a.drop.scale) : X(0);
    }
    const X branch = d ? X((a.lambdas ? a.lambdas[j] : a.lambda) * d_j) : X(0);
    s[j] = !x ? branch : d ? X(a.alpha * x[j] + branch) : X(a.alpha * x[j]);
  }
}

/// Some columns of a row.
template <class Arch, class X>
inline void residual_add_block(const ResidualRow<Arch, X>& row, Index columns) noexcept {
  for_each_vector<Arch, Compute<X>, accumulators>(columns, [&](auto, Index j, auto lanes) { row.partial(j, lanes); });
}

/// residual_add_columns with a drop. Of arguments of its own, whose address it takes: the caller's stay in registers.
template <class Arch, class X>
[[gnu::noinline, gnu::flatten]] inline void dropped_add_columns(ResidualAddArgs<X> a, Index from, Index to) noexcept {
  constexpr Index columns = block_columns<Arch, Compute<X>>;
  DroppedRows<Arch, X> rows(a);
  for (Index i = 0; i < a.rows; ++i) {
    for (Index start = from; start < to; start += columns) {
      residual_add_block(rows.block(i, start), std::min(columns, to - start));
    }
  }
}

/// residual_add of columns [from, to), which begin with a block, one row after another.
template <class Arch, class X>
[[gnu::flatten]] inline void residual_add_columns(const ResidualAddArgs<X>& a, Index from, Index to) noexcept {
  if (a.drop.draw) return dropped_add_columns<Arch>(a, from, to);
  for (Index i = 0; i < a.rows; ++i) residual_add_block(ResidualRow<Arch, X>(a, i, from), to - from);
}

/// Some of the rows.
template <class Arch, class X>
inline void residual_add_rows(const ResidualAddArgs<X>& a) noexcept {
  if constexpr (is_vectorized<X>) {
    residual_add_columns<Arch>(a, 0, a.features);
  } else {
    for (Index i = 0; i < a.rows; ++i) any_residual_add_row(a, i);
  }
}

/// The sum of a residual connection: s = alpha * x + lambda * drop(d + bias), with one lambda, or one for each feature.
/// Every step is rounded in the type of computation, and s once to its own; where there is a drop, d + bias and what is
/// left of it too, as if they were stored.
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
