#pragma once

#include "evenkeel/kernels/simd.hpp"

/// Mean, variance and mean square of a row: the accuracy contract lives here.
///
/// Sums are taken in vectors of the data's type, in chains of at most 64 additions, and merged in double.
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
  static constexpr float smallest_rstd = 0x1p-60f, largest_rstd = 0x1p60f;
  static constexpr float scale_up = 0x1p100f, scale_down = 0x1p-100f;
};
template <>
struct OrdinaryRange<double> {
  static constexpr double smallest_square = 0x1p-900, largest_square = 0x1p1020;
  static constexpr double smallest_rstd = 0x1p-500, largest_rstd = 0x1p500;
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

/// A value near the mean of scale * x, around which sums of squares do not cancel: the mean of four vectors spread
/// over the row. Spread, so that rows with a trend have it near their mean too; a power-of-two count of whole vectors,
/// so that it is exact for a constant row.
template <class Arch, class T>
inline T sample_mean(const T* x, Index n, T scale) noexcept {
  using S = Simd<Arch, T>;
  const auto s = S::broadcast(scale);
  if (n < S::width) return S::sum(S::load_first(x, n, S::broadcast(T(0))) * s) / static_cast<T>(n);
  const Index last = n - S::width;
  const auto ends = S::load(x) * s + S::load(x + last) * s;
  const auto middle = S::load(x + last / 3) * s + S::load(x + last - last / 3) * s;
  return S::sum(ends + middle) * (T(1) / static_cast<T>(4 * S::width));
}

/// Moments of scale * x around `shift`: mean - shift, and the (biased) variance.
template <class T>
struct ShiftedMoments {
  T shift;
  Wide<T> offset, var;
  Wide<T> mean_square;  ///< of scale * x - shift: not var, which may be the small difference of large numbers
};

/// Sums of a row's deviations from a shift, and of their squares.
template <class Arch, class T, bool Scaled>
class DeviationSums {
 public:
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;

  DeviationSums(T scale, T shift) noexcept
      : deviation_(scale, shift), padding_(S::broadcast(shift / scale)), shift_(shift) {
    clear();
  }
  template <class K, class Lanes>
  void add(K k, const T* x, Lanes lanes) noexcept {
    const Batch d = deviation_(lanes.load(x, padding_));
    sum_[k] = sum_[k] + d;
    square_[k] = S::fma(d, d, square_[k]);
  }
  /// Empties the vectors into the totals.
  void merge() noexcept {
    total_.add(S::sum(sum_[0] + sum_[1]));
    square_total_.add(S::sum(square_[0] + square_[1]));
    clear();
  }
  ShiftedMoments<T> moments(Wide<T> inv_n) const noexcept {
    const Wide<T> offset = total_.value() * inv_n, mean_square = square_total_.value() * inv_n;
    return {shift_, offset, mean_square - offset * offset, mean_square};
  }

 private:
  void clear() noexcept {
    for (int k = 0; k < accumulators; ++k) sum_[k] = square_[k] = S::broadcast(T(0));
  }
  Deviation<Arch, T, Scaled> deviation_;
  Batch padding_, sum_[accumulators], square_[accumulators];
  T shift_;
  WideSum<T> total_, square_total_;
};

template <class Arch, bool Scaled, class T>
inline ShiftedMoments<T> moments_around(const T* x, Index n, Wide<T> inv_n, T scale, T shift) noexcept {
  DeviationSums<Arch, T, Scaled> sums(scale, shift);
  for_each_block<Arch, T>(
      n, [&](auto k, Index j, auto lanes) { sums.add(k, x + j, lanes); }, [&] { sums.merge(); });
  return sums.moments(inv_n);
}

template <class T>
inline T shifted_mean(const ShiftedMoments<T>& m) noexcept {
  return static_cast<T>(m.shift + m.offset);
}

/// The variance is at least half of the mean square, so that their difference has cost it one bit at most.
template <class T>
inline bool is_centred(const ShiftedMoments<T>& m) noexcept {
  return m.offset * m.offset <= m.var;
}

/// 1 / sqrt(square + eps) of a row whose values were multiplied by `scale`.
template <class T>
inline T reciprocal_root(Wide<T> square, double eps, T scale) noexcept {
  const Wide<T> radicand = std::max(square, Wide<T>(0)) + keep(Wide<T>(eps) * scale) * scale;
  if (radicand == 0) return 0;
  return static_cast<T>(std::min<Wide<T>>(scale / std::sqrt(radicand), std::numeric_limits<T>::max()));
}

template <class T>
inline RowStatistics<T> statistics_of(const ShiftedMoments<T>& m, double eps, T scale) noexcept {
  const Wide<T> shift = m.shift / Wide<T>(scale), offset = m.offset / scale;
  const T mean = keep(static_cast<T>(shift + offset));
  return {mean, static_cast<T>(keep(shift - mean) + offset), reciprocal_root<T>(m.var, eps, scale)};
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

/// Statistics of a row for which the sampled shift was too far off, or whose squares leave the type's range.
template <class Arch, class T>
[[gnu::noinline, gnu::flatten]] inline RowStatistics<T> layer_statistics_again(const T* x, Index n, Wide<T> inv_n,
                                                                               double eps,
                                                                               const ShiftedMoments<T>& first) noexcept {
  const auto m = moments_around<Arch, false>(x, n, inv_n, T(1), shifted_mean(first));
  if (is_ordinary<T>(m.mean_square, m.var + eps)) return statistics_of(m, eps, T(1));
  const T scale = rescue_scale<T>(m.mean_square);
  const auto scaled = moments_around<Arch, true>(x, n, inv_n, scale, sample_mean<Arch>(x, n, scale));
  return statistics_of(moments_around<Arch, true>(x, n, inv_n, scale, shifted_mean(scaled)), eps, scale);
}

/// Mean (two-part) and rstd of x[0 .. n) from its moments around sample_mean(x, n, 1); inv_n = 1 / n.
///
/// One pass around the sampled mean does for nearly every row; otherwise the same pass is taken again around the mean
/// it has found. (Around that from the start would be two passes for every row.)
///
/// Numerics  var within a few ulp for every row whose spread is between 1e-38 and the largest float.
/// Cost      nothing more is read; x once more where the sampled shift is off, thrice where squares leave the range.
/// Source    shifted data algorithm; Chan, Golub, LeVeque 1983, "Algorithms for computing the sample variance".
template <class Arch, class T>
inline RowStatistics<T> layer_statistics(const ShiftedMoments<T>& m, const T* x, Index n, Wide<T> inv_n,
                                         double eps) noexcept {
  if (is_centred(m) && is_ordinary<T>(m.mean_square, m.var + eps)) return statistics_of(m, eps, T(1));
  return layer_statistics_again<Arch>(x, n, inv_n, eps, m);
}

/// Sum of the squares of a row.
template <class Arch, class T, bool Scaled>
class SquareSums {
 public:
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;

  /// (The shift is there for the sake of one signature; squares are taken as they are.)
  SquareSums(T scale, T) noexcept : scale_(S::broadcast(scale)) { clear(); }
  template <class K, class Lanes>
  void add(K k, const T* x, Lanes lanes) noexcept {
    const Batch v = Scaled ? keep(lanes.load(x) * scale_) : lanes.load(x);
    square_[k] = S::fma(v, v, square_[k]);
  }
  void merge() noexcept {
    total_.add(S::sum(square_[0] + square_[1]));
    clear();
  }
  Wide<T> moments(Wide<T> inv_n) const noexcept { return total_.value() * inv_n; }

 private:
  void clear() noexcept {
    for (int k = 0; k < accumulators; ++k) square_[k] = S::broadcast(T(0));
  }
  Batch scale_, square_[accumulators];
  WideSum<T> total_;
};

/// 1 / sqrt(mean(x^2) + eps) of a row whose squares leave the type's range.
template <class Arch, class T>
[[gnu::noinline, gnu::flatten]] inline T reciprocal_rms_again(const T* x, Index n, Wide<T> inv_n, double eps,
                                                              Wide<T> first) noexcept {
  const T scale = rescue_scale<T>(first);
  SquareSums<Arch, T, true> sums(scale, T(0));
  for_each_block<Arch, T>(
      n, [&](auto k, Index j, auto lanes) { sums.add(k, x + j, lanes); }, [&] { sums.merge(); });
  return reciprocal_root<T>(sums.moments(inv_n), eps, scale);
}

/// 1 / sqrt(mean(x^2) + eps) of x[0 .. n) from its mean square; inv_n = 1 / n.
///
/// Numerics  as layer_statistics.
/// Cost      nothing more is read; x once more where squares leave the type's range.
template <class Arch, class T>
inline T reciprocal_rms(Wide<T> square, const T* x, Index n, Wide<T> inv_n, double eps) noexcept {
  if (is_ordinary<T>(square, square + eps)) return reciprocal_root<T>(square, eps, T(1));
  return reciprocal_rms_again<Arch>(x, n, inv_n, eps, square);
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
