// Expected gradients, in two independent ways: dual numbers for any composition, closed formulas for large rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "support/dual.hpp"
#include "support/oracle.hpp"

namespace evenkeel_test {

/// The gradient of sum(dy * function(inputs)) with respect to inputs[index], exact to rounding.
///
/// `function` takes a vector of inputs (parameters count as inputs) and returns y; it runs once for each entry of
/// inputs[index], so this is for small sizes. Take dy at random: with ones, terms of a norm's gradient cancel.
///
///   const auto norm = [&](const auto& in) { return oracle::layer_norm(in[0], rows, features, in[1], in[2], eps); };
///   const auto dx = gradient({x, gamma, beta}, 0, norm, dy);
///   const auto dgamma = gradient({x, gamma, beta}, 1, norm, dy);
template <class Function>
Reals gradient(const std::vector<Reals>& inputs, std::size_t index, const Function& function, const Reals& dy) {
  std::vector<std::vector<Dual<>>> dual_inputs;
  for (const auto& input : inputs) dual_inputs.push_back(oracle::widen<Dual<>>(input));

  Reals result;
  for (Dual<>& entry : dual_inputs[index]) {
    entry.derivative = 1;
    const std::vector<Dual<>> y = function(dual_inputs);
    entry.derivative = 0;
    long double sum = 0;
    for (std::size_t i = 0; i < dy.size(); ++i) sum += dy[i] * y.at(i).derivative;
    result.push_back(sum);
  }
  return result;
}

namespace oracle {

/// The gradients of a norm from the closed formulas, in time proportional to the size of x, and the scales that
/// errors are measured in (tolerance.hpp takes both).
struct NormGradients {
  Reals dx = {};            // [rows, features]
  Reals dgamma = {};        // [features]
  Reals dbeta = {};         // [features]
  Reals dx_scale = {};      // [rows]  rstd * (max|g| + max|x_hat| * |mean(g * x_hat)|)
  Reals dgamma_scale = {};  // [1]     max|dy| * max|x_hat|
  Reals dbeta_scale = {};   // [1]     max|dy|
};

inline long double largest_magnitude(const Reals& values) {
  long double largest = 0;
  for (const long double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

inline Reals product(Reals a, const Reals& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] *= b[i];
  return a;
}

/// dx = rstd * (g - mean(g) - x_hat * mean(g * x_hat)) with g = gamma * dy; no mean(g) where no mean is subtracted.
inline NormGradients norm_backward(const Reals& dy, const Reals& x, std::size_t rows, std::size_t features,
                                   const Reals& gamma, long double eps, bool subtracts_mean) {
  NormGradients result{.dgamma = std::vector(features, 0.0L), .dbeta = std::vector(features, 0.0L)};
  long double max_x_hat = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const Reals x_row = row_of(x, r, features), dy_row = row_of(dy, r, features);
    const Row<long double> row = subtracts_mean ? layer_norm_row(x_row, eps) : rms_norm_row(x_row, eps);
    const Reals x_hat = product(row.deviation, std::vector(features, row.rstd));
    const Reals g = product(dy_row, gamma);
    const long double mean_g = subtracts_mean ? mean_of(g) : 0;
    const long double mean_g_x_hat = mean_of(product(g, x_hat));
    for (std::size_t j = 0; j < features; ++j) {
      result.dx.push_back(row.rstd * (g[j] - mean_g - x_hat[j] * mean_g_x_hat));
      result.dgamma[j] += dy_row[j] * x_hat[j];
      result.dbeta[j] += dy_row[j];
    }
    max_x_hat = std::max(max_x_hat, largest_magnitude(x_hat));
    result.dx_scale.push_back(row.rstd * (largest_magnitude(g) + largest_magnitude(x_hat) * std::abs(mean_g_x_hat)));
  }
  result.dbeta_scale = {largest_magnitude(dy)};
  result.dgamma_scale = {largest_magnitude(dy) * max_x_hat};
  return result;
}

/// The gradients of layer_norm. Without gamma (empty) they are those of gamma = 1, and dgamma is still there.
inline NormGradients layer_norm_backward(const Reals& dy, const Reals& x, std::size_t rows, std::size_t features,
                                         const Reals& gamma, long double eps) {
  return norm_backward(dy, x, rows, features, gamma.empty() ? std::vector(features, 1.0L) : gamma, eps, true);
}

/// The gradients of rms_norm (dbeta too: of a beta added to y).
inline NormGradients rms_norm_backward(const Reals& dy, const Reals& x, std::size_t rows, std::size_t features,
                                       Reals gamma, long double eps, long double gamma_offset = 0) {
  for (long double& factor : gamma) factor += gamma_offset;
  if (gamma.empty()) gamma.assign(features, 1.0L);
  return norm_backward(dy, x, rows, features, gamma, eps, false);
}

}  // namespace oracle
}  // namespace evenkeel_test
