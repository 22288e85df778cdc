// The oracle of BatchNorm: plain loops over channels, and expected gradients, in long double or dual numbers.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "support/gradient_check.hpp"

namespace evenkeel_test::oracle {

/// A tensor as [outer, channels, inner] in row-major order: the axes before that of the channels, and those behind.
struct ChannelShape {
  std::size_t outer = 0, channels = 0, inner = 0;
  std::size_t values() const { return outer * inner; }
};

/// All values of a channel, in order.
template <class T>
std::vector<T> channel_of(const std::vector<T>& x, const ChannelShape& s, std::size_t channel) {
  std::vector<T> values;
  for (std::size_t o = 0; o < s.outer; ++o)
    for (std::size_t i = 0; i < s.inner; ++i) values.push_back(x.at((o * s.channels + channel) * s.inner + i));
  return values;
}

/// Puts the values of a channel where channel_of found them.
template <class T>
void set_channel(std::vector<T>& x, const ChannelShape& s, std::size_t channel, const std::vector<T>& values) {
  std::size_t v = 0;
  for (std::size_t o = 0; o < s.outer; ++o)
    for (std::size_t i = 0; i < s.inner; ++i) x.at((o * s.channels + channel) * s.inner + i) = values.at(v++);
}

/// Training: y = (x - mean) * rstd * gamma + beta with the statistics of each channel; gamma, beta [channels] or empty.
template <class T>
std::vector<T> batch_norm(const std::vector<T>& x, const ChannelShape& s, const std::vector<T>& gamma,
                          const std::vector<T>& beta, long double eps) {
  std::vector<T> y(x.size());
  for (std::size_t c = 0; c < s.channels; ++c) {
    Row<T> row = layer_norm_row(channel_of(x, s, c), eps);
    for (T& value : row.deviation) {
      value *= row.rstd;
      if (!gamma.empty()) value *= gamma[c];
      if (!beta.empty()) value += beta[c];
    }
    set_channel(y, s, c, row.deviation);
  }
  return y;
}

/// Inference, or training with frozen statistics: mean and var [channels] are given.
template <class T>
std::vector<T> batch_norm_with(const std::vector<T>& x, const ChannelShape& s, const Reals& mean, const Reals& var,
                               const std::vector<T>& gamma, const std::vector<T>& beta, long double eps) {
  std::vector<T> y(x.size());
  for (std::size_t c = 0; c < s.channels; ++c) {
    std::vector<T> values = channel_of(x, s, c);
    for (T& value : values) {
      value = (value - mean[c]) * rstd_of(var[c], eps);
      if (!gamma.empty()) value *= gamma[c];
      if (!beta.empty()) value += beta[c];
    }
    set_channel(y, s, c, values);
  }
  return y;
}

/// The mean and the biased variance of each channel.
struct ChannelStatistics {
  Reals mean, var;
};

inline ChannelStatistics channel_statistics(const Reals& x, const ChannelShape& s) {
  ChannelStatistics result;
  for (std::size_t c = 0; c < s.channels; ++c) {
    const auto row = layer_norm_row(channel_of(x, s, c), 0);
    long double squares = 0;
    for (const long double deviation : row.deviation) squares += deviation * deviation;
    result.mean.push_back(row.mean);
    result.var.push_back(squares / static_cast<long double>(s.values()));
  }
  return result;
}

/// Gradients, and what their errors are measured in: dx_scale for each element, the other two for each channel.
struct BatchNormGradients {
  Reals dx = {}, dgamma = {}, dbeta = {}, dx_scale = {}, dgamma_scale = {}, dbeta_scale = {};
};

/// Of training: a channel is a row of a layer norm whose gamma is the same everywhere.
inline BatchNormGradients batch_norm_backward(const Reals& dy, const Reals& x, const ChannelShape& s,
                                              const Reals& gamma, long double eps) {
  BatchNormGradients result{.dx = Reals(x.size()), .dx_scale = Reals(x.size())};
  const std::size_t n = s.values();
  for (std::size_t c = 0; c < s.channels; ++c) {
    const Reals channel_gamma(n, gamma.empty() ? 1.0L : gamma[c]);
    const auto row = layer_norm_backward(channel_of(dy, s, c), channel_of(x, s, c), 1, n, channel_gamma, eps);
    set_channel(result.dx, s, c, row.dx);
    set_channel(result.dx_scale, s, c, Reals(n, row.dx_scale[0]));
    result.dgamma.push_back(mean_of(row.dgamma) * static_cast<long double>(n));
    result.dbeta.push_back(mean_of(row.dbeta) * static_cast<long double>(n));
    result.dgamma_scale.push_back(row.dgamma_scale[0]);
    result.dbeta_scale.push_back(row.dbeta_scale[0]);
  }
  return result;
}

/// With mean and var given, which do not depend on x: dx = gamma * rstd * dy.
inline BatchNormGradients batch_norm_with_backward(const Reals& dy, const Reals& x, const ChannelShape& s,
                                                   const Reals& mean, const Reals& var, const Reals& gamma,
                                                   long double eps) {
  const Reals x_hat = batch_norm_with(x, s, mean, var, {}, {}, eps);
  BatchNormGradients result{.dx = Reals(x.size()), .dx_scale = Reals(x.size())};
  for (std::size_t c = 0; c < s.channels; ++c) {
    const Reals dy_c = channel_of(dy, s, c), x_hat_c = channel_of(x_hat, s, c);
    Reals dx;
    long double dgamma = 0, dbeta = 0;
    for (std::size_t i = 0; i < dy_c.size(); ++i) {
      dx.push_back(dy_c[i] * rstd_of(var[c], eps) * (gamma.empty() ? 1.0L : gamma[c]));
      dgamma += dy_c[i] * x_hat_c[i];
      dbeta += dy_c[i];
    }
    set_channel(result.dx, s, c, dx);
    set_channel(result.dx_scale, s, c, Reals(dx.size(), largest_magnitude(dx)));
    result.dgamma.push_back(dgamma);
    result.dbeta.push_back(dbeta);
    result.dgamma_scale.push_back(largest_magnitude(dy_c) * largest_magnitude(x_hat_c));
    result.dbeta_scale.push_back(largest_magnitude(dy_c));
  }
  return result;
}

}  // namespace evenkeel_test::oracle
