// Tests of kernels/group_lanes_forward.hpp and group_lanes_backward.hpp: accuracy, sizes, memory, independent groups.
#include "kernels/group_lanes_test.hpp"

namespace evenkeel_test {
namespace {

template <class C>
class GroupLanes : public testing::Test {
 protected:
  using Scalar = typename C::Scalar;

  /// Channels last (one example in a row) and column-major (all of them), fewer and more lanes than a vector has.
  static std::vector<LaneShape> shapes() {
    const Index width = kernels::Simd<evenkeel::native, Scalar>::width;
    return {{.outer = 2, .groups = 3, .group_channels = 2, .length = 9},
            {.outer = 3, .groups = 1, .group_channels = 5, .length = 2},
            {.examples = 3, .groups = 2, .group_channels = 3, .length = 33},
            {.outer = 2, .examples = 2, .groups = width, .group_channels = 1, .length = 70},
            {.examples = width + 1, .groups = 2, .group_channels = 2, .length = 8},
            {.examples = 40, .groups = 5, .group_channels = 8, .length = 17}};
  }

  static void expect_contract(const LaneShape& s, const SegmentData<Scalar>& d) {
    const auto saved = forward<C>(s, d);
    EXPECT_TRUE(within_ulp(saved.y, expected_y(d), contract_ulps, y_scale(d)));
    const auto got = backward<C>(s, d, saved);
    const auto expected = expected_gradients(d);
    EXPECT_TRUE(within_ulp(got.dx, expected.dx, contract_ulps, expected.dx_scale));
    EXPECT_TRUE(within_ulp(got.dgamma, expected.dgamma, parameter_ulps(d.shape), expected.dgamma_scale));
    EXPECT_TRUE(within_ulp(got.dbeta, expected.dbeta, parameter_ulps(d.shape), expected.dbeta_scale));
  }
};
TYPED_TEST_SUITE(GroupLanes, ConfigsOf<NoNorm>, ConfigName);

// B41
TYPED_TEST(GroupLanes, GiveTheOraclesOutputAndGradientsForEveryShape) {
  using T = typename TypeParam::Scalar;
  for (const auto& s : this->shapes()) {
    for (int presence = 0; presence < 4; ++presence) {
      for (const double mean : {0.0, 1e4}) {
        SCOPED_TRACE(s.text() + ", presence " + std::to_string(presence));
        auto d = random_segments<T>(s.segments(), 1001, mean);
        if (!(presence & 1)) d.gamma.clear();
        if (!(presence & 2)) d.beta.clear();
        this->expect_contract(s, d);
      }
    }
  }
}

TYPED_TEST(GroupLanes, HoldTheContractForEveryInputFamily) {
  using T = typename TypeParam::Scalar;
  for (const auto& family : input_families<T>()) {
    const bool is_float = std::is_same_v<T, float>;
    if (fast_math && (family.name.starts_with(is_float ? "1e30 " : "1e300 ") || family.name.starts_with("1e-3"))) {
      continue;  // subnormal numbers
    }
    for (const LaneShape& s : {LaneShape{.outer = 2, .groups = 2, .group_channels = 3, .length = 49},
                               LaneShape{.examples = 3, .groups = 2, .group_channels = 2, .length = 300}}) {
      SCOPED_TRACE(family.name + ", " + s.text());
      auto d = random_segments<T>(s.segments(), 1009);
      d.x = family_rows(family, static_cast<std::size_t>(s.outer * s.examples * s.groups),
                        static_cast<std::size_t>(s.group_channels * s.length), 1013);
      d.eps = family.eps;
      for (T& value : d.dy) value /= 64;  // so that no dx overflows, though rstd be 1e38
      this->expect_contract(s, d);
    }
  }
}

// Channels of a group that are nothing like each other: nearly all of its variance is between them.
TYPED_TEST(GroupLanes, HoldTheContractForChannelsOfDifferentMeansAndSpreads) {
  using T = typename TypeParam::Scalar;
  const LaneShape s{.outer = 2, .groups = 2, .group_channels = 4, .length = 50};
  for (const double apart : {1.0, 1e3, 1e6}) {
    auto d = random_segments<T>(s.segments(), 1019);
    for (std::size_t i = 0; i < d.x.size(); ++i) {
      const std::size_t channel = i / 50 % 4;
      d.x[i] =
          static_cast<T>(d.x[i] * std::pow(10.0, -static_cast<double>(channel)) + apart * static_cast<double>(channel));
    }
    SCOPED_TRACE(apart);
    this->expect_contract(s, d);
  }
}

// B50, B79, B48
TYPED_TEST(GroupLanes, GiveTheSameBitsForEveryStrideAndAddressAndInPlace) {
  using T = typename TypeParam::Scalar;
  for (const auto& s : this->shapes()) {
    SCOPED_TRACE(s.text());
    const auto d = random_segments<T>(s.segments(), 1021, 3);
    const auto expected = forward<TypeParam>(s, d);
    const auto expected_gradients = backward<TypeParam>(s, d, expected);
    for (const Place place : {Place{1, 0}, Place{3, 5}, Place{0, 64}}) {
      const Layout layout{.x = place, .dy = place, .gamma = {place.offset}, .beta = {2}, .y = place, .dx = {2, 1}};
      expect_same_bits(forward<TypeParam>(s, d, {.layout = layout}), expected);
      expect_same_bits(backward<TypeParam>(s, d, expected, {.layout = layout}), expected_gradients);
    }
    for (Index offset = 1; offset < 64; offset += 7) {
      expect_same_bits(forward<TypeParam>(s, d, {.layout = {.workspace_offset = offset}}), expected);
      expect_same_bits(backward<TypeParam>(s, d, expected, {.layout = {.workspace_offset = offset}}),
                       expected_gradients);
    }
    expect_same_bits(forward<TypeParam>(s, d, {.in_place = true}), expected);
    expect_same_bits(backward<TypeParam>(s, d, expected, {.in_place = true}), expected_gradients);
  }
}

// B57
TYPED_TEST(GroupLanes, AssignOrAddWhatIsWanted) {
  using T = typename TypeParam::Scalar;
  const LaneShape s{.outer = 2, .examples = 2, .groups = 2, .group_channels = 3, .length = 7};
  const auto d = random_segments<T>(s.segments(), 1031), before = random_segments<T>(s.segments(), 1033);
  const auto saved = forward<TypeParam>(s, d);
  const auto all = backward<TypeParam>(s, d, saved);
  for (int wanted = 0; wanted < 8; ++wanted) {
    const bool dx = wanted & 1, dgamma = wanted & 2, dbeta = wanted & 4;
    const auto some = backward<TypeParam>(s, d, saved, {.wanted = {dx, dgamma, dbeta}});
    expect_same_bits(some, {.dx = dx ? all.dx : std::vector<T>(),
                            .dgamma = dgamma ? all.dgamma : std::vector<T>(),
                            .dbeta = dbeta ? all.dbeta : std::vector<T>()});
  }
  const auto sum = backward<TypeParam>(s, d, saved, {.add_to = {before.x, before.gamma, before.beta}});
  const auto expect_sum = [](const std::vector<T>& got, const std::vector<T>& a, const std::vector<T>& b) {
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], a[i] + b[i], 4 * std::numeric_limits<T>::epsilon() * (std::abs(a[i]) + std::abs(b[i])));
    }
  };
  expect_sum(sum.dx, all.dx, before.x);
  expect_sum(sum.dgamma, all.dgamma, before.gamma);
  expect_sum(sum.dbeta, all.dbeta, before.beta);
}

// B04, B13
TYPED_TEST(GroupLanes, ConstantGroupsGiveExactlyBetaWithEpsAndWithout) {
  using T = typename TypeParam::Scalar;
  for (const auto& s : this->shapes()) {
    for (const T value : {T(1234.567), T(3.0e7), T(0), T(1e-20)}) {
      for (const double eps : {1e-5, 0.0}) {
        auto d = random_segments<T>(s.segments(), 1039);
        d.x.assign(d.x.size(), value);
        d.eps = eps;
        EXPECT_TRUE(within(forward<TypeParam>(s, d).y, expected_y(d), 0)) << value << ", " << s.text();
      }
    }
  }
}

TYPED_TEST(GroupLanes, KeepNanAndInfinityInTheirOwnGroup) {
  if (fast_math) GTEST_SKIP();
  using T = typename TypeParam::Scalar;
  using Limits = std::numeric_limits<T>;
  const LaneShape s{.outer = 1, .examples = 3, .groups = 2, .group_channels = 2, .length = 20};
  const Index n = 40;
  const auto clean = random_segments<T>(s.segments(), 1049);
  const auto expected = forward<TypeParam>(s, clean);
  const auto expected_dx = backward<TypeParam>(s, clean, expected).dx;
  for (const T value : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
    for (const Index place : {Index{0}, Index{7}, n - 1}) {
      auto d = clean;
      d.x[static_cast<std::size_t>(2 * n + place)] = value;  // the third of six groups
      const auto got = forward<TypeParam>(s, d);
      expect_same_bits(rows_of(got, n, 0, 2), rows_of(expected, n, 0, 2));
      expect_same_bits(rows_of(got, n, 3, 3), rows_of(expected, n, 3, 3));
      EXPECT_EQ(std::ranges::count_if(rows_of(got.y, n, 2, 1), [](T v) { return std::isnan(v); }), n) << value;
      const auto dx = backward<TypeParam>(s, d, got).dx;
      EXPECT_TRUE(same_bits(rows_of(dx, n, 0, 2), rows_of(expected_dx, n, 0, 2)));
      EXPECT_TRUE(same_bits(rows_of(dx, n, 3, 3), rows_of(expected_dx, n, 3, 3)));
      EXPECT_TRUE(std::ranges::any_of(rows_of(dx, n, 2, 1), [](T v) { return std::isnan(v); }));
    }
  }
}

// B66
TYPED_TEST(GroupLanes, OfNothingTouchNothingAndHaveZeroParameterGradients) {
  using T = typename TypeParam::Scalar;
  for (const LaneShape& s : {LaneShape{.outer = 0, .groups = 2, .group_channels = 2, .length = 3},
                             LaneShape{.outer = 2, .groups = 2, .group_channels = 2, .length = 0}}) {
    const SegmentData<T> d{.shape = s.segments()};
    EXPECT_EQ(forward<TypeParam>(s, d).y.size(), 0u);
    const ForwardResult<T> saved{.mean = std::vector<T>(4), .mean_rest = std::vector<T>(4), .rstd = std::vector<T>(4)};
    expect_same_bits(backward<TypeParam>(s, d, saved), {.dgamma = std::vector<T>(4), .dbeta = std::vector<T>(4)});
  }
}

}  // namespace
}  // namespace evenkeel_test
