#include "evenkeel/core/tensor_view.hpp"

#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

namespace evenkeel_test {
namespace {

using evenkeel::Index;
using evenkeel::is_dense;
using evenkeel::Shape;
using evenkeel::StorageOrder;
using evenkeel::TensorView;

template <class Scalar>
std::vector<Index> strides_of(const TensorView<Scalar>& view) {
  return {view.strides().begin(), view.strides().begin() + view.rank()};
}

TEST(TensorView, OfAPointerAndAShapeIsDenseAndRowMajor) {
  float memory[24];
  const TensorView<float> view(memory, {2, 3, 4});
  EXPECT_EQ(view.data(), memory);
  EXPECT_EQ(view.shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(view.rank(), 3);
  EXPECT_EQ(view.size(), 24);
  EXPECT_EQ(view.order(), StorageOrder::row_major);
  EXPECT_EQ(strides_of(view), (std::vector<Index>{12, 4, 1}));
  EXPECT_TRUE(is_dense(view));
}

TEST(TensorView, RunsAlongTheFirstAxisInColumnMajorOrder) {
  float memory[24];
  const TensorView<float> view(memory, {2, 3, 4}, StorageOrder::column_major);
  EXPECT_EQ(view.order(), StorageOrder::column_major);
  EXPECT_EQ(strides_of(view), (std::vector<Index>{1, 2, 6}));
  EXPECT_TRUE(is_dense(view));
}

TEST(TensorView, OfRowsHasGapsBetweenThem) {
  float memory[20];
  const TensorView<float> view(memory, 3, 4, 7);
  EXPECT_EQ(view.shape(), (Shape{3, 4}));
  EXPECT_EQ(strides_of(view), (std::vector<Index>{7, 1}));
  EXPECT_EQ(view.order(), StorageOrder::row_major);
  EXPECT_FALSE(is_dense(view));
  EXPECT_TRUE(is_dense(TensorView<float>(memory, 3, 4, 4)));
}

TEST(TensorView, TakesAnyStrides) {
  float memory[64];
  const TensorView<float> view(memory, {2, 3}, {2, 20}, StorageOrder::column_major);
  EXPECT_EQ(view.stride(0), 2);
  EXPECT_EQ(view.stride(1), 20);
  EXPECT_FALSE(is_dense(view));
}

TEST(TensorView, OfMutableElementsIsOneOfConstElements) {
  float memory[20];
  const TensorView<float> view(memory, {3, 4}, {1, 5}, StorageOrder::column_major);
  const TensorView<const float> constant = view;
  EXPECT_EQ(constant.data(), memory);
  EXPECT_EQ(constant.shape(), view.shape());
  EXPECT_EQ(constant.strides(), view.strides());
  EXPECT_EQ(constant.order(), view.order());
  static_assert(!std::is_convertible_v<TensorView<const float>, TensorView<float>>);
  static_assert(!std::is_convertible_v<TensorView<float>, TensorView<double>>);
}

TEST(TensorView, DoesNotCopyElements) {
  float memory[] = {1, 2, 3, 4};
  const TensorView<float> view(memory, {2, 2});
  view.data()[3] = 9;
  EXPECT_EQ(memory[3], 9);
}

TEST(IsDense, LooksAtEveryAxisThatIsLongerThan1) {
  EXPECT_TRUE(is_dense(TensorView<float>(nullptr, {1, 3}, {99, 1}, StorageOrder::row_major)));
  EXPECT_TRUE(is_dense(TensorView<float>(nullptr, {2, 1, 3}, {3, 77, 1}, StorageOrder::row_major)));
  EXPECT_TRUE(is_dense(TensorView<float>(nullptr, {1, 1}, {5, 7}, StorageOrder::row_major)));
  EXPECT_FALSE(is_dense(TensorView<float>(nullptr, {2, 1, 3}, {4, 3, 1}, StorageOrder::row_major)));
  EXPECT_FALSE(is_dense(TensorView<float>(nullptr, {2, 3}, {6, 2}, StorageOrder::row_major)));
}

TEST(IsDense, GoesByTheOrderOfTheView) {
  EXPECT_TRUE(is_dense(TensorView<float>(nullptr, {2, 3}, {1, 2}, StorageOrder::column_major)));
  EXPECT_FALSE(is_dense(TensorView<float>(nullptr, {2, 3}, {1, 2}, StorageOrder::row_major)));
  EXPECT_FALSE(is_dense(TensorView<float>(nullptr, {2, 3}, {3, 1}, StorageOrder::column_major)));
}

}  // namespace
}  // namespace evenkeel_test
