// How far a result may be from the expected one, and the assertions that say where it is worst.
//
//   EXPECT_TRUE(within_ulp(y, oracle::layer_norm(...), 4));            // scale max(|y_i|, 1)
//   EXPECT_TRUE(within_ulp(dx, gradients.dx, 4, gradients.dx_scale));  // gradients: gradient_check.hpp
//   EXPECT_TRUE(within_ulp(dgamma, gradients.dgamma, 4 * std::sqrt(rows), gradients.dgamma_scale));
//   EXPECT_TRUE(within(y, expected, tolerance));                       // an absolute number
//
// `got` and `expected` are anything with size() and [], such as std::vector, std::span and Eigen
// vectors. NaN and infinities pass nothing.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <limits>
#include <sstream>
#include <type_traits>
#include <utility>
#include <vector>

namespace evenkeel_test {

/// The distance from 1 to the next number: 2^-23 for float, 2^-52 for double.
template <class Scalar>
constexpr long double ulp() {
  return static_cast<long double>(std::numeric_limits<Scalar>::epsilon());
}

template <class Numbers>
using scalar_of = std::remove_cvref_t<decltype(std::declval<const Numbers&>()[0])>;

/// Neither NaN nor infinite, looked up in the bits: with -ffast-math compilers answer std::isfinite without looking.
inline bool is_finite(double value) {
  constexpr std::uint64_t exponent = 0x7FF0000000000000u;
  return (std::bit_cast<std::uint64_t>(value) & exponent) != exponent;
}

/// Where two vectors differ most, measured by a scale.
struct WorstElement {
  std::size_t index = 0;
  long double error = 0;  // |got - expected| / scale; infinite where either is NaN or infinite
  long double scale = 0;
};

/// `scale` has one entry for each element, for each row or for all: element i has the entry
/// i * scale.size() / size. A scale of 0 asks for equality. `got` and `expected` must have the same size.
template <class Got, class Expected>
WorstElement worst_element(const Got& got, const Expected& expected, const std::vector<long double>& scale) {
  const auto size = static_cast<std::size_t>(expected.size());
  WorstElement worst;
  for (std::size_t i = 0; i < size; ++i) {
    const auto got_i = static_cast<long double>(got[i]), expected_i = static_cast<long double>(expected[i]);
    const long double scale_i = scale.at(i * scale.size() / size);
    if (!is_finite(static_cast<double>(got_i)) || !is_finite(static_cast<double>(expected_i)))
      return {i, std::numeric_limits<long double>::infinity(), scale_i};
    const long double difference = std::abs(got_i - expected_i);
    const long double error = difference == 0 ? 0 : difference / scale_i;
    if (i == 0 || error > worst.error) worst = {i, error, scale_i};
  }
  return worst;
}

/// max(|expected_i|, 1) for each i: the scale of an output in the accuracy contract.
template <class Expected>
std::vector<long double> output_scale(const Expected& expected) {
  std::vector<long double> scale;
  for (std::size_t i = 0; i < static_cast<std::size_t>(expected.size()); ++i)
    scale.push_back(std::max(std::abs(static_cast<long double>(expected[i])), 1.0L));
  return scale;
}

/// The largest error in ulp of the scale, for tables; infinite where there is a NaN or an infinity.
template <class Got, class Expected>
long double max_error_in_ulp(const Got& got, const Expected& expected, const std::vector<long double>& scale) {
  return worst_element(got, expected, scale).error / ulp<scalar_of<Got>>();
}

template <class Got, class Expected>
long double max_error_in_ulp(const Got& got, const Expected& expected) {
  return max_error_in_ulp(got, expected, output_scale(expected));
}

/// No |got - expected| / scale above `allowed` times `unit`; the failure names the worst element.
template <class Got, class Expected>
testing::AssertionResult within_units(const Got& got, const Expected& expected, long double allowed,
                                      const std::vector<long double>& scale, long double unit, const char* unit_name) {
  if (std::cmp_not_equal(got.size(), expected.size()))
    return testing::AssertionFailure() << "got " << got.size() << " elements, expected " << expected.size();
  const WorstElement worst = worst_element(got, expected, scale);
  if (worst.error / unit <= allowed) return testing::AssertionSuccess();
  std::ostringstream text;
  text << std::setprecision(std::numeric_limits<scalar_of<Got>>::max_digits10 + 3);
  text << "element " << worst.index << " of " << expected.size() << ": got "
       << static_cast<long double>(got[worst.index]) << ", expected " << static_cast<long double>(expected[worst.index])
       << std::setprecision(4) << ", error " << worst.error / unit << unit_name << worst.scale << ", allowed "
       << allowed;
  return testing::AssertionFailure() << text.str();
}

/// At most `ulps` ulp of `scale` off, ulp being that of the type of `got`.
template <class Got, class Expected>
testing::AssertionResult within_ulp(const Got& got, const Expected& expected, long double ulps,
                                    const std::vector<long double>& scale) {
  return within_units(got, expected, ulps, scale, ulp<scalar_of<Got>>(), " ulp of ");
}

/// The same with the scale max(|expected_i|, 1).
template <class Got, class Expected>
testing::AssertionResult within_ulp(const Got& got, const Expected& expected, long double ulps) {
  return within_ulp(got, expected, ulps, output_scale(expected));
}

/// Whether `sum` is what adding `part` to elements of `before` gives: gradients that are added to.
template <class Got, class Part>
testing::AssertionResult is_added_to(long double before, const Part& part, const Got& sum, long double ulps) {
  std::vector<long double> expected(part.begin(), part.end());
  for (long double& value : expected) value += before;
  return within_ulp(sum, expected, ulps);
}

/// At most `tolerance` off, as an absolute number.
template <class Got, class Expected>
testing::AssertionResult within(const Got& got, const Expected& expected, long double tolerance) {
  return within_units(got, expected, 1, {tolerance}, 1, " times ");
}

}  // namespace evenkeel_test
