#pragma once

#include <string>
#include <vector>

#include "measure.hpp"

namespace bench {

/// A difference that float rounding does not explain, in results for N(0, 1).
inline constexpr double same_results = 1e-4;

/// Prints what was compared, and on which machine.
void print_heading(const std::vector<Library>& libraries, const Effort& effort);
void print_row(const Result& result);
/// Geometric means of the columns, and how far the results are apart.
void print_summary(const std::vector<Library>& libraries, const std::vector<Result>& results);

/// Whether every library has computed the same; names on stderr what has not.
bool all_agree(const std::vector<Library>& libraries, const std::vector<Result>& results);

/// One record for each result, with every library's median, spread, difference and implementation.
///
/// Errors    throws std::runtime_error if the file cannot be written, as write_csv.
void write_json(const std::string& path, const std::vector<Library>& libraries, const std::vector<Result>& results);

/// Operation, shape, bytes, and each library's GB/s: what roofline.gp reads.
void write_csv(const std::string& path, const std::vector<Library>& libraries, const std::vector<Result>& results);

}  // namespace bench
