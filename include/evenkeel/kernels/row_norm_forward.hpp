#pragma once

#include "evenkeel/kernels/row_norm.hpp"
#include "evenkeel/kernels/shared_row.hpp"

/// Normalization of rows with contiguous features: the passes over memory that LayerNorm and RMSNorm share.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Data is of type X: float, double, one of 16 bits, which is computed in float, or any other type of real numbers (see
/// row_norm_any.hpp). Parameters are of type P: X, or float where X has 16 bits.
template <class X, class P = X>
struct RowNormForward {
  const X* x = nullptr;        ///< [rows, features], rows x_stride apart
  const P* gamma = nullptr;    ///< [features], or null: 1
  const P* beta = nullptr;     ///< [features], or null: 0
  X* y = nullptr;              ///< [rows, features], rows y_stride apart; may be x
  Compute<X>* mean = nullptr;  ///< [rows], or null: not wanted; as mean_rest and rstd
  Compute<X>* mean_rest = nullptr;
  Compute<X>* rstd = nullptr;
  Index rows = 0, features = 0, x_stride = 0, y_stride = 0;
  double eps = 0;
};

/// The data of short rows is so small that three of them stay in the L1 cache together, with gamma and beta.
inline constexpr Index interleaved_row_bytes = 4096;

/// Which rows are in work together.
struct RowPlan {
  bool is_interleaved;  ///< one is written while another is measured, in one loop
  Index rows_at_once;   ///< else so many are measured, then written by blocks of columns
};

/// One of the parameters as the loops over columns read it: in the type of computation. Numbers of 16 bits are widened
/// here, once for many rows.
template <class Arch, class P, int Default>
class WideParameter {
 public:
  explicit WideParameter(const P* parameter) noexcept : parameter_(parameter) {}

  /// Makes columns [first, first + count) readable, if they are not; count is at most what a short row has, or a block.
  void open(Index first, Index count) noexcept {
    if constexpr (is_16_bit<P>) {
      if (!parameter_ || std::exchange(first_, first) == first) return;
      for_each_vector<Arch, float, accumulators>(
          count, [&](auto, Index j, auto lanes) { lanes.store(wide_ + j, lanes.load(parameter_ + first + j)); });
    }
  }
  const Compute<P>* from(Index start) const noexcept {
    if constexpr (is_16_bit<P>) {
      return parameter_block<Default>(parameter_ ? wide_ : nullptr, start - first_);
    } else {
      return parameter_block<Default>(parameter_, start);
    }
  }

 private:
  const P* parameter_;
  Index first_ = -1;
  Compute<P> wide_[is_16_bit<P> ? interleaved_row_bytes / 2 : 1];
};

/// Writes a block of columns of a row: y = x_hat * gamma + beta.
template <class Arch, class Row, class X>
struct BlockWriter {
  Row row;
  const X* x;
  const Compute<X>*gamma, *beta;
  X* y;

  template <class K, class Lanes>
  void operator()(K, Index j, Lanes lanes) const noexcept {
    const auto x_hat = row.x_hat(lanes.load(x + j));
    if constexpr (Row::centred) {
      lanes.store(y + j, Simd<Arch, Compute<X>>::fma(x_hat, lanes.load(gamma + j), lanes.load(beta + j)));
    } else {
      lanes.store(y + j, x_hat * lanes.load(gamma + j));
    }
  }
};

/// Measures a block of columns of a row, which `load` has.
template <class Arch, class T, bool WithMean, class Load>
struct BlockReader {
  PowerSums<Arch, T, WithMean> sums;
  Load load;

  template <class K, class Lanes>
  void operator()(K k, Index j, Lanes lanes) noexcept {
    sums.add(k, keep(load(j, lanes)));  // loaded once: GCC would load it for each of its two uses
  }
};

/// Where rows come from as they are measured: they are there. (add_norm_forward.hpp has another.)
template <class X>
struct StoredRows {
  const X* x;
  Index stride;

  /// Within the L2 cache reading one row and writing another at once hides latencies. From beyond it that leads the
  /// hardware's prefetching astray (768 features, Zen 4: 1.4 instead of 1.0 times a copy; Zen 5: 1.5 instead of 1.2),
  /// unless rows are so short that their latencies count, or so long and so far that memory would rest between the two.
  /// Prefetching by software cost Zen 5 more (up to 0.5 times a copy) than it gained (0.1).
  static RowPlan plan(Index rows, Index features) noexcept {
    const Index row_bytes = features * static_cast<Index>(sizeof(X));
    const Index some = std::clamp<Index>(65536 / row_bytes, 2, 8);
    if (!is_beyond_l2<X>(2, rows, features)) return {row_bytes <= interleaved_row_bytes, some};
    if (row_bytes <= 8192) return {row_bytes <= 256, 1};
    return {row_bytes <= 32768 && !is_16_bit<X> && 2 * rows * row_bytes > (Index{32} << 20), some};
  }

  struct Load {
    const X* x;
    template <class Lanes>
    auto operator()(Index j, Lanes lanes) const noexcept {
      return lanes.load(x + j);
    }
  };
  /// Columns from `start` on of row i.
  Load block(Index i, Index start) const noexcept { return {x + i * stride + start}; }
};

/// Forward normalization of every row, in pieces for row_norm_forward.
template <class Arch, template <class, class, bool> class NormRow, class X, class P, class Source>
class RowNormForwardPass {
 public:
  using T = Compute<X>;
  using Row = NormRow<Arch, T, false>;

  RowNormForwardPass(const RowNormForward<X, P>& args, const Source& source, const RowPlan& plan) noexcept
      : a_(args),
        source_(source),
        gamma_(args.gamma),
        beta_(args.beta),
        inv_n_(1 / static_cast<Wide<T>>(args.features)),
        plan_(plan) {}

  void run() noexcept { plan_.is_interleaved ? interleaved() : grouped(plan_.rows_at_once); }

  /// Few long rows, of which `run` shares the columns: the same bits.
  template <class Run>
  void run_by_columns(const Run& run) noexcept {
    const Index rows = rows_of_a_step(a_.features * static_cast<Index>(sizeof(X)), most_rows);
    for (Index first = 0; first < a_.rows; first += rows) by_columns(first, std::min(rows, a_.rows - first), run);
  }

 private:
  static constexpr Index most_rows = 8;

  /// Step i measures row i and writes row i - 2 in one loop: the loads of one hide behind the arithmetic of the other,
  /// and the latency of the square root and division of row i - 1 behind both.
  void interleaved() noexcept {
    open_parameters(0, a_.features);
    Moments<T> previous;
    RowStatistics<T> ready{};
    for (Index i = 0; i < a_.rows + 2; ++i) {
      Moments<T> measured;
      if (i >= 2 && i < a_.rows && is_ordinary(ready)) {
        measured = measure_and_write(i, ready, i - 2);
      } else {
        if (i < a_.rows) measured = measure(i);
        if (i >= 2) write(ready, i - 2);
      }
      if (i >= 1 && i <= a_.rows) ready = finish(previous, i - 1);
      previous = measured;
    }
  }

  /// A few rows at a time: measured, then written by blocks of columns, whose gamma and beta stay in the L1
  /// cache.
  void grouped(Index rows_at_once) noexcept {
    RowStatistics<T> row[most_rows];
    for (Index first = 0; first < a_.rows; first += rows_at_once) {
      const Index rows = std::min(rows_at_once, a_.rows - first);
      for (Index r = 0; r < rows; ++r) row[r] = finish(measure(first + r), first + r);
      write_columns(row, first, rows, 0, a_.features);
    }
  }

  template <class Run>
  void by_columns(Index first, Index rows, const Run& run) const noexcept {
    const ColumnBlocks<Arch, T> blocks{a_.features};
    const Index block_bytes = blocks.template bytes<X>();
    MomentSums<T> sums[most_rows];
    sum_blocks<T>(
        run, rows, blocks.count(), block_bytes,
        [&](Index from, Index to, const auto& at) { measure_blocks(first, rows, from, to, at); },
        [&](Index r, const BlockSums<T>& of_block) {
          sums[r].sum.add(of_block.first);
          sums[r].square.add(of_block.second);
        });
    RowStatistics<T> row[most_rows];
    for (Index r = 0; r < rows; ++r) {
      row[r] = finish(sums[r].moments(inv_n_), first + r, SharedRow<X, Run>{x(first + r), a_.features, run});
    }
    run(blocks.count(), rows * block_bytes, [&](Index from, Index to) {
      RowNormForwardPass(a_, source_, plan_).write_columns(row, first, rows, blocks.start(from), blocks.end(to));
    });
  }
  template <class At>
  [[gnu::flatten]] void measure_blocks(Index first, Index rows, Index from, Index to, const At& at) const noexcept {
    for (Index r = 0; r < rows; ++r) {
      for (Index block = from; block < to; ++block) {
        const auto sums = measure_block(first + r, block * block_columns<Arch, T>);
        at(r, block) = {sums.sum(), sums.square()};
      }
    }
  }

  Moments<T> measure_and_write(Index i, const RowStatistics<T>& done, Index i_done) const noexcept {
    MomentSums<T> sums;
    for (Index start = 0; start < a_.features; start += block_columns<Arch, T>) {
      auto read = reader(i, start);
      const auto write = writer<Row>(done, i_done, start);
      for_each_vector<Arch, T, accumulators>(columns(start), [&](auto k, Index j, auto lanes) {
        read(k, j, lanes);
        write(k, j, lanes);
      });
      read.sums.merge_into(sums);
    }
    return sums.moments(inv_n_);
  }
  Moments<T> measure(Index i) const noexcept {
    MomentSums<T> sums;
    for (Index start = 0; start < a_.features; start += block_columns<Arch, T>) {
      measure_block(i, start).merge_into(sums);
    }
    return sums.moments(inv_n_);
  }
  [[gnu::always_inline]] PowerSums<Arch, T, Row::centred> measure_block(Index i, Index start) const noexcept {
    auto read = reader(i, start);
    for_each_vector<Arch, T, accumulators>(columns(start), read);
    return read.sums;
  }
  void write(const RowStatistics<T>& row, Index i) const noexcept {
    for (Index start = 0; start < a_.features; start += block_columns<Arch, T>) write_block(row, i, start);
  }
  /// Columns [from, to), which begin with a block.
  [[gnu::flatten]] void write_columns(const RowStatistics<T>* row, Index first, Index rows, Index from,
                                      Index to) noexcept {
    for (Index start = from; start < to; start += block_columns<Arch, T>) {
      open_parameters(start, columns(start));
      for (Index r = 0; r < rows; ++r) write_block(row[r], first + r, start);
    }
  }
  void write_block(const RowStatistics<T>& row, Index i, Index start) const noexcept {
    if (!is_ordinary(row)) return write_extreme_block(row, i, start);
    for_each_vector<Arch, T, accumulators>(columns(start), writer<Row>(row, i, start));
  }
  [[gnu::noinline, gnu::flatten]] void write_extreme_block(const RowStatistics<T>& row, Index i,
                                                           Index start) const noexcept {
    for_each_vector<Arch, T, accumulators>(columns(start), writer<NormRow<Arch, T, true>>(row, i, start));
  }

  RowStatistics<T> finish(const Moments<T>& moments, Index i) const noexcept {
    return finish(moments, i, Segments<X>{x(i), a_.features});
  }
  template <class Group>
  RowStatistics<T> finish(const Moments<T>& moments, Index i, const Group& x_i) const noexcept {
    const auto row = Row::statistics(moments, x_i, a_.eps);
    if (a_.mean) a_.mean[i] = row.mean;
    if (a_.mean_rest) a_.mean_rest[i] = row.mean_rest;
    if (a_.rstd) a_.rstd[i] = row.rstd;
    return row;
  }

  auto reader(Index i, Index start) const noexcept {
    const auto load = source_.block(i, start);
    return BlockReader<Arch, T, Row::centred, std::remove_const_t<decltype(load)>>{{}, load};
  }
  template <class AnyRow>
  auto writer(const RowStatistics<T>& row, Index i, Index start) const noexcept {
    return BlockWriter<Arch, AnyRow, X>{AnyRow(row), x(i) + start, gamma_.from(start),
                                        Row::centred ? beta_.from(start) : nullptr, a_.y + i * a_.y_stride + start};
  }
  void open_parameters(Index first, Index count) noexcept {
    gamma_.open(first, count);
    if constexpr (Row::centred) beta_.open(first, count);
  }
  Index columns(Index start) const noexcept { return std::min(a_.features - start, block_columns<Arch, T>); }
  const X* x(Index i) const noexcept { return a_.x + i * a_.x_stride; }

  const RowNormForward<X, P>& a_;
  Source source_;
  WideParameter<Arch, P, 1> gamma_;
  WideParameter<Arch, P, 0> beta_;
  Wide<T> inv_n_;
  RowPlan plan_;
};

template <class Arch, template <class, class, bool> class NormRow, class X, class P>
[[gnu::flatten]] inline void normalize_rows(const RowNormForward<X, P>& a, const RowPlan& plan) noexcept {
  using Source = StoredRows<X>;
  RowNormForwardPass<Arch, NormRow, X, P, Source>(a, Source{a.x, a.x_stride}, plan).run();
}

/// Some rows of all.
template <class X, class P>
inline RowNormForward<X, P> rows_of(RowNormForward<X, P> a, Index first, Index count) noexcept {
  a.x += first * a.x_stride;
  a.y += first * a.y_stride;
  for (Compute<X>** statistic : {&a.mean, &a.mean_rest, &a.rstd}) {
    if (*statistic) *statistic += first;
  }
  a.rows = count;
  return a;
}

/// y = x_hat * gamma + beta for each row, and its statistics. Rows, or columns of few long rows, are normalized by
/// `run`, see InOnePiece.
template <class Arch, template <class, class, bool> class NormRow, class X, class P, class Run = InOnePiece>
inline void row_norm_forward(const RowNormForward<X, P>& a, const Run& run = {}) noexcept {
  static_assert(std::is_same_v<P, X> || std::is_same_v<P, Compute<X>>);
  if (a.rows == 0 || a.features == 0) return;
  const Index row_bytes = a.features * static_cast<Index>(sizeof(X));
  if constexpr (is_vectorized<X> && !std::is_same_v<Run, InOnePiece>) {
    if (run.cuts(a.rows, row_bytes)) {
      using Source = StoredRows<X>;
      return RowNormForwardPass<Arch, NormRow, X, P, Source>(a, Source{a.x, a.x_stride}, {}).run_by_columns(run);
    }
  }
  run(a.rows, row_bytes, [&](Index first, Index last) {
    const auto part = rows_of(a, first, last - first);
    if constexpr (!is_vectorized<X>) {
      any_row_norm_forward<NormRow<Arch, float, false>::centred>(part);
    } else {
      normalize_rows<Arch, NormRow>(part, StoredRows<X>::plan(a.rows, a.features));
    }
  });
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
