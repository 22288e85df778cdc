// The accuracy contract: every kind of row, at every size, forward and backward, against the long double oracle.
#include "kernels/kernel_test.hpp"

namespace evenkeel_test {
namespace {

template <class C>
class Accuracy : public testing::Test {
 protected:
  using Scalar = typename C::Scalar;

  static std::vector<Index> sizes() {
    const Index width = kernels::Simd<evenkeel::native, Scalar>::width;
    return {1, 2, width - 1, width, width + 1, 2 * width + 1, 64, 768, 1001, 4096, 65536};
  }

  /// The contract's inputs. With -ffast-math subnormal numbers are zeros, in x and in the dx of the largest rows.
  static std::vector<InputFamily<Scalar>> families() {
    auto families = input_families<Scalar>();
    if (fast_math) {
      const bool is_float = std::is_same_v<Scalar, float>;
      std::erase_if(families, [&](const auto& family) {
        return family.name.starts_with(is_float ? "1e30 " : "1e300 ") ||
               (is_float && family.name.starts_with("1e-38 "));
      });
    }
    return families;
  }

  /// Rows of one family, with dy and gamma such that no dx overflows, though rstd be 1e38.
  static Data<Scalar> data(const InputFamily<Scalar>& family, Index n) {
    const Index rows = n > 4096 ? 2 : 5;
    Data<Scalar> d = random_data<Scalar>(rows, n, 31);
    d.x = family_rows(family, static_cast<std::size_t>(rows), static_cast<std::size_t>(n), 37);
    d.eps = family.eps;
    for (Scalar& value : d.dy) value /= 64;
    return d;
  }

  static void expect_contract(const Data<Scalar>& d) {
    const auto saved = forward<C>(d);
    const auto got = backward<C>(d, saved);
    const auto expected = expected_gradients<C>(d);
    const long double parameter_ulps = contract_ulps * std::sqrt(static_cast<long double>(d.rows));
    EXPECT_TRUE(within_ulp(got.dx, expected.dx, contract_ulps, expected.dx_scale));
    EXPECT_TRUE(within_ulp(got.dgamma, expected.dgamma, parameter_ulps, expected.dgamma_scale));
    if (C::Norm::centred) {
      EXPECT_TRUE(within_ulp(got.dbeta, expected.dbeta, parameter_ulps, expected.dbeta_scale));
    }
    EXPECT_TRUE(within_ulp(saved.y, expected_y<C>(d), contract_ulps, y_scale<C>(d)));
  }
};

TYPED_TEST_SUITE(Accuracy, BothNorms, ConfigName);

TYPED_TEST(Accuracy, HoldsForEveryInputFamilyAtEverySize) {
  for (const auto& family : this->families()) {
    for (const Index n : this->sizes()) {
      SCOPED_TRACE(family.name + ", n = " + std::to_string(n));
      auto d = this->data(family, n);
      this->expect_contract(d);
      d.gamma.clear(), d.beta.clear();
      EXPECT_TRUE(within_ulp(forward<TypeParam>(d).y, expected_y<TypeParam>(d), contract_ulps));
    }
  }
}

// B36
TYPED_TEST(Accuracy, HoldsForEveryMeanAndSpread) {
  using T = typename TypeParam::Scalar;
  for (const double std : {1e-3, 1.0, 1e3}) {
    for (const double mean : {0.0, 5.0, 1e3}) {
      for (const Index n : {7, 768, 1001}) {
        SCOPED_TRACE("std " + std::to_string(std) + ", mean " + std::to_string(mean) + ", n " + std::to_string(n));
        auto d = random_data<T>(9, n, 41);
        d.x = normal_vector<T>(d.x.size(), 43, mean, std);
        this->expect_contract(d);
      }
    }
  }
}

TYPED_TEST(Accuracy, HoldsForEveryMagnitudeOfXAndDy) {
  using T = typename TypeParam::Scalar;
  const int largest = std::is_same_v<T, float> ? 36 : 300;
  for (int exponent = -largest; exponent <= largest; exponent += largest / 36) {
    for (const double dy_magnitude : {1e-6, 1.0, 1e4}) {
      const double x_magnitude = std::pow(10.0, exponent);
      if (exponent > 29 && (fast_math || std::is_same_v<T, float>)) continue;           // the contract ends at 1e30
      if (dy_magnitude / x_magnitude > 1e-2 * std::numeric_limits<T>::max()) continue;  // dx would overflow
      if (dy_magnitude / x_magnitude < 1e8 * std::numeric_limits<T>::min()) continue;   // or lose digits to underflow
      SCOPED_TRACE("x 1e" + std::to_string(exponent) + ", dy " + std::to_string(dy_magnitude));
      auto d = random_data<T>(9, 100, 47);
      d.x = normal_vector<T>(d.x.size(), 53, 0, x_magnitude);
      for (T& value : d.dy) value *= static_cast<T>(dy_magnitude);
      for (const double eps : {0.0, x_magnitude * x_magnitude}) {  // none, and one that halves the variance's share
        d.eps = eps;
        this->expect_contract(d);
      }
    }
  }
}

// Equal numbers are rounded alike, so that the errors of a sum do not average out as those of random numbers do.
TYPED_TEST(Accuracy, HoldsForRowsOfFewDifferentNumbers) {
  using T = typename TypeParam::Scalar;
  Random random(57);
  for (int i = 0; i < 200; ++i) {
    const double a = 1 + std::abs(random.normal()), b = random.normal();
    for (const Index n : {64, 256, 768, 1024}) {
      auto d = random_data<T>(3, n, 58);
      for (Index j = 0; j < n; ++j) {
        const double sign = j % 2 == 0 ? 1 : -1, rows[] = {a, sign * a, sign * (j % 4 < 2 ? a : b)};
        for (Index r = 0; r < 3; ++r) d.x[static_cast<std::size_t>(r * n + j)] = static_cast<T>(rows[r]);
      }
      SCOPED_TRACE(std::to_string(a) + ", " + std::to_string(b) + ", n = " + std::to_string(n));
      this->expect_contract(d);
    }
  }
}

TYPED_TEST(Accuracy, HoldsForRowsWithATrend) {
  using T = typename TypeParam::Scalar;
  for (const Index n : {64, 768, 4096, 65536}) {
    for (const double mean : {0.0, 1e4}) {
      SCOPED_TRACE("n = " + std::to_string(n) + ", mean = " + std::to_string(mean));
      auto d = random_data<T>(4, n, 59);
      for (Index j = 0; j < n; ++j) {
        const double ramp = static_cast<double>(j) / static_cast<double>(n);
        const double shapes[] = {ramp, 1 - ramp, std::exp(12 * ramp), j < 9 * n / 10 ? 1.0 : -1.0};
        for (Index i = 0; i < 4; ++i) d.x[static_cast<std::size_t>(i * n + j)] = static_cast<T>(shapes[i] + mean);
      }
      this->expect_contract(d);
    }
  }
}

TYPED_TEST(Accuracy, HoldsForOneOutlierAtAnyPlace) {
  using T = typename TypeParam::Scalar;
  const Index n = 2 * kernels::Simd<evenkeel::native, T>::width + 3;
  auto d = random_data<T>(n, n, 61);  // row i has it in column i
  for (Index i = 0; i < n; ++i) d.x[static_cast<std::size_t>(i * n + i)] = T(1e4);
  this->expect_contract(d);
}

TYPED_TEST(Accuracy, RowsNearTheLargestNumberAreFinite) {
  using T = typename TypeParam::Scalar;
  if (fast_math) GTEST_SKIP();
  const T largest = std::numeric_limits<T>::max();
  for (const Index n : {2, 7, 16, 768, 4096}) {
    auto d = random_data<T>(3, n, 67);
    for (std::size_t i = 0; i < d.x.size(); ++i) d.x[i] = i % 3 == 0 ? largest : i % 3 == 1 ? -largest : largest / 2;
    d.eps = 0;
    const auto saved = forward<TypeParam>(d);
    EXPECT_TRUE(within(saved.y, expected_y<TypeParam>(d), 1e-3L)) << n;
    const auto got = backward<TypeParam>(d, saved);
    const auto expected = expected_gradients<TypeParam>(d);
    const long double dgamma_scale = 1e-3L * expected.dgamma_scale[0];
    EXPECT_TRUE(within(got.dgamma, expected.dgamma, dgamma_scale)) << n;
    EXPECT_TRUE(std::ranges::all_of(got.dx, [](T value) { return is_finite(static_cast<double>(value)); })) << n;
  }
}

TYPED_TEST(Accuracy, ParameterGradientsOfManyRowsAreWithinAMillionthOfTheLargest) {
  using T = typename TypeParam::Scalar;
  auto d = random_data<T>(65536, 8, 71, 1);
  for (T& value : d.dy) value += 1;  // so that the sums grow with the rows, not with their square root
  const auto got = gradients<TypeParam>(d, {.wanted = {.dx = false}});
  const auto expected = expected_gradients<TypeParam>(d);
  const long double tolerance = 1e-6L * ulp<T>() / ulp<float>();
  EXPECT_TRUE(within(got.dgamma, expected.dgamma, tolerance * oracle::largest_magnitude(expected.dgamma)));
  if (TypeParam::Norm::centred) {
    EXPECT_TRUE(within(got.dbeta, expected.dbeta, tolerance * oracle::largest_magnitude(expected.dbeta)));
  }
}

TYPED_TEST(Accuracy, BackwardWithoutMeanRestHasTheMeansOwnAccuracy) {
  using T = typename TypeParam::Scalar;
  if (!TypeParam::Norm::centred) GTEST_SKIP() << "RMSNorm has no mean";
  for (const double mean : {0.0, 5.0, 1e4}) {
    const auto d = random_data<T>(9, 768, 73, mean);
    auto saved = forward<TypeParam>(d);
    saved.mean_rest.clear();
    const auto got = backward<TypeParam>(d, saved);
    const auto expected = expected_gradients<TypeParam>(d);
    const long double ulps = contract_ulps + static_cast<long double>(mean);
    EXPECT_TRUE(within_ulp(got.dx, expected.dx, ulps, expected.dx_scale)) << mean;
    EXPECT_TRUE(within_ulp(got.dgamma, expected.dgamma, 3 * ulps, expected.dgamma_scale)) << mean;
  }
}

}  // namespace
}  // namespace evenkeel_test
