#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "evenkeel/core/error.hpp"

/// Where errors of single numbers start: each check names what was given and what was expected.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

template <class Number>
[[noreturn, gnu::cold, gnu::noinline]] void raise_value(const char* where, const char* name, Number value,
                                                        const std::string& expected) {
  raise_invalid_argument(where, std::string(name) + " is " + std::to_string(value) + ", expected " + expected);
}

}  // namespace detail

/// Throws std::invalid_argument unless a count is at least `least`.
inline void require_at_least(const char* where, const char* name, std::int64_t count, std::int64_t least) {
  if (count < least) detail::raise_value(where, name, count, "at least " + std::to_string(least));
}

/// Throws std::invalid_argument unless a number is finite.
inline void require_finite(const char* where, const char* name, double value) {
  if (std::abs(value) <= std::numeric_limits<double>::max()) return;
  detail::raise_value(where, name, value, "a finite number");
}

/// Throws std::invalid_argument unless a number is finite, and at least 0.
inline void require_not_negative(const char* where, const char* name, double value) {
  if (value >= 0 && value <= std::numeric_limits<double>::max()) return;
  detail::raise_value(where, name, value, "a finite number of at least 0");
}

/// Throws std::invalid_argument unless a number is a share of something: from 0 to 1.
inline void require_share(const char* where, const char* name, double value) {
  if (!(value >= 0 && value <= 1)) detail::raise_value(where, name, value, "a number from 0 to 1");
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
