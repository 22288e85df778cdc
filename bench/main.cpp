#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "layouts.hpp"
#include "quantile.hpp"
#include "table.hpp"

/// Runs the benchmarks with their repetitions interleaved, and prints one table for each direction and type. With
/// --benchmark_format or --benchmark_out it is an ordinary Google Benchmark program.
namespace bench {
namespace {

/// The times of all repetitions of every benchmark.
class Times : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& context) override {
    PrintBasicContext(&GetErrorStream(), context);
    return true;
  }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      const std::string name = run.run_name.str();
      nanoseconds_[name.substr(0, name.find("/real_time"))].push_back(run.GetAdjustedRealTime());
    }
  }

  bool has(const std::string& name) const { return nanoseconds_.count(name) > 0; }
  double median(const std::string& name) const { return quantile(times(name), 0.5); }
  /// Half of what lies between the quartiles, as a share of the median.
  double spread(const std::string& name) const {
    const auto t = times(name);
    return t.empty() ? 0 : (quantile(t, 0.75) - quantile(t, 0.25)) / 2 / quantile(t, 0.5);
  }

 private:
  std::vector<double> times(const std::string& name) const {
    const auto found = nanoseconds_.find(name);
    return found == nanoseconds_.end() ? std::vector<double>() : found->second;
  }
  std::map<std::string, std::vector<double>> nanoseconds_;
};

void print_row(const Times& times, const Shape& shape, const std::string& direction, const std::string& type) {
  const auto entry = [&](const char* norm, const char* by) { return Entry{norm, direction, type, by, shape}.name(); };
  const std::string copy = entry("copy", "copy");
  if (!times.has(copy)) return;
  const double copy_ns = times.median(copy);
  const double bytes =
      static_cast<double>((direction == "forward" ? 2 : 3) * shape.rows * shape.features) * (type == "f32" ? 4 : 8);
  std::printf("| %-18s | %7.1f |", shape.name().c_str(), bytes / copy_ns);
  for (const char* norm : {"layer_norm", "rms_norm"}) {
    const std::string ours = entry(norm, "evenkeel");
    const double ns = times.median(ours);
    std::printf(" %9.1f | %5.1f | %4.0f%% | %4.2f ±%3.0f%% |", ns / static_cast<double>(shape.rows), bytes / ns,
                100 * copy_ns / ns, ns / copy_ns, 100 * times.spread(ours));
    for (const char* by : {"naive", "eigen"}) std::printf(" %5.2f |", times.median(entry(norm, by)) / copy_ns);
  }
  std::printf(" %4.2f |\n",
              times.median(entry("rms_norm", "evenkeel")) / times.median(entry("layer_norm", "evenkeel")));
}

void print_table(const Times& times, const std::string& direction, const std::string& type) {
  const bool any = std::any_of(Entry::all().begin(), Entry::all().end(), [&](const Entry& e) {
    return e.direction == direction && e.type == type && times.has(e.name());
  });
  if (!any) return;
  std::printf(
      "\n%s, %s, one thread. LN, RMS: evenkeel's LayerNorm and RMSNorm; x copy: time as a multiple of the streaming %s "
      "of\n"
      "the same bytes (median of the repetitions, half interquartile range); %% copy: share of the copy's speed.\n\n",
      direction.c_str(), type.c_str(), direction == "forward" ? "copy y = a*x" : "sum dx = a*x + b*dy");
  std::printf(
      "| rows x features    | copy GB/s | LN ns/row | LN GB/s | %% copy | LN x copy | naive LN | Eigen LN |"
      " RMS ns/row | RMS GB/s | %% copy | RMS x copy | naive RMS | Eigen RMS | RMS/LN |\n");
  std::printf("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Shape& shape : shapes()) print_row(times, shape, direction, type);
}

void print_layouts(const Times& times) {
  bool is_first = true;
  for (const LayoutCase& c : LayoutCase::all()) {
    const std::string copy = c.benchmark("copy"), ours = c.benchmark("evenkeel"), naive = c.benchmark("naive");
    if (!times.has(copy) || !times.has(ours)) continue;
    if (std::exchange(is_first, false)) {
      std::printf(
          "\nStrided axes, channels, 16 bits and sums, one thread: time as a multiple of the streaming copy (forward) "
          "or sum\n"
          "(backward) of as many floats, of the same norm of floats, or of a streaming kernel over the same arrays "
          "(median,\n"
          "half interquartile range).\n\n"
          "| case | GB/s | multiple | of the | by hand, or in two operations |\n|---|---|---|---|---|\n");
    }
    const double copy_ns = times.median(copy), ns = times.median(ours);
    std::printf("| %-60s | %6.1f | %4.2f ±%3.0f%% | %-5s | ", c.name.c_str(), c.bytes / ns, ns / copy_ns,
                100 * times.spread(ours), c.reference);
    times.has(naive) ? std::printf("%.1f |\n", times.median(naive) / copy_ns) : std::printf("|\n");
  }
}

bool is_plain_run(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](const std::string& a) {
    return a.rfind("--benchmark_format", 0) == 0 || a.rfind("--benchmark_out", 0) == 0 ||
           a.rfind("--benchmark_list_tests", 0) == 0;
  });
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  const bool plain = bench::is_plain_run(argc, argv);
  // Before the caller's own arguments, which win.
  std::vector<std::string> arguments = {argv[0], "--benchmark_enable_random_interleaving=true",
                                        "--benchmark_repetitions=9", "--benchmark_min_time=0.02"};
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return 1;
  if (plain) {
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  }
  bench::Times times;
  benchmark::RunSpecifiedBenchmarks(&times);
  for (const char* direction : {"forward", "backward"}) {
    for (const char* type : {"f32", "f64"}) bench::print_table(times, direction, type);
  }
  bench::print_layouts(times);
  return 0;
}
