#include "measure.hpp"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "quantile.hpp"

namespace bench {
namespace {

constexpr std::size_t copy = 0, reference = 1;

/// The time that this program has had a processor for, all its threads together: a library that starts more than one
/// gains nothing by it, and other programs take nothing away.
double processor_nanoseconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

double nanoseconds_of(const std::function<void()>& run, Index times) {
  const double start = processor_nanoseconds();
  for (Index i = 0; i < times; ++i) run();
  return (processor_nanoseconds() - start) / static_cast<double>(times);
}

/// Runs that take as long as asked; one more warms the caches.
Index times_for(const std::function<void()>& run, double milliseconds) {
  Index times = 1;
  run();
  for (double ns = nanoseconds_of(run, times); ns * static_cast<double>(times) < milliseconds * 1e6;) {
    times = std::max(2 * times, static_cast<Index>(milliseconds * 1e6 / std::max(ns, 1.0)));
    ns = nanoseconds_of(run, times);
  }
  return times;
}

using Arrays = std::vector<std::vector<float>>;

/// What a run writes, where NaN stood before: what it leaves unwritten is noticed.
Arrays results_of(const Contender& by) {
  by.run();
  for (const auto& output : by.outputs()) std::fill(output.begin(), output.end(), std::nanf(""));
  by.run();
  Arrays results;
  for (const auto& output : by.outputs()) results.emplace_back(output.begin(), output.end());
  return results;
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = std::numeric_limits<double>::min(), difference = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(d <= difference)) difference = std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
    largest = std::max(largest, static_cast<double>(std::abs(b[i])));
  }
  return difference / largest;
}

double difference(const Arrays& a, const Arrays& b) {
  double largest = 0;
  for (std::size_t k = 0; k < b.size(); ++k) largest = std::max(largest, difference(a[k], b[k]));
  return largest;
}

void measure_rounds(const std::vector<Contender>& contenders, const Effort& effort, std::vector<Measurement>& by) {
  std::vector<std::size_t> order;
  std::vector<Index> times(contenders.size());
  for (std::size_t k = 0; k < contenders.size(); ++k) {
    if (!contenders[k].run) continue;
    order.push_back(k);
    times[k] = times_for(contenders[k].run, effort.milliseconds);
  }
  for (int round = 0; round < effort.rounds; ++round) {
    for (const std::size_t k : order) {
      contenders[k].run();
      by[k].nanoseconds.push_back(nanoseconds_of(contenders[k].run, times[k]));
    }
    std::reverse(order.begin(), order.end());
  }
}

}  // namespace

double Measurement::median() const { return quantile(nanoseconds, 0.5); }

double Measurement::spread() const {
  return (quantile(nanoseconds, 0.75) - quantile(nanoseconds, 0.25)) / 2 / median();
}

double Measurement::relative_to(const Measurement& other) const {
  std::vector<double> ratios;
  for (std::size_t r = 0; r < nanoseconds.size(); ++r) ratios.push_back(nanoseconds[r] / other.nanoseconds[r]);
  return quantile(ratios, 0.5);
}

Result measure(const Case& c, const std::vector<Library>& libraries, const Effort& effort) {
  const Problem<float> p = c.problem();
  std::vector<Contender> contenders;
  for (const Library& library : libraries) contenders.push_back(library.make(c, p));
  Result result{c, std::vector<Measurement>(libraries.size())};
  const Arrays expected = results_of(contenders[reference]);
  for (std::size_t k = 0; k < contenders.size(); ++k) {
    result.by[k].implementation = contenders[k].implementation;
    if (k == copy || k == reference || !contenders[k].run) continue;
    result.by[k].difference = difference(results_of(contenders[k]), expected);
  }
  measure_rounds(contenders, effort, result.by);
  return result;
}

}  // namespace bench
