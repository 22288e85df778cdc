#pragma once

#include <algorithm>

#include "evenkeel/core/executor.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// How the result [rows, columns] of a matrix product is cut into blocks: by sizes alone, for any executor and none, as
/// the bits of Eigen's products depend on the sizes of their operands.
///
/// Blocks have at least 512 rows and columns, or all there are: what a product packs once more for each block is then
/// little against its work (1 to 3 % of one thread's time, measured on AMD Zen 4; with 256 rows 5 to 6 %). There are at
/// most 16, and none of products below 2^21 multiplications.
class ProductBlocks {
 public:
  ProductBlocks(Index rows, Index columns, Index depth) noexcept
      : rows_(rows), columns_(columns), row_step_(rows), column_step_(columns) {
    if (rows * columns * depth < Index{1} << 21) return;
    const Index row_pieces = pieces(rows, most_blocks);
    row_step_ = divided_up(rows, row_pieces);
    column_step_ = divided_up(columns, pieces(columns, most_blocks / row_pieces));
  }

  /// body(first row, number of rows, first column, number of columns) for each block.
  template <class Body>
  void run(const Executor& executor, const Body& body) const {
    if (rows_ * columns_ == 0) return;
    const Index in_row = divided_up(columns_, column_step_);
    executor.run(divided_up(rows_, row_step_) * in_row, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) {
        const Index row = i / in_row * row_step_, column = i % in_row * column_step_;
        body(row, std::min(row_step_, rows_ - row), column, std::min(column_step_, columns_ - column));
      }
    });
  }

 private:
  static constexpr Index least = 512, most_blocks = 16;

  static Index divided_up(Index a, Index b) noexcept { return (a + b - 1) / b; }
  static Index pieces(Index extent, Index most) noexcept { return std::clamp<Index>(extent / least, 1, most); }

  Index rows_, columns_, row_step_, column_step_;
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
