// evenkeel_threads [THREADS]: what an Eigen pool gains against one thread, beside what a streaming copy gains.
// evenkeel_threads --cost [THREADS]: what an element costs, by length and number of rows, type and threads.
#include <unsupported/Eigen/CXX11/ThreadPool>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "case.hpp"

namespace bench {
namespace {

void print_gains(const Executor& pool, int threads) {
  std::printf("Speed with %d threads as a multiple of one thread's, float, median of %d rounds\n\n", threads,
              Times::rounds);
  std::printf("| rows × features | copy | LayerNorm forward | backward | RMSNorm forward | backward |\n");
  std::printf("|---|---|---|---|---|---|\n");
  for (const auto& [rows, features] :
       {std::pair{256, 768}, {4096, 768}, {512, 4096}, {4096, 4096}, {65536, 64}, {4, 1048576}}) {
    Case<float> c(rows, features);
    std::printf("| %s | %.2f |", c.name().c_str(), measure(c, pool, &Case<float>::copy).gain());
    for (const Call<float> norm : norms<float>) std::printf(" %.2f |", measure(c, pool, norm).gain());
    std::printf("\n");
  }
}

/// Nanoseconds of an element: of each norm on one thread, and of each on the pool.
template <class T>
std::vector<double> costs(Index rows, Index features, const Executor& pool) {
  Case<T> c(rows, features);
  std::vector<double> alone, shared;
  for (const Call<T> norm : norms<T>) {
    const Times times = measure(c, pool, norm);
    alone.push_back(1e9 * quantile(times.alone, 0.5) / static_cast<double>(c.size()));
    shared.push_back(1e9 * quantile(times.shared, 0.5) / static_cast<double>(c.size()));
  }
  alone.insert(alone.end(), shared.begin(), shared.end());
  return alone;
}

void print_costs(const Executor& pool, int threads) {
  std::printf("Nanoseconds of an element of float, double, bfloat16, median of %d rounds\n\n", Times::rounds);
  std::printf("| rows × features |");
  for (const int count : {1, threads}) {
    std::printf(" LayerNorm forward, %d thread%s | backward | RMSNorm forward | backward |", count,
                count > 1 ? "s" : "");
  }
  std::printf("\n|---|---|---|---|---|---|---|---|---|\n");
  for (const Index rows : {1, 64, 4096}) {
    for (const Index features : {64, 256, 1024, 4096, 16384}) {
      const auto of_float = costs<float>(rows, features, pool), of_double = costs<double>(rows, features, pool);
      const auto of_bfloat16 = costs<evenkeel::kernels::bf16>(rows, features, pool);
      std::printf("| %td×%td |", rows, features);
      for (std::size_t i = 0; i < of_float.size(); ++i) {
        std::printf(" %.2f, %.2f, %.2f |", of_float[i], of_double[i], of_bfloat16[i]);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  const bool costs = argc > 1 && std::string(argv[1]) == "--cost";
  const int at = costs ? 2 : 1, threads = argc > at ? std::atoi(argv[at]) : 2;
  if (threads < 1) {
    return std::fprintf(stderr, "usage: %s [--cost] [THREADS], at least 1 (default 2)\n", argv[0]), 2;
  }
  Eigen::ThreadPool pool(threads);
  costs ? bench::print_costs(pool, threads) : bench::print_gains(pool, threads);
}
