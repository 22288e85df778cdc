// Tests of kernels/segment_norm_forward.hpp: formulas, sizes, memory, and the independence of groups.
#include "kernels/segment_norm_test.hpp"

namespace evenkeel_test {
namespace {

template <class C>
class SegmentForward : public testing::Test {};
TYPED_TEST_SUITE(SegmentForward, ConfigsOf<NoNorm>, ConfigName);

// B41
TYPED_TEST(SegmentForward, GivesTheOraclesOutputForEveryShapeAndLayout) {
  using T = typename TypeParam::Scalar;
  for (const auto& edge : edge_shapes<T>()) {
    for (const auto& shape : layouts_of(edge)) {
      for (int presence = 0; presence < 4; ++presence) {
        SCOPED_TRACE(shape.text() + ", presence " + std::to_string(presence));
        auto d = random_segments<T>(shape, 421, 5);
        if (!(presence & 1)) d.gamma.clear();
        if (!(presence & 2)) d.beta.clear();
        EXPECT_TRUE(within_ulp(forward<TypeParam>(d).rows.y, expected_y(d), contract_ulps, y_scale(d)));
      }
    }
  }
}

TYPED_TEST(SegmentForward, HandsOutTheStatisticsOfEachGroup) {
  using T = typename TypeParam::Scalar;
  for (const auto& shape : layouts_of({.outer = 2, .groups = 5, .segments = 7, .columns = 19})) {
    for (const double mean : {0.0, 1e3, 1e6}) {
      SCOPED_TRACE(shape.text() + ", mean " + std::to_string(mean));
      const auto d = random_segments<T>(shape, 431, mean);
      const auto got = forward<TypeParam>(d);
      for (Index i = 0; i < 10; ++i) {
        const auto group = rows_of(d.x, shape.group_size(), i, 1);
        const auto row = oracle::layer_norm_row(oracle::widen(group), static_cast<long double>(d.eps));
        const auto at = static_cast<std::size_t>(i);
        const auto near = [](long double value, long double expected, long double scale) {
          return within_units(Reals{value - expected}, Reals{0}, 2, {scale}, ulp<T>(), " ulp of ");
        };
        EXPECT_TRUE(near(got.rows.mean[at], row.mean, std::max(1.0L, std::abs(row.mean))));
        const volatile long double x0 = group[0], difference = x0 - got.rows.mean[at];
        EXPECT_TRUE(near(difference - got.rows.mean_rest[at], row.deviation[0], 1 / row.rstd));
        EXPECT_TRUE(near(got.rows.rstd[at], row.rstd, row.rstd));
        const long double var = 1 / (row.rstd * row.rstd) - static_cast<long double>(d.eps);
        EXPECT_TRUE(near(got.var[at], var, var));
      }
    }
  }
}

TYPED_TEST(SegmentForward, GivesTheSameOutputWhateverStatisticsAreWanted) {
  using T = typename TypeParam::Scalar;
  const auto d = random_segments<T>({.segments = 3, .columns = 33}, 433);
  const auto expected = forward<TypeParam>(d).rows;
  for (int wanted = 0; wanted < 8; ++wanted) {
    const bool mean = wanted & 1, mean_rest = wanted & 2, rstd = wanted & 4;
    const auto got = forward<TypeParam>(d, {.mean = mean, .mean_rest = mean_rest, .rstd = rstd}).rows;
    EXPECT_TRUE(same_bits(got.y, expected.y));
    EXPECT_TRUE(same_bits(got.mean, mean ? expected.mean : std::vector<T>()));
    EXPECT_TRUE(same_bits(got.rstd, rstd ? expected.rstd : std::vector<T>()));
  }
}

// B50, B79, and B48: forward() checks what must not change.
TYPED_TEST(SegmentForward, GivesTheSameBitsForEveryStrideAndAddressAndInPlace) {
  using T = typename TypeParam::Scalar;
  for (const auto& [segments, columns] : {std::pair{3, 1}, {3, 7}, {2, 33}, {5, 261}}) {
    for (const auto& shape : layouts_of({.segments = segments, .columns = columns})) {
      SCOPED_TRACE(shape.text());
      const auto d = random_segments<T>(shape, 439, 3);
      const auto expected = forward<TypeParam>(d);
      for (Place Layout::*array : {&Layout::x, &Layout::y, &Layout::gamma, &Layout::beta, &Layout::statistics}) {
        for (Index offset = 1; offset < 64 / static_cast<Index>(sizeof(T)); ++offset) {
          ForwardOptions options;
          (options.layout.*array).offset = offset;
          expect_same_bits(forward<TypeParam>(d, options), expected);
        }
      }
      expect_same_bits(forward<TypeParam>(d, {.in_place = true}), expected);
      for (const Index gap : {1, 5, 64}) {
        expect_same_bits(forward<TypeParam>(d, {.layout = {.x = {.gap = gap}}}), expected);
        expect_same_bits(forward<TypeParam>(d, {.layout = {.y = {.gap = gap}}}), expected);
        expect_same_bits(forward<TypeParam>(d, {.layout = {.x = {.gap = gap}}, .in_place = true}), expected);
      }
    }
  }
}

TYPED_TEST(SegmentForward, GivesAGroupTheSameBitsAmongAnyOthers) {
  using T = typename TypeParam::Scalar;
  for (auto shape : layouts_of({.outer = 1, .groups = 150, .segments = 37, .columns = 5})) {
    SCOPED_TRACE(shape.text());
    auto d = random_segments<T>(shape, 449);
    Random random(449);
    const auto families = input_families<T>();
    for (std::size_t g = 0; g < 150; ++g) {
      families[g % families.size()].fill(std::span(d.x).subspan(g * 185, 185), random);
    }
    const auto all = forward<TypeParam>(d).rows;
    for (const Index first : {0, 63, 64, 149}) {
      auto one = d;
      one.shape.groups = 1;
      one.x = rows_of(d.x, 185, first, 1);
      one.gamma = rows_of(d.gamma, shape.group_step(), first, 1);
      one.beta = rows_of(d.beta, shape.group_step(), first, 1);
      expect_same_bits(forward<TypeParam>(one).rows, rows_of(all, 185, first, 1));
    }
  }
}

// B66
TYPED_TEST(SegmentForward, OfNothingTouchesNothing) {
  using T = typename TypeParam::Scalar;
  for (int empty = 0; empty < 4; ++empty) {
    SegmentShape shape{.outer = empty == 0 ? 0 : 2, .groups = empty == 1 ? 0 : 3, .segments = empty == 2 ? 0 : 4};
    shape.columns = empty == 3 ? 0 : 5;
    EXPECT_EQ(forward<TypeParam>(SegmentData<T>{.shape = shape}).rows.y.size(), 0u);
  }
}

TYPED_TEST(SegmentForward, KeepsNanAndInfinityInTheirOwnGroup) {
  if (fast_math) GTEST_SKIP();
  using T = typename TypeParam::Scalar;
  using Limits = std::numeric_limits<T>;
  for (const auto& [segments, columns] : {std::pair{1, 5}, {4, 1}, {3, 33}, {40, 2}}) {
    for (const auto& shape : layouts_of({.outer = 2, .groups = 3, .segments = segments, .columns = columns})) {
      SCOPED_TRACE(shape.text());
      const auto clean = random_segments<T>(shape, 457);
      const auto expected = forward<TypeParam>(clean).rows;
      const Index n = shape.group_size();
      for (const T value : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
        for (const Index place : {Index{0}, n / 2, n - 1}) {
          auto d = clean;
          d.x[static_cast<std::size_t>(2 * n + place)] = value;  // the third of six groups
          const auto got = forward<TypeParam>(d).rows;
          expect_same_bits(rows_of(got, n, 0, 2), rows_of(expected, n, 0, 2));
          expect_same_bits(rows_of(got, n, 3, 3), rows_of(expected, n, 3, 3));
          EXPECT_EQ(std::ranges::count_if(rows_of(got.y, n, 2, 1), [](T v) { return std::isnan(v); }), n);
        }
      }
    }
  }
}

// B04, B10, B13
TYPED_TEST(SegmentForward, ConstantGroupsGiveExactlyBetaWithEpsAndWithout) {
  using T = typename TypeParam::Scalar;
  const T largest = std::numeric_limits<T>::max();
  for (const auto& [segments, columns] : {std::pair{1, 1}, {3, 1}, {2, 7}, {40, 3}, {3, 1000}}) {
    for (const auto& shape : layouts_of({.segments = segments, .columns = columns})) {
      for (const T value : {T(1234.567), T(3.0e7), T(0), T(-0.1), T(1e-20), largest}) {
        for (const double eps : {1e-5, 0.0}) {
          auto d = random_segments<T>(shape, 461);
          d.x.assign(d.x.size(), value);
          d.eps = eps;
          const auto got = forward<TypeParam>(d);
          EXPECT_TRUE(within(got.rows.y, expected_y(d), 0)) << value << ", eps " << eps << ", " << shape.text();
          EXPECT_EQ(got.var, std::vector<T>(got.var.size()));
        }
      }
    }
  }
}

}  // namespace
}  // namespace evenkeel_test
