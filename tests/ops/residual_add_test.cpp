// Tests of ops/residual_add.hpp: the residual sum over every kind of tensor, and its errors.
#include "evenkeel/ops/residual_add.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/core/eigen_tensor.hpp"
#include "support/random.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::const_view;
using evenkeel::Index;
using evenkeel::residual_add_into;
using evenkeel::Shape;
using evenkeel::StorageOrder;
using evenkeel::TensorView;

template <class T>
using RowMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using ColumnMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
template <class T>
using RowTensor = Eigen::Tensor<T, 3, Eigen::RowMajor>;

/// The address of each element, in logical row-major order whatever the storage.
template <class T>
std::vector<T*> elements(const TensorView<T>& view) {
  std::vector<T*> all(view.size() > 0 ? 1 : 0, view.data());
  for (int axis = 0; axis < view.rank(); ++axis) {
    std::vector<T*> next;
    for (T* element : all)
      for (Index i = 0; i < view.shape()[axis]; ++i) next.push_back(element + i * view.stride(axis));
    all = next;
  }
  return all;
}

template <class X>
std::vector<evenkeel::ScalarOf<X>> values(const X& x) {
  std::vector<evenkeel::ScalarOf<X>> result;
  for (const auto* element : elements(const_view(x))) result.push_back(*element);
  return result;
}

template <class X>
void fill(X&& x, std::uint64_t seed) {
  Random random(seed);
  for (auto* element : elements(evenkeel::tensor_view(x)))
    *element = static_cast<evenkeel::ScalarOf<X>>(random.normal());
}

constexpr double alpha = 1.75, lambda = -0.375;  // exact in float and double

/// alpha * x + lambda * d for each element; the bits are a matter of the kernel's tests.
template <class T>
void expect_sum(const std::vector<T>& s, const std::vector<T>& x, const std::vector<T>& d) {
  ASSERT_EQ(s.size(), x.size());
  for (std::size_t i = 0; i < s.size(); ++i) {
    const T product = static_cast<T>(lambda) * d[i];
#if defined(__FMA__)
    EXPECT_EQ(s[i], std::fma(static_cast<T>(alpha), x[i], product)) << "element " << i;
#else
    const double exact = alpha * static_cast<double>(x[i]) + static_cast<double>(product);
    EXPECT_NEAR(s[i], exact, 8 * std::numeric_limits<T>::epsilon()) << "element " << i;
#endif
  }
}

/// x, d and s of any three kinds of tensor.
template <class X, class D, class S>
void expect_sum_into(X&& x, D&& d, S&& s) {
  fill(x, 1), fill(d, 2), fill(s, 3);
  residual_add_into(x, d, s, {.alpha = alpha, .lambda = lambda});
  expect_sum(values(s), values(x), values(d));
}

template <class T>
class ResidualAddInto : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(ResidualAddInto, Scalars);

TYPED_TEST(ResidualAddInto, TakesMatricesOfEitherOrderVectorsAndArrays) {
  using T = TypeParam;
  expect_sum_into(RowMatrix<T>(3, 37), RowMatrix<T>(3, 37), RowMatrix<T>(3, 37));
  expect_sum_into(ColumnMatrix<T>(3, 37), ColumnMatrix<T>(3, 37), ColumnMatrix<T>(3, 37));
  expect_sum_into(Eigen::Vector<T, -1>(37), Eigen::Vector<T, -1>(37), Eigen::RowVector<T, -1>(37));
  expect_sum_into(Eigen::Array<T, -1, -1>(5, 7), ColumnMatrix<T>(5, 7), Eigen::Matrix<T, 5, 7>());
}

TYPED_TEST(ResidualAddInto, TakesBlocksAndTransposesWithStridesOfTheirOwn) {
  using T = TypeParam;
  RowMatrix<T> a(9, 40), b(9, 30);
  ColumnMatrix<T> c(25, 9);
  fill(a, 4), fill(b, 5), fill(c, 6);
  const RowMatrix<T> a_before = a;
  expect_sum_into(RowMatrix<T>(5, 21), b.block(1, 3, 5, 21), a.block(2, 7, 5, 21));
  expect_sum_into(a.block(2, 7, 5, 21), c.block(3, 2, 21, 5).transpose(), RowMatrix<T>(5, 21));
  a.block(2, 7, 5, 21) = a_before.block(2, 7, 5, 21);
  EXPECT_EQ(a, a_before) << "the elements around the block have changed";
}

TYPED_TEST(ResidualAddInto, TakesTensorsOfRankThreeOfEitherOrder) {
  using T = TypeParam;
  std::vector<T> memory(2 * 3 * 12);
  expect_sum_into(RowTensor<T>(2, 3, 8), RowTensor<T>(2, 3, 8), RowTensor<T>(2, 3, 8));
  expect_sum_into(Eigen::Tensor<T, 3>(8, 3, 2), Eigen::Tensor<T, 3>(8, 3, 2), Eigen::Tensor<T, 3>(8, 3, 2));
  expect_sum_into(RowTensor<T>(2, 3, 8), Eigen::TensorMap<RowTensor<T>>(memory.data(), 2, 3, 8), RowTensor<T>(2, 3, 8));
  expect_sum_into(RowTensor<T>(2, 3, 8), RowTensor<T>(2, 3, 8),
                  TensorView<T>(memory.data(), {2, 3, 8}, {36, 12, 1}, StorageOrder::row_major));
}

TYPED_TEST(ResidualAddInto, WritesOverXOrDWhereItIsTheSameView) {
  using T = TypeParam;
  RowMatrix<T> x(3, 19), d(3, 19);
  fill(x, 9), fill(d, 10);
  RowMatrix<T> over_x = x, over_d = d;
  residual_add_into(over_x, d, over_x, {.alpha = alpha, .lambda = lambda});
  expect_sum(values(over_x), values(x), values(d));
  residual_add_into(x, over_d, over_d, {.alpha = alpha, .lambda = lambda});
  expect_sum(values(over_d), values(x), values(d));
}

TYPED_TEST(ResidualAddInto, IsThePlainSumByDefault) {
  using T = TypeParam;
  RowMatrix<T> x(2, 5), d(2, 5), s(2, 5);
  fill(x, 11), fill(d, 12);
  residual_add_into(x, d, s);
  EXPECT_EQ(s, x + d);
}

/// With one row, or one column, the two storage orders walk the elements alike, and both are taken.
TYPED_TEST(ResidualAddInto, TakesAMatrixOfOneColumnInEitherOrder) {
  using T = TypeParam;
  expect_sum_into(RowMatrix<T>(8, 1), ColumnMatrix<T>(8, 1), RowMatrix<T>(8, 1));
  expect_sum_into(ColumnMatrix<T>(8, 1), RowMatrix<T>(8, 1), ColumnMatrix<T>(8, 1));
  expect_sum_into(RowMatrix<T>(8, 1), RowMatrix<T>(8, 1), ColumnMatrix<T>(8, 1));
  expect_sum_into(ColumnMatrix<T>(8, 1), ColumnMatrix<T>(8, 1), RowMatrix<T>(8, 1));
}

TYPED_TEST(ResidualAddInto, TakesAMatrixOfOneRowInEitherOrder) {
  using T = TypeParam;
  expect_sum_into(RowMatrix<T>(1, 8), ColumnMatrix<T>(1, 8), RowMatrix<T>(1, 8));
  expect_sum_into(ColumnMatrix<T>(1, 8), RowMatrix<T>(1, 8), ColumnMatrix<T>(1, 8));
  expect_sum_into(RowMatrix<T>(1, 8), RowMatrix<T>(1, 8), ColumnMatrix<T>(1, 8));
  expect_sum_into(ColumnMatrix<T>(1, 8), ColumnMatrix<T>(1, 8), RowMatrix<T>(1, 8));
}

/// A strided row beside contiguous ones may be refused; what must not happen is another result.
template <class X, class D, class S>
void expect_sum_or_refusal(X&& x, D&& d, S&& s) {
  fill(x, 1), fill(d, 2), fill(s, 3);
  const auto before = values(s);
  try {
    residual_add_into(x, d, s, {.alpha = alpha, .lambda = lambda});
    expect_sum(values(s), values(x), values(d));
  } catch (const std::invalid_argument&) {
    EXPECT_EQ(values(s), before);
  }
}

TYPED_TEST(ResidualAddInto, NeverMistakesAStridedRowForAContiguousOne) {
  using T = TypeParam;
  ColumnMatrix<T> tall(4, 8), other(5, 8);
  RowMatrix<T> wide(8, 3), row(1, 8), column(8, 1);
  fill(tall, 14), fill(other, 15), fill(wide, 16);
  const ColumnMatrix<T> before = tall;
  expect_sum_or_refusal(row, row, tall.topRows(1));
  EXPECT_EQ(tall.bottomRows(3), before.bottomRows(3)) << "the elements around the row have changed";
  expect_sum_or_refusal(tall.topRows(1), RowMatrix<T>(1, 8), row);
  expect_sum_or_refusal(row, tall.topRows(1), RowMatrix<T>(1, 8));
  expect_sum_or_refusal(tall.topRows(1), tall.middleRows(2, 1), other.topRows(1));
  expect_sum_or_refusal(column, RowMatrix<T>(8, 1), wide.leftCols(1));
  expect_sum_or_refusal(ColumnMatrix<T>(8, 1), ColumnMatrix<T>(8, 1), wide.leftCols(1));
  expect_sum_or_refusal(wide.leftCols(1), ColumnMatrix<T>(8, 1), ColumnMatrix<T>(8, 1));
  expect_sum_or_refusal(tall.row(1), Eigen::RowVector<T, -1>(8), other.row(2));
}

TYPED_TEST(ResidualAddInto, DoesNothingWithoutElements) {
  using T = TypeParam;
  for (const auto& [rows, columns] : {std::pair{0, 5}, std::pair{5, 0}, std::pair{0, 0}}) {
    RowMatrix<T> x(rows, columns), s(rows, columns);
    EXPECT_NO_THROW(residual_add_into(x, x, s));
  }
  EXPECT_NO_THROW(residual_add_into(TensorView<const T>(nullptr, {0, 4}), TensorView<const T>(nullptr, {0, 4}),
                                    TensorView<T>(nullptr, {0, 4})));
}

// ---------------------------------------------------------------- errors

template <class X, class D, class S>
std::string error_of(const X& x, const D& d, S&& s) {
  return error_text<std::invalid_argument>([&] { residual_add_into(x, d, s); });
}

testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
}

TEST(ResidualAddIntoError, NamesTheShapeOfTheBranch) {
  RowMatrix<float> x(4, 8), d(4, 7), s(4, 8);
  EXPECT_EQ(error_of(x, d, s), "evenkeel::residual_add_into: d has shape [4, 7], expected [4, 8] (the shape of x)");
}

TEST(ResidualAddIntoError, NamesTheShapeOfTheSumAndWritesNothing) {
  const RowMatrix<float> x = RowMatrix<float>::Ones(4, 8);
  RowMatrix<float> s = RowMatrix<float>::Zero(3, 8);
  EXPECT_EQ(error_of(x, x, s), "evenkeel::residual_add_into: s has shape [3, 8], expected [4, 8] (the shape of x)");
  EXPECT_TRUE(s.isZero());
}

TEST(ResidualAddIntoError, RefusesABranchOfAnotherRank) {
  RowMatrix<float> x(1, 8), s(1, 8);
  EXPECT_EQ(error_of(x, Eigen::VectorXf(8), s),
            "evenkeel::residual_add_into: d has shape [8], expected [1, 8] (the shape of x)");
}

TEST(ResidualAddIntoError, NamesTheStorageOrders) {
  RowMatrix<float> x(4, 8), s(4, 8);
  ColumnMatrix<float> other(4, 8);
  EXPECT_EQ(error_of(x, other, s),
            "evenkeel::residual_add_into: d is column-major, expected row-major as x is (copy into a tensor of that "
            "order first)");
  EXPECT_EQ(error_of(x, x, other),
            "evenkeel::residual_add_into: s is column-major, expected row-major as x is (copy into a tensor of that "
            "order first)");
}

TEST(ResidualAddIntoError, RefusesOverlapOtherThanInPlaceAndWritesNothing) {
  std::vector<float> memory(40, 1);
  const TensorView<const float> x(memory.data(), {4, 8});
  const TensorView<float> shifted(memory.data() + 4, {4, 8});
  const RowMatrix<float> other = RowMatrix<float>::Ones(4, 8);
  EXPECT_EQ(error_of(x, other, shifted),
            "evenkeel::residual_add_into: s overlaps x in memory, expected the identical view or memory of its own");
  EXPECT_EQ(error_of(other, x, shifted),
            "evenkeel::residual_add_into: s overlaps d in memory, expected the identical view or memory of its own");
  EXPECT_EQ(memory, std::vector<float>(40, 1));
}

TEST(ResidualAddIntoError, RefusesGapsThatNoRowStrideDescribes) {
  std::vector<float> memory(100, 1);
  RowTensor<float> dense(2, 3, 8), s(2, 3, 8);
  dense.setConstant(1);
  const TensorView<float> gaps(memory.data(), {2, 3, 8}, {40, 8, 1}, StorageOrder::row_major);
  const TensorView<float> sparse(memory.data(), {2, 3, 8}, {48, 16, 2}, StorageOrder::row_major);
  const std::string text = "evenkeel::residual_add_into: ";
  EXPECT_EQ(error_of(gaps, dense, s), text +
                                          "x has stride 40 along axis 0, expected 24: axes that are taken "
                                          "together have no gaps (x has shape [2, 3, 8])");
  EXPECT_TRUE(contains(error_of(dense, gaps, s), "d has stride 40 along axis 0, expected 24"));
  EXPECT_TRUE(contains(error_of(dense, dense, gaps), "s has stride 40 along axis 0, expected 24"));
  EXPECT_TRUE(contains(error_of(dense, dense, sparse), "s has stride 2 between the elements of axis 2"));
  EXPECT_EQ(memory, std::vector<float>(100, 1));
}

}  // namespace
}  // namespace evenkeel_test
