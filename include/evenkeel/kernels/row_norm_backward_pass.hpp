#pragma once

#include "evenkeel/kernels/parameter_sums.hpp"
#include "evenkeel/kernels/row_norm.hpp"

/// The passes over memory of the backward of normalized rows with contiguous features.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Data is of type X and parameters are of type P, as in RowNormForward.
template <class X, class P = X>
struct RowNormBackward {
  const X* dy = nullptr;                  ///< [rows, features], rows dy_stride apart
  const X* x = nullptr;                   ///< [rows, features], rows x_stride apart
  const P* gamma = nullptr;               ///< [features], or null: 1
  const Compute<X>* mean = nullptr;       ///< [rows]; not read by RMSNorm, as mean_rest
  const Compute<X>* mean_rest = nullptr;  ///< [rows], or null: 0, which costs the accuracy of rows with a large mean
  const Compute<X>* rstd = nullptr;       ///< [rows]
  X* dx = nullptr;                        ///< [rows, features], rows dx_stride apart, or null: not wanted; may be dy
  P* dgamma = nullptr;                    ///< [features], or null: not wanted
  P* dbeta = nullptr;                     ///< [features], or null: not wanted
  bool add_dx = false, add_dgamma = false, add_dbeta = false;  ///< add to what is there instead of overwriting it
  const X* ds = nullptr;  ///< [rows, features], rows ds_stride apart, or null: added to dx where add_dx is false
  Index ds_stride = 0;
  Index rows = 0, features = 0, dy_stride = 0, x_stride = 0, dx_stride = 0;
  void* workspace = nullptr;  ///< row_norm_backward_workspace_bytes, any alignment; not touched if only dx is wanted
};

inline constexpr Index most_rows_of_a_group = 8;

/// How many rows are summed before they are written. Short rows: as many as stay in the L1 cache between the passes, so
/// that the latencies of their sums overlap; from beyond the L2 cache one at a time, as several at once lead the
/// hardware's prefetching astray (Zen 4: 2 instead of 1.2 times a streaming sum; Zen 5: 2.5 instead of 1.6, and as much
/// with prefetching by software). Long rows: as many as stay in the L2 cache, as each group reads and writes the column
/// sums once.
template <class X>
inline Index rows_of_a_group(Index rows, Index features) noexcept {
  const Index row_bytes = features * static_cast<Index>(sizeof(X));
  const bool beyond_l2 = row_bytes > 256 && is_beyond_l2<X>(3, rows, features);
  if (row_bytes > (beyond_l2 ? 4096 : 8192)) return std::clamp<Index>(131072 / row_bytes, 2, most_rows_of_a_group);
  return beyond_l2 ? 1 : std::min<Index>(8192 / row_bytes, most_rows_of_a_group);
}

/// Columns [from, to) of the rows.
template <class X, class P>
inline RowNormBackward<X, P> columns_of(RowNormBackward<X, P> a, Index from, Index to) noexcept {
  a.dy += from;
  a.x += from;
  if (a.gamma) a.gamma += from;
  if (a.dx) a.dx += from;
  if (a.ds) a.ds += from;
  a.features = to - from;
  return a;
}

/// What is summed along a row: g, and g * x_hat.
template <class T>
struct GradientSums {
  WideSum<T> g, gx;
};

/// Backward normalization of every row, in pieces for row_norm_backward.
///
/// Pass 1 over a group of rows sums g = dy * gamma and g * x_hat along each row and dy * x_hat and dy down the columns;
/// pass 2 writes dx. Column sums take the rows in order, so that bits do not depend on how rows are grouped.
template <class Arch, template <class, class, bool> class NormRow, class X, class P, bool WithParameters>
class RowNormBackwardPass {
 public:
  using T = Compute<X>;

  /// `features` are those of a whole row, of which the arguments may be some columns.
  RowNormBackwardPass(const RowNormBackward<X, P>& args, const ChunkSums<T>& parameters, Index group_rows,
                      Index features) noexcept
      : a_(args),
        added_(args.add_dx ? args.dx : args.ds),
        added_stride_(args.add_dx ? args.dx_stride : args.ds_stride),
        parameters_(parameters),
        group_rows_(group_rows),
        features_(features),
        inv_n_(1 / static_cast<Wide<T>>(features)) {}

  void run(Index first, Index last) noexcept {
    Group group;
    for (Index i = first; i < last; i += group_rows_) {
      open(group, i, static_cast<int>(std::min(group_rows_, last - i)));
      group.ordinary ? sum<false>(group) : sum_extreme(group);
      write(group);
    }
  }

  /// The first pass alone, over one block of columns of some rows: put(row, sum of g, sum of g * x_hat).
  template <class Put>
  [[gnu::flatten]] void sum_rows(Index first, Index rows, const Put& put) const noexcept {
    for_each_group(first, rows, [&](Group& group, Index done) {
      group.ordinary ? sum<false>(group) : sum_extreme(group);
      for (int r = 0; r < group.rows; ++r) {
        put(done + r, static_cast<T>(group.g[r].value()), static_cast<T>(group.gx[r].value()));
      }
    });
  }
  /// The second pass alone, with the sums of whole rows.
  [[gnu::flatten]] void write_rows(Index first, Index rows, const GradientSums<T>* sums) const noexcept {
    for_each_group(first, rows, [&](Group& group, Index done) {
      for (int r = 0; r < group.rows; ++r) {
        group.g[r] = sums[done + r].g;
        group.gx[r] = sums[done + r].gx;
      }
      write(group);
    });
  }

 private:
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;
  static constexpr int rows_at_once = S::has_32_registers ? 2 : 1;

  static constexpr Index most_rows = most_rows_of_a_group;
  struct Group {
    Index first = 0;
    int rows = 0;
    bool ordinary = true;
    RowStatistics<T> row[most_rows];
    WideSum<T> g[most_rows], gx[most_rows];
  };

  void open(Group& group, Index first, int rows) const noexcept {
    group.first = first;
    group.rows = rows;
    group.ordinary = true;
    for (int r = 0; r < rows; ++r) {
      const Index i = first + r;
      group.row[r] = {NormRow<Arch, T, false>::centred ? a_.mean[i] : T(0),
                      NormRow<Arch, T, false>::centred && a_.mean_rest ? a_.mean_rest[i] : T(0), a_.rstd[i]};
      group.ordinary = group.ordinary && is_ordinary(group.row[r]);
      group.g[r] = group.gx[r] = {};
    }
  }

  /// Calls body(group, rows before it) for groups that are rows [first, first + rows) together.
  template <class Body>
  void for_each_group(Index first, Index rows, const Body& body) const noexcept {
    for (Index done = 0; done < rows; done += most_rows) {
      Group group;
      open(group, first + done, static_cast<int>(std::min(most_rows, rows - done)));
      body(group, done);
    }
  }

  /// Calls body(r, number of rows) for the rows of a group, `rows_at_once` at a time, the number as a constant type.
  template <class Body>
  void for_each_rows(const Group& group, Body&& body) const noexcept {
    int r = 0;
    for (; r + rows_at_once <= group.rows; r += rows_at_once) body(r, std::integral_constant<int, rows_at_once>{});
    for (; r < group.rows; ++r) body(r, std::integral_constant<int, 1>{});
  }

  template <bool Scaled>
  void sum(Group& group) const noexcept {
    for (Index start = 0; start < a_.features; start += block_columns<Arch, T>) {
      for_each_rows(group, [&](int r, auto rows) { sum_block<Scaled>(group, r, rows, start); });
    }
  }
  [[gnu::noinline, gnu::flatten]] void sum_extreme(Group& group) const noexcept { sum<true>(group); }

  template <bool Scaled, int Rows>
  void sum_block(Group& group, int r0, std::integral_constant<int, Rows>, Index start) const noexcept {
    using Row = NormRow<Arch, T, Scaled>;
    const auto row = row_array<Row, Rows>(group.row + r0);
    const auto x = row_pointers<Rows>(a_.x, a_.x_stride, group.first + r0, start);
    const auto dy = row_pointers<Rows>(a_.dy, a_.dy_stride, group.first + r0, start);
    const P* gamma = parameter_block<1>(a_.gamma, start);
    T* dgamma = WithParameters ? parameters_.dgamma + start : nullptr;
    T* dbeta = WithParameters ? parameters_.dbeta + start : nullptr;
    Batch g_sum[Rows][accumulators], gx_sum[Rows][accumulators];
    for (int r = 0; r < Rows; ++r) {
      for (int k = 0; k < accumulators; ++k) g_sum[r][k] = gx_sum[r][k] = S::broadcast(T(0));
    }
    for_each_vector<Arch, T, accumulators>(
        std::min(a_.features - start, block_columns<Arch, T>), [&](auto k, Index j, auto lanes) {
          const Batch gamma_j = lanes.load(gamma + j);
          Batch dgamma_j, dbeta_j;
          if constexpr (WithParameters) dgamma_j = lanes.load(dgamma + j);
          if constexpr (WithParameters && Row::centred) dbeta_j = lanes.load(dbeta + j);
          unroll<Rows>([&](auto r) {
            const Batch x_hat = row.values[r].x_hat(lanes.load(x.at[r] + j, row.values[r].padding()));
            const Batch dy_j = keep(lanes.load(dy.at[r] + j));  // loaded once: GCC would load it for each use
            const Batch g = keep(dy_j * gamma_j);
            if constexpr (Row::centred) g_sum[r][k] = g_sum[r][k] + g;
            gx_sum[r][k] = S::fma(g, x_hat, gx_sum[r][k]);
            if constexpr (WithParameters) dgamma_j = S::fma(dy_j, x_hat, dgamma_j);
            if constexpr (WithParameters && Row::centred) dbeta_j = keep(dbeta_j + dy_j);
          });
          if constexpr (WithParameters) lanes.store(dgamma + j, dgamma_j);
          if constexpr (WithParameters && Row::centred) lanes.store(dbeta + j, dbeta_j);
        });
    for (int r = 0; r < Rows; ++r) {
      group.g[r0 + r].add(S::sum(g_sum[r][0] + g_sum[r][1]));
      group.gx[r0 + r].add(S::sum(gx_sum[r][0] + gx_sum[r][1]));
    }
  }

  void write(const Group& group) const noexcept {
    if (!a_.dx) return;
    group.ordinary ? write_rows<false>(group) : write_extreme(group);
  }
  [[gnu::noinline, gnu::flatten]] void write_extreme(const Group& group) const noexcept { write_rows<true>(group); }

  template <bool Scaled>
  void write_rows(const Group& group) const noexcept {
    for_each_rows(group, [&](int r, auto rows) {
      added_ ? write_rows<Scaled, true>(group, r, rows) : write_rows<Scaled, false>(group, r, rows);
    });
  }

  template <bool Scaled, bool Add, int Rows>
  void write_rows(const Group& group, int r0, std::integral_constant<int, Rows>) const noexcept {
    using Row = NormRow<Arch, T, Scaled>;
    const auto row = row_array<Row, Rows>(group.row + r0);
    Batch gain[Rows], slope[Rows], intercept[Rows];
    for (int r = 0; r < Rows; ++r) {
      const InputGradient<T> to = input_gradient<Row>(group, r0 + r);
      gain[r] = S::broadcast(to.gain);
      slope[r] = S::broadcast(to.slope);
      intercept[r] = S::broadcast(to.intercept);
    }
    for (Index start = 0; start < a_.features; start += block_columns<Arch, T>) {
      const auto x = row_pointers<Rows>(a_.x, a_.x_stride, group.first + r0, start);
      const auto dy = row_pointers<Rows>(a_.dy, a_.dy_stride, group.first + r0, start);
      const auto dx = row_pointers<Rows>(a_.dx, a_.dx_stride, group.first + r0, start);
      const auto added = row_pointers<Rows>(Add ? added_ : a_.x, Add ? added_stride_ : 0, group.first + r0, start);
      const P* gamma = parameter_block<1>(a_.gamma, start);
      for_each_vector<Arch, T, accumulators>(
          std::min(a_.features - start, block_columns<Arch, T>), [&](auto, Index j, auto lanes) {
            const Batch gamma_j = lanes.load(gamma + j);
            unroll<Rows>([&](auto r) {
              const Batch deviation = row.values[r].deviation(lanes.load(x.at[r] + j));
              const Batch g = keep(lanes.load(dy.at[r] + j) * gamma_j);
              const Batch dx_j = S::fma(g, gain[r], S::fma(deviation, slope[r], intercept[r]));
              if constexpr (Add) {
                lanes.store(dx.at[r] + j, add(lanes.load(added.at[r] + j), dx_j));
              } else {
                lanes.store(dx.at[r] + j, dx_j);
              }
            });
          });
    }
  }

  template <class Row>
  InputGradient<T> input_gradient(const Group& group, int r) const noexcept {
    // One value alone is its own mean, whatever it is. The formula would leave the rounding error of g * rstd.
    if (Row::centred && features_ == 1) return {T(0), T(0), T(0)};
    return Row::input_gradient(group.row[r], group.g[r].value() * inv_n_, group.gx[r].value() * inv_n_);
  }

  /// Where the rows are, in variables of their own: stores of vectors may change anything that is read through a_.
  template <int Rows, class U>
  struct RowPointers {
    U* at[Rows];
  };
  template <int Rows, class U>
  static RowPointers<Rows, U> row_pointers(U* data, Index stride, Index first, Index start) noexcept {
    RowPointers<Rows, U> pointers;
    for (int r = 0; r < Rows; ++r) pointers.at[r] = data + (first + r) * stride + start;
    return pointers;
  }

  template <class Row, int Rows>
  struct RowArray {
    Row values[Rows];
  };
  template <class Row, int Rows>
  static RowArray<Row, Rows> row_array(const RowStatistics<T>* statistics) noexcept {
    if constexpr (Rows == 1) {
      return {{Row(statistics[0])}};
    } else {
      return {{Row(statistics[0]), Row(statistics[1])}};
    }
  }

  const RowNormBackward<X, P>& a_;
  const X* added_;
  Index added_stride_;
  const ChunkSums<T>& parameters_;
  Index group_rows_;
  Index features_;
  Wide<T> inv_n_;
};

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
