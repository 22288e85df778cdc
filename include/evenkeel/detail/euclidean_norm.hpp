#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "evenkeel/core/number_types.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// The sum of term(value) over numbers, in double. Several chains, so that the compiler can use vectors.
template <class Scalar, class Term>
double sum_in_double(std::span<const Scalar> values, const Term& term) {
  constexpr std::size_t chains = 8;
  double sums[chains] = {};
  std::size_t i = 0;
  for (; i + chains <= values.size(); i += chains) {
    for (std::size_t k = 0; k < chains; ++k) sums[k] += term(static_cast<double>(kernels::to_compute(values[i + k])));
  }
  for (; i < values.size(); ++i) sums[0] += term(static_cast<double>(kernels::to_compute(values[i])));
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

template <class EachSpan>
double square_sum(const EachSpan& each_span, double factor) {
  double sum = 0;
  each_span([&](const auto& values) {
    sum += sum_in_double(values, [factor](double v) { return (factor * v) * (factor * v); });
  });
  return sum;
}

template <class EachSpan>
double largest_magnitude(const EachSpan& each_span) {
  double largest = 0;
  each_span([&](const auto& values) {
    for (const auto& value : values) {
      largest = std::max(largest, std::abs(static_cast<double>(kernels::to_compute(value))));
    }
  });
  return largest;
}

/// sqrt(sum of squares) of the numbers of all spans with which each_span(visit) calls visit. NaN if there is one,
/// infinite if there is an infinity; else right whatever the magnitudes, unless it is beyond the largest double itself.
template <class EachSpan>
double euclidean_norm(const EachSpan& each_span) {
  // Above this, squares too small for a double are less than the rounding of the sum.
  constexpr double least = 0x1p-900, most = std::numeric_limits<double>::max();
  const double plain = square_sum(each_span, 1);
  const bool is_nan = plain != plain;
  if (is_nan || (plain >= least && plain <= most)) return std::sqrt(plain);
  // Numbers beyond 1e154, or all below 1e-135, as only doubles can be: again, with the largest brought near 1.
  const double largest = largest_magnitude(each_span);
  if (largest == 0 || largest > most) return largest;
  const double factor = std::ldexp(1.0, std::clamp(-std::ilogb(largest), -1000, 1000));
  return std::sqrt(square_sum(each_span, factor)) / factor;
}

/// The same of one span.
template <class Scalar>
double euclidean_norm(std::span<const Scalar> values) {
  return euclidean_norm([&](const auto& visit) { visit(values); });
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
