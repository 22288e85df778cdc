#pragma once

#include <cmath>
#include <cstdint>
#include <span>

/// Random numbers that are the same on every platform, which those of <random> are not. The generator is SplitMix64
/// (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  /// N(0, 1) but for the far tails: the sum of 12 uniform numbers less 6. In integers, rounded once: log and cos, which
  /// other methods take, differ in their last bits from one standard library to the next.
  double normal() {
    std::int64_t sum = -(std::int64_t{6} << 53);
    for (int i = 0; i < 12; ++i) sum += static_cast<std::int64_t>(next() >> 11);
    return std::ldexp(static_cast<double>(sum), -53);
  }

  /// Overwrites `numbers` with N(0, std^2).
  template <class Scalar>
  void fill_normal(std::span<Scalar> numbers, double std = 1) {
    for (Scalar& number : numbers) number = static_cast<Scalar>(std * normal());
  }

 private:
  std::uint64_t state_;
};
