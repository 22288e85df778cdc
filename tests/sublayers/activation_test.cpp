// Tests of sublayers/activation.hpp.
#include "evenkeel/sublayers/activation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "sublayers/activation_oracle.hpp"
#include "support/gradient_check.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::activate;
using evenkeel::activate_backward;
using evenkeel::Activation;

constexpr Activation activations[] = {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu};

std::string name(Activation activation) {
  return std::vector{"relu", "gelu", "gelu_tanh", "silu"}.at(static_cast<int>(activation));
}

template <class T>
std::vector<T> activated(Activation activation, const std::vector<T>& x) {
  std::vector<T> y(x.size());
  activate(activation, x.data(), y.data(), static_cast<evenkeel::Index>(x.size()));
  return y;
}

template <class T>
std::vector<T> activated_backward(Activation activation, const std::vector<T>& dy, const std::vector<T>& x) {
  std::vector<T> dx(x.size());
  activate_backward(activation, dy.data(), x.data(), dx.data(), static_cast<evenkeel::Index>(x.size()));
  return dx;
}

/// -12 to 12: beyond, GELU is x or 0 to every digit of a double.
template <class T>
std::vector<T> grid() {
  std::vector<T> x;
  for (int i = -12 * 512; i <= 12 * 512; ++i) x.push_back(static_cast<T>(i / 512.0 + 1e-4 * (i % 7)));
  return x;
}

template <class T>
class ActivationOf : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(ActivationOf, Scalars);

TYPED_TEST(ActivationOf, ValuesMatchTheOracle) {
  const auto x = grid<TypeParam>();
  for (const Activation activation : activations) {
    Reals y;
    for (const TypeParam value : x) y.push_back(oracle::activation_of<long double>(activation)(value));
    EXPECT_TRUE(within_ulp(activated(activation, x), y, 2)) << name(activation);  // measured: 1.1
  }
}

TYPED_TEST(ActivationOf, TheTailOfGeluKeepsItsDigits) {
  // x * erfc(-x / sqrt(2)) / 2, where 1 + erf would cancel. An error in x / sqrt(2) grows by x^2.
  std::vector<TypeParam> x;
  Reals y, scale;
  for (int i = 0; i <= 800; ++i) {
    x.push_back(static_cast<TypeParam>(-i / 100.0));
    const auto wide = static_cast<long double>(x.back());
    y.push_back(wide * std::erfc(-wide / std::sqrt(2.0L)) / 2);
    scale.push_back(std::abs(y.back()) * std::max(wide * wide, 1.0L));
  }
  EXPECT_TRUE(within_ulp(activated(Activation::gelu, x), y, 4, scale));
}

TYPED_TEST(ActivationOf, DerivativesMatchDualNumbers) {
  const auto x = grid<TypeParam>();
  const auto dy = normal_vector<TypeParam>(x.size(), 1);
  for (const Activation activation : activations) {
    Reals dx, scale;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Dual<> y = oracle::activation_of<Dual<>>(activation)(Dual<>(x[i], 1));
      dx.push_back(y.derivative * dy[i]);
      scale.push_back(std::abs(static_cast<long double>(dy[i])));
    }
    const double ulps = activation == Activation::gelu_tanh ? 24 : 3;  // measured: 11.7 (1 - tanh^2 cancels); 1.6
    EXPECT_TRUE(within_ulp(activated_backward(activation, dy, x), dx, ulps, scale)) << name(activation);
  }
}

TYPED_TEST(ActivationOf, MayWriteOverItsInput) {
  const auto x = grid<TypeParam>();
  const auto dy = normal_vector<TypeParam>(x.size(), 2);
  const auto count = static_cast<evenkeel::Index>(x.size());
  for (const Activation activation : activations) {
    auto y = x, dx = dy;
    activate(activation, y.data(), y.data(), count);
    activate_backward(activation, dx.data(), x.data(), dx.data(), count);
    EXPECT_EQ(y, activated(activation, x)) << name(activation);
    EXPECT_EQ(dx, activated_backward(activation, dy, x)) << name(activation);
  }
}

TYPED_TEST(ActivationOf, ZeroIsAFixedPoint) {
  const std::vector<TypeParam> zero = {0}, one = {1};
  for (const Activation activation : activations) EXPECT_EQ(activated(activation, zero), zero) << name(activation);
  EXPECT_EQ(activated_backward(Activation::relu, one, zero), zero);
  EXPECT_EQ(activated_backward(Activation::gelu, one, zero), std::vector<TypeParam>{TypeParam(0.5)});
  EXPECT_EQ(activated_backward(Activation::gelu_tanh, one, zero), std::vector<TypeParam>{TypeParam(0.5)});
  EXPECT_EQ(activated_backward(Activation::silu, one, zero), std::vector<TypeParam>{TypeParam(0.5)});
}

TYPED_TEST(ActivationOf, LargeArgumentsPassOrStopWhole) {
  const TypeParam largest = std::numeric_limits<TypeParam>::max();
  for (const TypeParam x : {TypeParam(100), TypeParam(1e10), std::sqrt(largest), largest / 16, largest}) {
    for (const Activation activation : activations) {
      EXPECT_EQ(activated<TypeParam>(activation, {x, -x}), (std::vector<TypeParam>{x, 0}))
          << name(activation) << " at " << x;
      EXPECT_EQ(activated_backward<TypeParam>(activation, {3, 3}, {x, -x}), (std::vector<TypeParam>{3, 0}))
          << name(activation) << " at " << x;
    }
  }
}

TYPED_TEST(ActivationOf, NaNAndInfinityStayInTheirElement) {
  const TypeParam inf = std::numeric_limits<TypeParam>::infinity();
  const TypeParam nan = std::numeric_limits<TypeParam>::quiet_NaN();
  for (const Activation activation : activations) {
    const auto y = activated<TypeParam>(activation, {1, nan, -2, inf, 3, -inf, 4});
    EXPECT_TRUE(std::isnan(y[1])) << name(activation);
    EXPECT_EQ(y[3], inf) << name(activation);
    const auto finite = activated<TypeParam>(activation, {1, -2, 3, 4});
    EXPECT_EQ((std::vector<TypeParam>{y[0], y[2], y[4], y[6]}), finite) << name(activation);
  }
  EXPECT_EQ(activated<TypeParam>(Activation::relu, {inf, -inf}), (std::vector<TypeParam>{inf, 0}));
  EXPECT_EQ(activated_backward<TypeParam>(Activation::relu, {2, 2}, {inf, -inf}), (std::vector<TypeParam>{2, 0}));
}

TYPED_TEST(ActivationOf, NothingIsTouchedWithoutElements) {
  for (const Activation activation : activations) {
    activate<TypeParam>(activation, nullptr, nullptr, 0);
    activate_backward<TypeParam>(activation, nullptr, nullptr, nullptr, 0);
  }
}

}  // namespace
}  // namespace evenkeel_test
