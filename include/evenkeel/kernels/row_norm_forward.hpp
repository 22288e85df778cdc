#pragma once

#include "evenkeel/kernels/row_norm.hpp"

/// Normalization of rows with contiguous features: the passes over memory that LayerNorm and RMSNorm share.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

template <class T>
struct RowNormForward {
  const T* x;      ///< [rows, features], rows x_stride apart
  const T* gamma;  ///< [features], or null: 1
  const T* beta;   ///< [features], or null: 0
  T* y;            ///< [rows, features], rows y_stride apart; may be x
  T* mean;         ///< [rows], or null: not wanted; as mean_rest and rstd
  T* mean_rest;
  T* rstd;
  Index rows, features, x_stride, y_stride;
  double eps;
};

/// y = x_hat * gamma + beta for row i, one block of columns at a time.
template <class Arch, class Row, class T>
struct RowWriter {
  Row row;
  const T* x;
  T* y;
  const T* gamma;
  const T* beta;

  RowWriter(const RowNormForward<T>& a, const RowStatistics<T>& statistics, Index i) noexcept
      : row(statistics), x(a.x + i * a.x_stride), y(a.y + i * a.y_stride), gamma(a.gamma), beta(a.beta) {}

  auto block(Index start) const noexcept {
    return [row = row, x = x + start, y = y + start, gamma = parameter_block<1>(gamma, start),
            beta = parameter_block<0>(beta, start)](Index j, auto lanes) {
      const auto x_hat = row.x_hat(lanes.load(x + j));
      if constexpr (Row::centred) {
        lanes.store(y + j, Simd<Arch, T>::fma(x_hat, lanes.load(gamma + j), lanes.load(beta + j)));
      } else {
        lanes.store(y + j, x_hat * lanes.load(gamma + j));
      }
    };
  }
};

/// Takes the place of sums where nothing is measured, and of a writer where nothing is written.
struct Nothing {
  template <class... Args>
  void add(Args...) const noexcept {}
  void merge() const noexcept {}
  auto block(Index) const noexcept {
    return [](Index, auto) {};
  }
};

/// One pass over n columns: adds row `x` to `sums` and writes the row of `writer`.
template <class Arch, class T, class Sums, class Writer>
inline void sweep(Index n, Sums& sums, const T* x, const Writer& writer) noexcept {
  for (Index start = 0; start < n; start += block_columns<Arch, T>) {
    const auto write = writer.block(start);
    for_each_vector<Arch, T, accumulators>(std::min(n - start, block_columns<Arch, T>), [&](auto k, Index j, auto lanes) {
      sums.add(k, x + start + j, lanes);
      write(j, lanes);
    });
    sums.merge();
  }
}

/// Rows up to this size are measured two rows ahead of the one that is written, in one loop: the loads of one hide
/// behind the arithmetic of the other, and the latency of a row's square root and division behind a whole row.
/// Three longer rows would not stay in the L1 cache together: they are measured, then written.
inline constexpr Index interleaved_row_bytes = 8192;

/// Forward normalization of every row, in pieces for row_norm_forward.
template <class Arch, template <class, class, bool> class NormRow, class T>
class RowNormForwardPass {
 public:
  using Row = NormRow<Arch, T, false>;
  using Sums = typename Row::Sums;
  using Moments = typename Row::Moments;

  explicit RowNormForwardPass(const RowNormForward<T>& args) noexcept
      : a_(args), inv_n_(1 / static_cast<Wide<T>>(args.features)) {}

  void run() noexcept {
    if (a_.features * static_cast<Index>(sizeof(T)) > interleaved_row_bytes) return one_by_one();
    interleaved();
  }

 private:
  void one_by_one() noexcept {
    for (Index i = 0; i < a_.rows; ++i) {
      Sums sums(T(1), shift(i));
      sweep<Arch>(a_.features, sums, x(i), Nothing{});
      write(finish(sums.moments(inv_n_), i), i);
    }
  }

  /// Step i measures row i, finishes the statistics of row i - 1, and writes row i - 2.
  void interleaved() noexcept {
    T next_shift = shift(0);
    Moments previous{};
    RowStatistics<T> ready{};
    for (Index i = 0; i < a_.rows + 2; ++i) {
      const RowStatistics<T> finished = i >= 1 && i <= a_.rows ? finish(previous, i - 1) : RowStatistics<T>{};
      if (i < a_.rows) {
        Sums sums(T(1), next_shift);
        if (i + 1 < a_.rows) next_shift = shift(i + 1);
        if (i >= 2 && is_ordinary(ready)) {
          sweep<Arch>(a_.features, sums, x(i), RowWriter<Arch, Row, T>(a_, ready, i - 2));
        } else {
          sweep<Arch>(a_.features, sums, x(i), Nothing{});
          if (i >= 2) write_extreme(ready, i - 2);
        }
        previous = sums.moments(inv_n_);
      } else if (i >= 2) {
        write(ready, i - 2);
      }
      ready = finished;
    }
  }

  const T* x(Index i) const noexcept { return a_.x + i * a_.x_stride; }
  T shift(Index i) const noexcept { return Row::shift(x(i), a_.features); }

  RowStatistics<T> finish(const Moments& moments, Index i) const noexcept {
    const auto row = Row::statistics(moments, x(i), a_.features, inv_n_, a_.eps);
    if (a_.mean) a_.mean[i] = row.mean;
    if (a_.mean_rest) a_.mean_rest[i] = row.mean_rest;
    if (a_.rstd) a_.rstd[i] = row.rstd;
    return row;
  }

  void write(const RowStatistics<T>& row, Index i) const noexcept {
    if (!is_ordinary(row)) return write_extreme(row, i);
    Nothing nothing;
    sweep<Arch>(a_.features, nothing, x(i), RowWriter<Arch, Row, T>(a_, row, i));
  }
  [[gnu::noinline, gnu::flatten]] void write_extreme(const RowStatistics<T>& row, Index i) const noexcept {
    Nothing nothing;
    sweep<Arch>(a_.features, nothing, x(i), RowWriter<Arch, NormRow<Arch, T, true>, T>(a_, row, i));
  }

  const RowNormForward<T>& a_;
  Wide<T> inv_n_;
};

/// y = x_hat * gamma + beta for each row, and its statistics.
template <class Arch, template <class, class, bool> class NormRow, class T>
[[gnu::flatten]] inline void row_norm_forward(const RowNormForward<T>& a) noexcept {
  if (a.rows > 0 && a.features > 0) RowNormForwardPass<Arch, NormRow, T>(a).run();
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
