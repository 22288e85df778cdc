// Tests of kernels/moments.hpp: the statistics of a row, as forward passes hand them out.
#include "evenkeel/kernels/moments.hpp"

#include "kernels/kernel_test.hpp"

namespace evenkeel_test {
namespace {

template <class C>
class Moments : public testing::Test {};
TYPED_TEST_SUITE(Moments, ConfigsOf<NoNorm>, ConfigName);

template <class C>
class Statistics : public testing::Test {};
TYPED_TEST_SUITE(Statistics, BothNorms, ConfigName);

/// |got - expected| is at most `ulps` ulp of scale.
template <class T>
testing::AssertionResult near(long double got, long double expected, long double ulps, long double scale) {
  const long double error = got - expected;
  return within_units(Reals{error}, Reals{0}, ulps, {scale}, ulp<T>(), " ulp of ");
}

TYPED_TEST(Moments, ReciprocalRootHasEpsInsideAndNeverDividesByZero) {
  using T = typename TypeParam::Scalar;
  using kernels::reciprocal_root;
  EXPECT_EQ(reciprocal_root<T>(3, 1, T(1)), T(0.5));
  EXPECT_EQ(reciprocal_root<T>(48, 1, T(4)), T(0.5));  // squares of 4 x: the root of 3 + 1
  EXPECT_EQ(reciprocal_root<T>(-1e-9, 0.25, T(1)), T(2));
  EXPECT_EQ(reciprocal_root<T>(0, 0, T(1)), T(0));
  EXPECT_EQ(reciprocal_root<T>(-1e-9, 0, T(1)), T(0));
  EXPECT_EQ(reciprocal_root<T>(0, 0, kernels::OrdinaryRange<T>::scale_up), T(0));
  if (std::is_same_v<T, float>) {
    EXPECT_EQ(reciprocal_root<T>(1e-90, 0, T(1)), std::numeric_limits<T>::max());
  }
}

TYPED_TEST(Moments, SquaresOutsideTheTypesRangeAreNotOrdinary) {
  using T = typename TypeParam::Scalar;
  using Limits = std::numeric_limits<kernels::Wide<T>>;
  const kernels::Wide<T> largest = std::numeric_limits<T>::max(), smallest = std::numeric_limits<T>::min();
  EXPECT_TRUE(kernels::is_ordinary<T>(1, 1));
  EXPECT_TRUE(kernels::is_ordinary<T>(0, 1e-5));
  EXPECT_TRUE(kernels::is_ordinary<T>(largest / 1e4, largest / 1e4));
  EXPECT_FALSE(kernels::is_ordinary<T>(largest, largest));
  EXPECT_FALSE(kernels::is_ordinary<T>(smallest, smallest));
  EXPECT_FALSE(kernels::is_ordinary<T>(0, 0));
  EXPECT_EQ(kernels::rescue_scale<T>(0), kernels::OrdinaryRange<T>::scale_up);
  EXPECT_EQ(kernels::rescue_scale<T>(largest), kernels::OrdinaryRange<T>::scale_down);
  if (fast_math) GTEST_SKIP();
  EXPECT_FALSE(kernels::is_ordinary<T>(Limits::infinity(), Limits::infinity()));
  EXPECT_FALSE(kernels::is_ordinary<T>(Limits::quiet_NaN(), Limits::quiet_NaN()));
  EXPECT_EQ(kernels::rescue_scale<T>(Limits::infinity()), kernels::OrdinaryRange<T>::scale_down);
}

TYPED_TEST(Statistics, MeanAndItsRestLocateEveryRowToAnUlpOfItsSpread) {
  using T = typename TypeParam::Scalar;
  if (!TypeParam::Norm::centred) GTEST_SKIP() << "RMSNorm subtracts nothing";
  for (const double mean : {0.0, 5.0, 1e3, 1e4, 1e6}) {
    for (const Index n : edge_features<T>()) {
      const auto d = random_data<T>(3, n, 17, mean);
      const auto saved = forward<TypeParam>(d);
      for (Index i = 0; i < d.rows; ++i) {
        const auto row = oracle::layer_norm_row(oracle::widen(rows_of(d.x, n, i, 1)), d.eps);
        EXPECT_TRUE(near<T>(saved.mean[i], row.mean, 1, std::max(1.0L, std::abs(row.mean))));
        // The mean to all its digits is beyond a long double. Its distance from the row's first entry is not.
        const volatile long double x0 = d.x[static_cast<std::size_t>(i * n)], difference = x0 - saved.mean[i];
        EXPECT_TRUE(near<T>(difference - saved.mean_rest[i], row.deviation[0], 2, 1 / row.rstd)) << n;
      }
    }
  }
}

TYPED_TEST(Statistics, MeanOfAFloatRowHasTwiceTheDigitsOfAFloat) {
  using T = typename TypeParam::Scalar;
  if (!TypeParam::Norm::centred || std::is_same_v<T, double>) GTEST_SKIP();
  const auto d = random_data<T>(8, 768, 19, 1e6);
  const auto saved = forward<TypeParam>(d);
  const auto expected = oracle::layer_norm_statistics(oracle::widen(d.x), 8, 768, d.eps);
  for (std::size_t i = 0; i < 8; ++i) {
    const long double mean = static_cast<long double>(saved.mean[i]) + saved.mean_rest[i];
    EXPECT_TRUE(near<T>(mean, expected.mean[i], 8 * ulp<T>(), expected.mean[i]));
  }
}

TYPED_TEST(Statistics, RstdIsTheOracles) {
  using T = typename TypeParam::Scalar;
  for (const double mean : {0.0, 5.0, 1e3, 1e6}) {
    for (const Index n : edge_features<T>()) {
      const auto d = random_data<T>(3, n, 23, mean);
      const auto saved = forward<TypeParam>(d);
      for (Index i = 0; i < d.rows; ++i) {
        const auto row = TypeParam::Norm::row(oracle::widen(rows_of(d.x, n, i, 1)), d.eps);
        EXPECT_TRUE(near<T>(saved.rstd[i], row.rstd, 2, row.rstd)) << mean << ", " << n;
      }
    }
  }
}

TYPED_TEST(Statistics, EachIsWrittenWithoutTheOthersAndWithoutChangingY) {
  using T = typename TypeParam::Scalar;
  const auto d = mixed_data<T>(21, 2 * kernels::Simd<evenkeel::native, T>::width + 1, 29);
  const auto all = forward<TypeParam>(d);
  for (int wanted = 0; wanted < 8; ++wanted) {
    const bool mean = wanted & 1, mean_rest = wanted & 2, rstd = wanted & 4;
    const auto some = forward<TypeParam>(d, {.mean = mean, .mean_rest = mean_rest, .rstd = rstd});
    EXPECT_TRUE(same_bits(some.y, all.y));
    EXPECT_TRUE(same_bits(some.mean, mean ? all.mean : std::vector<T>()));
    EXPECT_TRUE(same_bits(some.mean_rest, mean_rest ? all.mean_rest : std::vector<T>()));
    EXPECT_TRUE(same_bits(some.rstd, rstd ? all.rstd : std::vector<T>()));
  }
}

// B17
TYPED_TEST(Statistics, MeanOfEqualNumbersIsThatNumber) {
  using T = typename TypeParam::Scalar;
  const Data<T> d{.rows = 1, .features = 250 * 250, .x = std::vector<T>(250 * 250, T(1.23456))};
  const auto saved = forward<TypeParam>(d);
  const auto row = TypeParam::Norm::row(oracle::widen(d.x), d.eps);
  EXPECT_TRUE(near<T>(saved.rstd[0], row.rstd, 2, row.rstd));
  if (TypeParam::Norm::centred) {
    EXPECT_EQ(saved.mean[0], T(1.23456));
    EXPECT_EQ(saved.mean_rest[0], 0);
  }
}

// B16: 2^24 + 1 values, a count that a float cannot hold.
TYPED_TEST(Statistics, CountEveryValueOfAVeryLongRow) {
  using T = typename TypeParam::Scalar;
  if (std::is_same_v<T, double>) GTEST_SKIP() << "twice the memory, and nothing that a double cannot count";
  const Index n = (Index{1} << 24) + 1;
  Data<T> d{.rows = 1, .features = n, .x = std::vector<T>(static_cast<std::size_t>(n))};
  d.x[0] = static_cast<T>(n - 2);
  const auto saved = forward<TypeParam>(d, {.in_place = true});
  const long double sum = static_cast<long double>(n - 2), mean = TypeParam::Norm::centred ? sum / n : 0;
  const long double rstd = 1 / std::sqrt(sum * sum / n - mean * mean + d.eps);
  EXPECT_TRUE(near<T>(saved.rstd[0], rstd, 2, rstd));
  if (TypeParam::Norm::centred) {
    EXPECT_TRUE(near<T>(static_cast<long double>(saved.mean[0]) + saved.mean_rest[0], mean, 8, 1));
  }
}

// B92
TYPED_TEST(Statistics, VarianceOfEqualNumbersIsZeroWhateverIsContracted) {
  using T = typename TypeParam::Scalar;
  if (!TypeParam::Norm::centred) GTEST_SKIP() << "RMSNorm takes no difference";
  for (const Index n : edge_features<T>()) {
    for (const T value : {T(0.1), T(1234.567), T(3.0e7), T(-1e10) / 3}) {
      Data<T> d{.rows = 1, .features = n, .x = std::vector<T>(static_cast<std::size_t>(n), value)};
      EXPECT_EQ(forward<TypeParam>(d).rstd[0], static_cast<T>(1 / std::sqrt(1e-5)));
      d.eps = 0;
      EXPECT_EQ(forward<TypeParam>(d).rstd[0], 0) << value << ", " << n;
    }
  }
}

}  // namespace
}  // namespace evenkeel_test
