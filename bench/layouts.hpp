#pragma once

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

namespace bench {

/// One line of the table of layouts: a norm of a tensor whose rows are not contiguous, of channels, or of 16 bits.
/// Benchmarks are named layouts/NAME/BY, by copy, evenkeel and naive.
struct LayoutCase {
  std::string name;
  double bytes;           ///< that the copy moves
  const char* reference;  ///< what the copy is, for the table

  std::string benchmark(const char* by) const { return "layouts/" + name + "/" + by; }

  /// Every case that has been registered, in the order of the table.
  static std::vector<LayoutCase>& all() {
    static std::vector<LayoutCase> cases;
    return cases;
  }
};

/// Registers `run` as a case by one of its three.
template <class Run>
void add(const LayoutCase& c, const char* by, Run run) {
  benchmark::RegisterBenchmark(c.benchmark(by).c_str(),
                               [run](benchmark::State& state) mutable {
                                 run();
                                 for (auto _ : state) {
                                   run();
                                   benchmark::ClobberMemory();
                                 }
                               })
      ->Unit(benchmark::kNanosecond)
      ->UseRealTime();
}

}  // namespace bench
