#pragma once

#include <cmath>
#include <type_traits>
#include <utility>

#include "evenkeel/kernels/simd.hpp"

/// The row kernels of types without vectors of their own, such as long double and dual numbers: the definition, one
/// number at a time. Of a type T they ask for T(double), + - * /, == and a sqrt that is found beside it.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Whether the kernels of vectors take numbers of type X.
template <class X>
inline constexpr bool is_vectorized = std::is_same_v<Compute<X>, float> || std::is_same_v<Compute<X>, double>;

/// x_hat of one row: x * rstd, or ((x - mean) - mean_rest) * rstd.
template <bool Centred, class T>
struct AnyRow {
  T mean, mean_rest, rstd;

  T x_hat(const T& x) const {
    if constexpr (Centred) {
      const T coarse = x - mean;
      const T deviation = coarse - mean_rest;
      return T(deviation * rstd);
    } else {
      return T(x * rstd);
    }
  }
};

/// Statistics of x[0 .. n). The mean is taken around x[0], so that a constant row has exactly itself as mean.
template <bool Centred, class T>
inline AnyRow<Centred, T> any_row_statistics(const T* x, Index n, double eps) {
  using std::sqrt;
  const T count(static_cast<double>(n));
  AnyRow<Centred, T> row{T(0.0), T(0.0), T(1.0)};
  if constexpr (Centred) {
    T sum(0.0);
    for (Index j = 0; j < n; ++j) {
      const T offset = x[j] - x[0];
      sum = T(sum + offset);
    }
    const T offset = sum / count;
    row.mean = x[0] + offset;
    const T rounded_away = x[0] - row.mean;
    row.mean_rest = rounded_away + offset;
  }
  T square(0.0);
  for (Index j = 0; j < n; ++j) {
    const T deviation = row.x_hat(x[j]);  // rstd is 1 still
    const T product = deviation * deviation;
    square = T(square + product);
  }
  const T mean_square = square / count;
  const T radicand = mean_square + T(eps);
  if (radicand == T(0.0)) {
    row.rstd = T(0.0);
  } else {
    const T root = sqrt(radicand);
    row.rstd = T(1.0) / root;
  }
  return row;
}

/// row_norm_forward, by its arguments.
template <bool Centred, class Args>
inline void any_row_norm_forward(const Args& a) {
  using T = std::remove_reference_t<decltype(*a.y)>;
  for (Index i = 0; i < a.rows; ++i) {
    const T* x = a.x + i * a.x_stride;
    T* y = a.y + i * a.y_stride;
    const auto row = any_row_statistics<Centred>(x, a.features, a.eps);
    if (a.mean) a.mean[i] = row.mean;
    if (a.mean_rest) a.mean_rest[i] = row.mean_rest;
    if (a.rstd) a.rstd[i] = row.rstd;
    for (Index j = 0; j < a.features; ++j) {
      T value = row.x_hat(x[j]);
      if (a.gamma) value = T(value * a.gamma[j]);
      if (Centred && a.beta) value = T(value + a.beta[j]);
      y[j] = value;
    }
  }
}

/// row_norm_backward, row by row and column by column.
template <bool Centred, class Args>
class AnyRowNormBackward {
 public:
  explicit AnyRowNormBackward(const Args& args) : a_(args) {}

  /// Parameters first: dx may be dy.
  void run() const {
    for (Index j = 0; j < a_.features; ++j) sum_column(j);
    for (Index i = 0; a_.dx && i < a_.rows; ++i) write_row(i);
  }

 private:
  using T = std::remove_reference_t<decltype(*std::declval<const Args&>().dx)>;

  AnyRow<Centred, T> row(Index i) const {
    if constexpr (Centred) {
      return {a_.mean[i], a_.mean_rest ? a_.mean_rest[i] : T(0.0), a_.rstd[i]};
    } else {
      return {T(0.0), T(0.0), a_.rstd[i]};
    }
  }
  T g(Index i, Index j) const {
    const T& dy = a_.dy[i * a_.dy_stride + j];
    return a_.gamma ? T(dy * a_.gamma[j]) : dy;
  }

  void sum_column(Index j) const {
    T gamma_sum(0.0), beta_sum(0.0);
    for (Index i = 0; i < a_.rows; ++i) {
      const T& dy = a_.dy[i * a_.dy_stride + j];
      const T product = dy * row(i).x_hat(a_.x[i * a_.x_stride + j]);
      gamma_sum = T(gamma_sum + product);
      beta_sum = T(beta_sum + dy);
    }
    if (a_.dgamma) write(a_.dgamma[j], gamma_sum, a_.add_dgamma);
    if (a_.dbeta) write(a_.dbeta[j], beta_sum, a_.add_dbeta);
  }

  void write_row(Index i) const {
    const T count(static_cast<double>(a_.features));
    const auto of = row(i);
    const T* x = a_.x + i * a_.x_stride;
    T g_sum(0.0), gx_sum(0.0);
    for (Index j = 0; j < a_.features; ++j) {
      const T g_j = g(i, j), product = g_j * of.x_hat(x[j]);
      g_sum = T(g_sum + g_j);
      gx_sum = T(gx_sum + product);
    }
    const T mean_g = Centred ? T(g_sum / count) : T(0.0), mean_gx = gx_sum / count;
    for (Index j = 0; j < a_.features; ++j) {
      const T centred = g(i, j) - mean_g, along = of.x_hat(x[j]) * mean_gx;
      const T difference = centred - along;
      T dx = T(of.rstd * difference);
      if (!a_.add_dx && a_.ds) dx = T(a_.ds[i * a_.ds_stride + j] + dx);
      write(a_.dx[i * a_.dx_stride + j], dx, a_.add_dx);
    }
  }

  static void write(T& out, const T& value, bool add) { out = add ? T(out + value) : value; }

  const Args& a_;
};

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
