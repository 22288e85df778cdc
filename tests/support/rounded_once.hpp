// What it means that results of 16 bits are rounded once.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "evenkeel/core/number_types.hpp"
#include "support/oracle.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {

template <class X>
Reals widened(const std::vector<X>& values) {
  Reals wide;
  for (const X& value : values) wide.push_back(static_cast<float>(value));
  return wide;
}
template <class X, class Numbers>
std::vector<X> rounded(const Numbers& values) {
  std::vector<X> narrow;
  for (const auto& value : values) narrow.push_back(X(static_cast<float>(value)));
  return narrow;
}

/// The distance between the two numbers of type T around a value.
template <class T>
long double unit_at(long double value) {
  constexpr auto format = evenkeel::kernels::StorageTraits<T>::format;
  constexpr int digits = format == evenkeel::kernels::StorageFormat::half       ? 11
                         : format == evenkeel::kernels::StorageFormat::bfloat16 ? 8
                                                                                : 24;
  constexpr int smallest_exponent = format == evenkeel::kernels::StorageFormat::half ? -14 : -126;
  const int exponent = value == 0 ? smallest_exponent : std::max(std::ilogb(value), smallest_exponent);
  return std::ldexp(1.0L, exponent - digits + 1);
}

/// Rounded once: within half of a unit of T, and what computing in float costs, in ulp of float of `scale`. That is
/// within one unit of T wherever the result is not far smaller than the scale.
template <class T>
testing::AssertionResult rounded_once(const std::vector<T>& got, const Reals& expected, long double float_ulps,
                                      const Reals& scale) {
  if (got.size() != expected.size())
    return testing::AssertionFailure() << "got " << got.size() << " elements, expected " << expected.size();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const long double value = static_cast<float>(got[i]);
    const long double unit = unit_at<T>(std::max(std::abs(value), std::abs(expected[i])));
    const long double allowed = unit / 2 + float_ulps * ulp<float>() * scale.at(i * scale.size() / got.size());
    if (!(std::abs(value - expected[i]) <= allowed))
      return testing::AssertionFailure() << "element " << i << " is " << value << ", expected " << expected[i]
                                         << ", off by " << std::abs(value - expected[i]) / unit << " units";
  }
  return testing::AssertionSuccess();
}

}  // namespace evenkeel_test
