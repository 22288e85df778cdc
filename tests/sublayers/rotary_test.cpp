// Tests of sublayers/rotary.hpp.
#include "evenkeel/sublayers/rotary.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <vector>

#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Index;
using evenkeel::Rotary;
using evenkeel::Shape;
using evenkeel::detail::rotate;
using evenkeel::detail::Turn;

constexpr Index batch = 2, seq = 3, heads = 2, head_dim = 6, pairs = head_dim / 2;
const Shape shape{batch, seq, heads, head_dim};

template <class T>
class RotaryOf : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(RotaryOf, Scalars);

/// Pair i of the token at place p, as a complex number, times exp(i * p * base^(-2i / head_dim)).
template <class T>
void expect_turned(const std::vector<T>& got, const std::vector<T>& x, const Rotary& rotary, Index position) {
  for (Index row = 0; row < batch * seq * heads; ++row) {
    const auto place = static_cast<long double>(position + row / heads % seq);
    for (Index i = 0; i < pairs; ++i) {
      const auto real = static_cast<std::size_t>(row * head_dim + (rotary.interleaved ? 2 * i : i));
      const auto imaginary = real + static_cast<std::size_t>(rotary.interleaved ? 1 : pairs);
      const long double angle =
          place * std::pow(static_cast<long double>(rotary.base), -2.0L * static_cast<long double>(i) / head_dim);
      const std::complex<long double> turned =
          std::complex<long double>(x[real], x[imaginary]) * std::polar(1.0L, angle);
      // The angle is computed in double.
      const long double allowed = 2 * std::abs(turned) * (ulp<T>() + place * ulp<double>());
      EXPECT_LE(std::abs(got[real] - turned.real()), allowed) << row << ", pair " << i;
      EXPECT_LE(std::abs(got[imaginary] - turned.imag()), allowed) << row << ", pair " << i;
    }
  }
}

TYPED_TEST(RotaryOf, TurnsPairsByTheirPosition) {
  const auto x = normal_vector<TypeParam>(static_cast<std::size_t>(shape.size()), 1);
  for (const bool interleaved : {false, true}) {
    for (const Index position : {0, 5, 100000}) {
      const Rotary rotary{.base = 500, .interleaved = interleaved};
      auto turned = x;
      rotate(rotary, Turn::forward, position, shape, turned.data());
      expect_turned(turned, x, rotary, position);
    }
  }
}

TYPED_TEST(RotaryOf, BackIsTheInverse) {
  const auto x = normal_vector<TypeParam>(static_cast<std::size_t>(shape.size()), 2);
  auto turned = x;
  rotate(Rotary{}, Turn::forward, 3, shape, turned.data());
  rotate(Rotary{}, Turn::back, 3, shape, turned.data());
  EXPECT_TRUE(within_ulp(turned, x, 4));
}

}  // namespace
}  // namespace evenkeel_test
