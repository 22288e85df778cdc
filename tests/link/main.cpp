#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

using Normalize = void(const float* x, float* y, int rows, int features);
Normalize normalize_baseline, normalize_avx2, normalize_avx512;

namespace {

constexpr int rows = 3;
constexpr int features = 77;
constexpr long double eps = 1e-5L;

/// The largest error of any y, in units of epsilon.
double error_of(Normalize& normalize) {
  std::vector<float> x(rows * features), y(rows * features);
  for (int i = 0; i < rows * features; ++i) x[i] = static_cast<float>((i * 37) % 101) / 16;
  normalize(x.data(), y.data(), rows, features);

  double worst = 0;
  for (int row = 0; row < rows; ++row) {
    const float* x_row = &x[row * features];
    long double mean = 0, var = 0;
    for (int j = 0; j < features; ++j) mean += x_row[j];
    mean /= features;
    for (int j = 0; j < features; ++j) var += (x_row[j] - mean) * (x_row[j] - mean);
    var /= features;
    for (int j = 0; j < features; ++j) {
      const double expected = static_cast<double>((x_row[j] - mean) / std::sqrt(var + eps));
      const double error = std::abs(y[row * features + j] - expected) / std::numeric_limits<float>::epsilon();
      worst = error > worst ? error : worst;  // NaN would be lost here, hence the test below
      if (!(error >= 0)) return std::numeric_limits<double>::infinity();
    }
  }
  return worst;
}

int failures = 0;

void check(const char* name, Normalize& normalize) {
  const double error = error_of(normalize);
  std::printf("%s: largest error %.2f epsilon\n", name, error);
  failures += error > 4;
}

}  // namespace

int main() {
#ifdef EVENKEEL_TEST_BASELINE
  check("baseline", normalize_baseline);
#endif
#ifdef EVENKEEL_TEST_AVX2
  check("avx2", normalize_avx2);
#endif
#ifdef EVENKEEL_TEST_AVX512
  check("avx512", normalize_avx512);
#endif
  return failures;
}
