// The oracle: what every operation should give, written as plain loops from its definition.
//
// T is long double for expected values, Dual<long double> for expected gradients (gradient_check.hpp). Data is a
// std::vector in row-major order; an empty vector for gamma, beta or a bias means that there is none. Nothing here
// shares code or a formula with the kernels, so that a mistake of theirs cannot be repeated here.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <numbers>
#include <utility>
#include <vector>

namespace evenkeel_test {

using Reals = std::vector<long double>;

namespace oracle {

/// The same numbers in T; float and double lose nothing on the way to long double or Dual.
template <class T = long double, class Numbers>
std::vector<T> widen(const Numbers& numbers) {
  return std::vector<T>(std::begin(numbers), std::end(numbers));
}

// ---------------------------------------------------------------- rows and their moments

/// The mean of a vector.
template <class T>
T mean_of(const std::vector<T>& values) {
  T sum = 0;
  for (const T& value : values) sum += value;
  return sum / static_cast<long double>(values.size());
}

/// 1 / sqrt(variance + eps), and 0 where that is 1 / 0: so x_hat and dx of a row without spread are 0 for eps = 0.
template <class T>
T rstd_of(const T& variance, long double eps) {
  using std::sqrt;
  if (variance + eps == 0) return 0;
  return 1 / sqrt(variance + eps);
}

/// What normalizing one row needs: x_hat = deviation * rstd.
template <class T>
struct Row {
  T mean;                    // 0 for RMSNorm
  std::vector<T> deviation;  // x - mean, exact to about 1e-19 of itself even where mean is 1e8 times larger
  T rstd;
};

/// Deviations from the mean and rstd = 1 / sqrt(var + eps), var the mean of their squares (biased).
///
/// The mean is subtracted in two steps. A mean of 1e8 in long double is off by up to 4e-12, far above the rounding of
/// a double of size 1; but subtracting it is exact, and the small mean of what is left is known to 1e-19.
template <class T>
Row<T> layer_norm_row(std::vector<T> x, long double eps) {
  T mean = 0;
  for (int step = 0; step < 2; ++step) {
    const T shift = mean_of(x);
    for (T& value : x) value -= shift;
    mean += shift;
  }
  T square_sum = 0;
  for (const T& deviation : x) square_sum += deviation * deviation;
  const T var = square_sum / static_cast<long double>(x.size());
  return {mean, std::move(x), rstd_of(var, eps)};
}

/// rstd = 1 / sqrt(mean(x^2) + eps); nothing is subtracted.
template <class T>
Row<T> rms_norm_row(std::vector<T> x, long double eps) {
  T square_sum = 0;
  for (const T& value : x) square_sum += value * value;
  const T mean_square = square_sum / static_cast<long double>(x.size());
  return {T(0), std::move(x), rstd_of(mean_square, eps)};
}

/// Row `index` of x [rows, features].
template <class T>
std::vector<T> row_of(const std::vector<T>& x, std::size_t index, std::size_t features) {
  const auto first = x.begin() + static_cast<std::ptrdiff_t>(index * features);
  return std::vector<T>(first, first + static_cast<std::ptrdiff_t>(features));
}

/// The statistics that a forward pass saves, one entry for each row.
template <class T>
struct Statistics {
  std::vector<T> mean, rstd;
};

template <class T>
Statistics<T> layer_norm_statistics(const std::vector<T>& x, std::size_t rows, std::size_t features, long double eps) {
  Statistics<T> statistics;
  for (std::size_t r = 0; r < rows; ++r) {
    const Row<T> row = layer_norm_row(row_of(x, r, features), eps);
    statistics.mean.push_back(row.mean);
    statistics.rstd.push_back(row.rstd);
  }
  return statistics;
}

template <class T>
Statistics<T> rms_norm_statistics(const std::vector<T>& x, std::size_t rows, std::size_t features, long double eps) {
  Statistics<T> statistics;
  for (std::size_t r = 0; r < rows; ++r) {
    statistics.mean.push_back(0);
    statistics.rstd.push_back(rms_norm_row(row_of(x, r, features), eps).rstd);
  }
  return statistics;
}

// ---------------------------------------------------------------- normalization of rows

/// y = (x - mean) * rstd * gamma + beta, over each row of x [rows, features]; gamma, beta [features] or empty.
template <class T>
std::vector<T> layer_norm(const std::vector<T>& x, std::size_t rows, std::size_t features, const std::vector<T>& gamma,
                          const std::vector<T>& beta, long double eps) {
  std::vector<T> y;
  for (std::size_t r = 0; r < rows; ++r) {
    const Row<T> row = layer_norm_row(row_of(x, r, features), eps);
    for (std::size_t j = 0; j < features; ++j) {
      T value = row.deviation[j] * row.rstd;
      if (!gamma.empty()) value *= gamma[j];
      if (!beta.empty()) value += beta[j];
      y.push_back(value);
    }
  }
  return y;
}

/// y = x * rstd * (gamma_offset + gamma), over each row of x [rows, features]; Gemma's gamma_offset is 1.
/// Without gamma the factor is 1, whatever the offset.
template <class T>
std::vector<T> rms_norm(const std::vector<T>& x, std::size_t rows, std::size_t features, const std::vector<T>& gamma,
                        long double eps, long double gamma_offset = 0) {
  std::vector<T> y;
  for (std::size_t r = 0; r < rows; ++r) {
    const Row<T> row = rms_norm_row(row_of(x, r, features), eps);
    for (std::size_t j = 0; j < features; ++j) {
      const T x_hat = row.deviation[j] * row.rstd;
      y.push_back(gamma.empty() ? x_hat : x_hat * (gamma_offset + gamma[j]));
    }
  }
  return y;
}

// ---------------------------------------------------------------- normalization of images

/// y = (x - mean) * rstd * gamma + beta, over the pixels of the channels of each group of each example: x [examples,
/// channels, pixels]; gamma, beta [channels] or empty. Instance normalization has as many groups as channels.
template <class T>
std::vector<T> group_norm(const std::vector<T>& x, std::size_t examples, std::size_t channels, std::size_t pixels,
                          std::size_t groups, const std::vector<T>& gamma, const std::vector<T>& beta,
                          long double eps) {
  std::vector<T> y;
  for (std::size_t i = 0; i < examples * groups; ++i) {
    const Row<T> group = layer_norm_row(row_of(x, i, channels / groups * pixels), eps);
    for (std::size_t j = 0; j < group.deviation.size(); ++j) {
      const std::size_t channel = i % groups * (channels / groups) + j / pixels;
      T value = group.deviation[j] * group.rstd;
      if (!gamma.empty()) value *= gamma[channel];
      if (!beta.empty()) value += beta[channel];
      y.push_back(value);
    }
  }
  return y;
}

// ---------------------------------------------------------------- the sublayer F

/// y = x weight^T + bias: x [rows, in], weight [out, in], bias [out] or empty, y [rows, out].
template <class T>
std::vector<T> linear(const std::vector<T>& x, std::size_t rows, std::size_t in, std::size_t out,
                      const std::vector<T>& weight, const std::vector<T>& bias) {
  std::vector<T> y;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t o = 0; o < out; ++o) {
      T sum = bias.empty() ? T(0) : bias[o];
      for (std::size_t i = 0; i < in; ++i) sum += x[r * in + i] * weight[o * in + i];
      y.push_back(sum);
    }
  }
  return y;
}

/// x * Phi(x), Phi the distribution function of N(0,1): the exact GELU.
template <class T>
T gelu(const T& x) {
  using std::erf;
  return x * (1 + erf(x / std::numbers::sqrt2_v<long double>)) / 2;
}

/// The approximation of GELU by tanh, with the constants of Hendrycks and Gimpel, arXiv:1606.08415.
template <class T>
T gelu_tanh(const T& x) {
  using std::tanh;
  const long double sqrt_2_over_pi = std::numbers::sqrt2_v<long double> * std::numbers::inv_sqrtpi_v<long double>;
  return x * (1 + tanh(sqrt_2_over_pi * (x + 0.044715L * x * x * x))) / 2;
}

/// max(x, 0), with the derivative 0 at 0.
template <class T>
T relu(const T& x) {
  return x > 0 ? x : T(0);
}

/// x * sigmoid(x).
template <class T>
T silu(const T& x) {
  using std::exp;
  return x / (1 + exp(-x));
}

/// F(x) = activation(x w1^T + b1) w2^T + b2: x [rows, d_model], w1 [d_ff, d_model], w2 [d_model, d_ff].
template <class T>
std::vector<T> feed_forward(const std::vector<T>& x, std::size_t rows, std::size_t d_model, std::size_t d_ff,
                            const std::vector<T>& w1, const std::vector<T>& b1, const std::vector<T>& w2,
                            const std::vector<T>& b2, T (*activation)(const T&) = gelu<T>) {
  std::vector<T> hidden = linear(x, rows, d_model, d_ff, w1, b1);
  for (T& value : hidden) value = activation(value);
  return linear(hidden, rows, d_ff, d_model, w2, b2);
}

// ---------------------------------------------------------------- the residual formula

/// y = norm_trunk(alpha * norm_skip(x) + lambda * drop(norm_branch(sublayer(in_scale * norm_in(x))))); a norm left
/// empty is absent. `lambda` has one entry, or one for each feature; `drop` is what each element is multiplied by, or
/// empty.
///
///   const auto norm = [&](const auto& v) { return layer_norm(v, rows, features, gamma, beta, eps); };
///   const auto y = Residual<T>{.sublayer = f, .norm_in = norm}(x);         // pre-norm
template <class T>
struct Residual {
  using Function = std::function<std::vector<T>(const std::vector<T>&)>;

  Function sublayer;
  Function norm_in = {}, norm_branch = {}, norm_skip = {}, norm_trunk = {};
  T alpha = 1;
  std::vector<T> lambda = {T(1)};
  T in_scale = 1;
  std::vector<T> drop = {};

  std::vector<T> operator()(const std::vector<T>& x) const {
    const std::vector<T> skip = apply(norm_skip, x);
    std::vector<T> entered = apply(norm_in, x);
    for (T& value : entered) value *= in_scale;
    std::vector<T> sum = apply(norm_branch, sublayer(entered));
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!drop.empty()) sum[i] *= drop[i];
      sum[i] = alpha * skip[i] + lambda[i % lambda.size()] * sum[i];
    }
    return apply(norm_trunk, sum);
  }

  static std::vector<T> apply(const Function& norm, const std::vector<T>& x) { return norm ? norm(x) : x; }
};

}  // namespace oracle
}  // namespace evenkeel_test
