#pragma once

#include "evenkeel/kernels/simd.hpp"

/// Mean, variance and mean square of a row: the accuracy contract lives here.
///
/// Sums are taken in vectors of the type that the data is computed in, in chains of at most 32 additions, and merged in
/// double.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// What normalizing a row takes. `mean + mean_rest` is the mean with twice the type's digits: the mean's own rounding
/// error, multiplied by rstd, would show in every element of a row whose mean is large against its spread.
template <class T>
struct RowStatistics {
  T mean, mean_rest;
  T rstd;  ///< 1 / sqrt(var + eps), or 1 / sqrt(mean square + eps); 0 where that is 1 / 0, so that x_hat is 0
};

/// Where squares neither overflow nor lose digits to underflow. Rows outside are measured, and written, with x times
/// a power of two.
template <class T>
struct OrdinaryRange;
template <>
struct OrdinaryRange<float> {
  static constexpr double smallest_square = 0x1p-80, largest_square = 0x1p126;
  static constexpr float smallest_rstd = 0x1p-20f, largest_rstd = 0x1p20f;  // rstd^2 * g has to fit as well
  static constexpr float coarse_mean = 0x1p-48f;  // the squares of what differs from a larger mean do not underflow
  static constexpr float scale_up = 0x1p100f, scale_down = 0x1p-100f;
};
template <>
struct OrdinaryRange<double> {
  static constexpr double smallest_square = 0x1p-900, largest_square = 0x1p1020;
  static constexpr double smallest_rstd = 0x1p-200, largest_rstd = 0x1p200;
  static constexpr double coarse_mean = 0x1p-480;
  static constexpr double scale_up = 0x1p600, scale_down = 0x1p-600;
};

/// x - shift, in ordinary rows; x * scale - shift in the others.
template <class Arch, class T, bool Scaled>
struct Deviation {
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;
  Batch scale, shift;

  Deviation(T scale_, T shift_) noexcept : scale(S::broadcast(scale_)), shift(S::broadcast(shift_)) {}
  Batch operator()(const Batch& x) const noexcept {
    if constexpr (Scaled) {
      return keep(S::fma(scale, x, -shift));
    } else {
      return keep(x - shift);
    }
  }
};

/// What one pass over a row measures: the means of x and of x squared.
template <class T>
struct Moments {
  Wide<T> mean = 0, square = 0;
};

/// The sums of a row and of its squares over the blocks of columns that have been merged.
template <class T>
struct MomentSums {
  WideSum<T> sum, square;
  Moments<T> moments(Wide<T> inv_n) const noexcept { return {sum.value() * inv_n, square.value() * inv_n}; }
};

/// The same in vectors, over one block of columns; without the sum where the mean is not wanted.
template <class Arch, class T, bool WithMean>
class PowerSums {
 public:
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;

  PowerSums() noexcept {
    for (int k = 0; k < accumulators; ++k) sum_[k] = square_[k] = S::broadcast(T(0));
  }
  template <class K>
  void add(K k, const Batch& x) noexcept {
    if constexpr (WithMean) sum_[k] = sum_[k] + x;
    square_[k] = S::fma(x, x, square_[k]);
  }
  void merge_into(MomentSums<T>& sums) const noexcept {
    if constexpr (WithMean) sums.sum.add(S::sum(sum_[0] + sum_[1]));
    sums.square.add(S::sum(square_[0] + square_[1]));
  }

 private:
  Batch sum_[accumulators], square_[accumulators];
};

/// Moments of x * scale - shift.
template <class Arch, bool Scaled, class X, class T = Compute<X>>
inline Moments<T> moments_around(const X* x, Index n, T scale, T shift) noexcept {
  const Deviation<Arch, T, Scaled> deviation(scale, shift);
  const auto padding = Simd<Arch, T>::broadcast(shift / scale);
  MomentSums<T> sums;
  for (Index start = 0; start < n; start += block_columns<Arch, T>) {
    PowerSums<Arch, T, true> block;
    for_each_vector<Arch, T, accumulators>(
        std::min(n - start, block_columns<Arch, T>),
        [&](auto k, Index j, auto lanes) { block.add(k, deviation(lanes.load(x + start + j, padding))); });
    block.merge_into(sums);
  }
  // Divided, not multiplied by 1 / n: the deviations of a constant row, all alike, have exactly themselves as mean.
  return {sums.sum.value() / static_cast<Wide<T>>(n), sums.square.value() / static_cast<Wide<T>>(n)};
}

template <class T>
inline Wide<T> variance(const Moments<T>& m) noexcept {
  return m.square - m.mean * m.mean;
}

/// 1 / sqrt(square + eps) of a row whose values were multiplied by `scale`.
template <class T>
inline T reciprocal_root(Wide<T> square, double eps, T scale) noexcept {
  const Wide<T> radicand = std::max(square, Wide<T>(0)) + keep(Wide<T>(eps) * scale) * scale;
  if (radicand == 0) return 0;
  return static_cast<T>(std::min<Wide<T>>(scale / std::sqrt(radicand), std::numeric_limits<T>::max()));
}

/// Statistics of x from the moments of x * scale - shift.
template <class T>
inline RowStatistics<T> statistics_of(const Moments<T>& m, double eps, T scale, T scaled_shift) noexcept {
  const Wide<T> shift = scaled_shift / Wide<T>(scale), offset = m.mean / scale;
  const T mean = keep(static_cast<T>(shift + offset));
  return {mean, static_cast<T>(keep(shift - mean) + offset), reciprocal_root<T>(variance(m), eps, scale)};
}

template <class T>
inline bool is_ordinary(Wide<T> square, Wide<T> square_plus_eps) noexcept {
  using Range = OrdinaryRange<T>;
  return square <= Range::largest_square && square_plus_eps >= Range::smallest_square;
}

/// The power of two for a row whose squares are out of range (or NaN, where any does).
template <class T>
inline T rescue_scale(Wide<T> square) noexcept {
  return square < 1 ? OrdinaryRange<T>::scale_up : OrdinaryRange<T>::scale_down;
}

/// Statistics of a row whose mean is large against its spread, or whose squares leave the type's range.
template <class Arch, class X, class T = Compute<X>>
[[gnu::noinline, gnu::flatten]] inline RowStatistics<T> layer_statistics_again(const X* x, Index n, double eps,
                                                                               const Moments<T>& first) noexcept {
  const T shift = static_cast<T>(first.mean);
  const auto m = moments_around<Arch, false>(x, n, T(1), shift);
  if (m.mean * m.mean <= variance(m) && is_ordinary<T>(m.square, variance(m) + eps)) {
    return statistics_of(m, eps, T(1), shift);
  }
  // Around the mean refined: the deviations of a constant row are exactly 0 now, not rounding errors.
  const T refined = static_cast<T>(shift + m.mean);
  const auto again = moments_around<Arch, false>(x, n, T(1), refined);
  const bool is_constant = again.square == 0 && std::abs(refined) > OrdinaryRange<T>::coarse_mean;
  if (is_constant || is_ordinary<T>(again.square, variance(again) + eps)) {
    return statistics_of(again, eps, T(1), refined);
  }
  const T scale = rescue_scale<T>(again.square);
  const T scaled_shift = static_cast<T>(moments_around<Arch, true>(x, n, scale, T(0)).mean);
  return statistics_of(moments_around<Arch, true>(x, n, scale, scaled_shift), eps, scale, scaled_shift);
}

/// Mean (two-part) and rstd of x[0 .. n) from its moments.
///
/// They are accurate if the variance is at least half of the mean square, whose difference it is: in nearly every row
/// of activations. Otherwise the pass is taken again around the mean that it has found.
///
/// Numerics  var within a few ulp for every row whose spread is between 1e-38 and the largest float.
/// Cost      nothing more is read; x once more where the mean is large, thrice where squares leave the type's range.
/// Source    shifted data algorithm; Chan, Golub, LeVeque 1983, "Algorithms for computing the sample variance".
template <class Arch, class X, class T = Compute<X>>
inline RowStatistics<T> layer_statistics(const Moments<T>& m, const X* x, Index n, double eps) noexcept {
  const Wide<T> var = variance(m);
  if (m.mean * m.mean <= var && is_ordinary<T>(m.square, var + eps)) return statistics_of(m, eps, T(1), T(0));
  return layer_statistics_again<Arch>(x, n, eps, m);
}

/// 1 / sqrt(mean(x^2) + eps) of a row whose squares leave the type's range.
template <class Arch, class X, class T = Compute<X>>
[[gnu::noinline, gnu::flatten]] inline T reciprocal_rms_again(const X* x, Index n, double eps,
                                                              const Moments<T>& first) noexcept {
  const T scale = rescue_scale<T>(first.square);
  return reciprocal_root<T>(moments_around<Arch, true>(x, n, scale, T(0)).square, eps, scale);
}

/// 1 / sqrt(mean(x^2) + eps) of x[0 .. n) from its moments.
///
/// Numerics  as layer_statistics.
/// Cost      nothing more is read; x once more where squares leave the type's range.
template <class Arch, class X, class T = Compute<X>>
inline T reciprocal_rms(const Moments<T>& m, const X* x, Index n, double eps) noexcept {
  if (is_ordinary<T>(m.square, m.square + eps)) return reciprocal_root<T>(m.square, eps, T(1));
  return reciprocal_rms_again<Arch>(x, n, eps, m);
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
