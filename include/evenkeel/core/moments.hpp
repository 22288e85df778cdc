#pragma once

#include <cstdint>
#include <string>

#include "evenkeel/core/error.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Count, mean and spread of some numbers, which can be taken of parts and merged: in blocks, threads or processes.
///
/// Three plain numbers, to be sent and reduced as they are. The order of merging changes the last bits and no more; a
/// part may be empty or have one number, and parts with equal means keep it exactly.
/// @code
///   Moments all;
///   for (const Moments& part : parts) all.merge(part);
///   const double var = all.var_biased();
/// @endcode
///
/// Units     m2 and the variances are in units of x squared.
/// Source    Chan, Golub, LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample variances".
struct Moments {
  std::int64_t count = 0;
  double mean = 0;
  double m2 = 0;  ///< the sum of squared deviations from the mean

  /// Takes in one more number.
  void add(double x) noexcept { merge({1, x, 0}); }

  /// Takes in the numbers that `part` was taken of.
  void merge(const Moments& part) noexcept {
    if (part.count == 0) return;
    if (count == 0) {
      *this = part;
      return;
    }
    const double all = static_cast<double>(count + part.count);
    const double share = static_cast<double>(part.count) / all;
    const double delta = part.mean - mean;
    m2 += part.m2 + delta * (delta * share) * static_cast<double>(count);
    mean += delta * share;
    count += part.count;
  }

  /// The mean of squared deviations: what normalizes.
  ///
  /// Errors    throws std::logic_error if there are no numbers.
  double var_biased() const {
    require_at_least("Moments::var_biased", 1);
    return m2 / static_cast<double>(count);
  }

  /// The same divided by count - 1: the estimate of the variance that the numbers are drawn with.
  ///
  /// Errors    throws std::logic_error if there are fewer than 2 numbers.
  double var_unbiased() const {
    require_at_least("Moments::var_unbiased", 2);
    return m2 / static_cast<double>(count - 1);
  }

 private:
  void require_at_least(const char* where, std::int64_t least) const {
    if (count >= least) return;
    raise_logic_error(where, "count is " + std::to_string(count) + ", expected at least " + std::to_string(least));
  }
};

/// The moments of the numbers of both.
inline Moments merged(Moments a, const Moments& b) noexcept {
  a.merge(b);
  return a;
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
