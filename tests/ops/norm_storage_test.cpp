// Every kind of tensor gives what plain arrays give, for LayerNorm and RMSNorm. Eigen's Tensor: norm_eigen_tensor_test.
#include "core/error_text.hpp"
#include "ops/op_test.hpp"

namespace evenkeel_test {
namespace {

template <class Op>
class NormStorage : public testing::Test {};
TYPED_TEST_SUITE(NormStorage, Ops, OpName);

template <class S>
std::vector<Data<S>> examples() {
  std::vector<Data<S>> all;
  for (const auto& [rows, features] : {std::pair{1, 1}, {1, 9}, {5, 1}, {2, 2}, {5, 7}, {3, 33}, {2, 1001}, {200, 12}})
    all.push_back(random_data<S>(rows, features, 7, 0.5));
  return all;
}

// B50, B48
TYPED_TEST(NormStorage, EveryKindOfTensorGivesTheBitsOfTheKernels) {
  using S = typename TypeParam::Scalar;
  for (const auto& data : examples<S>()) {
    for_each_kind<RowMajorKinds<S>>([&](auto kind) { expect_like_kernels<TypeParam, decltype(kind)>(data); });
    for_each_kind<ColumnMajorKinds<S>>([&](auto kind) { expect_like_kernels<TypeParam, decltype(kind)>(data); });
  }
}

// B50: x, y, dy and dx independently.
TYPED_TEST(NormStorage, EachTensorHasStridesOfItsOwn) {
  using S = typename TypeParam::Scalar;
  using Dense = Pointers<S>;
  using Block = RowMajorBlock<S>;
  for (const auto& data : examples<S>()) {
    expect_like_kernels<TypeParam, Block, Dense, Dense, Dense>(data);
    expect_like_kernels<TypeParam, Dense, Block, Dense, Dense>(data);
    expect_like_kernels<TypeParam, Dense, Dense, Block, Dense>(data);
    expect_like_kernels<TypeParam, Dense, Dense, Dense, Block>(data);
    expect_like_kernels<TypeParam, Block, StridedPointers<S>, RowMajorRef<S>, Transposed<S>>(data);
    expect_like_kernels<TypeParam, ColumnMajorBlock<S>, ColumnMajorMap<S>, ColumnMajorPointers<S>, ColumnMajorMap<S>>(
        data);
  }
}

TYPED_TEST(NormStorage, AnAxisCountedFromTheEndIsTheSameAxis) {
  using S = typename TypeParam::Scalar;
  const auto data = random_data<S>(5, 7, 11);
  expect_like_kernels<TypeParam, RowMajorBlock<S>>(data, 1);
  expect_like_kernels<TypeParam, ColumnMajorBlock<S>>(data, -2);
}

/// A matrix [rows, features] of the given type.
template <class Matrix, class S>
Matrix matrix_of(const std::vector<S>& values, Index rows, Index features) {
  return Eigen::Map<const RowMatrix<S>>(values.data(), rows, features);
}

/// The norm along `axis` of a matrix that holds `values` [rows, columns] has the numbers `expected` in the same order.
template <class Op, class Matrix, class S = typename Op::Scalar>
void expect_norm(const std::vector<S>& values, Index rows, Index columns, int axis, const Data<S>& parameters,
                 const std::vector<S>& expected) {
  const auto x = matrix_of<Matrix>(values, rows, columns);
  NormStatistics<S> saved;
  const auto y = Op::of(x, saved, options_of(parameters, axis));
  static_assert(std::is_same_v<decltype(y), const Matrix>);
  EXPECT_TRUE(same_bits(values_of(y), expected));
}

// B75: a matrix with one column or one row is one row of features or many, by its shape alone.
TYPED_TEST(NormStorage, AMatrixWithOneColumnOrOneRowGoesByItsShape) {
  using S = typename TypeParam::Scalar;
  using Kernel = typename TypeParam::Kernel;
  const auto one_row = random_data<S>(1, 7, 13), one_feature = random_data<S>(7, 1, 13);
  const auto row = forward<Kernel>(one_row).y, column = forward<Kernel>(one_feature).y;
  expect_norm<TypeParam, RowMatrix<S>>(one_row.x, 1, 7, features_last, one_row, row);
  expect_norm<TypeParam, ColumnMatrix<S>>(one_row.x, 1, 7, features_last, one_row, row);
  expect_norm<TypeParam, RowMatrix<S>>(one_row.x, 7, 1, features_first, one_row, row);
  expect_norm<TypeParam, ColumnMatrix<S>>(one_row.x, 7, 1, features_first, one_row, row);
  expect_norm<TypeParam, RowMatrix<S>>(one_feature.x, 7, 1, features_last, one_feature, column);
  expect_norm<TypeParam, ColumnMatrix<S>>(one_feature.x, 7, 1, features_last, one_feature, column);
  expect_norm<TypeParam, RowMatrix<S>>(one_feature.x, 1, 7, features_first, one_feature, column);
  expect_norm<TypeParam, ColumnMatrix<S>>(one_feature.x, 1, 7, features_first, one_feature, column);
}

// Where there is one order only, y may be declared with either.
TYPED_TEST(NormStorage, AColumnOfEitherOrderMayBeTheOutput) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(7, 1, 13);
  const auto x = matrix_of<RowMatrix<S>>(d.x, 7, 1);
  ColumnMatrix<S> y(7, 1);
  RowMatrix<S> wide = RowMatrix<S>::Constant(7, 3, poison<S>);
  TypeParam::into(x, y, options_of(d));
  TypeParam::into(x, wide.middleCols(1, 1), options_of(d));
  const auto expected = forward<typename TypeParam::Kernel>(d).y;
  EXPECT_TRUE(same_bits(values_of(y), expected));
  EXPECT_TRUE(same_bits(values_of(wide.col(1)), expected));
  EXPECT_TRUE(same_bits(values_of(wide.leftCols(1)), std::vector<S>(7, poison<S>)));
  EXPECT_TRUE(same_bits(values_of(wide.rightCols(1)), std::vector<S>(7, poison<S>)));
}

TYPED_TEST(NormStorage, AVectorIsOneRowWhetherItStandsOrLies) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(1, 9, 17);
  const auto expected = forward<typename TypeParam::Kernel>(d).y;
  const Vector<S> column = Eigen::Map<const Vector<S>>(d.x.data(), 9);
  const Eigen::RowVector<S, Eigen::Dynamic> row = column;
  EXPECT_TRUE(same_bits(values_of(TypeParam::of(column, options_of(d)).transpose()), expected));
  EXPECT_TRUE(same_bits(values_of(TypeParam::of(row, options_of(d))), expected));
  EXPECT_TRUE(same_bits(values_of(TypeParam::of(column.segment(0, 9), options_of(d)).transpose()), expected));
}

TYPED_TEST(NormStorage, ARowOfAMatrixIsNormalizedInPlace) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(3, 9, 19);
  auto x = matrix_of<RowMatrix<S>>(d.x, 3, 9);
  TypeParam::into(x.row(1), x.row(1), options_of(d));
  const auto expected = rows_of(forward<typename TypeParam::Kernel>(d).y, 9, 1, 1);
  EXPECT_TRUE(same_bits(values_of(x.row(1)), expected));
  EXPECT_TRUE(same_bits(values_of(x.row(0)), rows_of(d.x, 9, 0, 1)));
  EXPECT_TRUE(same_bits(values_of(x.row(2)), rows_of(d.x, 9, 2, 1)));
}

// ---------------------------------------------------------------- several axes

TYPED_TEST(NormStorage, SeveralAxesAreNormalizedTogether) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(2, 12, 23);
  const auto expected = forward<typename TypeParam::Kernel>(d);
  const TensorView<const S> x(d.x.data(), {2, 3, 4});
  for (const Axes& axes : {Axes{1, 2}, Axes{-2, -1}, Axes::last(2)}) {
    std::vector<S> y(24);
    NormStatistics<S> saved;
    TypeParam::into(x, TensorView<S>(y.data(), {2, 3, 4}), saved, options_of(d, axes));
    EXPECT_TRUE(same_bits(y, expected.y));
    EXPECT_TRUE(same_bits(saved.rstd, expected.rstd));
  }
}

TYPED_TEST(NormStorage, ParametersOverSeveralAxesAreFlatOrHaveTheirShape) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(2, 12, 23);
  const auto expected = forward<typename TypeParam::Kernel>(d);
  const auto gradients = backward<typename TypeParam::Kernel>(d, expected);
  const TensorView<const S> x(d.x.data(), {2, 3, 4}), dy(d.dy.data(), {2, 3, 4});
  const auto gamma = matrix_of<RowMatrix<S>>(d.gamma, 3, 4), beta = matrix_of<RowMatrix<S>>(d.beta, 3, 4);
  std::vector<S> y(24);
  NormStatistics<S> saved;
  TypeParam::into(x, TensorView<S>(y.data(), {2, 3, 4}), saved, {.gamma = gamma, .beta = beta, .axis = {1, 2}});
  EXPECT_TRUE(same_bits(y, expected.y));
  RowMatrix<S> dgamma(3, 4);
  std::vector<S> dbeta(12);
  TypeParam::backward(dy, x, saved, {.gamma = gamma, .axis = {1, 2}}, {.dgamma = dgamma, .dbeta = dbeta});
  EXPECT_TRUE(same_bits(values_of(dgamma), gradients.dgamma));
  EXPECT_TRUE(!is_centred<TypeParam> || same_bits(dbeta, gradients.dbeta));
}

TYPED_TEST(NormStorage, ColumnMajorAxesAreNormalizedTogetherWithParametersOfTheirOrder) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(2, 12, 29);
  const auto expected = forward<typename TypeParam::Kernel>(d).y;
  const TensorView<const S> x(d.x.data(), {3, 4, 2}, StorageOrder::column_major);
  std::vector<S> y(24);
  const ColumnMatrix<S> gamma = Eigen::Map<const ColumnMatrix<S>>(d.gamma.data(), 3, 4);
  const ColumnMatrix<S> beta = Eigen::Map<const ColumnMatrix<S>>(d.beta.data(), 3, 4);
  TypeParam::into(x, TensorView<S>(y.data(), {3, 4, 2}, StorageOrder::column_major),
                  {.gamma = gamma, .beta = beta, .axis = {0, 1}});
  EXPECT_TRUE(same_bits(y, expected));
}

// B45
TYPED_TEST(NormStorage, ATensorOfRank3IsNormalizedAsTheMatrixOfItsRows) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(6, 4, 31);
  const auto expected = forward<typename TypeParam::Kernel>(d);
  const auto expected_gradients = backward<typename TypeParam::Kernel>(d, expected);
  const TensorView<const S> x(d.x.data(), {2, 3, 4}), dy(d.dy.data(), {2, 3, 4});
  std::vector<S> y(24), dx(24), dgamma(4), dbeta(4);
  NormStatistics<S> saved;
  TypeParam::into(x, TensorView<S>(y.data(), {2, 3, 4}), saved, options_of(d));
  TypeParam::backward(dy, x, saved, options_of(d),
                      {.dx = TensorView<S>(dx.data(), {2, 3, 4}), .dgamma = dgamma, .dbeta = dbeta});
  EXPECT_TRUE(same_bits(y, expected.y));
  EXPECT_TRUE(same_bits(dx, expected_gradients.dx));
  EXPECT_TRUE(same_bits(dgamma, expected_gradients.dgamma));
  EXPECT_TRUE(!is_centred<TypeParam> || same_bits(dbeta, expected_gradients.dbeta));
}

TYPED_TEST(NormStorage, AnAxisOfOneElementInTheMiddleIsNormalizedWhereItIs) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(6, 1, 37);
  const auto expected = forward<typename TypeParam::Kernel>(d).y;
  std::vector<S> y(6);
  TypeParam::into(TensorView<const S>(d.x.data(), {2, 1, 3}), TensorView<S>(y.data(), {2, 1, 3}), options_of(d, 1));
  EXPECT_TRUE(same_bits(y, expected));
}

// Rows of one element each, at two distances: no row stride fits them.
TYPED_TEST(NormStorage, AnAxisOfOneElementBetweenGapsIsNormalizedWhereItIs) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(6, 1, 37);
  const Array<S> x(true, 2, 3, {.gap = 2}, d.x), y(true, 2, 3, {.gap = 2});
  const auto view = [](const Array<S>& a) {
    return TensorView<S>(a.data(), {2, 1, 3}, {5, 5, 1}, StorageOrder::row_major);
  };
  TypeParam::into(view(x), view(y), options_of(d, 1));
  EXPECT_TRUE(
      within_ulp(y.values(), expected_y<typename TypeParam::Kernel>(d), 4, y_scale<typename TypeParam::Kernel>(d)));
  EXPECT_TRUE(y.is_intact_around());
}

// ---------------------------------------------------------------- what is returned

TYPED_TEST(NormStorage, TheReturnedTensorKeepsScalarRankAndOrder) {
  using S = typename TypeParam::Scalar;
  using RowArray = Eigen::Array<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Fixed = Eigen::Matrix<S, 2, 3, Eigen::RowMajor>;
  const auto returns = []<class X>(const X& x) -> decltype(TypeParam::of(x)) { return TypeParam::of(x); };
  RowMatrix<S> x(2, 3);
  x << 1, 2, 3, 4, 5, 7;
  ColumnMatrix<S> columns = x;
  static_assert(std::is_same_v<decltype(returns(x)), RowMatrix<S>>);
  static_assert(std::is_same_v<decltype(returns(columns)), ColumnMatrix<S>>);
  static_assert(std::is_same_v<decltype(returns(x.leftCols(2))), RowMatrix<S>>);
  static_assert(std::is_same_v<decltype(returns(columns.transpose())), RowMatrix<S>>);
  static_assert(std::is_same_v<decltype(returns(x.array())), RowArray>);
  static_assert(std::is_same_v<decltype(returns(Fixed(x))), Fixed>);
  static_assert(std::is_same_v<decltype(returns(Eigen::Map<const RowMatrix<S>>(nullptr, 0, 0))), RowMatrix<S>>);
  static_assert(std::is_same_v<decltype(returns(Vector<S>())), Vector<S>>);
  static_assert(std::is_same_v<decltype(returns(x.row(0))), Eigen::RowVector<S, Eigen::Dynamic>>);
  static_assert(std::is_same_v<decltype(returns(Eigen::Vector3<S>())), Eigen::Vector3<S>>);

  const RowMatrix<S> y = TypeParam::of(x);
  EXPECT_EQ(values_of(TypeParam::of(Fixed(x))), values_of(y));
  const ColumnMatrix<S> turned = TypeParam::of(ColumnMatrix<S>(x.transpose()), {.axis = features_first});
  EXPECT_EQ(values_of(turned.transpose()), values_of(y));
}

}  // namespace
}  // namespace evenkeel_test
