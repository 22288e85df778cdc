#include "options.hpp"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace bench {
namespace {

constexpr const char* usage =
    R"(usage: evenkeel_peers [options]

  --rounds N         measurements of everything (15)
  --milliseconds N   that each measurement takes at least (2)
  --filter TEXT      only operations and shapes with TEXT in them, as "LayerNorm backward" or "4096x768"
  --sizes            rows of 768 features, from L1 to beyond the last cache, in place of the table's shapes
  --json FILE        writes what is measured
  --csv FILE         writes GB/s, for roofline.gp
)";

int positive(const std::string& name, const std::string& value) {
  char* end = nullptr;
  const long number = std::strtol(value.c_str(), &end, 10);
  if (!value.empty() && *end == '\0' && number >= 1 && number <= 10000) return static_cast<int>(number);
  throw std::invalid_argument(name + " is '" + value + "', expected a whole number from 1 to 10000");
}

void set_option(Options& options, const std::string& name, const std::string& value) {
  if (name == "--rounds") {
    options.effort.rounds = positive(name, value);
  } else if (name == "--milliseconds") {
    options.effort.milliseconds = positive(name, value);
  } else if (name == "--filter") {
    options.filter = value;
  } else if (name == "--json") {
    options.json = value;
  } else if (name == "--csv") {
    options.csv = value;
  } else {
    throw std::invalid_argument("unknown option '" + name + "', expected one of those that --help names");
  }
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--help" || argument == "-h") std::exit(std::fputs(usage, stdout) < 0);
    if (argument == "--sizes") {
      options.sizes = true;
    } else if (i + 1 < argc) {
      set_option(options, argument, argv[++i]);
    } else {
      throw std::invalid_argument(argument + " comes last, expected a value after it (see --help)");
    }
  }
  return options;
}

}  // namespace bench
