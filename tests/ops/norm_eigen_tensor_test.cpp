// LayerNorm and RMSNorm of Eigen's Tensor, TensorFixedSize and TensorMap.
#include <numeric>

#include "core/error_text.hpp"
#include "evenkeel/core/eigen_tensor.hpp"
#include "ops/op_test.hpp"

namespace evenkeel_test {
namespace {

template <class S, int Rank>
using RowTensor = Eigen::Tensor<S, Rank, Eigen::RowMajor>;
template <class S, int Rank>
using ColumnTensor = Eigen::Tensor<S, Rank, Eigen::ColMajor>;

template <class S>
struct TensorOfRank2 {
  static constexpr const char* name = "a row-major tensor [rows, features]";
  static constexpr Place place = {};
  static constexpr int axis = features_last;
  static auto tensor(const Array<S>& a, Index rows, Index features) {
    return Eigen::TensorMap<RowTensor<S, 2>>(a.data(), rows, features);
  }
};

template <class S>
struct TensorOfRank4 {
  static constexpr const char* name = "a row-major tensor [1, rows, 1, features]";
  static constexpr Place place = {.offset = 3};
  static constexpr int axis = features_last;
  static auto tensor(const Array<S>& a, Index rows, Index features) {
    return Eigen::TensorMap<RowTensor<S, 4>>(a.data(), 1, rows, 1, features);
  }
};

template <class S>
struct ColumnMajorTensor {
  static constexpr const char* name = "a column-major tensor [features, 1, rows]";
  static constexpr Place place = {.offset = 1};
  static constexpr int axis = features_first;
  static auto tensor(const Array<S>& a, Index rows, Index features) {
    return Eigen::TensorMap<ColumnTensor<S, 3>>(a.data(), features, 1, rows);
  }
};

template <class Op>
class NormEigenTensor : public testing::Test {};
TYPED_TEST_SUITE(NormEigenTensor, Ops, OpName);

TYPED_TEST(NormEigenTensor, GivesTheBitsOfTheKernels) {
  using S = typename TypeParam::Scalar;
  for (const auto& [rows, features] : {std::pair{1, 1}, {1, 9}, {5, 1}, {5, 7}, {3, 33}}) {
    const auto d = random_data<S>(rows, features, 7, 0.5);
    expect_like_kernels<TypeParam, TensorOfRank2<S>>(d);
    expect_like_kernels<TypeParam, TensorOfRank4<S>>(d);
    expect_like_kernels<TypeParam, ColumnMajorTensor<S>>(d);
  }
}

TYPED_TEST(NormEigenTensor, MixesWithMatricesAndPointers) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(5, 7, 11);
  expect_like_kernels<TypeParam, TensorOfRank2<S>, RowMajorBlock<S>, Pointers<S>, TensorOfRank2<S>>(d);
  expect_like_kernels<TypeParam, RowMajorRef<S>, TensorOfRank2<S>, TensorOfRank2<S>, StridedPointers<S>>(d);
}

/// x with the numbers 0, 1, 2, ... in memory.
template <class X>
X counted(X x) {
  std::iota(x.data(), x.data() + x.size(), typename X::Scalar(0));
  return x;
}

/// The elements in the order of memory.
template <class X>
std::vector<typename X::Scalar> elements_of(const X& x) {
  return {x.data(), x.data() + x.size()};
}

TYPED_TEST(NormEigenTensor, TheReturnedTensorKeepsScalarRankAndLayout) {
  using S = typename TypeParam::Scalar;
  using Fixed = Eigen::TensorFixedSize<S, Eigen::Sizes<2, 3>, Eigen::RowMajor>;
  const auto x = counted(RowTensor<S, 3>(2, 3, 4));
  const auto y = TypeParam::of(x);
  static_assert(std::is_same_v<decltype(y), const RowTensor<S, 3>>);
  EXPECT_EQ(y.dimensions(), x.dimensions());
  const auto map = TypeParam::of(Eigen::TensorMap<const RowTensor<S, 3>>(x.data(), 2, 3, 4));
  static_assert(std::is_same_v<decltype(map), const RowTensor<S, 3>>);
  EXPECT_EQ(elements_of(map), elements_of(y));
  const auto column_major = TypeParam::of(ColumnTensor<S, 2>(3, 2), {.axis = features_first});
  static_assert(std::is_same_v<decltype(column_major), const ColumnTensor<S, 2>>);
  Fixed fixed;
  std::iota(fixed.data(), fixed.data() + 6, S(0));
  const auto dynamic = TypeParam::of(fixed);
  static_assert(std::is_same_v<decltype(dynamic), const RowTensor<S, 2>>);
  EXPECT_EQ(dynamic.dimension(1), 3);
}

TYPED_TEST(NormEigenTensor, TensorsOfFixedSizeAreInputsAndOutputs) {
  using S = typename TypeParam::Scalar;
  using Fixed = Eigen::TensorFixedSize<S, Eigen::Sizes<5, 7>, Eigen::RowMajor>;
  const auto d = random_data<S>(5, 7, 13);
  const auto expected = forward<typename TypeParam::Kernel>(d);
  const auto expected_gradients = backward<typename TypeParam::Kernel>(d, expected);
  Fixed x, dy, y, dx;
  std::copy(d.x.begin(), d.x.end(), x.data());
  std::copy(d.dy.begin(), d.dy.end(), dy.data());
  NormStatistics<S> saved;
  TypeParam::into(x, y, saved, options_of(d));
  TypeParam::backward(dy, x, saved, options_of(d), {.dx = dx});
  EXPECT_TRUE(same_bits(elements_of(y), expected.y));
  EXPECT_TRUE(same_bits(elements_of(dx), expected_gradients.dx));
}

TYPED_TEST(NormEigenTensor, ParametersAreTensorsOfTheNormalizedShape) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(2, 12, 17);
  const auto expected = forward<typename TypeParam::Kernel>(d);
  const auto expected_gradients = backward<typename TypeParam::Kernel>(d, expected);
  const Eigen::TensorMap<const RowTensor<S, 3>> x(d.x.data(), 2, 3, 4), dy(d.dy.data(), 2, 3, 4);
  const Eigen::TensorMap<const RowTensor<S, 2>> gamma(d.gamma.data(), 3, 4), beta(d.beta.data(), 3, 4);
  NormStatistics<S> saved;
  const auto y = TypeParam::of(x, saved, {.gamma = gamma, .beta = beta, .axis = Axes::last(2)});
  EXPECT_TRUE(same_bits(elements_of(y), expected.y));
  RowTensor<S, 2> dgamma(3, 4), dbeta(3, 4);
  RowTensor<S, 3> dx(2, 3, 4);
  TypeParam::backward(dy, x, saved, {.gamma = gamma, .axis = Axes::last(2)},
                      {.dx = dx, .dgamma = dgamma, .dbeta = dbeta});
  EXPECT_TRUE(same_bits(elements_of(dx), expected_gradients.dx));
  EXPECT_TRUE(same_bits(elements_of(dgamma), expected_gradients.dgamma));
  EXPECT_TRUE(!is_centred<TypeParam> || same_bits(elements_of(dbeta), expected_gradients.dbeta));
}

// DESIGN.md 3: the last axis is normalized in either order.
TYPED_TEST(NormEigenTensor, TheLastAxisOfAColumnMajorTensorIsThatOfARowMajorOne) {
  using S = typename TypeParam::Scalar;
  const auto x = counted(RowTensor<S, 3>(2, 3, 4));
  ColumnTensor<S, 3> columns(2, 3, 4);
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 3; ++j)
      for (Index k = 0; k < 4; ++k) columns(i, j, k) = x(i, j, k);
  const auto y = TypeParam::of(x);
  const auto y_columns = TypeParam::of(columns);
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 3; ++j)
      for (Index k = 0; k < 4; ++k) EXPECT_NEAR(y_columns(i, j, k), y(i, j, k), 8 * std::numeric_limits<S>::epsilon());
}

// ---------------------------------------------------------------- CASES.md

// B40
TYPED_TEST(NormEigenTensor, NormalizesTheAxisThatIsAskedFor) {
  using S = typename TypeParam::Scalar;
  const auto x = counted(RowTensor<S, 3>(2, 3, 4));
  const auto last = elements_of(TypeParam::of(x));
  EXPECT_EQ(elements_of(TypeParam::of(x, {.axis = -1})), last);
  EXPECT_EQ(elements_of(TypeParam::of(x, {.axis = 2})), last);
  NormStatistics<S> saved;
  const auto both = elements_of(TypeParam::of(x, saved, {.axis = {1, 2}}));
  EXPECT_EQ(saved.rstd.size(), 2u);
  EXPECT_EQ(elements_of(TypeParam::of(x, {.axis = Axes::last(2)})), both);
  EXPECT_NE(both, last);
  if (!is_centred<TypeParam>) return;
  for (std::size_t i = 0; i < 24; ++i) {
    const double expected[] = {-1.3416354, -0.4472118, 0.4472118, 1.3416354};
    EXPECT_NEAR(last[i], expected[i % 4], 4e-7);
  }
  EXPECT_EQ(saved.mean, (std::vector<S>{5.5, 17.5}));
}

// B40
TYPED_TEST(NormEigenTensor, AnAxisThatXDoesNotHaveIsAnError) {
  using S = typename TypeParam::Scalar;
  const auto x = counted(RowTensor<S, 3>(2, 3, 4));
  EXPECT_EQ(error_text<std::invalid_argument>([&] { TypeParam::of(x, {.axis = 3}); }),
            std::string("evenkeel::") + TypeParam::name + "_into: axis is 3, expected -3 to 2 (x has shape [2, 3, 4])");
}

// B75
TYPED_TEST(NormEigenTensor, TheSameNumbersInAnotherLayoutGiveTheSameResult) {
  using S = typename TypeParam::Scalar;
  const auto channels_last = TypeParam::of(counted(RowTensor<S, 4>(2, 2, 2, 3)));
  const auto channels_first = TypeParam::of(counted(ColumnTensor<S, 4>(3, 2, 2, 2)), {.axis = 0});
  static_assert(std::is_same_v<decltype(channels_first), const ColumnTensor<S, 4>>);
  EXPECT_EQ(elements_of(channels_first), elements_of(channels_last));
  EXPECT_EQ(channels_first(2, 1, 0, 1), channels_last(1, 0, 1, 2));

  const auto image = counted(RowTensor<S, 4>(2, 3, 2, 2));  // channels in the middle
  RowTensor<S, 4> turned(2, 2, 2, 3);
  const auto for_each_pixel = [](const auto& body) {
    for (Index n = 0; n < 2; ++n)
      for (Index c = 0; c < 3; ++c)
        for (Index h = 0; h < 2; ++h)
          for (Index w = 0; w < 2; ++w) body(n, c, h, w);
  };
  for_each_pixel([&](Index n, Index c, Index h, Index w) { turned(n, h, w, c) = image(n, c, h, w); });
  const auto y = TypeParam::of(image, {.axis = 1}), expected = TypeParam::of(turned);
  for_each_pixel([&](Index n, Index c, Index h, Index w) {
    EXPECT_NEAR(y(n, c, h, w), expected(n, h, w, c), 8 * std::numeric_limits<S>::epsilon());
  });
}

}  // namespace
}  // namespace evenkeel_test
