#pragma once

#include "evenkeel/kernels/residual_add.hpp"
#include "evenkeel/kernels/row_norm_forward.hpp"

/// The norm of a residual sum, in one pass over memory.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Where rows come from as they are measured: each is a residual sum, which is written as it is read.
///
/// Longer rows than those of StoredRows are written while the next ones are measured, as measured on AMD Zen 4.
template <class Arch, class X>
struct SummedRows {
  DroppedRows<Arch, X>* rows;

  static RowPlan plan(Index features) noexcept {
    const Index row_bytes = features * static_cast<Index>(sizeof(X));
    const Index interleaved = is_16_bit<X> ? interleaved_row_bytes : 8 * interleaved_row_bytes;
    return {row_bytes <= interleaved, std::clamp<Index>(65536 / row_bytes, 1, 8)};
  }

  /// Columns from `start` on of row i.
  ResidualRow<Arch, X> block(Index i, Index start) const noexcept { return rows->block(i, start); }
};

template <class Arch, template <class, class, bool> class NormRow, class X, class P>
[[gnu::flatten]] inline void normalize_sums(const ResidualAddArgs<X>& sum, const RowNormForward<X, P>& norm) noexcept {
  using Source = SummedRows<Arch, X>;
  DroppedRows<Arch, X> rows(sum);
  RowNormForwardPass<Arch, NormRow, X, P, Source>(norm, Source{&rows}, Source::plan(norm.features)).run();
}

/// s = alpha * x + lambda * drop(d + bias), then y = x_hat * gamma + beta with the statistics of s: as residual_add and
/// row_norm_forward one after the other, to the last bit.
///
/// The norm's x is the sum's s, and both have the same rows and features; the sum has x and d. Rows, or columns of few
/// long rows, are taken by `run`, see InOnePiece.
///
/// Aliasing  s may be x or d; y may be x or d, or s, where s itself is not wanted. Nothing else may overlap.
/// Cost      x and d read once, s written once and read from cache, y written once; no allocation.
/// Errors    none: sizes are the caller's duty.
template <class Arch, template <class, class, bool> class NormRow, class X, class P, class Run = InOnePiece>
inline void add_norm_forward(const ResidualAddArgs<X>& sum, const RowNormForward<X, P>& norm,
                             const Run& run = {}) noexcept {
  static_assert(is_vectorized<X>);
  if (norm.rows == 0 || norm.features == 0) return;
  const Index row_bytes = norm.features * static_cast<Index>(sizeof(X));
  if constexpr (!std::is_same_v<Run, InOnePiece>) {
    if (run.cuts(norm.rows, row_bytes) && !sum.drop.draw) {  // the block that is dropped is one for all threads
      using Source = SummedRows<Arch, X>;
      DroppedRows<Arch, X> rows(sum);
      return RowNormForwardPass<Arch, NormRow, X, P, Source>(norm, Source{&rows}, {}).run_by_columns(run);
    }
  }
  run(norm.rows, row_bytes, [&](Index first, Index last) {
    normalize_sums<Arch, NormRow>(rows_of(sum, first, last - first), rows_of(norm, first, last - first));
  });
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
