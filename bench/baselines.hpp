#pragma once

#include <Eigen/Core>

#include <cmath>

#include "evenkeel/kernels/simd.hpp"

/// What the norms are measured against: the streaming copies, which are the limit that memory sets; a plain loop as
/// people write it; plain Eigen expressions. All over row-major [rows, features].
namespace bench {

using evenkeel::kernels::Index;

/// y = a * x: the bytes of a forward.
template <class T>
void streaming_copy(const T* x, T* y, T a, Index count) {
  using S = evenkeel::kernels::Simd<evenkeel::native, T>;
  const auto a_vector = S::broadcast(a);
  evenkeel::kernels::for_each_vector<evenkeel::native, T, 4>(
      count, [&](auto, Index j, auto lanes) { lanes.store(y + j, lanes.load(x + j) * a_vector); });
}

/// dx = a * x + b * dy: the bytes of a backward.
template <class T>
void streaming_sum(const T* x, const T* dy, T* dx, T a, T b, Index count) {
  using S = evenkeel::kernels::Simd<evenkeel::native, T>;
  const auto a_vector = S::broadcast(a), b_vector = S::broadcast(b);
  evenkeel::kernels::for_each_vector<evenkeel::native, T, 4>(count, [&](auto, Index j, auto lanes) {
    lanes.store(dx + j, S::fma(lanes.load(x + j), a_vector, lanes.load(dy + j) * b_vector));
  });
}

/// The arguments that every contender takes; what a norm has no use for it leaves alone.
template <class T>
struct Problem {
  Index rows, features;
  const T *x, *dy, *gamma, *beta;
  T *y, *dx, *dgamma, *dbeta;
  evenkeel::kernels::Compute<T>*mean, *mean_rest, *rstd;  ///< [rows]: written by forward, read by backward
  double eps;
};

namespace naive {

template <class T>
void layer_norm_forward(const Problem<T>& p) {
  for (Index i = 0; i < p.rows; ++i) {
    const T* x = p.x + i * p.features;
    T* y = p.y + i * p.features;
    T mean = 0, var = 0;
    for (Index j = 0; j < p.features; ++j) mean += x[j];
    mean /= static_cast<T>(p.features);
    for (Index j = 0; j < p.features; ++j) var += (x[j] - mean) * (x[j] - mean);
    const T rstd = 1 / std::sqrt(var / static_cast<T>(p.features) + static_cast<T>(p.eps));
    for (Index j = 0; j < p.features; ++j) y[j] = (x[j] - mean) * rstd * p.gamma[j] + p.beta[j];
    p.mean[i] = mean;
    p.rstd[i] = rstd;
  }
}

template <class T>
void rms_norm_forward(const Problem<T>& p) {
  for (Index i = 0; i < p.rows; ++i) {
    const T* x = p.x + i * p.features;
    T* y = p.y + i * p.features;
    T square = 0;
    for (Index j = 0; j < p.features; ++j) square += x[j] * x[j];
    const T rstd = 1 / std::sqrt(square / static_cast<T>(p.features) + static_cast<T>(p.eps));
    for (Index j = 0; j < p.features; ++j) y[j] = x[j] * rstd * p.gamma[j];
    p.rstd[i] = rstd;
  }
}

template <class T>
void layer_norm_backward(const Problem<T>& p) {
  for (Index j = 0; j < p.features; ++j) p.dgamma[j] = p.dbeta[j] = 0;
  for (Index i = 0; i < p.rows; ++i) {
    const T* x = p.x + i * p.features;
    const T* dy = p.dy + i * p.features;
    T* dx = p.dx + i * p.features;
    T mean_g = 0, mean_gx = 0;
    for (Index j = 0; j < p.features; ++j) {
      const T x_hat = (x[j] - p.mean[i]) * p.rstd[i], g = dy[j] * p.gamma[j];
      mean_g += g;
      mean_gx += g * x_hat;
      p.dgamma[j] += dy[j] * x_hat;
      p.dbeta[j] += dy[j];
    }
    mean_g /= static_cast<T>(p.features);
    mean_gx /= static_cast<T>(p.features);
    for (Index j = 0; j < p.features; ++j) {
      const T x_hat = (x[j] - p.mean[i]) * p.rstd[i];
      dx[j] = p.rstd[i] * (dy[j] * p.gamma[j] - mean_g - x_hat * mean_gx);
    }
  }
}

template <class T>
void rms_norm_backward(const Problem<T>& p) {
  for (Index j = 0; j < p.features; ++j) p.dgamma[j] = 0;
  for (Index i = 0; i < p.rows; ++i) {
    const T* x = p.x + i * p.features;
    const T* dy = p.dy + i * p.features;
    T* dx = p.dx + i * p.features;
    T mean_gx = 0;
    for (Index j = 0; j < p.features; ++j) {
      const T x_hat = x[j] * p.rstd[i];
      mean_gx += dy[j] * p.gamma[j] * x_hat;
      p.dgamma[j] += dy[j] * x_hat;
    }
    mean_gx /= static_cast<T>(p.features);
    for (Index j = 0; j < p.features; ++j) {
      dx[j] = p.rstd[i] * (dy[j] * p.gamma[j] - x[j] * p.rstd[i] * mean_gx);
    }
  }
}

}  // namespace naive

namespace eigen {

template <class T>
using Matrix = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
template <class T>
using ConstMatrix = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
template <class T>
using Row = Eigen::Map<Eigen::Array<T, 1, Eigen::Dynamic>>;
template <class T>
using ConstRow = Eigen::Map<const Eigen::Array<T, 1, Eigen::Dynamic>>;

// Row by row: written over the whole matrix at once, each step would be a pass over memory of its own.
template <class T>
void layer_norm_forward(const Problem<T>& p) {
  const ConstMatrix<T> x(p.x, p.rows, p.features);
  const ConstRow<T> gamma(p.gamma, p.features), beta(p.beta, p.features);
  Matrix<T> y(p.y, p.rows, p.features);
  for (Index i = 0; i < p.rows; ++i) {
    p.mean[i] = x.row(i).mean();
    p.rstd[i] = 1 / std::sqrt((x.row(i) - p.mean[i]).square().mean() + static_cast<T>(p.eps));
    y.row(i) = (x.row(i) - p.mean[i]) * p.rstd[i] * gamma + beta;
  }
}

template <class T>
void rms_norm_forward(const Problem<T>& p) {
  const ConstMatrix<T> x(p.x, p.rows, p.features);
  const ConstRow<T> gamma(p.gamma, p.features);
  Matrix<T> y(p.y, p.rows, p.features);
  for (Index i = 0; i < p.rows; ++i) {
    p.rstd[i] = 1 / std::sqrt(x.row(i).square().mean() + static_cast<T>(p.eps));
    y.row(i) = x.row(i) * p.rstd[i] * gamma;
  }
}

template <class T>
void layer_norm_backward(const Problem<T>& p) {
  const ConstMatrix<T> x(p.x, p.rows, p.features), dy(p.dy, p.rows, p.features);
  const ConstRow<T> gamma(p.gamma, p.features);
  Row<T> dgamma(p.dgamma, p.features), dbeta(p.dbeta, p.features);
  Matrix<T> dx(p.dx, p.rows, p.features);
  dgamma.setZero();
  dbeta.setZero();
  for (Index i = 0; i < p.rows; ++i) {
    const auto x_hat = (x.row(i) - p.mean[i]) * p.rstd[i];
    const auto g = dy.row(i) * gamma;
    const T mean_g = g.mean(), mean_gx = (g * x_hat).mean();
    dgamma += dy.row(i) * x_hat;
    dbeta += dy.row(i);
    dx.row(i) = p.rstd[i] * (g - mean_g - x_hat * mean_gx);
  }
}

template <class T>
void rms_norm_backward(const Problem<T>& p) {
  const ConstMatrix<T> x(p.x, p.rows, p.features), dy(p.dy, p.rows, p.features);
  const ConstRow<T> gamma(p.gamma, p.features);
  Row<T> dgamma(p.dgamma, p.features);
  Matrix<T> dx(p.dx, p.rows, p.features);
  dgamma.setZero();
  for (Index i = 0; i < p.rows; ++i) {
    const auto x_hat = x.row(i) * p.rstd[i];
    const auto g = dy.row(i) * gamma;
    const T mean_gx = (g * x_hat).mean();
    dgamma += dy.row(i) * x_hat;
    dx.row(i) = p.rstd[i] * (g - x_hat * mean_gx);
  }
}

}  // namespace eigen
}  // namespace bench
