// Tests of kernels/residual_add.hpp: s = alpha * x + lambda * d, to the last bit.
#include "evenkeel/kernels/residual_add.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "support/random.hpp"

namespace evenkeel_test {
namespace {

namespace kernels = evenkeel::kernels;
using kernels::Index;

template <class ArchType, class ScalarType>
struct SumConfig {
  using Arch = ArchType;
  using Scalar = ScalarType;
};
using SumConfigs = testing::Types<SumConfig<evenkeel::native, float>, SumConfig<evenkeel::native, double>,
                                  SumConfig<evenkeel::scalar, float>, SumConfig<evenkeel::scalar, double>>;

struct SumConfigName {
  template <class C>
  static std::string GetName(int) {
    const std::string scalar = std::is_same_v<typename C::Scalar, float> ? "float" : "double";
    return scalar + (std::is_same_v<typename C::Arch, evenkeel::scalar> ? "_scalar" : "_native");
  }
};

/// The bits of a vector: tells 0 from -0, and a NaN equals itself.
template <class T>
std::vector<unsigned char> bits(const std::vector<T>& values) {
  std::vector<unsigned char> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class C>
class ResidualAdd : public testing::Test {
 protected:
  using Scalar = typename C::Scalar;
  using Args = kernels::ResidualAddArgs<Scalar>;
  static constexpr Index width = kernels::Simd<evenkeel::native, Scalar>::width;
  static constexpr Scalar alpha = Scalar(2.213363839400643), lambda = Scalar(-0.3194715521231362);

  static void run(const Args& args) { kernels::residual_add<typename C::Arch>(args); }

  /// What one element has to be. Volatile: this file too is compiled for contraction and for fast math.
  static Scalar sum_of(Scalar a, Scalar x, Scalar l, Scalar d) {
    volatile Scalar product = l * d;
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return std::fma(a, x, product);
#else
    volatile Scalar skip = a * x;
    return skip + product;
#endif
  }
  static std::vector<Scalar> sums_of(Scalar a, const std::vector<Scalar>& x, Scalar l, const std::vector<Scalar>& d) {
    std::vector<Scalar> s;
    for (std::size_t i = 0; i < x.size(); ++i) s.push_back(sum_of(a, x[i], l, d[i]));
    return s;
  }
  static std::vector<Scalar> numbers(Index count, std::uint64_t seed) {
    return normal_vector<Scalar>(static_cast<std::size_t>(count), seed, 0.25, 3);
  }
  /// Tails of every length, before and after whole vectors.
  static std::vector<Index> row_lengths() {
    std::vector<Index> lengths = {768, 1001};
    for (Index n = 1; n <= 4 * width + 1; ++n) lengths.push_back(n);
    return lengths;
  }
};

TYPED_TEST_SUITE(ResidualAdd, SumConfigs, SumConfigName);

TYPED_TEST(ResidualAdd, RoundsTheProductOfTheBranchThenTheSumOnce) {
  using T = typename TypeParam::Scalar;
  for (const Index n : this->row_lengths()) {
    const auto x = this->numbers(3 * n, 1), d = this->numbers(3 * n, 2);
    std::vector<T> s(x.size());
    this->run({x.data(), d.data(), s.data(), this->alpha, this->lambda, 3, n, n, n, n});
    EXPECT_EQ(s, this->sums_of(this->alpha, x, this->lambda, d)) << n << " features";
  }
}

TYPED_TEST(ResidualAdd, IsTheRoundedSumWhereBothFactorsAreOne) {
  using T = typename TypeParam::Scalar;
  const auto x = this->numbers(101, 3), d = this->numbers(101, 4);
  std::vector<T> s(101), expected;
  for (std::size_t i = 0; i < 101; ++i) expected.push_back(x[i] + d[i]);
  this->run({x.data(), d.data(), s.data(), 1, 1, 1, 101, 101, 101, 101});
  EXPECT_EQ(s, expected);
}

TYPED_TEST(ResidualAdd, WithoutABranchIsTheProductOfTheSkipPath) {
  using T = typename TypeParam::Scalar;
  for (const Index n : this->row_lengths()) {
    const auto x = this->numbers(2 * n, 5);
    std::vector<T> s(x.size()), expected;
    for (const T value : x) expected.push_back(this->alpha * value);
    this->run({x.data(), nullptr, s.data(), this->alpha, this->lambda, 2, n, n, 0, n});
    EXPECT_EQ(s, expected) << n << " features";
  }
}

TYPED_TEST(ResidualAdd, WithoutASkipPathIsTheProductOfTheBranch) {
  using T = typename TypeParam::Scalar;
  for (const Index n : this->row_lengths()) {
    const auto d = this->numbers(2 * n, 5);
    std::vector<T> s(d.size()), expected;
    for (const T value : d) expected.push_back(this->lambda * value);
    this->run({nullptr, d.data(), s.data(), this->alpha, this->lambda, 2, n, 0, n, n});
    EXPECT_EQ(s, expected) << n << " features";
  }
}

TYPED_TEST(ResidualAdd, TakesALambdaForEachFeature) {
  using T = typename TypeParam::Scalar;
  for (const Index n : this->row_lengths()) {
    const auto x = this->numbers(2 * n, 5), d = this->numbers(2 * n, 6), lambdas = this->numbers(n, 7);
    std::vector<T> s(x.size()), products(x.size()), expected, expected_products;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const T lambda_i = lambdas[i % static_cast<std::size_t>(n)];
      expected.push_back(this->sum_of(this->alpha, x[i], lambda_i, d[i]));
      expected_products.push_back(lambda_i * d[i]);
    }
    this->run({x.data(), d.data(), s.data(), this->alpha, 99, 2, n, n, n, n, lambdas.data()});
    this->run({nullptr, d.data(), products.data(), this->alpha, 99, 2, n, 0, n, n, lambdas.data()});
    EXPECT_EQ(s, expected) << n << " features";
    EXPECT_EQ(products, expected_products) << n << " features";
  }
}

TYPED_TEST(ResidualAdd, WritesOverXOrDOrBoth) {
  using T = typename TypeParam::Scalar;
  for (const Index n : this->row_lengths()) {
    const auto x = this->numbers(2 * n, 6), d = this->numbers(2 * n, 7);
    std::vector<T> over_x = x, over_d = d, over_both = x, over_skip = x, skip;
    this->run({over_x.data(), d.data(), over_x.data(), this->alpha, this->lambda, 2, n, n, n, n});
    this->run({x.data(), over_d.data(), over_d.data(), this->alpha, this->lambda, 2, n, n, n, n});
    this->run({over_both.data(), over_both.data(), over_both.data(), this->alpha, this->lambda, 2, n, n, n, n});
    this->run({over_skip.data(), nullptr, over_skip.data(), this->alpha, this->lambda, 2, n, n, n, n});
    for (const T value : x) skip.push_back(this->alpha * value);
    EXPECT_EQ(over_x, this->sums_of(this->alpha, x, this->lambda, d)) << n << " features";
    EXPECT_EQ(over_d, this->sums_of(this->alpha, x, this->lambda, d)) << n << " features";
    EXPECT_EQ(over_both, this->sums_of(this->alpha, x, this->lambda, x)) << n << " features";
    EXPECT_EQ(over_skip, skip) << n << " features";
  }
}

TYPED_TEST(ResidualAdd, SkipsTheGapsBetweenRows) {
  using T = typename TypeParam::Scalar;
  constexpr Index rows = 4;
  constexpr T poison = T(-12345.678);
  for (const Index n : {Index{1}, this->width - 1, this->width, 2 * this->width + 3}) {
    if (n == 0) continue;
    const Index x_stride = n + 3, d_stride = n + 1, s_stride = n + 5;  // different, and the last row ends the memory
    std::vector<T> x((rows - 1) * x_stride + n, poison), d((rows - 1) * d_stride + n, poison);
    std::vector<T> s((rows - 1) * s_stride + n, poison), expected = s;
    Random random(8);
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < n; ++j) {
        T &x_ij = x[i * x_stride + j], &d_ij = d[i * d_stride + j];
        x_ij = static_cast<T>(random.normal());
        d_ij = static_cast<T>(random.normal());
        expected[i * s_stride + j] = this->sum_of(this->alpha, x_ij, this->lambda, d_ij);
      }
    }
    this->run({x.data(), d.data(), s.data(), this->alpha, this->lambda, rows, n, x_stride, d_stride, s_stride});
    EXPECT_EQ(s, expected) << n << " features";
  }
}

TYPED_TEST(ResidualAdd, GivesTheSameBitsAtAnyAddress) {
  using T = typename TypeParam::Scalar;
  constexpr Index offsets = 64 / sizeof(T);
  for (const Index n : {Index{1}, Index{7}, Index{8}, Index{9}, Index{33}}) {
    const auto x = this->numbers(n, 9), d = this->numbers(n, 10);
    const auto expected = this->sums_of(this->alpha, x, this->lambda, d);
    for (Index offset = 0; offset < 3 * offsets; ++offset) {  // of x alone, of d alone, of s alone
      const Index at_x = offset < offsets ? offset : 0;
      const Index at_d = offset / offsets == 1 ? offset % offsets : 0;
      const Index at_s = offset / offsets == 2 ? offset % offsets : 0;
      std::vector<T> moved_x(at_x), moved_d(at_d), s(at_s + n, T(99));
      moved_x.insert(moved_x.end(), x.begin(), x.end());
      moved_d.insert(moved_d.end(), d.begin(), d.end());
      this->run(
          {moved_x.data() + at_x, moved_d.data() + at_d, s.data() + at_s, this->alpha, this->lambda, 1, n, n, n, n});
      EXPECT_EQ(std::vector<T>(s.begin() + at_s, s.end()), expected);
      EXPECT_EQ(std::count(s.begin(), s.begin() + at_s, T(99)), at_s);
    }
  }
}

TYPED_TEST(ResidualAdd, TouchesNoMemoryWithoutElements) {
  using T = typename TypeParam::Scalar;
  this->run({nullptr, nullptr, nullptr, 1, 1, 0, 5, 5, 5, 5});
  this->run({nullptr, nullptr, nullptr, 1, 1, 5, 0, 0, 0, 0});
  T x = 1, d = 2, s = 3;
  this->run({&x, &d, &s, 1, 1, 1, 0, 0, 0, 0});
  this->run({&x, &d, &s, 1, 1, 0, 1, 1, 1, 1});
  EXPECT_EQ(s, 3);
}

TYPED_TEST(ResidualAdd, AZeroBranchReturnsXExactly) {
  using T = typename TypeParam::Scalar;
  const auto x = this->numbers(2 * this->width + 1, 11);
  std::vector<T> zero(x.size(), 0), s(x.size());
  const Index n = static_cast<Index>(x.size());
  this->run({x.data(), zero.data(), s.data(), 1, this->lambda, 1, n, n, n, n});
  EXPECT_EQ(bits(s), bits(x));
}

TYPED_TEST(ResidualAdd, FmaKeepsWhatATwiceRoundedSumLoses) {
  using T = typename TypeParam::Scalar;
  volatile T e = std::numeric_limits<T>::epsilon();
  const std::vector<T> x(2 * this->width + 1, 1 - e), d(x.size(), 1);  // (1 + e) * (1 - e) - 1 is -e^2
  std::vector<T> s(x.size());
  const Index n = static_cast<Index>(x.size());
  this->run({x.data(), d.data(), s.data(), 1 + e, -1, 1, n, n, n, n});
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  const T expected = -e * e;
#else
  const T expected = 0;
#endif
  EXPECT_EQ(s, std::vector<T>(x.size(), expected));
}

TYPED_TEST(ResidualAdd, TheProductOfTheBranchIsRoundedWhereTheSkipPathIsZero) {
  using T = typename TypeParam::Scalar;
  volatile T e = std::numeric_limits<T>::epsilon();
  // (1 + e) * (1 - e) rounds to 1: a sum that takes the exact product gives -e^2.
  const std::vector<T> x(2 * this->width + 1, -1), d(x.size(), 1 - e);
  std::vector<T> s(x.size(), 9);
  const Index n = static_cast<Index>(x.size());
  this->run({x.data(), d.data(), s.data(), 1, 1 + e, 1, n, n, n, n});
  EXPECT_EQ(s, std::vector<T>(x.size(), 0));
}

#ifndef __FAST_MATH__
TYPED_TEST(ResidualAdd, NaNAndInfinityStayInTheirElement) {
  using T = typename TypeParam::Scalar;
  const T nan = std::numeric_limits<T>::quiet_NaN(), inf = std::numeric_limits<T>::infinity();
  const Index n = 2 * this->width + 3;
  for (Index at = 0; at < n; ++at) {
    auto x = this->numbers(n, 12), d = this->numbers(n, 13);
    const auto finite = this->sums_of(this->alpha, x, this->lambda, d);
    x[at] = at % 2 == 0 ? nan : inf;
    d[n - 1 - at] = at % 3 == 0 ? nan : 0;
    std::vector<T> s(x.size());
    this->run({x.data(), d.data(), s.data(), this->alpha, this->lambda, 1, n, n, n, n});
    for (Index j = 0; j < n; ++j) {
      if (j == at || j == n - 1 - at) {
        const T expected = this->sum_of(this->alpha, x[j], this->lambda, d[j]);
        EXPECT_EQ(std::isnan(s[j]), std::isnan(expected));
        if (!std::isnan(expected)) {
          EXPECT_EQ(s[j], expected);
        }
      } else {
        EXPECT_EQ(s[j], finite[j]);
      }
    }
  }
}

TYPED_TEST(ResidualAdd, OverflowAndUnderflowAreThoseOfTheFormula) {
  using T = typename TypeParam::Scalar;
  const T big = std::numeric_limits<T>::max(), small = std::numeric_limits<T>::denorm_min();
  const std::vector<T> x = {big, big, -big, small, small, T(0), T(-0.0)},
                       d = {big, -big, -big, small, -small, 0, T(-0.0)};
  std::vector<T> s(x.size());
  const Index n = static_cast<Index>(x.size());
  this->run({x.data(), d.data(), s.data(), 1, 1, 1, n, n, n, n});
  EXPECT_EQ(bits(s), bits(this->sums_of(1, x, 1, d)));
}
#endif

}  // namespace
}  // namespace evenkeel_test
