// Tests of kernels/row_norm_backward.hpp: formulas, sizes, memory, and the independence of rows. Accuracy:
// accuracy_test.cpp.
#include "kernels/kernel_test.hpp"

namespace evenkeel_test {
namespace {

template <class C>
class Backward : public testing::Test {
 protected:
  using Scalar = typename C::Scalar;

  /// Gradients are those of the dual numbers, within the contract.
  static void expect_gradients_of_dual_numbers(const Data<Scalar>& d) {
    using oracle::widen;
    const auto norm = [&](const auto& in) { return C::Norm::y(in[0], d.rows, d.features, in[1], in[2], d.eps); };
    const std::vector<Reals> inputs = {widen(d.x), widen(d.gamma), widen(d.beta)};
    const auto expected = [&](std::size_t index) { return gradient(inputs, index, norm, widen(d.dy)); };
    const oracle::NormGradients scale = expected_gradients<C>(d);
    const long double parameter_ulps = contract_ulps * std::sqrt(static_cast<long double>(d.rows));

    const Gradients<Scalar> got = gradients<C>(d);
    EXPECT_TRUE(within_ulp(got.dx, expected(0), contract_ulps, scale.dx_scale));
    if (!d.gamma.empty()) {
      EXPECT_TRUE(within_ulp(got.dgamma, expected(1), parameter_ulps, scale.dgamma_scale));
    }
    if (!d.beta.empty() && C::Norm::centred) {
      EXPECT_TRUE(within_ulp(got.dbeta, expected(2), parameter_ulps, scale.dbeta_scale));
    }
  }
};
TYPED_TEST_SUITE(Backward, BothNorms, ConfigName);

// B41, B44
TYPED_TEST(Backward, GradientsAreThoseOfDualNumbers) {
  using T = typename TypeParam::Scalar;
  const Index width = kernels::Simd<evenkeel::native, T>::width;
  for (const Index n : {Index{1}, Index{2}, Index{5}, width - 1, width, width + 1, 2 * width + 3}) {
    for (const Index rows : {1, 2, 3}) {
      for (int presence = 0; presence < 4; ++presence) {
        SCOPED_TRACE("n " + std::to_string(n) + ", presence " + std::to_string(presence));
        auto d = random_data<T>(rows, n, 211, 0.5);
        if (!(presence & 1)) d.gamma.clear();
        if (!(presence & 2)) d.beta.clear();
        this->expect_gradients_of_dual_numbers(d);
      }
    }
  }
}

TYPED_TEST(Backward, GradientsAreRightAtEveryEdgeSize) {
  using T = typename TypeParam::Scalar;
  for (const Index n : edge_features<T>()) {
    for (const Index rows : {1, 2, 3, 7, 8, 9}) {
      SCOPED_TRACE("n " + std::to_string(n) + ", rows " + std::to_string(rows));
      const auto d = random_data<T>(rows, n, 223, 0.5);
      const auto got = gradients<TypeParam>(d);
      const auto expected = expected_gradients<TypeParam>(d);
      const long double parameter_ulps = contract_ulps * std::sqrt(static_cast<long double>(rows));
      EXPECT_TRUE(within_ulp(got.dx, expected.dx, contract_ulps, expected.dx_scale));
      EXPECT_TRUE(within_ulp(got.dgamma, expected.dgamma, parameter_ulps, expected.dgamma_scale));
      if (TypeParam::Norm::centred) {
        EXPECT_TRUE(within_ulp(got.dbeta, expected.dbeta, parameter_ulps, expected.dbeta_scale));
      }
    }
  }
}

TYPED_TEST(Backward, ParameterGradientsAreRightForEveryNumberOfRows) {
  using T = typename TypeParam::Scalar;
  for (const Index rows : {0, 1, 2, 3, 7, 8, 9, 127, 128, 129, 255, 256, 257, 1000}) {
    for (const Index n : {5, 33, 2053}) {  // 2053: too long for rows to wait for each other
      if (rows * n > 600000) continue;
      SCOPED_TRACE("n " + std::to_string(n) + ", rows " + std::to_string(rows));
      const auto d = random_data<T>(rows, n, 227, 0.5);
      const auto got = gradients<TypeParam>(d, {.wanted = {.dx = false}});
      const auto expected = expected_gradients<TypeParam>(d);
      const long double ulps = contract_ulps * std::sqrt(static_cast<long double>(rows));
      EXPECT_TRUE(within_ulp(got.dgamma, expected.dgamma, ulps, expected.dgamma_scale));
      if (TypeParam::Norm::centred) {
        EXPECT_TRUE(within_ulp(got.dbeta, expected.dbeta, ulps, expected.dbeta_scale));
      }
    }
  }
}

TYPED_TEST(Backward, GivesWhatIsWantedAndTheSameBitsWhateverElseIs) {
  using T = typename TypeParam::Scalar;
  for (const Index n : {5, 33, 768, 2053}) {
    for (const Index rows : {1, 9, 130}) {
      const auto d = random_data<T>(rows, n, 229, 0.5);
      const auto all = gradients<TypeParam>(d);
      for (int wanted = 0; wanted < 8; ++wanted) {
        const bool dx = wanted & 1, dgamma = wanted & 2, dbeta = wanted & 4;
        const auto some = gradients<TypeParam>(d, {.wanted = {dx, dgamma, dbeta}});
        expect_same_bits(some, {.dx = dx ? all.dx : std::vector<T>(),
                                .dgamma = dgamma ? all.dgamma : std::vector<T>(),
                                .dbeta = dbeta ? all.dbeta : std::vector<T>()});
      }
    }
  }
}

/// Sums in T, as a loop over results would add them.
template <class T>
std::vector<T> sums(const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> sum;
  for (std::size_t i = 0; i < a.size(); ++i) sum.push_back(kernels::keep(a[i] + b[i]));
  return sum;
}

/// got is assigned + before. To an ulp: totals of many rows are in double, and rounded after the addition.
template <class T>
void expect_sum(const std::vector<T>& got, const std::vector<T>& assigned, const std::vector<T>& before) {
  if (before.empty()) {
    EXPECT_TRUE(same_bits(got, assigned));
    return;
  }
  Reals expected, scale;
  for (std::size_t i = 0; i < got.size(); ++i) {
    expected.push_back(static_cast<long double>(assigned[i]) + before[i]);
    scale.push_back(std::abs(static_cast<long double>(assigned[i])) + std::abs(expected[i]));
  }
  EXPECT_TRUE(within_ulp(got, expected, 1, scale));
}

// B57. Outputs that are assigned start as NaN.
TYPED_TEST(Backward, AssignsOrAddsEachOutputByItself) {
  using T = typename TypeParam::Scalar;
  constexpr bool centred = TypeParam::Norm::centred;
  for (const Index n : {1, 5, 33, 768, 2053}) {
    for (const Index rows : {1, 3, 130}) {
      const auto d = random_data<T>(rows, n, 233, 0.5);
      const auto before = random_data<T>(rows, n, 239);
      const auto assigned = gradients<TypeParam>(d);
      for (int adding = 0; adding < 8; ++adding) {
        SCOPED_TRACE("n " + std::to_string(n) + ", rows " + std::to_string(rows) + ", " + std::to_string(adding));
        const bool dx = adding & 1, dgamma = adding & 2, dbeta = (adding & 4) && centred;
        Gradients<T> add_to;
        if (dx) add_to.dx = before.x;
        if (dgamma) add_to.dgamma = before.gamma;
        if (dbeta) add_to.dbeta = before.beta;
        const auto got = gradients<TypeParam>(d, {.add_to = add_to});
        EXPECT_TRUE(same_bits(got.dx, dx ? sums(before.x, assigned.dx) : assigned.dx));
        expect_sum(got.dgamma, assigned.dgamma, add_to.dgamma);
        expect_sum(got.dbeta, assigned.dbeta, add_to.dbeta);
      }
    }
  }
}

// B57
TYPED_TEST(Backward, TwiceReplacesOrDoublesTheGradients) {
  const auto d = reference_box<typename TypeParam::Scalar>(1e-5);
  const auto once = gradients<TypeParam>(d);
  expect_same_bits(
      gradients<TypeParam>(d, {.add_to = once}),
      {.dx = sums(once.dx, once.dx), .dgamma = sums(once.dgamma, once.dgamma), .dbeta = sums(once.dbeta, once.dbeta)});
}

TYPED_TEST(Backward, GivesARowTheSameInputGradientInEveryBatch) {
  using T = typename TypeParam::Scalar;
  for (const Index n : edge_features<T>()) {
    const Index all_rows = n < 100 ? 257 : 43;
    const auto d = mixed_data<T>(all_rows, n, 241);
    const auto saved = forward<TypeParam>(d);
    const auto all = backward<TypeParam>(d, saved);
    for (const Index rows : {1, 2, 3, 7, 8, 9, 127, 128, 129}) {
      for (Index first = 0; first + rows <= all_rows; first += std::max(rows, all_rows / 4)) {
        const auto part = backward<TypeParam>(rows_of(d, first, rows), rows_of(saved, n, first, rows));
        EXPECT_TRUE(same_bits(part.dx, rows_of(all.dx, n, first, rows)))
            << "n " << n << ", rows from " << first << ": " << rows;
      }
    }
  }
}

TYPED_TEST(Backward, GivesTheSameBitsInABatchBeyondTheCaches) {
  using T = typename TypeParam::Scalar;
  for (const Index n : {33, 1001, 2053}) {
    const Index all_rows = rows_beyond_cache<T>(n);
    const auto d = mixed_data<T>(all_rows, n, 243);
    const auto saved = forward<TypeParam>(d);
    const auto all = backward<TypeParam>(d, saved);
    expect_same_bits(backward<TypeParam>(d, saved, {.layout = {.dy = {.gap = 3}}, .in_place = true}), all);
    const auto dx_only = backward<TypeParam>(d, saved, {.wanted = {.dgamma = false, .dbeta = false}});
    EXPECT_TRUE(same_bits(dx_only.dx, all.dx));
    const auto parameters_only = backward<TypeParam>(d, saved, {.wanted = {.dx = false}});
    EXPECT_TRUE(same_bits(parameters_only.dgamma, all.dgamma));
    EXPECT_TRUE(same_bits(parameters_only.dbeta, all.dbeta));
    for (const Index first : {Index{0}, all_rows / 2, all_rows - 9}) {
      const auto part = backward<TypeParam>(rows_of(d, first, 9), rows_of(saved, n, first, 9));
      EXPECT_TRUE(same_bits(part.dx, rows_of(all.dx, n, first, 9))) << "n " << n << ", rows from " << first;
    }
  }
}

// B50, and B48: backward() checks what must not change.
TYPED_TEST(Backward, GivesTheSameBitsForEveryRowStride) {
  using T = typename TypeParam::Scalar;
  for (const Index n : edge_features<T>()) {
    const auto d = mixed_data<T>(9, n, 251);
    const auto saved = forward<TypeParam>(d);
    const auto expected = backward<TypeParam>(d, saved);
    for (Place Layout::*array : {&Layout::x, &Layout::dy, &Layout::dx}) {
      for (const Index gap : {1, 5, 64}) {
        Layout layout;
        (layout.*array).gap = gap;
        expect_same_bits(backward<TypeParam>(d, saved, {.layout = layout}), expected);
      }
    }
  }
}

// B48
TYPED_TEST(Backward, ReadsRowsOfStrideZeroAgainAndAgain) {
  using T = typename TypeParam::Scalar;
  auto d = random_data<T>(9, 33, 257);
  for (std::vector<T>* values : {&d.x, &d.dy}) {
    for (Index i = 1; i < d.rows; ++i) std::copy_n(values->begin(), d.features, values->begin() + i * d.features);
  }
  const auto saved = forward<TypeParam>(d);
  const Place broadcast = {.gap = -d.features};
  expect_same_bits(backward<TypeParam>(d, saved, {.layout = {.x = broadcast, .dy = broadcast}}),
                   backward<TypeParam>(d, saved));
}

// B79
TYPED_TEST(Backward, GivesTheSameBitsAtEveryAddress) {
  using T = typename TypeParam::Scalar;
  for (const Index n : {1, 7, 8, 9, 33, 261}) {
    const auto d = random_data<T>(3, n, 263);
    const auto saved = forward<TypeParam>(d);
    const auto expected = backward<TypeParam>(d, saved);
    for (Place Layout::*array :
         {&Layout::x, &Layout::dy, &Layout::gamma, &Layout::dx, &Layout::dgamma, &Layout::dbeta, &Layout::statistics}) {
      for (Index offset = 1; offset < 64 / static_cast<Index>(sizeof(T)); ++offset) {
        Layout layout;
        (layout.*array).offset = offset;
        expect_same_bits(backward<TypeParam>(d, saved, {.layout = layout}), expected);
      }
    }
  }
}

TYPED_TEST(Backward, TakesAWorkspaceOfTheStatedSizeAtAnyAddress) {
  using T = typename TypeParam::Scalar;
  for (const Index rows : {0, 1, 128, 129}) {
    const auto d = random_data<T>(rows, 33, 269);
    const auto saved = forward<TypeParam>(d);
    const auto expected = backward<TypeParam>(d, saved);
    for (Index offset = 1; offset < 64; ++offset)
      expect_same_bits(backward<TypeParam>(d, saved, {.layout = {.workspace_offset = offset}}), expected);
  }
}

TYPED_TEST(Backward, InPlaceGivesTheSameBits) {
  using T = typename TypeParam::Scalar;
  for (const Index n : edge_features<T>()) {
    for (const Index rows : {1, 2, 3, 9, 25}) {
      const auto d = mixed_data<T>(rows, n, 271);
      const auto saved = forward<TypeParam>(d);
      for (const bool parameters : {false, true}) {
        const Wanted wanted = {true, parameters, parameters};
        const auto expected = backward<TypeParam>(d, saved, {.wanted = wanted});
        expect_same_bits(backward<TypeParam>(d, saved, {.wanted = wanted, .in_place = true}), expected);
        const Layout layout = {.dy = {.offset = 1, .gap = 3}};
        expect_same_bits(backward<TypeParam>(d, saved, {.wanted = wanted, .layout = layout, .in_place = true}),
                         expected);
      }
    }
  }
}

// B66
TYPED_TEST(Backward, OfNoFeaturesTouchesNothing) {
  using T = typename TypeParam::Scalar;
  for (const Index rows : {0, 4}) gradients<TypeParam>(Data<T>{.rows = rows, .features = 0});
}

// B66: the sum of no rows is zero.
TYPED_TEST(Backward, OfNoRowsAssignsZerosAndAddsNothing) {
  using T = typename TypeParam::Scalar;
  const std::size_t n = 8;
  const Data<T> d{.rows = 0, .features = n};
  const std::vector<T> zeros(n), before = normal_vector<T>(n, 277), none;
  const std::vector<T> zero_dbeta = TypeParam::Norm::centred ? zeros : none;
  expect_same_bits(gradients<TypeParam>(d), {.dgamma = zeros, .dbeta = zero_dbeta});
  expect_same_bits(gradients<TypeParam>(d, {.wanted = {.dgamma = false, .dbeta = false}}), {});
  const Gradients<T> start = {.dgamma = before, .dbeta = TypeParam::Norm::centred ? before : none};
  expect_same_bits(gradients<TypeParam>(d, {.add_to = start}), start);
}

TYPED_TEST(Backward, KeepsNanAndInfinityInTheirOwnRow) {
  if (fast_math) GTEST_SKIP();
  using T = typename TypeParam::Scalar;
  const T nan = std::numeric_limits<T>::quiet_NaN(), infinity = std::numeric_limits<T>::infinity();
  const Index rows = 11;
  for (const Index n : edge_features<T>()) {
    const auto clean = random_data<T>(rows, n, 281);
    const auto expected = gradients<TypeParam>(clean);
    for (std::vector<T> Data<T>::*input : {&Data<T>::x, &Data<T>::dy}) {
      for (const T value : {nan, infinity}) {
        for (const Index row : {Index{0}, Index{4}, rows - 1}) {
          auto d = clean;
          (d.*input)[static_cast<std::size_t>(row * n + n / 2)] = value;
          const auto got = gradients<TypeParam>(d);
          EXPECT_TRUE(same_bits(rows_of(got.dx, n, 0, row), rows_of(expected.dx, n, 0, row)));
          EXPECT_TRUE(
              same_bits(rows_of(got.dx, n, row + 1, rows - row - 1), rows_of(expected.dx, n, row + 1, rows - row - 1)));
          // (The input gradient of a row of one is 0 by definition, whatever is in it.)
          const auto dx = rows_of(got.dx, n, row, 1);
          EXPECT_TRUE(n == 1 || std::ranges::any_of(dx, [](T v) { return std::isnan(v); })) << value << ", " << n;
        }
      }
    }
  }
}

// B13
TYPED_TEST(Backward, WithoutEpsARowWithoutSpreadHasNoGradient) {
  using T = typename TypeParam::Scalar;
  for (const Index n : edge_features<T>()) {
    auto d = random_data<T>(3, n, 283);
    std::fill_n(d.x.begin() + n, n, TypeParam::Norm::centred ? T(2) : T(0));
    d.eps = 0;
    const auto got = gradients<TypeParam>(d);
    EXPECT_EQ(rows_of(got.dx, n, 1, 1), std::vector<T>(static_cast<std::size_t>(n))) << n;
    auto others = d;  // dgamma is theirs
    std::fill_n(others.dy.begin() + n, n, T(0));
    EXPECT_TRUE(same_bits(got.dgamma, gradients<TypeParam>(others).dgamma)) << n;
  }
}

// B52
TYPED_TEST(Backward, GammaMayContainZeros) {
  using T = typename TypeParam::Scalar;
  auto d = random_data<T>(5, 33, 293);
  for (const std::size_t j : {0u, 7u, 16u, 32u}) d.gamma[j] = 0;
  this->expect_gradients_of_dual_numbers(d);
}

// B45, B09: the gradients of many rows are the sums of those of each.
TYPED_TEST(Backward, ParameterGradientsAreSumsOverRows) {
  using T = typename TypeParam::Scalar;
  const auto d = random_data<T>(6, 12, 307);
  Gradients<T> sum;
  for (Index i = 0; i < d.rows; ++i) {
    const auto row = gradients<TypeParam>(rows_of(d, i, 1), {.add_to = {.dgamma = sum.dgamma, .dbeta = sum.dbeta}});
    sum.dgamma = row.dgamma, sum.dbeta = row.dbeta;
  }
  const auto all = gradients<TypeParam>(d);
  EXPECT_TRUE(within_ulp(all.dgamma, oracle::widen(sum.dgamma), contract_ulps));
  EXPECT_TRUE(within_ulp(all.dbeta, oracle::widen(sum.dbeta), contract_ulps));
}

TYPED_TEST(Backward, OfALargeConstantRowIsFiniteWhateverItsLength) {
  using T = typename TypeParam::Scalar;
  if (fast_math) GTEST_SKIP();
  for (const Index n : {5, 17, 33}) {
    auto d = random_data<T>(3, n, 281);
    std::fill(d.x.begin(), d.x.end(), std::numeric_limits<T>::max() / 16);
    for (const T value : gradients<TypeParam>(d).dx) EXPECT_TRUE(std::isfinite(value)) << n;
  }
}

}  // namespace
}  // namespace evenkeel_test
