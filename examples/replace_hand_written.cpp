// Replacing a hand-written LayerNorm over plain pointers: no Eigen types and no copy, and what is gained.
#include <evenkeel/ops/layer_norm.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include "random.hpp"

// ---------------------------------------------------------------- before

/// As it is often written: mean and variance in one pass over the row, var = mean of x^2 - mean^2.
void layer_norm_by_hand(const float* x, const float* gamma, const float* beta, float* y, std::ptrdiff_t rows,
                        std::ptrdiff_t features) {
  for (std::ptrdiff_t i = 0; i < rows; ++i, x += features, y += features) {
    float sum = 0, sum_sq = 0;
    for (std::ptrdiff_t j = 0; j < features; ++j) {
      sum += x[j];
      sum_sq += x[j] * x[j];
    }
    const float mean = sum / static_cast<float>(features);
    const float var = sum_sq / static_cast<float>(features) - mean * mean;
    const float rstd = 1 / std::sqrt(var + 1e-5f);
    for (std::ptrdiff_t j = 0; j < features; ++j) y[j] = (x[j] - mean) * rstd * gamma[j] + beta[j];
  }
}

// ---------------------------------------------------------------- after

/// The same signature, so that no caller changes. Views say where the numbers are; nothing is copied.
void layer_norm(const float* x, const float* gamma, const float* beta, float* y, std::ptrdiff_t rows,
                std::ptrdiff_t features) {
  evenkeel::layer_norm_into(evenkeel::TensorView<const float>(x, {rows, features}),
                            evenkeel::TensorView<float>(y, {rows, features}),
                            {.gamma = {gamma, features}, .beta = {beta, features}, .eps = 1e-5});
}

/// Or one level lower, the kernel itself: it checks nothing and throws nothing.
void layer_norm_by_kernel(const float* x, const float* gamma, const float* beta, float* y, std::ptrdiff_t rows,
                          std::ptrdiff_t features) {
  using Args = evenkeel::kernels::LayerNormForwardArgs<float>;
  evenkeel::kernels::layer_norm_forward(Args{.x = x,
                                             .gamma = gamma,
                                             .beta = beta,
                                             .y = y,
                                             .mean = nullptr,  // what a backward would want to know
                                             .mean_rest = nullptr,
                                             .rstd = nullptr,
                                             .rows = rows,
                                             .features = features,
                                             .x_stride = features,
                                             .y_stride = features,
                                             .eps = 1e-5});
}

// ---------------------------------------------------------------- the difference

using LayerNormFunction = void(const float*, const float*, const float*, float*, std::ptrdiff_t, std::ptrdiff_t);

constexpr std::ptrdiff_t rows = 16, features = 768;

/// Without gamma and beta, from the definition: two passes, in long double.
std::vector<long double> exact_layer_norm(const std::vector<float>& x) {
  std::vector<long double> y(x.begin(), x.end());
  for (auto row = y.begin(); row != y.end(); row += features) {
    const long double mean = std::accumulate(row, row + features, 0.0L) / features;
    std::for_each(row, row + features, [=](long double& value) { value -= mean; });
    const long double var = std::inner_product(row, row + features, row, 0.0L) / features;
    std::for_each(row, row + features, [=](long double& value) { value /= std::sqrt(var + 1e-5L); });
  }
  return y;
}

/// The largest |y - exact y|, or NaN.
long double largest_error(LayerNormFunction& layer_norm_function, const std::vector<float>& x) {
  const std::vector<float> gamma(features, 1), beta(features, 0);
  std::vector<float> y(x.size());
  layer_norm_function(x.data(), gamma.data(), beta.data(), y.data(), rows, features);
  const std::vector<long double> expected = exact_layer_norm(x);
  long double largest = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const long double error = std::abs(y[i] - expected[i]);
    if (std::isnan(error)) return error;
    largest = std::max(largest, error);
  }
  return largest;
}

int main() {
  std::printf("Largest error of y, rows of %td floats from N(mean, 1)\n\n", features);
  std::printf("%8s %12s %12s %12s\n", "mean", "by hand", "layer_norm", "its kernel");
  for (const float mean : {0.0f, 10.0f, 100.0f, 300.0f, 1e3f, 1e5f}) {
    std::vector<float> x(rows * features);
    Random(1).fill_normal(std::span(x));
    for (float& value : x) value += mean;
    std::printf("%8g %12.1Le %12.1Le %12.1Le\n", static_cast<double>(mean), largest_error(layer_norm_by_hand, x),
                largest_error(layer_norm, x), largest_error(layer_norm_by_kernel, x));
  }
  std::printf("\nnan: where mean of x^2 and mean^2 agree in all their digits, their difference can be negative.\n");
}
