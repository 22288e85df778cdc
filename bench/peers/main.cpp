#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "options.hpp"
#include "report.hpp"

/// LayerNorm, RMSNorm and BatchNorm of evenkeel beside other libraries': the same arrays, one thread, in turn.
namespace bench {
namespace {

std::vector<Library> libraries() {
  std::vector<Library> all = {streaming(), evenkeel_library(), eigen_library()};
#if defined(EVENKEEL_PEERS_ONEDNN)
  all.push_back(onednn_library());
#endif
#if defined(EVENKEEL_PEERS_PYTORCH)
  all.push_back(pytorch_library());
#endif
  return all;
}

int run(const Options& options) {
  const std::vector<Library> all = libraries();
  std::vector<Result> results;
  print_heading(all, options.effort);
  for (const Case& c : options.sizes ? size_cases() : table_cases()) {
    if ((c.operation() + " " + c.shape_name()).find(options.filter) == std::string::npos) continue;
    results.push_back(measure(c, all, options.effort));
    print_row(results.back());
  }
  print_summary(all, results);
  if (!options.json.empty()) write_json(options.json, all, results);
  if (!options.csv.empty()) write_csv(options.csv, all, results);
  return all_agree(all, results) ? 0 : 1;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) try {
  return bench::run(bench::parse_options(argc, argv));
} catch (const std::exception& error) {
  std::fprintf(stderr, "evenkeel_peers: %s\n", error.what());
  return 2;
}
