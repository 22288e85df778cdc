// Tests of kernels/residual_add.hpp and kernels/add_norm_forward.hpp with a drop: s = alpha * x + lambda * drop(d +
// bias), to the last bit, with the mask of every position from its definition.
#include <cmath>

#include "evenkeel/core/dropout_draw.hpp"
#include "evenkeel/kernels/add_norm_forward.hpp"
#include "kernels/kernel_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::DropoutDraw;
using evenkeel::RandomKey;

template <class ArchType, class X>
struct DropConfig {
  using Arch = ArchType;
  using Data = X;
};
using DropConfigs =
    testing::Types<DropConfig<evenkeel::native, float>, DropConfig<evenkeel::native, double>,
                   DropConfig<evenkeel::native, kernels::bf16>, DropConfig<evenkeel::native, kernels::f16>,
                   DropConfig<evenkeel::scalar, float>, DropConfig<evenkeel::scalar, double>,
                   DropConfig<evenkeel::scalar, kernels::bf16>, DropConfig<evenkeel::native, long double>>;

template <class C>
class ResidualDrop : public testing::Test {
 protected:
  using Data = typename C::Data;
  using Number = kernels::Compute<Data>;
  using Args = kernels::ResidualAddArgs<Data>;
  static constexpr Number alpha = Number(-1.25), lambda = Number(0.7), scale = Number(1 / 0.7);

  const DropoutDraw draw{RandomKey{7}, 3, std::uint64_t{0x4CCCCCCD}};  // p = 0.3
  std::vector<Data> x, d, s;
  std::vector<Number> lambdas, bias;

  static std::size_t width() {
    if constexpr (kernels::is_vectorized<Data>)
      return static_cast<std::size_t>(kernels::Simd<evenkeel::native, Number>::width);
    return 1;
  }
  static std::vector<Data> numbers(std::size_t count, std::uint64_t seed) {
    std::vector<Data> stored;
    for (const Number value : normal_vector<Number>(count, seed, 0.25))
      stored.push_back(kernels::from_compute<Data>(value));
    return stored;
  }
  Args args(Index rows, Index features, std::uint64_t position = 0) {
    const auto size = static_cast<std::size_t>(rows * features), columns = static_cast<std::size_t>(features);
    x = numbers(size, 1), d = numbers(size, 2), s = numbers(size, 3);
    lambdas = normal_vector<Number>(columns, 4), bias = normal_vector<Number>(columns, 5);
    Args a{x.data(), d.data(), s.data(), alpha, lambda, rows, features, features, features, features};
    a.drop = {&draw, scale, position};
    return a;
  }
  static void run(const Args& a) { kernels::residual_add<typename C::Arch>(a); }

  /// Volatile: this file too is compiled for contraction and for fast math.
  Data dropped(const Data& d_i, std::uint64_t position, const Number* bias_j) const {
    volatile Number value = kernels::to_compute(d_i);
    if (bias_j) value = kernels::to_compute(kernels::from_compute<Data>(value + *bias_j));
    volatile Number scaled = value * scale;
    return kernels::from_compute<Data>(draw.keeps(position) ? Number(scaled) : Number(0));
  }
  static Data sum_of(const Data& x_i, Number l, const Data& branch) {
    volatile Number product = l * kernels::to_compute(branch);
    const Number skip = kernels::to_compute(x_i);
    if constexpr (kernels::is_vectorized<Data>) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
      return kernels::from_compute<Data>(std::fma(alpha, skip, Number(product)));
#endif
    }
    volatile Number scaled = alpha * skip;
    return kernels::from_compute<Data>(scaled + product);
  }
  std::vector<Data> expected(const Args& a) const {
    std::vector<Data> sums;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t j = i % static_cast<std::size_t>(a.features);
      const Number* bias_j = a.bias ? a.bias + (a.has_one_bias ? 0 : j) : nullptr;
      sums.push_back(sum_of(x[i], a.lambdas ? a.lambdas[j] : a.lambda, dropped(d[i], a.drop.position + i, bias_j)));
    }
    return sums;
  }
  static bool same(const std::vector<Data>& a, const std::vector<Data>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!(kernels::to_compute(a[i]) == kernels::to_compute(b[i]))) return false;
    }
    return a.size() == b.size();
  }
};

struct DropConfigName {
  template <class C>
  static std::string GetName(int) {
    using X = typename C::Data;
    const std::string type = std::is_same_v<X, float>           ? "float"
                             : std::is_same_v<X, double>        ? "double"
                             : std::is_same_v<X, kernels::bf16> ? "bf16"
                             : std::is_same_v<X, kernels::f16>  ? "f16"
                                                                : "long_double";
    return type + (std::is_same_v<typename C::Arch, evenkeel::scalar> ? "_scalar" : "_native");
  }
};
TYPED_TEST_SUITE(ResidualDrop, DropConfigs, DropConfigName);

TYPED_TEST(ResidualDrop, DropsByPositionScalesAndAdds) {
  const auto width = static_cast<Index>(this->width());
  for (const Index n : {Index{1}, width - 1, width, width + 1, 2 * width + 1, Index{40}, Index{131}, Index{2500}}) {
    for (const std::uint64_t position : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{1} << 33}) {
      for (const Index rows : {1, 2, 17}) {
        if (n == 0) continue;
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(n));
        auto a = this->args(rows, n, position);
        this->run(a);
        EXPECT_TRUE(this->same(this->s, this->expected(a)));
        a.bias = this->bias.data();
        this->run(a);
        EXPECT_TRUE(this->same(this->s, this->expected(a))) << "with a bias";
        a.has_one_bias = true;
        a.lambdas = this->lambdas.data();
        this->run(a);
        EXPECT_TRUE(this->same(this->s, this->expected(a))) << "with one bias, and lambdas";
      }
    }
  }
}

TYPED_TEST(ResidualDrop, WritesOverXOrDAndLeavesGaps) {
  for (const Index n : {Index{5}, Index{33}, Index{1500}}) {
    auto a = this->args(4, n);
    const auto expected = this->expected(a);
    a.s = this->x.data();
    this->run(a);
    EXPECT_TRUE(this->same(this->x, expected)) << n;
    a = this->args(4, n);
    a.s = this->d.data();
    this->run(a);
    EXPECT_TRUE(this->same(this->d, expected)) << n;
    a = this->args(4, n);
    a.x_stride = a.d_stride = a.s_stride = 2 * n;
    a.rows = 2;
    const auto before = this->s;
    this->run(a);
    for (std::size_t i = 0; i < 2 * static_cast<std::size_t>(n); ++i) {
      const std::size_t row = i / static_cast<std::size_t>(n), at = i + row * static_cast<std::size_t>(n);
      const auto sum = this->sum_of(this->x[at], this->lambda, this->dropped(this->d[at], i, nullptr));
      EXPECT_EQ(kernels::to_compute(this->s[at]), kernels::to_compute(sum)) << n;
      const std::size_t gap = at + static_cast<std::size_t>(n);
      EXPECT_EQ(kernels::to_compute(this->s[gap]), kernels::to_compute(before[gap]));
    }
  }
}

TYPED_TEST(ResidualDrop, IsTheSameInPieces) {
  auto a = this->args(23, 45, 6);
  const auto expected = this->expected(a);
  for (const auto& [first, last] : {std::pair<Index, Index>{20, 23}, {0, 1}, {1, 9}, {9, 20}}) {
    this->run(kernels::rows_of(a, first, last - first));
  }
  EXPECT_TRUE(this->same(this->s, expected));
}

TYPED_TEST(ResidualDrop, AtTheEndsOfPKeepsAllOrNothing) {
  auto a = this->args(3, 70);
  const DropoutDraw all(RandomKey{7}, 3, 0), nothing(RandomKey{7}, 3, std::uint64_t{1} << 32);
  a.drop = {&all};
  this->run(a);
  const auto kept = this->s;
  a.drop = {};
  this->run(a);
  EXPECT_TRUE(this->same(this->s, kept));
  a.drop = {&nothing};
  this->run(a);
  for (std::size_t i = 0; i < this->s.size(); ++i) {
    EXPECT_EQ(kernels::to_compute(this->s[i]), kernels::to_compute(this->sum_of(this->x[i], 0, this->d[i])));
  }
}

TYPED_TEST(ResidualDrop, ADroppedNaNIsZero) {
  using T = typename TestFixture::Number;
  if (fast_math) GTEST_SKIP();
  const auto a = this->args(2, 150);
  for (std::size_t i = 0; i < this->d.size(); ++i) {
    const T poison = i % 2 == 0 ? std::numeric_limits<T>::quiet_NaN() : std::numeric_limits<T>::infinity();
    if (!this->draw.keeps(i)) this->d[i] = kernels::from_compute<typename TestFixture::Data>(poison);
  }
  this->run(a);
  EXPECT_TRUE(this->same(this->s, this->expected(a)));
  for (const auto& value : this->s) EXPECT_TRUE(std::isfinite(kernels::to_compute(value)));
}

TYPED_TEST(ResidualDrop, FusedWithANormIsTheSumAndTheNormToTheLastBit) {
  using X = typename TestFixture::Data;
  using T = typename TestFixture::Number;
  if constexpr (kernels::is_vectorized<X>) {
    using Arch = typename TypeParam::Arch;
    for (const auto& [rows, n] : {std::pair<Index, Index>{1, 3}, {9, 40}, {5, 700}, {3, 5000}, {2, 20000}}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(n));
      auto a = this->args(rows, n, 5);
      a.bias = this->bias.data();
      this->run(a);
      const auto sum = this->s;
      std::vector<X> y(sum.size()), expected_y(sum.size());
      const auto count = static_cast<std::size_t>(rows);
      std::vector<T> mean(count), rest(count), rstd(count);
      kernels::RowNormForward<X> norm;
      norm.x = this->s.data(), norm.y = expected_y.data(), norm.rows = rows, norm.features = n;
      norm.mean = mean.data(), norm.mean_rest = rest.data(), norm.rstd = rstd.data();
      norm.x_stride = norm.y_stride = n, norm.eps = 1e-3;
      kernels::row_norm_forward<Arch, kernels::LayerNormRow>(norm);
      const auto expected_mean = mean, expected_rstd = rstd;
      std::fill(this->s.begin(), this->s.end(), X(T(0)));
      norm.y = y.data();
      kernels::add_norm_forward<Arch, kernels::LayerNormRow>(a, norm);
      EXPECT_TRUE(this->same(this->s, sum));
      EXPECT_TRUE(this->same(y, expected_y));
      EXPECT_EQ(mean, expected_mean);
      EXPECT_EQ(rstd, expected_rstd);
    }
  }
}

}  // namespace
}  // namespace evenkeel_test
