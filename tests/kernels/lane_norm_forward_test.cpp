// Tests of kernels/lane_norm_forward.hpp: lanes of every length and number, their memory, and their independence.
#include "kernels/lane_norm_test.hpp"

namespace evenkeel_test {
namespace {

template <class C>
class LaneForward : public testing::Test {};
TYPED_TEST_SUITE(LaneForward, BothNorms, ConfigName);

// B41
TYPED_TEST(LaneForward, IsRightForEveryNumberOfLanesWithAndWithoutParameters) {
  using T = typename TypeParam::Scalar;
  for (const Index lanes : edge_features<T>()) {
    for (int presence = 0; presence < 4; ++presence) {
      SCOPED_TRACE(std::to_string(lanes) + " lanes, presence " + std::to_string(presence));
      auto d = random_data<T>(2 * lanes, 19, 301, 0.5);
      if (!(presence & 1)) d.gamma.clear();
      if (!(presence & 2)) d.beta.clear();
      const auto y = lane_forward<TypeParam>(d, {.outer = 2}).y;
      EXPECT_TRUE(within_ulp(y, expected_y<TypeParam>(d), contract_ulps, y_scale<TypeParam>(d)));
    }
  }
}

TYPED_TEST(LaneForward, IsRightForEveryLength) {
  using T = typename TypeParam::Scalar;
  for (const Index length : {1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 255, 256, 257, 520, 1001}) {
    SCOPED_TRACE("length " + std::to_string(length));
    const auto d = random_data<T>(35, length, 303, 0.5);
    const auto y = lane_forward<TypeParam>(d).y;
    EXPECT_TRUE(within_ulp(y, expected_y<TypeParam>(d), contract_ulps, y_scale<TypeParam>(d)));
  }
}

TYPED_TEST(LaneForward, GivesALaneTheSameBitsWhateverIsBesideIt) {
  using T = typename TypeParam::Scalar;
  for (const Index length : {5, 64, 300}) {
    SCOPED_TRACE("length " + std::to_string(length));
    auto d = mixed_data<T>(70, length, 305);
    const auto all = lane_forward<TypeParam>(d);
    auto other = d;  // every second lane is another
    for (Index i = 0; i < 70; i += 2) std::fill_n(other.x.begin() + i * length, length, T(1e30));
    const auto changed = lane_forward<TypeParam>(other);
    for (Index i = 1; i < 70; i += 2) {
      EXPECT_TRUE(same_bits(rows_of(changed.y, length, i, 1), rows_of(all.y, length, i, 1))) << "lane " << i;
    }
  }
}

// B50, B79
TYPED_TEST(LaneForward, GivesTheSameBitsForEveryStrideAndAddress) {
  using T = typename TypeParam::Scalar;
  for (const Index lanes : {Index{3}, kernels::Simd<evenkeel::native, T>::width, Index{41}}) {
    const auto d = mixed_data<T>(2 * lanes, 37, 307);
    const auto expected = lane_forward<TypeParam>(d, {.outer = 2});
    for (const Index offset : {0, 1, 5, 15}) {
      for (const Index gap : {0, 1, 64}) {
        const Place place{offset, gap};
        expect_same_bits<T>(lane_forward<TypeParam>(d, {.outer = 2, .x = place, .y = {1, 3}}), expected);
        expect_same_bits<T>(lane_forward<TypeParam>(d, {.outer = 2, .y = place}), expected);
        expect_same_bits<T>(lane_forward<TypeParam>(d, {.outer = 2, .x = place, .in_place = true}), expected);
      }
    }
  }
}

TYPED_TEST(LaneForward, TakesParametersOfLanes) {
  using T = typename TypeParam::Scalar;
  for (const Index length : {1, 9, 32, 1000}) {
    for (const Index lanes : {5, 64, 1300}) {
      auto plain = random_data<T>(2 * lanes, length, 309, 0.5);
      const auto of_lanes = random_data<T>(1, lanes, 311);
      plain.gamma.clear(), plain.beta.clear();
      auto d = plain;
      d.gamma = of_lanes.gamma, d.beta = of_lanes.beta;
      Reals expected = expected_y<TypeParam>(plain), scale = y_scale<TypeParam>(plain);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const std::size_t lane = i / static_cast<std::size_t>(length) % static_cast<std::size_t>(lanes);
        const long double beta = TypeParam::Norm::centred ? d.beta[lane] : T(0);
        expected[i] = expected[i] * d.gamma[lane] + beta;
        scale[i] = scale[i] * std::abs(d.gamma[lane]) + std::abs(beta);
      }
      const auto y = lane_forward<TypeParam>(d, {.outer = 2, .per_lane = true}).y;
      EXPECT_TRUE(within_ulp(y, expected, contract_ulps, scale)) << length << " x " << lanes;
    }
  }
}

TYPED_TEST(LaneForward, SavesStatisticsOfTheOracle) {
  using T = typename TypeParam::Scalar;
  const auto d = random_data<T>(70, 129, 313, 3);
  const auto got = lane_forward<TypeParam>(d);
  for (Index i = 0; i < d.rows; ++i) {
    const auto lane = static_cast<std::size_t>(i);
    const auto row = TypeParam::Norm::row(oracle::widen(rows_of(d.x, d.features, i, 1)), d.eps);
    const long double var = 1 / (row.rstd * row.rstd) - static_cast<long double>(d.eps);
    const long double ulp = std::numeric_limits<T>::epsilon();
    EXPECT_LE(std::abs(static_cast<long double>(got.mean[lane]) + got.mean_rest[lane] - row.mean), 2 * ulp) << i;
    EXPECT_LE(std::abs(got.rstd[lane] - row.rstd), 4 * ulp * row.rstd) << i;
    EXPECT_LE(std::abs(got.var[lane] - var), 8 * ulp * var) << i;
  }
}

TYPED_TEST(LaneForward, KeepsNaNAndInfinityInTheirLane) {
  using T = typename TypeParam::Scalar;
  if (fast_math) GTEST_SKIP();
  auto d = random_data<T>(40, 33, 315);
  const auto clean = lane_forward<TypeParam>(d).y;
  d.x[static_cast<std::size_t>(3 * 33 + 7)] = std::numeric_limits<T>::quiet_NaN();
  d.x[static_cast<std::size_t>(20 * 33)] = std::numeric_limits<T>::infinity();
  const auto y = lane_forward<TypeParam>(d).y;
  for (Index i = 0; i < 40; ++i) {
    const auto lane = rows_of(y, d.features, i, 1);
    if (i != 3 && i != 20) {
      EXPECT_TRUE(same_bits(lane, rows_of(clean, d.features, i, 1))) << i;
    } else if (TypeParam::Norm::centred || i == 3) {
      for (const T value : lane) EXPECT_TRUE(std::isnan(value)) << i;
    } else {
      EXPECT_TRUE(std::isnan(lane[0])) << i;
    }
  }
}

TYPED_TEST(LaneForward, DoesNotTouchMemoryWithoutElements) {
  using T = typename TypeParam::Scalar;
  for (int empty = 0; empty < 3; ++empty) {
    LaneKernel<TypeParam>::run(kernels::LaneNormForward<T>{
        .outer = empty == 0 ? 0 : 2, .length = empty == 1 ? 0 : 3, .lanes = empty == 2 ? 0 : 4, .eps = 1e-5});
  }
}

}  // namespace
}  // namespace evenkeel_test
