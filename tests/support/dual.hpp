// Dual numbers: derivatives that are exact to rounding, for the gradient tests.
//
// A dual number carries a value and its derivative with respect to one chosen input; every operation applies the
// chain rule to both. Give the input the derivative 1, run any templated code, and read the derivative of the result:
//
//   Dual<> x = 3;
//   x.derivative = 1;
//   const Dual<> y = x * x + sqrt(x);      // y.derivative is 2 * 3 + 1 / (2 * sqrt(3))
//
// Unlike a finite difference it has no step to tune, so a test can ask for the last digits.
#pragma once

#include <cmath>
#include <compare>
#include <numbers>

namespace evenkeel_test {

template <class T = long double>
struct Dual {
  T value{};
  T derivative{};

  constexpr Dual() = default;
  constexpr Dual(T value_of, T derivative_of = T{}) : value(value_of), derivative(derivative_of) {}

  constexpr Dual& operator+=(const Dual& b) { return *this = *this + b; }
  constexpr Dual& operator-=(const Dual& b) { return *this = *this - b; }
  constexpr Dual& operator*=(const Dual& b) { return *this = *this * b; }
  constexpr Dual& operator/=(const Dual& b) { return *this = *this / b; }

  // Friends in the class, so that a plain number on either side converts.
  friend constexpr Dual operator-(const Dual& a) { return {-a.value, -a.derivative}; }
  friend constexpr Dual operator+(const Dual& a, const Dual& b) {
    return {a.value + b.value, a.derivative + b.derivative};
  }
  friend constexpr Dual operator-(const Dual& a, const Dual& b) {
    return {a.value - b.value, a.derivative - b.derivative};
  }
  friend constexpr Dual operator*(const Dual& a, const Dual& b) {
    return {a.value * b.value, a.derivative * b.value + a.value * b.derivative};
  }
  friend constexpr Dual operator/(const Dual& a, const Dual& b) {
    const T quotient = a.value / b.value;
    return {quotient, (a.derivative - quotient * b.derivative) / b.value};
  }

  // Comparisons are by value: a branch takes the side that the plain computation takes.
  friend constexpr bool operator==(const Dual& a, const Dual& b) { return a.value == b.value; }
  friend constexpr auto operator<=>(const Dual& a, const Dual& b) { return a.value <=> b.value; }

  friend Dual sqrt(const Dual& a) {
    const T root = std::sqrt(a.value);
    return {root, a.derivative / (2 * root)};
  }
  friend Dual exp(const Dual& a) {
    const T power = std::exp(a.value);
    return {power, power * a.derivative};
  }
  friend Dual tanh(const Dual& a) {
    const T t = std::tanh(a.value);
    return {t, (1 - t * t) * a.derivative};
  }
  friend Dual erf(const Dual& a) {
    const T slope = 2 * std::numbers::inv_sqrtpi_v<T> * std::exp(-a.value * a.value);
    return {std::erf(a.value), slope * a.derivative};
  }

  // At a kink: max takes its first argument, as std::max does, and abs has the derivative 0.
  friend constexpr Dual max(const Dual& a, const Dual& b) { return a < b ? b : a; }
  friend constexpr Dual abs(const Dual& a) {
    if (a.value == 0) return {0, 0};
    return a.value < 0 ? -a : a;
  }
};

}  // namespace evenkeel_test
