// LayerNorm on small rows with known results: inputs that broke other libraries.
#include <cstdlib>

#include "kernels/kernel_test.hpp"

namespace evenkeel_test {
namespace {

template <class C>
class LayerNormCases : public testing::Test {};
TYPED_TEST_SUITE(LayerNormCases, ConfigsOf<LayerNorm>, ConfigName);

// B01
TYPED_TEST(LayerNormCases, SmallSpreadAroundFiveThousandIsResolved) {
  using T = typename TypeParam::Scalar;
  std::vector<T> x;
  for (int i = 0; i < 16; ++i) x.push_back(static_cast<T>(5000 + i / 512.0));
  const auto y = checked_y<TypeParam>(one_row(x));
  EXPECT_TRUE(within(std::vector{y.front(), y.back()}, Reals{-1.535048L, 1.535048L}, 1e-6L));
}

// B02
TYPED_TEST(LayerNormCases, LargeNeighbouringNumbersAreResolved) {
  const auto y = checked_y<TypeParam>(one_row<typename TypeParam::Scalar>({60000, 60001, 60002, 60003}));
  EXPECT_TRUE(within(y, Reals{-1.3416354L, -0.4472118L, 0.4472118L, 1.3416354L}, seven_digits));
}

// B03
TYPED_TEST(LayerNormCases, LongRowOfLargeMeanAndSmallSpreadIsResolved) {
  using T = typename TypeParam::Scalar;
  std::vector<T> x;
  for (int i = 0; i < 4096; ++i) x.push_back(static_cast<T>(1e7 + (i % 2 == 0 ? 1 : -1)));
  const auto y = checked_y<TypeParam>(one_row(x));
  EXPECT_TRUE(within(std::vector{y[0], y[4095]}, Reals{0.999995L, -0.999995L}, seven_digits));

  x.clear();
  for (int i = 0; i < 32765; ++i) x.push_back(static_cast<T>(100 + (i % 5 - 2) / 64.0));
  const auto row = one_row(x);
  EXPECT_TRUE(within(std::vector{checked_y<TypeParam>(row)[4]}, Reals{1.3999507L}, seven_digits));
  EXPECT_EQ(forward<TypeParam>(row).mean[0], 100);
}

// B04, B92
TYPED_TEST(LayerNormCases, ConstantRowGivesExactlyBeta) {
  using T = typename TypeParam::Scalar;
  const T largest = std::numeric_limits<T>::max();
  for (const T value : {T(1234.567), T(3.0e7), T(0), T(1), T(-0.1), T(1e-20), largest, -largest / 3}) {
    for (const std::size_t n : {1, 2, 3, 7, 10, 11, 16, 17, 1000, 4097}) {
      for (const T beta : {T(0.25), T(0)}) {
        auto row = one_row(std::vector<T>(n, value));
        row.gamma.assign(n, T(-3));
        row.beta.assign(n, beta);
        EXPECT_EQ(forward<TypeParam>(row).y, row.beta) << value << ", " << n;
      }
    }
  }
}

// B08
TYPED_TEST(LayerNormCases, RowOfOneGivesBetaWhateverGammaIs) {
  using T = typename TypeParam::Scalar;
  auto row = one_row<T>({T(-3.7)}, 0.1);
  row.gamma = {T(1e12)}, row.beta = {-1};
  EXPECT_EQ(forward<TypeParam>(row).y, row.beta);
}

// B09, B10
TYPED_TEST(LayerNormCases, RowOfOneHasNoGradientButBetas) {
  using T = typename TypeParam::Scalar;
  Random random(311);
  for (int i = 0; i < 100; ++i) {
    auto row = one_row<T>({i == 0 ? T(1e6) : static_cast<T>(1e3 * random.normal())});
    row.gamma = {static_cast<T>(random.normal())}, row.beta = {3}, row.dy = {static_cast<T>(random.normal())};
    EXPECT_EQ(forward<TypeParam>(row).y, row.beta);
    const auto got = gradients<TypeParam>(row);
    EXPECT_EQ(got.dx[0], 0);
    EXPECT_EQ(got.dgamma[0], 0);
    EXPECT_EQ(got.dbeta, row.dy);
  }
}

// B13
TYPED_TEST(LayerNormCases, WithoutEpsEqualNumbersGiveBetaAndOthersAreNormalized) {
  using T = typename TypeParam::Scalar;
  auto row = one_row<typename TypeParam::Scalar>({2, 2, 2, 2}, 0);
  row.beta = {1, 2, 3, 4}, row.dy = {1, 0, -2, 3};
  EXPECT_EQ(forward<TypeParam>(row).y, row.beta);
  EXPECT_EQ(gradients<TypeParam>(row).dx, std::vector<T>(4));
  EXPECT_EQ(forward<TypeParam>(one_row<T>({1, 3, 1, 3}, 0)).y, (std::vector<T>{-1, 1, -1, 1}));
}

// B15
TYPED_TEST(LayerNormCases, VarianceIsBiased) {
  const auto y = checked_y<TypeParam>(one_row<typename TypeParam::Scalar>({1, 2, 3, 4}));
  EXPECT_TRUE(within(y, Reals{-1.3416354L, -0.4472118L, 0.4472118L, 1.3416354L}, seven_digits));
}

// B33
TYPED_TEST(LayerNormCases, EpsIsInsideTheRoot) {
  using T = typename TypeParam::Scalar;
  std::vector<T> x(8, T(0.001));
  for (std::size_t i = 1; i < 8; i += 2) x[i] = T(-0.001);
  const auto y = checked_y<TypeParam>(one_row(x, 1e-4));
  EXPECT_TRUE(within(std::vector{y[0], y[1]}, Reals{0.0995037L, -0.0995037L}, seven_digits));
}

// R, B42, B51
TYPED_TEST(LayerNormCases, ReferenceBoxHasItsOutputAndGradients) {
  const auto d = reference_box<typename TypeParam::Scalar>(1e-5);
  EXPECT_TRUE(within(checked_y<TypeParam>(d), Reals{-0.4866640L, -0.6488853L, 0, -1.6222134L}, seven_digits));
  const auto got = gradients<TypeParam>(d);
  EXPECT_TRUE(within(got.dx, Reals{0.2668119L, 0.2454668L, -0.7705513L, 0.2582727L}, seven_digits));
  EXPECT_TRUE(within(got.dgamma, Reals{-0.9733280L, 0, 0, 4.8666401L}, 5 * seven_digits));
  EXPECT_EQ(got.dbeta, d.dy);
}

// B42
TYPED_TEST(LayerNormCases, InputGradientsOfARowSumToZero) {
  using T = typename TypeParam::Scalar;
  const auto d = random_data<T>(1, 1001, 313);
  long double sum = 0;
  for (const T dx : gradients<TypeParam>(d).dx) sum += dx;
  EXPECT_LE(std::abs(sum), 1001 * ulp<T>());
}

// B16: 2^24 + 4096 rows, a count that a float cannot reach by adding ones. Takes 130 MB.
TYPED_TEST(LayerNormCases, BetaGradientCountsEveryRowOfAVeryLongBatch) {
  using T = typename TypeParam::Scalar;
  if (!std::getenv("EVENKEEL_TEST_LARGE") || std::is_same_v<T, double>) GTEST_SKIP() << "set EVENKEEL_TEST_LARGE";
  const Index rows = (Index{1} << 24) + 4096;
  const std::vector<T> x = {-1, 1}, dy = {1, 1}, ones(static_cast<std::size_t>(rows), T(1));
  const std::vector<T> zeros(ones.size());
  std::vector<T> dgamma(2), dbeta(2);
  std::vector<char> workspace(kernels::layer_norm_backward_workspace_bytes<T>(rows, 2));
  LayerNorm::run<typename TypeParam::Arch>(kernels::RowNormBackward<T>{.dy = dy.data(),
                                                                       .x = x.data(),
                                                                       .gamma = nullptr,
                                                                       .mean = zeros.data(),
                                                                       .mean_rest = nullptr,
                                                                       .rstd = ones.data(),
                                                                       .dx = nullptr,
                                                                       .dgamma = dgamma.data(),
                                                                       .dbeta = dbeta.data(),
                                                                       .add_dx = false,
                                                                       .add_dgamma = false,
                                                                       .add_dbeta = false,
                                                                       .rows = rows,
                                                                       .features = 2,
                                                                       .dy_stride = 0,
                                                                       .x_stride = 0,
                                                                       .dx_stride = 0,
                                                                       .workspace = workspace.data()});
  const T count = static_cast<T>(rows);
  EXPECT_EQ(dbeta, (std::vector<T>{count, count}));
  EXPECT_EQ(dgamma, (std::vector<T>{-count, count}));
}

}  // namespace
}  // namespace evenkeel_test
