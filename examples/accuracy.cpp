// Measures the errors of LayerNorm and RMSNorm on this machine, for every kind of input that the library's accuracy
// contract names, against a reference in long double. Ends with 1 if one exceeds its bound.
#include <evenkeel/ops/layer_norm.hpp>
#include <evenkeel/ops/rms_norm.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "random.hpp"

#ifdef __FAST_MATH__
constexpr bool is_fast_math = true;
#else
constexpr bool is_fast_math = false;
#endif

/// The contract, in ulp: of max(|y|, 1) for y, of the terms that it is summed from for dx. dgamma has sqrt(rows) times
/// as much, and is shown divided by that.
constexpr double bound = is_fast_math ? 16 : 4;

using Reals = std::vector<long double>;

// ---------------------------------------------------------------- the reference: definitions, in long double

long double mean_of(const Reals& values) {
  long double sum = 0;
  for (const long double value : values) sum += value;
  return sum / static_cast<long double>(values.size());
}

long double largest_magnitude(const Reals& values) {
  long double largest = 0;
  for (const long double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

Reals product(Reals a, const Reals& b) {
  for (std::size_t j = 0; j < a.size(); ++j) a[j] *= b[j];
  return a;
}

struct NormalizedRow {
  Reals x_hat;
  long double rstd;
};

NormalizedRow normalize(Reals x, double eps, bool is_centred) {
  // In two steps: a mean of 1e8 is known to 4e-12 even in long double, but the mean of what it leaves to 1e-19.
  for (int step = 0; is_centred && step < 2; ++step) {
    const long double mean = mean_of(x);
    for (long double& value : x) value -= mean;
  }
  const long double var_eps = mean_of(product(x, x)) + static_cast<long double>(eps);
  const long double rstd = var_eps == 0 ? 0 : 1 / std::sqrt(var_eps);  // as promised for eps 0 and no spread
  for (long double& value : x) value *= rstd;
  return {std::move(x), rstd};
}

/// dx = rstd * (g - mean(g) - x_hat * mean(g * x_hat)) of one row, and the magnitude of its terms.
struct InputGradient {
  Reals dx;
  long double magnitude;
};

InputGradient input_gradient(const NormalizedRow& row, Reals g, bool is_centred) {
  const long double mean_gx = mean_of(product(g, row.x_hat)), mean_g = is_centred ? mean_of(g) : 0;
  const long double magnitude = largest_magnitude(g) + largest_magnitude(row.x_hat) * std::abs(mean_gx);
  for (std::size_t j = 0; j < g.size(); ++j) g[j] = row.rstd * (g[j] - mean_g - row.x_hat[j] * mean_gx);
  return {std::move(g), row.rstd * magnitude};
}

// ---------------------------------------------------------------- what is measured

template <class Scalar>
struct Inputs {
  std::size_t rows, features;
  double eps;
  std::vector<Scalar> x = {}, dy = {}, gamma = {};

  Reals row(const std::vector<Scalar>& all, std::size_t i) const {
    const Scalar* first = all.data() + i * features;
    return Reals(first, first + features);
  }
  template <class T>
  evenkeel::TensorView<T> view(T* data) const {
    return {data, {static_cast<evenkeel::Index>(rows), static_cast<evenkeel::Index>(features)}};
  }
};

template <class Scalar>
struct Outputs {
  std::vector<Scalar> y, dx, dgamma;

  explicit Outputs(const Inputs<Scalar>& in) : y(in.x.size()), dx(in.x.size()), dgamma(in.features) {}
};

/// y without gamma and beta; gradients with gamma.
template <class Scalar>
Outputs<Scalar> run_layer_norm(const Inputs<Scalar>& in) {
  Outputs<Scalar> out(in);
  evenkeel::NormStatistics<Scalar> saved;
  const auto x = in.view(in.x.data()), dy = in.view(in.dy.data());
  evenkeel::layer_norm_into(x, in.view(out.y.data()), saved, {.eps = in.eps});
  evenkeel::layer_norm_backward(dy, x, saved, {.gamma = in.gamma},
                                {.dx = in.view(out.dx.data()), .dgamma = out.dgamma});
  return out;
}
template <class Scalar>
Outputs<Scalar> run_rms_norm(const Inputs<Scalar>& in) {
  Outputs<Scalar> out(in);
  evenkeel::NormStatistics<Scalar> saved;
  const auto x = in.view(in.x.data()), dy = in.view(in.dy.data());
  evenkeel::rms_norm_into(x, in.view(out.y.data()), saved, {.eps = in.eps});
  evenkeel::rms_norm_backward(dy, x, saved, {.gamma = in.gamma}, {.dx = in.view(out.dx.data()), .dgamma = out.dgamma});
  return out;
}

/// In ulp of `scale`; a scale of 0 asks for equality.
template <class Scalar>
double error_in_ulp(Scalar got, long double expected, long double scale) {
  const long double error = std::abs(static_cast<long double>(got) - expected);
  if (error == 0) return 0;
  const long double ulps = error / scale / static_cast<long double>(std::numeric_limits<Scalar>::epsilon());
  return ulps >= 0 ? static_cast<double>(ulps) : std::numeric_limits<double>::infinity();  // NaN is as wrong as can be
}

/// The largest errors of y, dx and dgamma.
using Errors = std::array<double, 3>;

Errors largest(const Errors& a, const Errors& b) {
  return {std::max(a[0], b[0]), std::max(a[1], b[1]), std::max(a[2], b[2])};
}

template <class Scalar>
Errors measure(const Inputs<Scalar>& in, const Outputs<Scalar>& out, bool is_centred) {
  Errors errors = {};
  Reals dgamma(in.features), x_hat_magnitudes, dy_magnitudes;
  for (std::size_t i = 0; i < in.rows; ++i) {
    const Reals dy = in.row(in.dy, i);
    const NormalizedRow row = normalize(in.row(in.x, i), in.eps, is_centred);
    const auto [dx, magnitude] = input_gradient(row, product(dy, Reals(in.gamma.begin(), in.gamma.end())), is_centred);
    for (std::size_t j = 0; j < in.features; ++j) {
      const long double y = row.x_hat[j];
      const std::size_t at = i * in.features + j;
      errors = largest(errors, {error_in_ulp(out.y[at], y, std::max(std::abs(y), 1.0L)),
                                error_in_ulp(out.dx[at], dx[j], magnitude), 0});
      dgamma[j] += dy[j] * y;
    }
    x_hat_magnitudes.push_back(largest_magnitude(row.x_hat)), dy_magnitudes.push_back(largest_magnitude(dy));
  }
  const long double scale = largest_magnitude(dy_magnitudes) * largest_magnitude(x_hat_magnitudes) *
                            std::sqrt(static_cast<long double>(in.rows));
  for (std::size_t j = 0; j < in.features; ++j) {
    errors[2] = std::max(errors[2], error_in_ulp(out.dgamma[j], dgamma[j], scale));
  }
  return errors;
}

// ---------------------------------------------------------------- inputs

using Row = std::vector<double>;

Row normal_row(std::size_t features, double mean, Random& random) {
  Row row(features);
  for (double& value : row) value = random.normal() + mean;
  return row;
}

auto normal(double mean) {
  return [=](std::size_t features, Random& random) { return normal_row(features, mean, random); };
}
/// N(0,1) but for 1e4 at `position`, from 0, the first element, to 1, the last.
auto outlier(double position) {
  return [=](std::size_t features, Random& random) {
    Row row = normal_row(features, 0, random);
    row[static_cast<std::size_t>(position * static_cast<double>(features - 1))] = 1e4;
    return row;
  };
}
/// The pattern over and over.
auto repeated(double magnitude, Row pattern) {
  return [=](std::size_t features, Random&) {
    Row row(features);
    for (std::size_t j = 0; j < features; ++j) row[j] = magnitude * pattern[j % pattern.size()];
    return row;
  };
}

/// A kind of input, one line of the table. `is_exact` marks what may have no error at all: y, dx, dgamma of LayerNorm,
/// then of RMSNorm.
struct Family {
  std::string name;
  std::vector<std::size_t> features;
  std::function<Row(std::size_t, Random&)> row;
  double eps = 1e-5;
  std::array<bool, 6> is_exact = {};
};

std::vector<Family> families(bool is_double) {
  const Row spread = {1, -1, 2, -2};
  std::vector<Family> families = {
      {"N(0,1), n = 1 to 65536", {1, 2, 7, 64, 768, 1001, 4096, 65536}, normal(0)},
      {"N(0,1) + 1e4", {768}, normal(1e4)},
      {"N(0,1) + 1e6", {768}, normal(1e6)},
      {"1e7 +- 1", {4096}, repeated(1, {1e7 + 1, 1e7 - 1})},
      {"N(0,1), 1e4 comes first", {768, 4096, 65536}, outlier(0)},
      {"N(0,1), 1e4 in the middle", {768, 4096, 65536}, outlier(0.5)},
      {"N(0,1), 1e4 comes last", {768, 4096, 65536}, outlier(1)},
      {"1e-19 * {1,-1,2,-2}, eps 0", {768}, repeated(1e-19, spread), 0},
      {"1e-30 * {1,-1,2,-2}, eps 0", {768}, repeated(1e-30, spread), 0},
      {"constant 1234.567", {768}, repeated(1234.567, {1}), 1e-5, {1}},
      {"zero", {768}, repeated(0, {1}), 1e-5, {1, 0, 0, 1}},
      {"one element", {1}, normal(0), 1e-5, {1, 1}},
  };
  if (is_double || !is_fast_math) {  // with which floats may overflow at the one, and the other is zero
    families.push_back({"1e30 * {1,-1,2,-2}", {768}, repeated(1e30, spread)});
    families.push_back({"1e-38 * {1,-1,2,-2}, eps 0", {768}, repeated(1e-38, spread), 0});
  }
  if (is_double) {
    families.push_back({"N(0,1) + 1e8", {768}, normal(1e8)});
    families.push_back({"1e300 * {1,-1,2,-2}", {768}, repeated(1e300, spread)});
    families.push_back({"1e-300 * {1,-1,2,-2}, eps 0", {768}, repeated(1e-300, spread), 0});
  }
  return families;
}

template <class Scalar>
Inputs<Scalar> make_inputs(const Family& family, std::size_t features) {
  Random random(1);
  const std::size_t rows = features > 4096 ? 2 : 8;
  Inputs<Scalar> in = {.rows = rows, .features = features, .eps = family.eps};
  in.dy.resize(rows * features), in.gamma.resize(features);
  for (std::size_t i = 0; i < rows; ++i) {
    for (const double value : family.row(features, random)) in.x.push_back(static_cast<Scalar>(value));
  }
  random.fill_normal(std::span(in.dy), 1.0 / 64);  // small, so that dx does not overflow where x is 1e-38
  random.fill_normal(std::span(in.gamma));
  return in;
}

// ---------------------------------------------------------------- the table

/// The largest errors over all sizes, LayerNorm's and RMSNorm's.
template <class Scalar>
std::array<double, 6> measure_family(const Family& family) {
  Errors layer_norm = {}, rms_norm = {};
  for (const std::size_t features : family.features) {
    const auto in = make_inputs<Scalar>(family, features);
    layer_norm = largest(layer_norm, measure(in, run_layer_norm(in), true));
    rms_norm = largest(rms_norm, measure(in, run_rms_norm(in), false));
  }
  return {layer_norm[0], layer_norm[1], layer_norm[2], rms_norm[0], rms_norm[1], rms_norm[2]};
}

bool holds(double error, bool is_exact) { return error <= (is_exact ? 0 : bound); }

std::string cell(double error, bool is_exact) {
  if (is_exact && error == 0) return "exact";
  char text[32];
  std::snprintf(text, sizeof text, error < 100 ? "%.2f" : "%.0e", error);
  return holds(error, is_exact) ? text : text + std::string("!");
}

void print_line(const std::string& name, const std::array<std::string, 6>& cells) {
  std::printf("%-28s", name.c_str());
  for (std::size_t k = 0; k < cells.size(); ++k) std::printf("%*s", k == 3 ? 11 : 8, cells[k].c_str());
  std::printf("\n");
}

/// Whether every error is within its bound.
template <class Scalar>
bool print_table(const char* scalar_name) {
  const std::string most = cell(bound, false);
  print_line(scalar_name, {"", "LayerNorm", "", "", "RMSNorm", ""});
  print_line("", {"y", "dx", "dgamma", "y", "dx", "dgamma"});
  print_line("at most", {most, most, most, most, most, most});
  bool all_hold = true;
  for (const Family& family : families(std::is_same_v<Scalar, double>)) {
    const std::array<double, 6> errors = measure_family<Scalar>(family);
    std::array<std::string, 6> cells;
    for (std::size_t k = 0; k < cells.size(); ++k) {
      cells[k] = cell(errors[k], family.is_exact[k]);
      all_hold = all_hold && holds(errors[k], family.is_exact[k]);
    }
    print_line(family.name, cells);
  }
  std::printf("\n");
  return all_hold;
}

void print_overview() {
#if defined(__clang__)
  std::printf("Clang %s", __clang_version__);
#elif defined(__GNUC__)
  std::printf("GCC %s", __VERSION__);
#else
  std::printf("unknown compiler");
#endif
#ifdef __OPTIMIZE__
  std::printf(", optimized");
#else
  std::printf(", not optimized");
#endif
  std::printf(", fast-math %s, vectors for %s\n", is_fast_math ? "on" : "off", evenkeel::native::name());
  std::printf("Largest errors in ulp; of dgamma divided by sqrt(rows); \"exact\" where no error is allowed\n\n");
}

int main() {
  print_overview();
  bool all_hold = print_table<float>("float");
  if (std::numeric_limits<long double>::digits > std::numeric_limits<double>::digits) {
    all_hold = print_table<double>("double") && all_hold;
  } else {
    std::printf("double: not measured, long double has no more digits here\n\n");
  }
  std::printf(all_hold ? "Every error is within its bound.\n" : "An error exceeds its bound: see the '!'.\n");
  return all_hold ? 0 : 1;
}
