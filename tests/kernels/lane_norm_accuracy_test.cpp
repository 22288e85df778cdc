// The accuracy contract for lanes: every kind of lane, each beside every other.
#include "kernels/lane_norm_test.hpp"

namespace evenkeel_test {
namespace {

template <class C>
class LaneAccuracy : public testing::Test {};
TYPED_TEST_SUITE(LaneAccuracy, BothNorms, ConfigName);

TYPED_TEST(LaneAccuracy, HoldsForEveryInputFamily) {
  using T = typename TypeParam::Scalar;
  for (const auto& family : input_families<T>()) {
    const bool is_extreme = family.name.starts_with("1e30") || family.name.starts_with("1e-38");
    if (fast_math && (is_extreme || family.name.starts_with("1e300"))) continue;
    for (const Index length : {1, 2, 17, 64, 768, 4096}) {
      SCOPED_TRACE(family.name + ", length " + std::to_string(length));
      auto d = random_data<T>(7, length, 341);
      d.x = family_rows(family, 7, static_cast<std::size_t>(length), 343);
      d.eps = family.eps;
      for (T& value : d.dy) value /= 64;
      expect_lane_contract<TypeParam>(d);
    }
  }
}

TYPED_TEST(LaneAccuracy, HoldsForEveryMeanAndSpread) {
  using T = typename TypeParam::Scalar;
  for (const double std : {1e-3, 1.0, 1e3}) {
    for (const double mean : {0.0, 5.0, 1e3}) {
      for (const Index length : {7, 768}) {
        SCOPED_TRACE("std " + std::to_string(std) + ", mean " + std::to_string(mean));
        auto d = random_data<T>(35, length, 345);
        d.x = normal_vector<T>(d.x.size(), 347, mean, std);
        expect_lane_contract<TypeParam>(d);
      }
    }
  }
}

/// Sorted lanes: a shift taken from their first elements would be far from the mean.
TYPED_TEST(LaneAccuracy, HoldsForLanesWithATrend) {
  using T = typename TypeParam::Scalar;
  for (const Index length : {9, 64, 768, 5000}) {
    SCOPED_TRACE("length " + std::to_string(length));
    auto d = random_data<T>(19, length, 349, 3);
    for (Index i = 0; i < d.rows; ++i) std::sort(d.x.begin() + i * length, d.x.begin() + (i + 1) * length);
    expect_lane_contract<TypeParam>(d);
  }
}

TYPED_TEST(LaneAccuracy, HoldsForLongLanes) {
  using T = typename TypeParam::Scalar;
  for (const double mean : {0.0, 1e4}) {
    SCOPED_TRACE("mean " + std::to_string(mean));
    auto d = random_data<T>(3, 65536, 351, mean);
    expect_lane_contract<TypeParam>(d);
  }
}

TYPED_TEST(LaneAccuracy, AConstantLaneGivesExactlyBeta) {
  using T = typename TypeParam::Scalar;
  if (!TypeParam::Norm::centred) GTEST_SKIP();
  for (const Index length : {1, 2, 3, 5, 9, 77, 300, 4099}) {
    auto d = random_data<T>(18, length, 353);
    for (Index i = 0; i < d.rows; ++i)
      std::fill_n(d.x.begin() + i * length, length, T(1234.567 + 0.37 * static_cast<double>(i)));
    for (const double eps : {1e-5, 0.0}) {
      d.eps = eps;
      const auto y = lane_forward<TypeParam>(d).y;
      for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], d.beta[i % d.beta.size()]) << length << ", " << i;
    }
  }
}

}  // namespace
}  // namespace evenkeel_test
