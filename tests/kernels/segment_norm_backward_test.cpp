// Tests of kernels/segment_norm_backward.hpp: formulas, sizes, memory, and the independence of groups.
#include "kernels/segment_norm_test.hpp"

namespace evenkeel_test {
namespace {

template <class C>
class SegmentBackward : public testing::Test {};
TYPED_TEST_SUITE(SegmentBackward, ConfigsOf<NoNorm>, ConfigName);

// B41, B44, B45
TYPED_TEST(SegmentBackward, GivesTheOraclesGradientsForEveryShapeAndLayout) {
  using T = typename TypeParam::Scalar;
  for (const auto& edge : edge_shapes<T>()) {
    for (const auto& shape : layouts_of(edge)) {
      for (const bool with_gamma : {true, false}) {
        SCOPED_TRACE(shape.text() + (with_gamma ? ", with gamma" : ""));
        auto d = random_segments<T>(shape, 463, 0.5);
        if (!with_gamma) d.gamma.clear();
        expect_contract<TypeParam>(d);
      }
    }
  }
}

// The closed formulas of the oracle, against its own forward: dual numbers.
TYPED_TEST(SegmentBackward, GradientsAreThoseOfDualNumbers) {
  using T = typename TypeParam::Scalar;
  for (const auto& shape : layouts_of({.outer = 2, .groups = 2, .segments = 3, .columns = 5})) {
    SCOPED_TRACE(shape.text());
    const auto d = random_segments<T>(shape, 467, 0.5);
    const auto got = gradients<TypeParam>(d);
    const auto scales = expected_gradients(d);
    const auto norm = [&]<class Number>(const std::vector<std::vector<Number>>& in) {
      std::vector<Number> y;
      const Index n = shape.group_size();
      for (Index i = 0; i < shape.outer * shape.groups; ++i) {
        std::vector<Number> gamma, beta;
        for (Index j = 0; j < n; ++j) {
          const auto parameter = static_cast<std::size_t>(shape.parameter(i % shape.groups, j));
          gamma.push_back(in[1][parameter]);
          beta.push_back(in[2][parameter]);
        }
        const auto group = oracle::layer_norm(rows_of(in[0], n, i, 1), 1, static_cast<std::size_t>(n), gamma, beta,
                                              static_cast<long double>(d.eps));
        y.insert(y.end(), group.begin(), group.end());
      }
      return y;
    };
    const std::vector<Reals> inputs = {oracle::widen(d.x), oracle::widen(d.gamma), oracle::widen(d.beta)};
    const Reals dy = oracle::widen(d.dy);
    EXPECT_TRUE(within_ulp(got.dx, gradient(inputs, 0, norm, dy), contract_ulps, scales.dx_scale));
    EXPECT_TRUE(within_ulp(got.dgamma, gradient(inputs, 1, norm, dy), parameter_ulps(shape), scales.dgamma_scale));
    EXPECT_TRUE(within_ulp(got.dbeta, gradient(inputs, 2, norm, dy), parameter_ulps(shape), scales.dbeta_scale));
  }
}

// B68
TYPED_TEST(SegmentBackward, OfConstantStatisticsIsThatOfAnAffineFunction) {
  using T = typename TypeParam::Scalar;
  for (const auto& [segments, columns] : {std::pair{1, 1}, {3, 1}, {3, 33}, {40, 2}}) {
    for (const auto& shape : layouts_of({.outer = 1, .groups = 5, .segments = segments, .columns = columns})) {
      SCOPED_TRACE(shape.text());
      const auto d = random_segments<T>(shape, 479, 0.5);
      ForwardResult<T> saved{.mean = normal_vector<T>(5, 487), .rstd = normal_vector<T>(5, 491, 3, 0.1)};
      const auto got = backward<TypeParam>(d, saved, {}, true);
      Reals dx, dx_scale, dgamma(d.gamma.size()), dbeta(d.gamma.size());
      for (Index i = 0; i < shape.size(); ++i) {
        const Index g = i / shape.group_size();
        const auto at = static_cast<std::size_t>(i), group = static_cast<std::size_t>(g);
        const auto parameter = static_cast<std::size_t>(shape.parameter(g, i % shape.group_size()));
        const long double dy = d.dy[at], rstd = saved.rstd[group], x = d.x[at];
        dx.push_back(rstd * d.gamma[parameter] * dy);
        dx_scale.push_back(std::abs(dx.back()));
        dgamma[parameter] += dy * (x - saved.mean[group]) * rstd;
        dbeta[parameter] += dy;
      }
      EXPECT_TRUE(within_ulp(got.dx, dx, 4, dx_scale));
      EXPECT_TRUE(within_ulp(got.dgamma, dgamma, parameter_ulps(shape), {30.0L}));
      EXPECT_TRUE(within_ulp(got.dbeta, dbeta, parameter_ulps(shape), {3.0L}));
      const auto dx_only = backward<TypeParam>(d, saved, {.wanted = {true, false, false}}, true);
      EXPECT_TRUE(same_bits(dx_only.dx, got.dx));
    }
  }
}

TYPED_TEST(SegmentBackward, GivesWhatIsWantedAndTheSameBitsWhateverElseIs) {
  using T = typename TypeParam::Scalar;
  for (const auto& [segments, columns] : {std::pair{1, 5}, {4, 1}, {70, 3}, {3, 1100}}) {
    for (const auto& shape : layouts_of({.segments = segments, .columns = columns})) {
      const auto d = random_segments<T>(shape, 499, 0.5);
      const auto all = gradients<TypeParam>(d);
      for (int wanted = 0; wanted < 8; ++wanted) {
        SCOPED_TRACE(shape.text() + ", wanted " + std::to_string(wanted));
        const bool dx = wanted & 1, dgamma = wanted & 2, dbeta = wanted & 4;
        const auto some = gradients<TypeParam>(d, {.wanted = {dx, dgamma, dbeta}});
        expect_same_bits(some, {.dx = dx ? all.dx : std::vector<T>(),
                                .dgamma = dgamma ? all.dgamma : std::vector<T>(),
                                .dbeta = dbeta ? all.dbeta : std::vector<T>()});
      }
    }
  }
}

// B57. Outputs that are assigned start as NaN.
TYPED_TEST(SegmentBackward, AssignsOrAddsEachOutputByItself) {
  using T = typename TypeParam::Scalar;
  for (const auto& shape : layouts_of({.segments = 3, .columns = 19})) {
    const auto d = random_segments<T>(shape, 503, 0.5), before = random_segments<T>(shape, 509);
    const auto assigned = gradients<TypeParam>(d);
    const auto expect = [](const std::vector<T>& got, const std::vector<T>& alone, const std::vector<T>& start) {
      if (start.empty()) {
        EXPECT_TRUE(same_bits(got, alone));
        return;
      }
      Reals sum, scale;
      for (std::size_t i = 0; i < got.size(); ++i) {
        sum.push_back(static_cast<long double>(alone[i]) + start[i]);
        scale.push_back(std::abs(static_cast<long double>(alone[i])) + std::abs(sum[i]));
      }
      EXPECT_TRUE(within_ulp(got, sum, 1, scale));
    };
    for (int adding = 0; adding < 8; ++adding) {
      SCOPED_TRACE(shape.text() + ", adding " + std::to_string(adding));
      Gradients<T> start;
      if (adding & 1) start.dx = before.x;
      if (adding & 2) start.dgamma = before.gamma;
      if (adding & 4) start.dbeta = before.beta;
      const auto got = gradients<TypeParam>(d, {.add_to = start});
      expect(got.dx, assigned.dx, start.dx);
      expect(got.dgamma, assigned.dgamma, start.dgamma);
      expect(got.dbeta, assigned.dbeta, start.dbeta);
    }
  }
}

// B50, B79, and B48: backward() checks what must not change.
TYPED_TEST(SegmentBackward, GivesTheSameBitsForEveryStrideAndAddressAndInPlace) {
  using T = typename TypeParam::Scalar;
  for (const auto& [segments, columns] : {std::pair{3, 1}, {3, 7}, {2, 33}, {5, 261}}) {
    for (const auto& shape : layouts_of({.segments = segments, .columns = columns})) {
      SCOPED_TRACE(shape.text());
      const auto d = random_segments<T>(shape, 521, 3);
      const auto expected = gradients<TypeParam>(d);
      for (Place Layout::*array : {&Layout::x, &Layout::dy, &Layout::gamma, &Layout::dx, &Layout::dgamma,
                                   &Layout::dbeta, &Layout::statistics}) {
        BackwardOptions<T> options;
        for (Index offset = 1; offset < 64 / static_cast<Index>(sizeof(T)); ++offset) {
          (options.layout.*array).offset = offset;
          expect_same_bits(gradients<TypeParam>(d, options), expected);
        }
      }
      for (Index offset = 1; offset < 64; ++offset)
        expect_same_bits(gradients<TypeParam>(d, {.layout = {.workspace_offset = offset}}), expected);
      expect_same_bits(gradients<TypeParam>(d, {.in_place = true}), expected);
      for (Place Layout::*array : {&Layout::x, &Layout::dy, &Layout::dx}) {
        for (const Index gap : {1, 5, 64}) {
          BackwardOptions<T> options;
          (options.layout.*array).gap = gap;
          expect_same_bits(gradients<TypeParam>(d, options), expected);
        }
      }
      expect_same_bits(gradients<TypeParam>(d, {.layout = {.dy = {.gap = 3}}, .in_place = true}), expected);
    }
  }
}

TYPED_TEST(SegmentBackward, GivesAGroupTheSameInputGradientAmongAnyOthers) {
  using T = typename TypeParam::Scalar;
  for (const auto& shape : layouts_of({.outer = 1, .groups = 150, .segments = 37, .columns = 5})) {
    SCOPED_TRACE(shape.text());
    const auto d = random_segments<T>(shape, 523);
    const auto all = gradients<TypeParam>(d);
    for (const Index first : {0, 63, 64, 149}) {
      auto one = d;
      one.shape.groups = 1;
      one.x = rows_of(d.x, 185, first, 1);
      one.dy = rows_of(d.dy, 185, first, 1);
      one.gamma = rows_of(d.gamma, shape.group_step(), first, 1);
      const auto got = gradients<TypeParam>(one);
      EXPECT_TRUE(same_bits(got.dx, rows_of(all.dx, 185, first, 1)));
      EXPECT_TRUE(same_bits(got.dgamma, rows_of(all.dgamma, shape.group_step(), first, 1)));
    }
  }
}

// B66: the sum of nothing is zero.
TYPED_TEST(SegmentBackward, OfNothingAssignsZerosAndAddsNothing) {
  using T = typename TypeParam::Scalar;
  for (const auto& full : layouts_of({.outer = 2, .groups = 3, .segments = 4, .columns = 5})) {
    for (int empty = 0; empty < 4; ++empty) {
      SegmentShape shape = full;
      (empty == 0 ? shape.outer : empty == 1 ? shape.groups : empty == 2 ? shape.segments : shape.columns) = 0;
      SCOPED_TRACE(shape.text());
      const std::vector<T> zeros(static_cast<std::size_t>(shape.parameters()));
      const auto before = normal_vector<T>(zeros.size(), 541);
      const SegmentData<T> d{.shape = shape};
      const ForwardResult<T> saved{.mean = std::vector<T>(6), .rstd = std::vector<T>(6)};
      expect_same_bits(backward<TypeParam>(d, saved), {.dgamma = zeros, .dbeta = zeros});
      expect_same_bits(backward<TypeParam>(d, saved, {.add_to = {.dgamma = before, .dbeta = before}}),
                       {.dgamma = before, .dbeta = before});
    }
  }
}

// B09, B10
TYPED_TEST(SegmentBackward, OfGroupsOfOneHasNoInputGradient) {
  using T = typename TypeParam::Scalar;
  for (const auto& shape : layouts_of({.outer = 3, .groups = 5, .segments = 1, .columns = 1})) {
    const auto d = random_segments<T>(shape, 547, 1e3);
    const auto got = gradients<TypeParam>(d);
    EXPECT_TRUE(within(got.dx, Reals(15), 0));
    EXPECT_TRUE(within(got.dgamma, Reals(5), 0));
  }
}

TYPED_TEST(SegmentBackward, KeepsNanAndInfinityInTheirOwnGroup) {
  if (fast_math) GTEST_SKIP();
  using T = typename TypeParam::Scalar;
  const T nan = std::numeric_limits<T>::quiet_NaN(), infinity = std::numeric_limits<T>::infinity();
  for (const auto& [segments, columns] : {std::pair{1, 5}, {4, 1}, {3, 33}, {40, 2}}) {
    for (const auto& shape : layouts_of({.outer = 2, .groups = 3, .segments = segments, .columns = columns})) {
      SCOPED_TRACE(shape.text());
      const auto clean = random_segments<T>(shape, 557);
      const auto expected = gradients<TypeParam>(clean).dx;
      const Index n = shape.group_size();
      for (std::vector<T> SegmentData<T>::*input : {&SegmentData<T>::x, &SegmentData<T>::dy}) {
        for (const T value : {nan, infinity}) {
          auto d = clean;
          (d.*input)[static_cast<std::size_t>(2 * n + n / 2)] = value;
          const auto got = gradients<TypeParam>(d).dx;
          EXPECT_TRUE(same_bits(rows_of(got, n, 0, 2), rows_of(expected, n, 0, 2)));
          EXPECT_TRUE(same_bits(rows_of(got, n, 3, 3), rows_of(expected, n, 3, 3)));
          EXPECT_TRUE(std::ranges::any_of(rows_of(got, n, 2, 1), [](T v) { return std::isnan(v); }));
        }
      }
    }
  }
}

// Lanes past the end of a segment must not turn a group that is all mean into NaN: (0 - mean) * rstd overflows.
TYPED_TEST(SegmentBackward, OfAVeryLargeConstantIsFinite) {
  using T = typename TypeParam::Scalar;
  if (fast_math) GTEST_SKIP();
  for (const auto& shape : layouts_of({.segments = 3, .columns = 5})) {
    auto d = random_segments<T>(shape, 563);
    d.x.assign(d.x.size(), std::numeric_limits<T>::max() / 4);
    const auto got = gradients<TypeParam>(d);
    EXPECT_TRUE(std::ranges::all_of(got.dx, [](T v) { return is_finite(static_cast<double>(v)); })) << shape.text();
    EXPECT_TRUE(within(got.dgamma, Reals(d.gamma.size()), 0)) << shape.text();
  }
}

// B52
TYPED_TEST(SegmentBackward, GammaMayContainZeros) {
  using T = typename TypeParam::Scalar;
  for (const auto& shape : layouts_of({.segments = 3, .columns = 7})) {
    auto d = random_segments<T>(shape, 569);
    for (std::size_t i = 0; i < d.gamma.size(); i += 2) d.gamma[i] = 0;
    SCOPED_TRACE(shape.text());
    expect_contract<TypeParam>(d);
  }
}

}  // namespace
}  // namespace evenkeel_test
