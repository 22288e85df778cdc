#pragma once

#include <string>

#include "measure.hpp"

namespace bench {

/// The command line of evenkeel_peers.
struct Options {
  Effort effort;
  bool sizes = false;  ///< size_cases() in place of table_cases()
  std::string filter, json, csv;
};

/// Errors    throws std::invalid_argument for what cannot be understood; --help prints the usage and ends the program.
Options parse_options(int argc, char** argv);

}  // namespace bench
