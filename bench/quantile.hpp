#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace bench {

/// The value that a share q of the values does not exceed; 0 of none.
inline double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

}  // namespace bench
