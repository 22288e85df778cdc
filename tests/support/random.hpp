// Test data from fixed seeds, equal to the last bit on every platform, and the input families of the accuracy contract.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace evenkeel_test {

/// Random numbers that do not depend on the standard library: its distributions, and log and cos, differ in the last
/// bits from one platform to the next. The generator is SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  /// N(0,1) in all but the far tails: the sum of 12 uniform numbers less 6, which ends at +-6. Summed as integers and
  /// rounded once, so nothing is left for a platform to decide.
  double normal() {
    std::int64_t sum = 0;
    for (int i = 0; i < 12; ++i) sum += static_cast<std::int64_t>(next() >> 11);
    return std::ldexp(static_cast<double>(sum - (std::int64_t{6} << 53)), -53);
  }

 private:
  std::uint64_t state_;
};

/// `size` numbers from N(mean, std^2). The fma is written out: one rounding, whatever the compiler contracts.
template <class Scalar>
std::vector<Scalar> normal_vector(std::size_t size, std::uint64_t seed, double mean = 0, double std = 1) {
  Random random(seed);
  std::vector<Scalar> values(size);
  for (Scalar& value : values) value = static_cast<Scalar>(std::fma(std, random.normal(), mean));
  return values;
}

/// A kind of row that the accuracy contract names. `fill` overwrites one row, of any length.
template <class Scalar>
struct InputFamily {
  std::string name;
  std::function<void(std::span<Scalar> row, Random& random)> fill;
  double eps = 1e-5;
};

/// x [rows, features], every row from one family.
template <class Scalar>
std::vector<Scalar> family_rows(const InputFamily<Scalar>& family, std::size_t rows, std::size_t features,
                                std::uint64_t seed) {
  Random random(seed);
  std::vector<Scalar> x(rows * features);
  for (std::size_t r = 0; r < rows; ++r) family.fill(std::span(x).subspan(r * features, features), random);
  return x;
}

/// N(mean, 1).
template <class Scalar>
InputFamily<Scalar> normal_family(std::string name, double mean) {
  return {name, [=](std::span<Scalar> row, Random& random) {
            for (Scalar& value : row) value = static_cast<Scalar>(random.normal() + mean);
          }};
}

/// N(mean, 1) in rising order: no estimate of the mean from the start of such a row is any good.
template <class Scalar>
InputFamily<Scalar> sorted_family(std::string name, double mean) {
  return {name, [=](std::span<Scalar> row, Random& random) {
            normal_family<Scalar>("", mean).fill(row, random);
            std::ranges::sort(row);
          }};
}

/// N(0,1) with one entry of 1e4, at `position` (from 0, the first, to 1, the last) of the row.
template <class Scalar>
InputFamily<Scalar> outlier_family(std::string name, double position) {
  return {name, [=](std::span<Scalar> row, Random& random) {
            normal_family<Scalar>("", 0).fill(row, random);
            row[static_cast<std::size_t>(position * static_cast<double>(row.size() - 1))] = static_cast<Scalar>(1e4);
          }};
}

/// `pattern` over and over, times `magnitude`.
template <class Scalar>
InputFamily<Scalar> pattern_family(std::string name, double magnitude, std::vector<double> pattern, double eps) {
  return {name,
          [=](std::span<Scalar> row, Random&) {
            for (std::size_t j = 0; j < row.size(); ++j)
              row[j] = static_cast<Scalar>(magnitude * pattern[j % pattern.size()]);
          },
          eps};
}

/// Every row of the contract's table. Magnitudes far from 1 come with eps 0 where eps would hide them.
template <class Scalar>
std::vector<InputFamily<Scalar>> input_families() {
  const std::vector<double> spread = {1, -1, 2, -2};
  std::vector<InputFamily<Scalar>> families = {
      normal_family<Scalar>("N(0,1)", 0),
      normal_family<Scalar>("N(0,1) + 1e4", 1e4),
      normal_family<Scalar>("N(0,1) + 1e6", 1e6),
      pattern_family<Scalar>("1e7 +- 1", 1, {1e7 + 1, 1e7 - 1}, 1e-5),
      outlier_family<Scalar>("outlier 1e4, first", 0),
      outlier_family<Scalar>("outlier 1e4, middle", 0.5),
      outlier_family<Scalar>("outlier 1e4, near the end", 0.999),
      outlier_family<Scalar>("outlier 1e4, last", 1),
      sorted_family<Scalar>("sorted N(0,1)", 0),
      sorted_family<Scalar>("sorted N(0,1) + 1e4", 1e4),
      pattern_family<Scalar>("constant 1234.567", 1234.567, {1}, 1e-5),
      pattern_family<Scalar>("constant 1234.567, eps 0", 1234.567, {1}, 0),
      pattern_family<Scalar>("zero", 0, {1}, 1e-5),
      pattern_family<Scalar>("zero, eps 0", 0, {1}, 0),
      pattern_family<Scalar>("1e30 * {1,-1,2,-2}", 1e30, spread, 1e-5),
      pattern_family<Scalar>("1e-19 * {1,-1,2,-2}, eps 0", 1e-19, spread, 0),
      pattern_family<Scalar>("1e-30 * {1,-1,2,-2}, eps 0", 1e-30, spread, 0),
      pattern_family<Scalar>("1e-38 * {1,-1,2,-2}, eps 0", 1e-38, spread, 0),
  };
  if constexpr (std::is_same_v<Scalar, double>) {
    families.push_back(normal_family<double>("N(0,1) + 1e8", 1e8));
    families.push_back(pattern_family<double>("1e300 * {1,-1,2,-2}", 1e300, spread, 1e-5));
    families.push_back(pattern_family<double>("1e-300 * {1,-1,2,-2}, eps 0", 1e-300, spread, 0));
  }
  return families;
}

}  // namespace evenkeel_test
