// Tests of kernels/lane_norm_backward.hpp: formulas, lengths, memory. Accuracy: lane_norm_accuracy_test.cpp.
#include "kernels/lane_norm_test.hpp"

namespace evenkeel_test {
namespace {

template <class C>
class LaneBackward : public testing::Test {};
TYPED_TEST_SUITE(LaneBackward, BothNorms, ConfigName);

// B44
TYPED_TEST(LaneBackward, GradientsAreThoseOfDualNumbers) {
  using T = typename TypeParam::Scalar;
  using oracle::widen;
  for (const Index length : {1, 2, 3, 5, 9}) {
    for (const Index lanes : {1, 5, 18}) {
      SCOPED_TRACE(std::to_string(lanes) + " lanes of length " + std::to_string(length));
      const auto d = random_data<T>(2 * lanes, length, 321, 0.5);
      const auto norm = [&](const auto& in) {
        return TypeParam::Norm::y(in[0], static_cast<std::size_t>(d.rows), static_cast<std::size_t>(length), in[1],
                                  in[2], d.eps);
      };
      const std::vector<Reals> inputs = {widen(d.x), widen(d.gamma), widen(d.beta)};
      const auto expected = [&](std::size_t index) { return gradient(inputs, index, norm, widen(d.dy)); };
      const auto scale = expected_gradients<TypeParam>(d);
      const long double parameter_ulps = contract_ulps * std::sqrt(static_cast<long double>(d.rows));
      const Lanes layout{.outer = 2};
      const auto got = lane_backward<TypeParam>(d, lane_forward<TypeParam>(d, layout), layout);
      EXPECT_TRUE(within_ulp(got.dx, expected(0), contract_ulps, scale.dx_scale));
      EXPECT_TRUE(within_ulp(got.dgamma, expected(1), parameter_ulps, scale.dgamma_scale));
      if (TypeParam::Norm::centred) {
        EXPECT_TRUE(within_ulp(got.dbeta, expected(2), parameter_ulps, scale.dbeta_scale));
      }
    }
  }
}

TYPED_TEST(LaneBackward, IsRightForEveryNumberOfLanesAndLength) {
  using T = typename TypeParam::Scalar;
  for (const Index lanes : edge_features<T>()) {
    SCOPED_TRACE(std::to_string(lanes) + " lanes");
    expect_lane_contract<TypeParam>(random_data<T>(lanes, 11, 323, 0.5));
  }
  for (const Index length : {1, 2, 3, 4, 5, 7, 8, 127, 128, 129, 260, 1001}) {
    SCOPED_TRACE("length " + std::to_string(length));
    expect_lane_contract<TypeParam>(random_data<T>(21, length, 325, 0.5));
  }
}

// B50, B57, B79
TYPED_TEST(LaneBackward, GivesTheSameBitsForEveryStrideAddressAndOutput) {
  using T = typename TypeParam::Scalar;
  for (const Index lanes : {Index{3}, kernels::Simd<evenkeel::native, T>::width, Index{41}}) {
    const auto d = mixed_data<T>(2 * lanes, 37, 327);
    const auto saved = lane_forward<TypeParam>(d, {.outer = 2});
    const auto expected = lane_backward<TypeParam>(d, saved, {.outer = 2});
    for (const Index offset : {0, 1, 15}) {
      for (const Index gap : {0, 3, 64}) {
        const Place place{offset, gap};
        expect_same_bits(lane_backward<TypeParam>(d, saved, {.outer = 2, .x = place}), expected);
        expect_same_bits(lane_backward<TypeParam>(d, saved, {.outer = 2, .dy = place, .dx = {2, 5}}), expected);
        expect_same_bits(lane_backward<TypeParam>(d, saved, {.outer = 2, .dy = place, .in_place = true}), expected);
      }
    }
    for (const Wanted wanted : {Wanted{true, false, false}, Wanted{false, true, true}, Wanted{true, false, true}}) {
      const auto got = lane_backward<TypeParam>(d, saved, {.outer = 2}, {.wanted = wanted});
      EXPECT_TRUE(same_bits(got.dx, wanted.dx ? expected.dx : std::vector<T>()));
      EXPECT_TRUE(same_bits(got.dgamma, wanted.dgamma ? expected.dgamma : std::vector<T>()));
      EXPECT_TRUE(same_bits(got.dbeta, wanted.dbeta ? expected.dbeta : std::vector<T>()));
    }
  }
}

TYPED_TEST(LaneBackward, AddsWhereAsked) {
  using T = typename TypeParam::Scalar;
  const auto d = random_data<T>(20, 37, 329);
  const auto saved = lane_forward<TypeParam>(d);
  const auto plain = lane_backward<TypeParam>(d, saved);
  const Gradients<T> before{normal_vector<T>(d.x.size(), 331), normal_vector<T>(37, 332), normal_vector<T>(37, 333)};
  const auto sum = lane_backward<TypeParam>(d, saved, {}, {}, before);
  const auto expect_sum = [](const std::vector<T>& got, const std::vector<T>& a, const std::vector<T>& b) {
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], a[i] + b[i], 4 * std::numeric_limits<T>::epsilon() * (std::abs(a[i]) + std::abs(b[i])));
    }
  };
  expect_sum(sum.dx, plain.dx, before.dx);
  expect_sum(sum.dgamma, plain.dgamma, before.dgamma);
  expect_sum(sum.dbeta, plain.dbeta, before.dbeta);
}

/// With gamma of lanes, dx is that of dy * gamma, and dgamma and dbeta are sums along the lane.
TYPED_TEST(LaneBackward, TakesParametersOfLanes) {
  using T = typename TypeParam::Scalar;
  for (const Index length : {1, 9, 300}) {
    const Index lanes = 21;
    auto d = random_data<T>(2 * lanes, length, 335, 0.5);
    d.gamma.clear(), d.beta.clear();
    auto with_gamma = d, scaled = d;
    with_gamma.gamma = normal_vector<T>(static_cast<std::size_t>(lanes), 337);
    const auto lane_of = [&](std::size_t i) {
      return i / static_cast<std::size_t>(length) % static_cast<std::size_t>(lanes);
    };
    for (std::size_t i = 0; i < d.dy.size(); ++i) scaled.dy[i] *= with_gamma.gamma[lane_of(i)];
    const Lanes layout{.outer = 2, .per_lane = true};
    const auto saved = lane_forward<TypeParam>(d, layout);
    const auto got = lane_backward<TypeParam>(with_gamma, saved, layout);
    const auto expected = expected_gradients<TypeParam>(scaled);
    EXPECT_TRUE(within_ulp(got.dx, expected.dx, contract_ulps, expected.dx_scale)) << length;

    Reals dgamma(static_cast<std::size_t>(lanes)), dbeta(dgamma), scale(dgamma);
    const Reals x_hat = expected_y<TypeParam>(d);
    for (std::size_t i = 0; i < d.dy.size(); ++i) {
      dgamma[lane_of(i)] += d.dy[i] * x_hat[i];
      dbeta[lane_of(i)] += d.dy[i];
      scale[lane_of(i)] = std::max(scale[lane_of(i)], std::abs(d.dy[i]) * std::max(1.0L, std::abs(x_hat[i])));
    }
    const long double ulps = contract_ulps * std::sqrt(2.0L * static_cast<long double>(length));
    EXPECT_TRUE(within_ulp(got.dgamma, dgamma, ulps, scale)) << length;
    if (TypeParam::Norm::centred) {
      EXPECT_TRUE(within_ulp(got.dbeta, dbeta, ulps, scale)) << length;
    }
  }
}

/// As in inference of BatchNorm, where mean and rstd are numbers like gamma.
TYPED_TEST(LaneBackward, WithConstantStatisticsIsThatOfAScale) {
  using T = typename TypeParam::Scalar;
  const auto d = random_data<T>(20, 37, 339, 0.5);
  const auto saved = lane_forward<TypeParam>(d);
  const auto varying = lane_backward<TypeParam>(d, saved);
  const auto got = lane_backward<TypeParam>(d, saved, {}, {.constant_statistics = true});
  for (std::size_t i = 0; i < got.dx.size(); ++i) {
    const double expected = static_cast<double>(d.dy[i]) * d.gamma[i % 37] * saved.rstd[i / 37];
    EXPECT_NEAR(got.dx[i], expected, 2 * std::numeric_limits<T>::epsilon() * std::abs(expected));
  }
  EXPECT_TRUE(same_bits(got.dgamma, varying.dgamma));
  EXPECT_TRUE(same_bits(got.dbeta, varying.dbeta));
}

TYPED_TEST(LaneBackward, WithoutLanesGivesParametersOfZero) {
  using T = typename TypeParam::Scalar;
  Data<T> d{.rows = 0, .features = 7};
  const auto got = lane_backward<TypeParam>(d, {});
  EXPECT_EQ(got.dgamma, std::vector<T>(7, T(0)));
}

}  // namespace
}  // namespace evenkeel_test
