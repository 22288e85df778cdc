#include "evenkeel/core/tensor.hpp"

#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

namespace evenkeel_test {
namespace {

using evenkeel::const_view;
using evenkeel::ConstMapOf;
using evenkeel::Index;
using evenkeel::make_like;
using evenkeel::OwnedOf;
using evenkeel::Shape;
using evenkeel::StorageOrder;
using evenkeel::Tensor;
using evenkeel::tensor_view;
using evenkeel::TensorView;
using evenkeel::TraitsOf;

constexpr auto row_major = StorageOrder::row_major, column_major = StorageOrder::column_major;
constexpr int dynamic = Eigen::Dynamic;

using RowMatrix = Eigen::Matrix<float, dynamic, dynamic, Eigen::RowMajor>;
using ColumnMatrix = Eigen::Matrix<float, dynamic, dynamic>;
using RowArray = Eigen::Array<float, dynamic, dynamic, Eigen::RowMajor>;
using ColumnArray = Eigen::Array<float, dynamic, dynamic>;

/// x(i, j) = 10 i + j, so that every element says where it is.
template <class X>
X numbered(Index rows, Index columns) {
  X x(rows, columns);
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) x(i, j) = static_cast<float>(10 * i + j);
  return x;
}

/// The view is of x's own elements, each at its logical index.
template <class X>
void expect_view(X&& x, StorageOrder order, const std::vector<Index>& strides) {
  const auto view = tensor_view(x);
  EXPECT_EQ(view.order(), order);
  EXPECT_EQ(std::vector<Index>(view.strides().begin(), view.strides().begin() + view.rank()), strides);
  ASSERT_EQ(view.shape(), (view.rank() == 1 ? Shape{x.size()} : Shape{x.rows(), x.cols()}));
  for (Index i = 0; i < x.rows(); ++i) {
    for (Index j = 0; j < x.cols(); ++j) {
      const Index at = view.rank() == 1 ? (i + j) * view.stride(0) : i * view.stride(0) + j * view.stride(1);
      EXPECT_EQ(view.data() + at, &x.coeffRef(i, j));
    }
  }
}

/// A new tensor of x's shape, rank and order; and a map of x's memory that reads as x does.
template <class X>
void expect_round_trip(const X& x) {
  const auto view = const_view(x);
  const OwnedOf<X> made = make_like(x);
  EXPECT_EQ(tensor_view(made).shape(), view.shape());
  EXPECT_EQ(tensor_view(made).order(), view.order());
  EXPECT_TRUE(evenkeel::is_dense(tensor_view(made)));
  EXPECT_NE(made.data(), view.data());
  const ConstMapOf<X> map = TraitsOf<X>::map(view);
  EXPECT_EQ(map.data(), view.data());
  ASSERT_EQ(map.rows(), x.rows());
  ASSERT_EQ(map.cols(), x.cols());
  for (Index i = 0; i < x.rows(); ++i)
    for (Index j = 0; j < x.cols(); ++j) EXPECT_EQ(&map.coeffRef(i, j), &x.coeffRef(i, j));
}

template <class X>
void expect_tensor(X&& x, StorageOrder order, const std::vector<Index>& strides) {
  expect_view(x, order, strides);
  expect_round_trip(x);
}

// ---------------------------------------------------------------- Matrix and Array

TEST(EigenDense, MatricesAreTensorsOfEitherOrder) {
  expect_tensor(numbered<RowMatrix>(3, 4), row_major, {4, 1});
  expect_tensor(numbered<ColumnMatrix>(3, 4), column_major, {1, 3});
}

TEST(EigenDense, ArraysAreTensorsOfEitherOrder) {
  expect_tensor(numbered<RowArray>(3, 4), row_major, {4, 1});
  expect_tensor(numbered<ColumnArray>(3, 4), column_major, {1, 3});
  static_assert(std::is_same_v<OwnedOf<RowArray>, RowArray>);
}

TEST(EigenDense, TypesOfFixedSizeAreTensors) {
  expect_tensor(numbered<Eigen::Matrix<float, 2, 3, Eigen::RowMajor>>(2, 3), row_major, {3, 1});
  expect_tensor(numbered<Eigen::Matrix<float, 2, 3>>(2, 3), column_major, {1, 2});
  expect_tensor(numbered<Eigen::Array<float, dynamic, 3, Eigen::RowMajor>>(2, 3), row_major, {3, 1});
  expect_tensor(numbered<Eigen::Matrix<float, 2, 2>>(2, 2), column_major, {1, 2});
}

TEST(EigenDense, MatricesWithoutElementsAreTensors) {
  const RowMatrix no_rows(0, 5), no_columns(4, 0);
  EXPECT_EQ(tensor_view(no_rows).shape(), (Shape{0, 5}));
  EXPECT_EQ(tensor_view(no_columns).shape(), (Shape{4, 0}));
  EXPECT_EQ(make_like(no_rows).cols(), 5);
  EXPECT_EQ(make_like(no_columns).rows(), 4);
}

TEST(EigenDense, DoubleIsNoLessATensorThanFloat) {
  const Eigen::MatrixXd x = Eigen::MatrixXd::Ones(2, 3);
  static_assert(std::is_same_v<decltype(tensor_view(x)), TensorView<const double>>);
  expect_tensor(x, column_major, {1, 2});
}

// ---------------------------------------------------------------- rank

TEST(EigenDense, AVectorHasRank1) {
  expect_tensor(Eigen::VectorXf(Eigen::VectorXf::LinSpaced(5, 0, 4)), column_major, {1});
  expect_tensor(Eigen::RowVectorXf(Eigen::RowVectorXf::LinSpaced(5, 0, 4)), row_major, {1});
  expect_tensor(Eigen::ArrayXf(Eigen::ArrayXf::LinSpaced(5, 0, 4)), column_major, {1});
  expect_tensor(Eigen::Vector3f(1, 2, 3), column_major, {1});
  expect_tensor(Eigen::RowVector2f(1, 2), row_major, {1});
  EXPECT_EQ(tensor_view(Eigen::VectorXf(5)).shape(), Shape{5});
}

TEST(EigenDense, AMatrixWithOneColumnOrOneRowHasRank2) {
  expect_tensor(numbered<RowMatrix>(5, 1), row_major, {1, 1});
  expect_tensor(numbered<ColumnMatrix>(5, 1), column_major, {1, 5});
  expect_tensor(numbered<RowMatrix>(1, 5), row_major, {5, 1});
  expect_tensor(numbered<ColumnMatrix>(1, 5), column_major, {1, 1});
  EXPECT_EQ(tensor_view(RowMatrix(5, 1)).shape(), (Shape{5, 1}));
}

TEST(EigenDense, ABlockOfOneColumnHasTheRankOfItsType) {
  RowMatrix x = numbered<RowMatrix>(3, 4);
  expect_tensor(x.leftCols(1), row_major, {4, 1});  // one column at run time: rank 2
  EXPECT_EQ(tensor_view(x.leftCols(1)).shape(), (Shape{3, 1}));
  EXPECT_EQ(tensor_view(x.leftCols<1>()).shape(), Shape{3});
  expect_tensor(x.leftCols<1>(), column_major, {4});
}

// ---------------------------------------------------------------- Map, Ref, Block, transpose

TEST(EigenDense, AMapIsATensorOfTheMemoryItMaps) {
  float memory[40] = {};
  expect_tensor(Eigen::Map<RowMatrix>(memory, 3, 4), row_major, {4, 1});
  expect_tensor(Eigen::Map<ColumnMatrix>(memory, 3, 4), column_major, {1, 3});
  expect_tensor(Eigen::Map<RowMatrix, 0, Eigen::OuterStride<>>(memory, 3, 4, Eigen::OuterStride<>(9)), row_major,
                {9, 1});
  expect_tensor(Eigen::Map<ColumnMatrix, 0, Eigen::OuterStride<>>(memory, 3, 4, Eigen::OuterStride<>(9)), column_major,
                {1, 9});
  expect_tensor(Eigen::Map<Eigen::VectorXf, 0, Eigen::InnerStride<>>(memory, 5, Eigen::InnerStride<>(7)), column_major,
                {7});
  EXPECT_EQ(tensor_view(Eigen::Map<RowMatrix>(memory, 3, 4)).data(), memory);
}

TEST(EigenDense, AMapWithBothStridesIsViewedAsItIs) {
  float memory[60] = {};
  using Strides = Eigen::Stride<dynamic, dynamic>;
  expect_view(Eigen::Map<RowMatrix, 0, Strides>(memory, 3, 4, Strides(20, 3)), row_major, {20, 3});
  expect_view(Eigen::Map<ColumnMatrix, 0, Strides>(memory, 3, 4, Strides(10, 2)), column_major, {2, 10});
}

TEST(EigenDense, ARefIsATensorOfWhatItRefersTo) {
  RowMatrix x = numbered<RowMatrix>(4, 6);
  expect_tensor(Eigen::Ref<RowMatrix>(x), row_major, {6, 1});
  Eigen::Ref<RowMatrix> block = x.block(1, 2, 2, 3);
  expect_tensor(block, row_major, {6, 1});
  EXPECT_EQ(tensor_view(block).data(), &x(1, 2));
  const Eigen::Ref<const RowMatrix> constant = x;
  static_assert(std::is_same_v<decltype(tensor_view(constant)), TensorView<const float>>);
  EXPECT_EQ(tensor_view(constant).data(), x.data());
}

TEST(EigenDense, ABlockKeepsTheStridesOfItsMatrix) {
  RowMatrix rows = numbered<RowMatrix>(5, 7);
  expect_tensor(rows.block(1, 2, 3, 4), row_major, {7, 1});
  expect_tensor(rows.topRows(2), row_major, {7, 1});
  expect_tensor(rows.rightCols(3), row_major, {7, 1});
  expect_tensor(rows.block<2, 3>(1, 1), row_major, {7, 1});
  expect_tensor(rows.block(1, 1, 4, 5).block(1, 1, 2, 3), row_major, {7, 1});
  ColumnMatrix columns = numbered<ColumnMatrix>(5, 7);
  expect_tensor(columns.block(1, 2, 3, 4), column_major, {1, 5});
  expect_tensor(columns.topRows(2), column_major, {1, 5});
  ColumnArray array = numbered<ColumnArray>(5, 7);
  expect_tensor(array.block(1, 2, 3, 4), column_major, {1, 5});
}

TEST(EigenDense, ARowOrColumnOfAMatrixHasRank1) {
  RowMatrix rows = numbered<RowMatrix>(3, 4);
  expect_tensor(rows.row(1), row_major, {1});
  expect_tensor(rows.col(1), column_major, {4});
  ColumnMatrix columns = numbered<ColumnMatrix>(3, 4);
  expect_tensor(columns.row(1), row_major, {3});
  expect_tensor(columns.col(1), column_major, {1});
}

TEST(EigenDense, ASegmentAndADiagonalHaveRank1) {
  Eigen::VectorXf vector = Eigen::VectorXf::LinSpaced(6, 0, 5);
  expect_tensor(vector.segment(1, 3), column_major, {1});
  expect_tensor(vector.head<2>(), column_major, {1});
  RowMatrix x = numbered<RowMatrix>(3, 4);
  const auto view = tensor_view(x.diagonal());
  EXPECT_EQ(view.shape(), Shape{3});
  EXPECT_EQ(view.stride(0), 5);
}

TEST(EigenDense, ATransposeHasTheOtherOrderOfTheSameMemory) {
  RowMatrix rows = numbered<RowMatrix>(3, 4);
  expect_tensor(rows.transpose(), column_major, {1, 4});
  EXPECT_EQ(tensor_view(rows.transpose()).data(), rows.data());
  EXPECT_EQ(tensor_view(rows.transpose()).shape(), (Shape{4, 3}));
  ColumnMatrix columns = numbered<ColumnMatrix>(3, 4);
  expect_tensor(columns.transpose(), row_major, {3, 1});
  expect_tensor(columns.block(1, 1, 2, 3).transpose(), row_major, {3, 1});
  expect_tensor(columns.transpose().block(1, 1, 2, 2), row_major, {3, 1});
  Eigen::VectorXf vector = Eigen::VectorXf::LinSpaced(5, 0, 4);
  expect_tensor(vector.transpose(), row_major, {1});
}

// ---------------------------------------------------------------- const, and what is no tensor

TEST(EigenDense, ConstTensorsHaveConstElements) {
  RowMatrix x(3, 4);
  const RowMatrix& constant = x;
  const float memory[12] = {};
  const Eigen::Map<const RowMatrix> map(memory, 3, 4);
  static_assert(std::is_same_v<decltype(tensor_view(x)), TensorView<float>>);
  static_assert(std::is_same_v<decltype(tensor_view(constant)), TensorView<const float>>);
  static_assert(std::is_same_v<decltype(tensor_view(map)), TensorView<const float>>);
  static_assert(std::is_same_v<decltype(tensor_view(x.row(0))), TensorView<float>>);
  static_assert(std::is_same_v<decltype(tensor_view(constant.row(0))), TensorView<const float>>);
  static_assert(std::is_same_v<decltype(tensor_view(constant.block(0, 0, 1, 1))), TensorView<const float>>);
  static_assert(std::is_same_v<decltype(tensor_view(constant.transpose())), TensorView<const float>>);
  static_assert(std::is_same_v<decltype(const_view(x)), TensorView<const float>>);
  EXPECT_EQ(tensor_view(map).data(), memory);
  EXPECT_EQ(const_view(x).data(), x.data());
}

TEST(EigenDense, ExpressionsAreNoTensors) {
  RowMatrix x(3, 3);
  static_assert(Tensor<RowMatrix> && Tensor<const RowMatrix&> && Tensor<decltype(x.row(0))>);
  static_assert(!Tensor<decltype(x + x)> && TraitsOf<decltype(x + x)>::is_lazy);
  static_assert(!Tensor<decltype(2 * x)> && TraitsOf<decltype(2 * x)>::is_lazy);
  static_assert(!Tensor<decltype(x * x)> && TraitsOf<decltype(x * x)>::is_lazy);
  static_assert(!Tensor<decltype(RowMatrix::Zero(3, 3))>);
  static_assert(!Tensor<decltype((x + x).row(0))>);
  static_assert(!Tensor<decltype(x.array().square())>);
  static_assert(Tensor<decltype((x + x).eval())>);
}

TEST(EigenDense, AMatrixSeenAsAnArrayIsATensor) {
  RowMatrix x = numbered<RowMatrix>(3, 4);
  expect_view(x.array(), row_major, {4, 1});
  EXPECT_EQ(tensor_view(x.array()).data(), x.data());
}

TEST(TensorConcept, IsNotMetByOtherTypes) {
  static_assert(!Tensor<int> && !Tensor<float*> && !Tensor<std::vector<float>> && !Tensor<Eigen::Vector2f*>);
  static_assert(!TraitsOf<std::vector<float>>::is_lazy);
  static_assert(Tensor<TensorView<float>> && Tensor<const TensorView<const double>&>);
}

TEST(TensorConcept, TypesThatOwnTheirMemoryCanBeMovedIn) {
  static_assert(TraitsOf<RowMatrix>::owns_memory && TraitsOf<Eigen::Vector3f>::owns_memory);
  static_assert(TraitsOf<ColumnArray>::owns_memory);
  static_assert(!TraitsOf<Eigen::Map<RowMatrix>>::owns_memory && !TraitsOf<Eigen::Ref<RowMatrix>>::owns_memory);
  static_assert(!TraitsOf<Eigen::Block<RowMatrix>>::owns_memory && !TraitsOf<TensorView<float>>::owns_memory);
}

TEST(OwnedOf, KeepsScalarRankAndOrder) {
  RowMatrix x(3, 4);
  static_assert(std::is_same_v<OwnedOf<decltype(x.block(0, 0, 1, 1))>, RowMatrix>);
  static_assert(std::is_same_v<OwnedOf<decltype(x.transpose())>, ColumnMatrix>);
  static_assert(std::is_same_v<OwnedOf<Eigen::Map<const ColumnMatrix>>, ColumnMatrix>);
  static_assert(std::is_same_v<OwnedOf<decltype(x.row(0))>, Eigen::RowVectorXf>);
  static_assert(std::is_same_v<OwnedOf<decltype(x.col(0))>, Eigen::VectorXf>);
  static_assert(std::is_same_v<OwnedOf<Eigen::Matrix3d>, Eigen::Matrix3d>);
  static_assert(std::is_same_v<OwnedOf<Eigen::Ref<const Eigen::VectorXd>>, Eigen::VectorXd>);
}

TEST(EigenDense, AClassDerivedFromAMatrixIsATensor) {
  struct Activations : Eigen::MatrixXf {
    using Eigen::MatrixXf::MatrixXf;
  };
  Activations x(2, 3);
  expect_view(x, column_major, {1, 2});
  static_assert(std::is_same_v<OwnedOf<Activations>, Eigen::MatrixXf>);
}

TEST(TensorView, IsItsOwnView) {
  float memory[20];
  const TensorView<float> x(memory, 3, 4, 6);
  const auto view = tensor_view(x);
  static_assert(std::is_same_v<decltype(tensor_view(x)), TensorView<float>>);
  EXPECT_EQ(view.data(), memory);
  EXPECT_EQ(view.stride(0), 6);
  EXPECT_EQ(TraitsOf<TensorView<float>>::map(x).data(), memory);
}

TEST(Features, FirstAndLastAreTheTwoAxesOfAMatrix) {
  EXPECT_EQ(evenkeel::features_first, 0);
  EXPECT_EQ(evenkeel::features_last, -1);
}

}  // namespace
}  // namespace evenkeel_test
