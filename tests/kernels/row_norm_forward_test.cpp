// Tests of kernels/row_norm_forward.hpp: sizes, memory, and the independence of rows. Accuracy: accuracy_test.cpp.
#include "kernels/kernel_test.hpp"

namespace evenkeel_test {
namespace {

template <class C>
class Forward : public testing::Test {};
TYPED_TEST_SUITE(Forward, BothNorms, ConfigName);

// B41
TYPED_TEST(Forward, IsRightAtEveryEdgeSizeWithAndWithoutParameters) {
  using T = typename TypeParam::Scalar;
  for (const Index n : edge_features<T>()) {
    const auto full = random_data<T>(3, n, 101, 0.5);
    for (const bool gamma : {false, true}) {
      for (const bool beta : {false, true}) {
        auto d = full;
        if (!gamma) d.gamma.clear();
        if (!beta) d.beta.clear();
        EXPECT_TRUE(within_ulp(forward<TypeParam>(d).y, expected_y<TypeParam>(d), contract_ulps, y_scale<TypeParam>(d)))
            << n << ", gamma " << gamma << ", beta " << beta;
      }
    }
  }
}

TYPED_TEST(Forward, GivesARowTheSameBitsInEveryBatch) {
  using T = typename TypeParam::Scalar;
  for (const Index n : edge_features<T>()) {
    const Index all_rows = n < 100 ? 257 : 43;
    const auto d = mixed_data<T>(all_rows, n, 103);
    const auto all = forward<TypeParam>(d);
    for (const Index rows : {1, 2, 3, 7, 8, 9, 127, 128, 129}) {
      for (Index first = 0; first + rows <= all_rows; first += std::max(rows, all_rows / 4)) {
        SCOPED_TRACE("n " + std::to_string(n) + ", rows from " + std::to_string(first) + ": " + std::to_string(rows));
        expect_same_bits(forward<TypeParam>(rows_of(d, first, rows)), rows_of(all, n, first, rows));
      }
    }
  }
}

TYPED_TEST(Forward, GivesARowTheSameBitsInABatchBeyondTheCaches) {
  using T = typename TypeParam::Scalar;
  for (const Index n : {33, 1001, 2053, 6000}) {
    const Index all_rows = rows_beyond_cache<T>(n);
    const auto d = mixed_data<T>(all_rows, n, 105);
    const auto all = forward<TypeParam>(d);
    expect_same_bits(forward<TypeParam>(d, {.layout = {.x = {.gap = 3}}, .in_place = true}), all);
    for (const Index first : {Index{0}, all_rows / 2, all_rows - 9}) {
      SCOPED_TRACE("n " + std::to_string(n) + ", rows from " + std::to_string(first));
      expect_same_bits(forward<TypeParam>(rows_of(d, first, 9)), rows_of(all, n, first, 9));
    }
  }
}

// B50, and B48: forward() checks what must not change.
TYPED_TEST(Forward, GivesTheSameBitsForEveryRowStride) {
  using T = typename TypeParam::Scalar;
  for (const Index n : edge_features<T>()) {
    const auto d = mixed_data<T>(5, n, 107);
    const auto expected = forward<TypeParam>(d);
    for (const Index gap : {1, 5, 64}) {
      expect_same_bits(forward<TypeParam>(d, {.layout = {.x = {.gap = gap}}}), expected);
      expect_same_bits(forward<TypeParam>(d, {.layout = {.y = {.gap = gap}}}), expected);
      expect_same_bits(forward<TypeParam>(d, {.layout = {.x = {.gap = gap}, .y = {.gap = gap + 3}}}), expected);
    }
  }
}

// B48
TYPED_TEST(Forward, ReadsARowOfStrideZeroAgainAndAgain) {
  using T = typename TypeParam::Scalar;
  auto d = random_data<T>(9, 33, 109);
  for (Index i = 1; i < d.rows; ++i) std::copy_n(d.x.begin(), d.features, d.x.begin() + i * d.features);
  expect_same_bits(forward<TypeParam>(d, {.layout = {.x = {.gap = -d.features}}}), forward<TypeParam>(d));
}

// B79
TYPED_TEST(Forward, GivesTheSameBitsAtEveryAddress) {
  using T = typename TypeParam::Scalar;
  for (const Index n : {1, 7, 8, 9, 33, 261}) {
    const auto d = random_data<T>(3, n, 113);
    const auto expected = forward<TypeParam>(d);
    for (Place Layout::*array : {&Layout::x, &Layout::y, &Layout::gamma, &Layout::beta, &Layout::statistics}) {
      for (Index offset = 1; offset < 64 / static_cast<Index>(sizeof(T)); ++offset) {
        ForwardOptions options;
        (options.layout.*array).offset = offset;
        expect_same_bits(forward<TypeParam>(d, options), expected);
      }
    }
  }
}

TYPED_TEST(Forward, InPlaceGivesTheSameBits) {
  using T = typename TypeParam::Scalar;
  for (const Index n : edge_features<T>()) {
    for (const Index rows : {1, 2, 3, 9, 25}) {
      const auto d = mixed_data<T>(rows, n, 127);
      const auto expected = forward<TypeParam>(d);
      expect_same_bits(forward<TypeParam>(d, {.in_place = true}), expected);
      expect_same_bits(forward<TypeParam>(d, {.layout = {.x = {.offset = 1, .gap = 3}}, .in_place = true}), expected);
    }
  }
}

// B66
TYPED_TEST(Forward, OfNothingTouchesNothing) {
  using T = typename TypeParam::Scalar;
  forward<TypeParam>(Data<T>{.rows = 0, .features = 8});
  forward<TypeParam>(Data<T>{.rows = 4, .features = 0});
  forward<TypeParam>(Data<T>{.rows = 0, .features = 0});
  const auto without_rows = random_data<T>(0, 8, 131);
  EXPECT_EQ(forward<TypeParam>(without_rows).y.size(), 0u);
}

TYPED_TEST(Forward, KeepsNanAndInfinityInTheirOwnRow) {
  if (fast_math) GTEST_SKIP();
  using T = typename TypeParam::Scalar;
  using Limits = std::numeric_limits<T>;
  const Index rows = 11;
  for (const Index n : edge_features<T>()) {
    const auto clean = random_data<T>(rows, n, 137);
    const auto expected = forward<TypeParam>(clean);
    for (const T value : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
      for (const Index row : {Index{0}, Index{4}, rows - 1}) {
        for (const Index column : {Index{0}, n / 2, n - 1}) {
          auto d = clean;
          d.x[static_cast<std::size_t>(row * n + column)] = value;
          const auto got = forward<TypeParam>(d);
          expect_same_bits(rows_of(got, n, 0, row), rows_of(expected, n, 0, row));
          expect_same_bits(rows_of(got, n, row + 1, rows - row - 1), rows_of(expected, n, row + 1, rows - row - 1));
          const auto y = rows_of(got.y, n, row, 1);
          EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(column)])) << value << ", " << n;
          // RMSNorm may leave zeros beside infinity: 1 / sqrt(infinity) is 0.
          if (TypeParam::Norm::centred || std::isnan(value)) {
            EXPECT_EQ(std::ranges::count_if(y, [](T v) { return std::isnan(v); }), n) << value;
          }
        }
      }
    }
  }
}

// B13
TYPED_TEST(Forward, WithoutEpsARowWithoutSpreadGivesBeta) {
  using T = typename TypeParam::Scalar;
  for (const Index n : edge_features<T>()) {
    for (const T value :
         {T(2), T(1234.567), T(3e7), T(0.1), T(1e-10), T(1e-20), T(1e-37), std::numeric_limits<T>::max()}) {
      auto d = random_data<T>(3, n, 139);  // between two ordinary rows
      std::fill_n(d.x.begin() + n, n, TypeParam::Norm::centred ? value : T(0));
      d.eps = 0;
      const auto saved = forward<TypeParam>(d);
      const auto beta = TypeParam::Norm::centred ? d.beta : std::vector<T>(static_cast<std::size_t>(n));
      EXPECT_EQ(rows_of(saved.y, n, 1, 1), beta) << value << ", " << n;
      EXPECT_EQ(saved.rstd[1], 0) << value << ", " << n;
    }
  }
}

}  // namespace
}  // namespace evenkeel_test
