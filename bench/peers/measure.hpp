#pragma once

#include <string>
#include <vector>

#include "library.hpp"

namespace bench {

/// How often and how long to measure.
struct Effort {
  int rounds = 15;
  double milliseconds = 2;  ///< that one measurement takes at least
};

/// One contender's times of a case, and how far its results are from the first library's.
struct Measurement {
  std::vector<double> nanoseconds;  ///< of one run, for every round; empty: the library has no such operation
  double difference = 0;            ///< largest, as a share of the array's largest number
  std::string implementation;

  bool is_empty() const { return nanoseconds.empty(); }
  double median() const;
  /// Half of what lies between the quartiles, as a share of the median.
  double spread() const;
  /// Median over the rounds of this time divided by the other's in the same round.
  double relative_to(const Measurement& other) const;
};

struct Result {
  Case what;
  std::vector<Measurement> by;  ///< in the order of the libraries
};

/// Every library in every round, in turn forwards and backwards, so that what disturbs the machine disturbs all.
/// The first library is the copy, which has no results to compare; the second one's results are what others' should be.
Result measure(const Case& c, const std::vector<Library>& libraries, const Effort& effort);

}  // namespace bench
