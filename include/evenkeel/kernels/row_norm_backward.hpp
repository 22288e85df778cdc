#pragma once

#include "evenkeel/kernels/row_norm_backward_pass.hpp"
#include "evenkeel/kernels/shared_row.hpp"

/// Gradients of normalized rows with contiguous features: what LayerNorm and RMSNorm share.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

template <class Arch, template <class, class, bool> class NormRow, bool WithParameters, class X, class P>
[[gnu::flatten]] inline void differentiate_rows(const RowNormBackward<X, P>& a, const ChunkSums<Compute<X>>& parameters,
                                                Index group_rows) noexcept {
  RowNormBackwardPass<Arch, NormRow, X, P, WithParameters>(a, parameters, group_rows, a.features).run(0, a.rows);
}

/// Some rows of all.
template <class X, class P>
inline RowNormBackward<X, P> rows_of(RowNormBackward<X, P> a, Index first, Index count) noexcept {
  a.dy += first * a.dy_stride;
  a.x += first * a.x_stride;
  for (const Compute<X>** statistic : {&a.mean, &a.mean_rest, &a.rstd}) {
    if (*statistic) *statistic += first;
  }
  if (a.dx) a.dx += first * a.dx_stride;
  if (a.ds) a.ds += first * a.ds_stride;
  a.rows = count;
  return a;
}

/// Rows as they are: nothing is done before or after them.
struct PlainBlocks {
  static constexpr Index rows = chunk_rows;
  template <class X, class P>
  void before(Index, RowNormBackward<X, P>&) const noexcept {}
  template <class X, class P>
  void after(Index, const RowNormBackward<X, P>&) const noexcept {}
};

/// The gradients of rows [first, last), in blocks of at most blocks.rows, each between before(its first row, its
/// arguments) and after(...) of the same. The bits do not depend on how many rows a block has.
template <class Arch, template <class, class, bool> class NormRow, bool WithParameters, class X, class P, class Blocks>
inline void differentiate_blocks(const RowNormBackward<X, P>& a, const ChunkSums<Compute<X>>& sums, Index first,
                                 Index last, Blocks& blocks) noexcept {
  const Index group_rows = rows_of_a_group<X>(a.rows, a.features);
  for (; first < last; first += blocks.rows) {
    auto block = rows_of(a, first, std::min(blocks.rows, last - first));
    blocks.before(first, block);
    differentiate_rows<Arch, NormRow, WithParameters>(block, sums, group_rows);
    blocks.after(first, block);
  }
}

/// All gradients: chunks of rows, as many at a time as there are slots for their sums. blocks.rows divides chunk_rows.
template <class Arch, template <class, class, bool> class NormRow, class X, class P, class Blocks, class Run>
inline void all_gradients(const RowNormBackward<X, P>& a, Blocks& blocks, const Run& run, Index slots) noexcept {
  const ParameterSums<Compute<X>> sums(a.workspace, a.rows, a.features, slots);
  const Index chunks = (a.rows + chunk_rows - 1) / chunk_rows;
  for (Index done = 0; done < chunks; done += slots) {
    const Index count = std::min(slots, chunks - done);
    run(count, chunk_rows * a.features * static_cast<Index>(sizeof(X)), [&](Index first, Index last) {
      for (Index slot = first; slot < last; ++slot) {
        const Index row = (done + slot) * chunk_rows;
        differentiate_blocks<Arch, NormRow, true>(a, sums.begin(slot), row, std::min(row + chunk_rows, a.rows), blocks);
      }
    });
    if (chunks == 1) break;
    run(a.features, 2 * count * static_cast<Index>(sizeof(Compute<X>)),
        [&](Index first, Index last) { sums.merge(count, done == 0, first, last); });
  }
  if (a.rows == 0) sums.begin(0);
  sums.write(a.dgamma, a.add_dgamma, a.dbeta, a.add_dbeta, 0, a.features);
}

/// Without gradients of parameters.
template <class Arch, template <class, class, bool> class NormRow, class X, class P, class Blocks, class Run>
inline void input_gradients(const RowNormBackward<X, P>& a, Blocks& blocks, const Run& run) noexcept {
  run(a.rows, a.features * static_cast<Index>(sizeof(X)),
      [&](Index first, Index last) { differentiate_blocks<Arch, NormRow, false>(a, {}, first, last, blocks); });
}

/// Whether row_norm_backward has `run` share columns: of few long rows, or of one chunk whose parameters have
/// gradients.
template <class Arch, class X, class P, class Run>
inline bool shares_columns(const RowNormBackward<X, P>& a, const Run& run) noexcept {
  if (a.features <= block_columns<Arch, Compute<X>>) return false;
  const Index row_bytes = a.features * static_cast<Index>(sizeof(X));
  if (a.dgamma || a.dbeta) return a.rows <= chunk_rows && run.cuts(1, a.rows * row_bytes);
  return a.dx && run.cuts(a.rows, row_bytes);
}

/// At most chunk_rows, few or long, of which `run` shares the columns: the bits of differentiate_rows.
template <class Arch, template <class, class, bool> class NormRow, bool WithParameters, class X, class P, class Run>
inline void differentiate_columns(const RowNormBackward<X, P>& a, const ChunkSums<Compute<X>>& parameters,
                                  const Run& run) noexcept {
  using T = Compute<X>;
  using Pass = RowNormBackwardPass<Arch, NormRow, X, P, WithParameters>;
  const ColumnBlocks<Arch, T> blocks{a.features};
  const Index block_bytes = blocks.template bytes<X>();
  const Index step = rows_of_a_step(a.features * static_cast<Index>(sizeof(X)), chunk_rows);
  for (Index first = 0; first < a.rows; first += step) {
    const Index rows = std::min(step, a.rows - first);
    GradientSums<T> sums[chunk_rows];
    sum_blocks<T>(
        run, rows, blocks.count(), block_bytes,
        [&](Index from, Index to, const auto& at) {
          for (Index block = from; block < to; ++block) {
            const Index start = blocks.start(block);
            const auto columns = columns_of(a, start, blocks.end(block + 1));
            const auto chunk = WithParameters ? parameters.from(start) : parameters;
            Pass(columns, chunk, rows, a.features).sum_rows(first, rows, [&](Index row, T g, T gx) {
              at(row, block) = {g, gx};
            });
          }
        },
        [&](Index row, const BlockSums<T>& of_block) {
          sums[row].g.add(of_block.first);
          sums[row].gx.add(of_block.second);
        });
    if (!a.dx) continue;
    run(blocks.count(), rows * block_bytes, [&](Index from, Index to) {
      const auto columns = columns_of(a, blocks.start(from), blocks.end(to));
      Pass(columns, parameters, rows, a.features).write_rows(first, rows, sums);
    });
  }
}

/// Gradients as far as they are wanted, by columns.
template <class Arch, template <class, class, bool> class NormRow, class X, class P, class Run>
inline void gradients_by_columns(const RowNormBackward<X, P>& a, const Run& run) noexcept {
  using T = Compute<X>;
  if (!a.dgamma && !a.dbeta) return differentiate_columns<Arch, NormRow, false>(a, {}, run);
  const ParameterSums<T> sums(a.workspace, a.rows, a.features, 1);
  const ChunkSums<T> chunk = sums.at(0);
  constexpr auto feature_bytes = 2 * static_cast<Index>(sizeof(T));
  run(a.features, feature_bytes, [&](Index first, Index last) { sums.clear(chunk, first, last); });
  differentiate_columns<Arch, NormRow, true>(a, chunk, run);
  run(a.features, feature_bytes,
      [&](Index first, Index last) { sums.write(a.dgamma, a.add_dgamma, a.dbeta, a.add_dbeta, first, last); });
}

/// What row_norm_backward takes for so many chunks of rows at a time.
template <class X>
inline std::size_t row_norm_backward_workspace_bytes(Index rows, Index features, Index slots = 1) noexcept {
  if constexpr (is_vectorized<X>) {
    return ParameterSums<Compute<X>>::workspace_bytes(rows, features, slots);
  } else {
    return 0;
  }
}

/// row_norm_backward of numbers that have vectors, in blocks of rows, by `run` (see InOnePiece) and with workspace for
/// so many slots.
template <class Arch, template <class, class, bool> class NormRow, class X, class P, class Blocks,
          class Run = InOnePiece>
inline void row_norm_backward_in_blocks(const RowNormBackward<X, P>& a, Blocks& blocks, const Run& run = {},
                                        Index slots = 1) noexcept {
  if (a.dgamma || a.dbeta) {
    all_gradients<Arch, NormRow>(a, blocks, run, slots);
  } else if (a.dx) {
    input_gradients<Arch, NormRow>(a, blocks, run);
  }
}

/// dx, dgamma and dbeta, as far as they are wanted.
template <class Arch, template <class, class, bool> class NormRow, class X, class P, class Run = InOnePiece>
inline void row_norm_backward(const RowNormBackward<X, P>& a, const Run& run = {}, Index slots = 1) noexcept {
  static_assert(std::is_same_v<P, X> || std::is_same_v<P, Compute<X>>);
  if (a.features == 0) return;
  if constexpr (is_vectorized<X>) {
    if constexpr (!std::is_same_v<Run, InOnePiece>) {
      if (shares_columns<Arch>(a, run)) return gradients_by_columns<Arch, NormRow>(a, run);
    }
    const PlainBlocks blocks;
    row_norm_backward_in_blocks<Arch, NormRow>(a, blocks, run, slots);
  } else {
    AnyRowNormBackward<NormRow<Arch, float, false>::centred, RowNormBackward<X, P>>(a).run();
  }
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
