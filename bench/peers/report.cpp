#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace bench {
namespace {

constexpr std::size_t copy = 0, evenkeel_ = 1, first_peer = 2;

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

/// The processor's name, as Linux gives it.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

std::string compiler() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#elif defined(__GNUC__)
  return "GCC " __VERSION__;
#else
  return "unknown compiler";
#endif
}

// ---------------------------------------------------------------- the table

/// What the columns hold, in their order; NaN where there is nothing.
struct Ratios {
  double ours;                               ///< evenkeel's time over the copy's
  std::vector<double> to_copy, to_evenkeel;  ///< of each peer
};

double ratio(const Measurement& a, const Measurement& b) { return a.is_empty() ? std::nan("") : a.relative_to(b); }

Ratios ratios_of(const Result& r) {
  Ratios ratios{ratio(r.by[evenkeel_], r.by[copy]), {}, {}};
  for (std::size_t k = first_peer; k < r.by.size(); ++k) {
    ratios.to_copy.push_back(ratio(r.by[k], r.by[copy]));
    ratios.to_evenkeel.push_back(ratio(r.by[k], r.by[evenkeel_]));
  }
  return ratios;
}

std::string cell(double ratio) { return std::isnan(ratio) ? "none" : fixed(ratio, 2); }

/// Bold where the peer takes less time than evenkeel.
std::string comparison(double ratio) { return ratio < 0.995 ? "**" + cell(ratio) + "**" : cell(ratio); }

void print_cells(const std::string& operation, const std::string& shape, const std::string& speed,
                 const std::string& ours, const Ratios& ratios) {
  std::printf("| %-27s | %-18s | %5s | %9s |", operation.c_str(), shape.c_str(), speed.c_str(), ours.c_str());
  for (std::size_t k = 0; k < ratios.to_copy.size(); ++k) {
    std::printf(" %5s | %8s |", cell(ratios.to_copy[k]).c_str(), comparison(ratios.to_evenkeel[k]).c_str());
  }
  std::printf("\n");
}

// ---------------------------------------------------------------- means

double geometric_mean(const std::vector<Ratios>& all, double (*column)(const Ratios&, std::size_t), std::size_t peer) {
  double sum = 0;
  int count = 0;
  for (const Ratios& r : all) {
    if (std::isnan(column(r, peer))) continue;
    sum += std::log(column(r, peer));
    ++count;
  }
  return count == 0 ? std::nan("") : std::exp(sum / count);
}

void print_means(const std::string& name, const std::vector<Result>& results, bool (*belongs)(const Result&)) {
  std::vector<Ratios> all;
  for (const Result& r : results) {
    if (belongs(r)) all.push_back(ratios_of(r));
  }
  if (all.empty()) return;
  Ratios means{geometric_mean(
                   all, [](const Ratios& r, std::size_t) { return r.ours; }, 0),
               {},
               {}};
  for (std::size_t k = 0; k < all.front().to_copy.size(); ++k) {
    means.to_copy.push_back(geometric_mean(
        all, [](const Ratios& r, std::size_t p) { return r.to_copy[p]; }, k));
    means.to_evenkeel.push_back(geometric_mean(
        all, [](const Ratios& r, std::size_t p) { return r.to_evenkeel[p]; }, k));
  }
  print_cells("geometric mean", name, "", fixed(means.ours, 2), means);
}

double largest_difference(const std::vector<Result>& results, std::size_t library) {
  double largest = 0;
  for (const Result& r : results) largest = std::max(largest, r.by[library].difference);
  return largest;
}

std::ofstream open(const std::string& path) {
  std::ofstream file(path);
  if (!file) throw std::runtime_error("cannot write '" + path + "'");
  return file;
}

void close(std::ofstream& file, const std::string& path) {
  if (!file.flush()) throw std::runtime_error("cannot write '" + path + "'");
}

void write_measurement(std::ofstream& json, const std::string& name, const Measurement& m) {
  json << ", \"" << name << "\": ";
  if (m.is_empty()) {
    json << "null";
    return;
  }
  json << "{\"ns\": " << m.median() << ", \"spread\": " << m.spread() << ", \"difference\": " << m.difference
       << ", \"implementation\": \"" << m.implementation << "\"}";
}

}  // namespace

void print_heading(const std::vector<Library>& libraries, const Effort& effort) {
  std::printf("evenkeel %s", libraries[evenkeel_].version.c_str());
  for (std::size_t k = first_peer; k < libraries.size(); ++k) {
    std::printf("%s %s %s", k == first_peer ? " beside" : ",", libraries[k].name.c_str(), libraries[k].version.c_str());
  }
  std::printf(
      "; float, one thread; %s; %s.\nTime as a multiple of the streaming copy y = a*x (backward: dx = a*x + b*dy) of "
      "the same bytes, and of evenkeel's:\nprocessor time, median of %d rounds with every contender in each, ± half "
      "the "
      "interquartile range. Bold: faster than evenkeel. None: the library has no such operation.\n\n",
      processor().c_str(), compiler().c_str(), effort.rounds);
  std::printf("| operation | shape | copy GB/s | evenkeel ÷ copy |");
  for (std::size_t k = first_peer; k < libraries.size(); ++k) {
    std::printf(" %s ÷ copy | %s ÷ evenkeel |", libraries[k].name.c_str(), libraries[k].name.c_str());
  }
  std::printf("\n|---|---|---|---|");
  for (std::size_t k = first_peer; k < libraries.size(); ++k) std::printf("---|---|");
  std::printf("\n");
}

void print_row(const Result& r) {
  const Ratios ratios = ratios_of(r);
  print_cells(r.what.operation(), r.what.shape_name(), fixed(r.what.bytes() / r.by[copy].median(), 1),
              fixed(ratios.ours, 2) + " ±" + fixed(100 * r.by[evenkeel_].spread(), 0) + "%", ratios);
  std::fflush(stdout);
}

void print_summary(const std::vector<Library>& libraries, const std::vector<Result>& results) {
  print_means("forward", results, [](const Result& r) { return !r.what.is_backward; });
  print_means("backward", results, [](const Result& r) { return r.what.is_backward; });
  print_means("all", results, [](const Result&) { return true; });
  std::printf("\nLargest difference from evenkeel's results, as a share of an array's largest number:");
  for (std::size_t k = first_peer; k < libraries.size(); ++k) {
    std::printf("%s %s %.1e", k == first_peer ? "" : ",", libraries[k].name.c_str(), largest_difference(results, k));
  }
  std::printf(".\n");
}

bool all_agree(const std::vector<Library>& libraries, const std::vector<Result>& results) {
  bool agree = true;
  for (const Result& r : results) {
    for (std::size_t k = first_peer; k < libraries.size(); ++k) {
      if (r.by[k].difference <= same_results) continue;
      agree = false;
      std::fprintf(stderr, "%s of %s: %s differs from evenkeel by %.1e of the largest number, expected at most %.0e\n",
                   r.what.operation().c_str(), r.what.shape_name().c_str(), libraries[k].name.c_str(),
                   r.by[k].difference, same_results);
    }
  }
  return agree;
}

void write_json(const std::string& path, const std::vector<Library>& libraries, const std::vector<Result>& results) {
  std::ofstream json = open(path);
  json << "{\"processor\": \"" << processor() << "\", \"compiler\": \"" << compiler() << "\", \"threads\": 1";
  for (std::size_t k = evenkeel_; k < libraries.size(); ++k) {
    json << ", \"" << libraries[k].name << "\": \"" << libraries[k].version << '"';
  }
  json << ",\n \"results\": [\n";
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Case& c = results[i].what;
    json << "  {\"operation\": \"" << c.operation() << "\", \"shape\": \"" << c.shape_name()
         << "\", \"bytes\": " << c.bytes();
    for (std::size_t k = 0; k < libraries.size(); ++k) write_measurement(json, libraries[k].name, results[i].by[k]);
    json << (i + 1 < results.size() ? "},\n" : "}\n");
  }
  json << "]}\n";
  close(json, path);
}

void write_csv(const std::string& path, const std::vector<Library>& libraries, const std::vector<Result>& results) {
  std::ofstream csv = open(path);
  csv << "operation,shape,bytes";
  for (const Library& library : libraries) csv << ',' << library.name;
  csv << '\n';
  for (const Result& r : results) {
    csv << r.what.operation() << ",\"" << r.what.shape_name() << "\"," << r.what.bytes();
    for (const Measurement& m : r.by) csv << ',' << (m.is_empty() ? "" : fixed(r.what.bytes() / m.median(), 3));
    csv << '\n';
  }
  close(csv, path);
}

}  // namespace bench
