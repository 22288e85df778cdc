#include "evenkeel/core/overlap.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "core/error_text.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Index;
using evenkeel::is_same_memory;
using evenkeel::overlaps;
using evenkeel::require_in_place_or_no_overlap;
using evenkeel::require_no_overlap;
using evenkeel::Shape;
using evenkeel::StorageOrder;
using evenkeel::TensorView;

/// A matrix [6, 10], row-major, and pieces of it.
class Overlap : public testing::Test {
 protected:
  TensorView<float> block(Index row, Index column, Index rows, Index columns, Index row_step = 1) {
    return {memory_ + row * 10 + column, rows, columns, 10 * row_step};
  }
  /// A column-major view of the same memory: [10, 6].
  TensorView<float> column_block(Index row, Index column, Index rows, Index columns) {
    return {memory_ + column * 10 + row, {rows, columns}, {1, 10}, StorageOrder::column_major};
  }
  float memory_[60] = {};
};

TEST_F(Overlap, OfATensorWithItself) {
  EXPECT_TRUE(is_same_memory(block(1, 2, 3, 4), block(1, 2, 3, 4)));
  EXPECT_TRUE(overlaps(block(1, 2, 3, 4), block(1, 2, 3, 4)));
}

TEST_F(Overlap, OfConstAndMutableViewsOfTheSameElements) {
  const TensorView<const float> constant = block(1, 2, 3, 4);
  EXPECT_TRUE(is_same_memory(block(1, 2, 3, 4), constant));
  EXPECT_TRUE(overlaps(block(1, 2, 3, 4), constant));
}

TEST_F(Overlap, IsNotInPlaceWhereShapeOrStrideDiffer) {
  EXPECT_FALSE(is_same_memory(block(0, 0, 3, 4), block(0, 0, 4, 4)));
  EXPECT_FALSE(is_same_memory(block(0, 0, 3, 4), block(0, 0, 3, 4, 2)));
  EXPECT_FALSE(is_same_memory(block(0, 0, 3, 4), block(0, 1, 3, 4)));
  EXPECT_FALSE(is_same_memory(block(0, 0, 4, 4), column_block(0, 0, 4, 4)));
}

TEST_F(Overlap, IsInPlaceWhateverTheStrideOfASingleElement) {
  EXPECT_TRUE(is_same_memory(block(2, 0, 1, 4), block(2, 0, 1, 4, 3)));
}

TEST_F(Overlap, OfRowsThatFollowOneAnother) {
  EXPECT_FALSE(overlaps(block(0, 0, 3, 10), block(3, 0, 3, 10)));
  EXPECT_TRUE(overlaps(block(0, 0, 3, 10), block(2, 0, 3, 10)));
  EXPECT_TRUE(overlaps(block(2, 0, 3, 10), block(0, 0, 3, 10)));
}

TEST_F(Overlap, OfNeighbouringColumns) {
  EXPECT_FALSE(overlaps(block(0, 0, 6, 5), block(0, 5, 6, 5)));
  EXPECT_FALSE(overlaps(block(0, 5, 6, 5), block(0, 0, 6, 5)));
  EXPECT_FALSE(overlaps(block(1, 0, 4, 5), block(0, 5, 6, 5)));
  EXPECT_FALSE(overlaps(block(0, 0, 6, 3), block(2, 7, 4, 3)));
  EXPECT_TRUE(overlaps(block(0, 0, 6, 5), block(0, 4, 6, 5)));
  EXPECT_TRUE(overlaps(block(0, 4, 6, 5), block(0, 0, 6, 5)));
  EXPECT_TRUE(overlaps(block(3, 4, 2, 5), block(0, 0, 6, 5)));
}

TEST_F(Overlap, OfNeighbouringRowsOfAColumnMajorMatrix) {
  EXPECT_FALSE(overlaps(column_block(0, 0, 5, 6), column_block(5, 0, 5, 6)));
  EXPECT_TRUE(overlaps(column_block(0, 0, 6, 6), column_block(5, 0, 5, 6)));
}

TEST_F(Overlap, OfSingleColumns) {
  const auto column = [&](Index j) { return TensorView<float>(memory_ + j, {6}, {10}, StorageOrder::column_major); };
  EXPECT_FALSE(overlaps(column(3), column(4)));
  EXPECT_FALSE(overlaps(column(0), column(9)));
  EXPECT_TRUE(overlaps(column(3), column(3)));
}

TEST_F(Overlap, OfInterleavedRows) {
  EXPECT_FALSE(overlaps(block(0, 0, 3, 10, 2), block(1, 0, 3, 10, 2)));
  EXPECT_TRUE(overlaps(block(0, 0, 3, 10, 2), block(2, 0, 2, 10, 2)));
}

TEST_F(Overlap, OfSingleElements) {
  EXPECT_TRUE(overlaps(block(2, 3, 1, 1), block(2, 3, 1, 1)));
  EXPECT_FALSE(overlaps(block(2, 3, 1, 1), block(2, 4, 1, 1)));
  EXPECT_TRUE(overlaps(block(2, 3, 1, 1), block(0, 0, 6, 10)));
}

TEST_F(Overlap, OfNoElementsIsNone) {
  EXPECT_FALSE(overlaps(block(0, 0, 0, 10), block(0, 0, 6, 10)));
  EXPECT_FALSE(overlaps(block(0, 0, 6, 10), block(1, 1, 3, 0)));
  EXPECT_FALSE(overlaps(TensorView<float>(nullptr, {0, 4}), TensorView<float>(nullptr, {0, 4})));
}

TEST_F(Overlap, OfViewsThatAreNotThereIsNone) {
  EXPECT_FALSE(overlaps(TensorView<float>(), TensorView<float>()));
  EXPECT_FALSE(overlaps(TensorView<float>(), block(0, 0, 6, 10)));
}

TEST_F(Overlap, OfTypesOfDifferentSizeGoesByBytes) {
  const TensorView<double> doubles(reinterpret_cast<double*>(memory_), 1, 5, 5);  // the first 10 floats
  EXPECT_TRUE(overlaps(doubles, block(0, 9, 1, 1)));
  EXPECT_FALSE(overlaps(doubles, block(1, 0, 1, 1)));
}

/// Whether any element of one is an element of the other.
bool share_an_element(const TensorView<float>& a, const TensorView<float>& b) {
  std::vector<bool> used(60);
  const float* origin = std::min(a.data(), b.data());
  for (Index i = 0; i < a.shape()[0]; ++i)
    for (Index j = 0; j < a.shape()[1]; ++j)
      used.at(static_cast<std::size_t>(a.data() + i * a.stride(0) + j - origin)) = true;
  for (Index i = 0; i < b.shape()[0]; ++i)
    for (Index j = 0; j < b.shape()[1]; ++j)
      if (used.at(static_cast<std::size_t>(b.data() + i * b.stride(0) + j - origin))) return true;
  return false;
}

// Never missed; and found only where there is one, for pieces of one matrix with more than one row each.
TEST_F(Overlap, IsFoundWhereAnElementIsShared) {
  std::vector<TensorView<float>> blocks;
  for (const Index row : {0, 1, 3})
    for (const Index column : {0, 1, 4, 7})
      for (const Index rows : {1, 2, 3})
        for (const Index columns : {1, 3})
          for (const Index row_step : {1, 2})
            if (row + (rows - 1) * row_step < 6) blocks.push_back(block(row, column, rows, columns, row_step));
  for (const auto& a : blocks) {
    for (const auto& b : blocks) {
      const bool shared = share_an_element(a, b);
      const bool exact = a.shape()[0] > 1 && b.shape()[0] > 1 && a.stride(0) == b.stride(0);
      if (shared || exact) {
        ASSERT_EQ(overlaps(a, b), shared)
            << a.data() - memory_ << " " << shape_string(a.shape()) << " and " << b.data() - memory_ << " "
            << shape_string(b.shape()) << ", stride " << a.stride(0) << " and " << b.stride(0);
      }
    }
  }
}

TEST_F(Overlap, IsAnErrorWhereAnOutputNeedsMemoryOfItsOwn) {
  EXPECT_NO_THROW(require_no_overlap("op", "y", block(0, 0, 6, 5), "gamma", block(0, 5, 6, 5)));
  for (const Index column : {0, 1, 4}) {
    EXPECT_EQ(error_text<std::invalid_argument>(
                  [&] { require_no_overlap("op", "y", block(0, 0, 6, 5), "gamma", block(0, column, 6, 5)); }),
              "evenkeel::op: y overlaps gamma in memory, expected memory of its own");
  }
}

TEST_F(Overlap, IsNoErrorInPlace) {
  EXPECT_NO_THROW(require_in_place_or_no_overlap("op", "y", block(0, 0, 6, 5), "x", block(0, 0, 6, 5)));
  EXPECT_NO_THROW(require_in_place_or_no_overlap("op", "y", block(0, 0, 6, 5), "x", block(0, 5, 6, 5)));
  EXPECT_EQ(error_text<std::invalid_argument>(
                [&] { require_in_place_or_no_overlap("op", "y", block(0, 0, 6, 5), "x", block(0, 1, 6, 5)); }),
            "evenkeel::op: y overlaps x in memory, expected the identical view or memory of its own");
}

}  // namespace
}  // namespace evenkeel_test
