#pragma once

#include "evenkeel/kernels/in_one_piece.hpp"
#include "evenkeel/kernels/moments.hpp"

/// Rows so few, and so long, that threads share the columns of each. Results have the bits of one thread: the same
/// blocks of columns are summed, and their sums merged in the same order, whoever has summed which.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Two sums over a block of columns of one row.
template <class T>
struct BlockSums {
  T first, second;
};

/// The blocks of columns of a row, as sums are merged by them.
template <class Arch, class T>
struct ColumnBlocks {
  Index columns;

  Index count() const noexcept { return (columns + block_columns<Arch, T> - 1) / block_columns<Arch, T>; }
  static Index start(Index block) noexcept { return block * block_columns<Arch, T>; }
  /// Where the last of some blocks ends.
  Index end(Index last) const noexcept { return std::min(start(last), columns); }
  template <class X>
  static Index bytes() noexcept {
    return block_columns<Arch, T> * static_cast<Index>(sizeof(X));
  }
};

/// How many rows share a step: as many as stay in the last cache until they are read again.
inline Index rows_of_a_step(Index row_bytes, Index most) noexcept {
  return std::clamp<Index>((Index{4} << 20) / row_bytes, 2, most);
}

/// sum(first, last, at) has the sums of blocks [first, last) of each row written to at(row, block); merge(row, sums)
/// gets those of every row in the order of columns.
template <class T, class Run, class Sum, class Merge>
inline void sum_blocks(const Run& run, Index rows, Index blocks, Index block_bytes, const Sum& sum,
                       const Merge& merge) noexcept {
  constexpr Index most = 2048;
  BlockSums<T> sums[most];
  const Index at_once = most / rows;
  for (Index done = 0; done < blocks; done += at_once) {
    const Index count = std::min(at_once, blocks - done);
    const auto at = [&](Index row, Index block) -> BlockSums<T>& { return sums[row * count + block - done]; };
    run(count, rows * block_bytes, [&](Index first, Index last) { sum(done + first, done + last, at); });
    for (Index row = 0; row < rows; ++row) {
      for (Index block = done; block < done + count; ++block) merge(row, at(row, block));
    }
  }
}

/// A row that is measured by `run`; otherwise as Segments of one.
template <class X, class Run>
struct SharedRow {
  using T = Compute<X>;
  const X* x;
  Index columns;
  const Run& run;
  static constexpr Index segments = 1;

  Index size() const noexcept { return columns; }
  const SharedRow& part(Index, Index) const noexcept { return *this; }
};

template <class Arch, class X, class Run, class Map, class T = Compute<X>>
inline void add_power_sums(MomentSums<T>& sums, const SharedRow<X, Run>& row, Compute<X> padding,
                           const Map& map) noexcept {
  const ColumnBlocks<Arch, T> blocks{row.columns};
  sum_blocks<T>(
      row.run, 1, blocks.count(), blocks.template bytes<X>(),
      [&](Index first, Index last, const auto& at) {
        for (Index block = first; block < last; ++block) {
          const Index start = blocks.start(block);
          MomentSums<T> of_block;
          add_power_sums<Arch>(of_block, Segments<X>{row.x + start, blocks.end(block + 1) - start}, padding, map);
          at(0, block) = {static_cast<T>(of_block.sum.value()), static_cast<T>(of_block.square.value())};
        }
      },
      [&](Index, const BlockSums<T>& of_block) {
        sums.sum.add(of_block.first);
        sums.square.add(of_block.second);
      });
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
