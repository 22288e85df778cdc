#pragma once

#include "evenkeel/kernels/simd.hpp"

/// Mean, variance and mean square of a row, or of any group of segments: the accuracy contract lives here.
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

/// What is normalized together: runs of contiguous columns, `stride` apart. A row is one of them.
template <class X>
struct Segments {
  using T = Compute<X>;
  const X* x;
  Index columns, segments = 1, stride = 0;
  Index size() const noexcept { return segments * columns; }
  /// `count` segments, or as many as there are from `first` on.
  Segments part(Index first, Index count) const noexcept {
    return {x + first * stride, columns, std::min(count, segments - first), stride};
  }
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

  /// Of numbers, or of batches where each lane has its own.
  template <class V>
  Deviation(const V& scale_, const V& shift_) noexcept : scale(Batch(scale_)), shift(Batch(shift_)) {}
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
    if constexpr (WithMean) sums.sum.add(sum());
    sums.square.add(square());
  }
  T sum() const noexcept { return S::sum(sum_[0] + sum_[1]); }
  T square() const noexcept { return S::sum(square_[0] + square_[1]); }

 private:
  Batch sum_[accumulators], square_[accumulators];
};

/// How many segments are summed in vectors of T before the sums are merged in double, as many columns of one are.
template <class Arch, class T>
inline Index block_segments(Index columns) noexcept {
  constexpr Index step = accumulators * Simd<Arch, T>::width, chain = block_columns<Arch, T> / step;
  return std::max<Index>(1, chain / (columns / step + 1));
}

/// Adds up map(x) and its square; map(padding) is 0. At most block_segments of segments.
template <class Arch, class X, class Map, class T = Compute<X>>
inline void add_power_sums(MomentSums<T>& sums, const Segments<X>& group, Compute<X> padding, const Map& map) noexcept {
  const auto rest = Simd<Arch, T>::broadcast(padding);
  for (Index start = 0; start < group.columns; start += block_columns<Arch, T>) {
    PowerSums<Arch, T, true> block;
    for (Index s = 0; s < group.segments; ++s) {
      const X* x = group.x + s * group.stride + start;
      for_each_vector<Arch, T, accumulators>(
          std::min(group.columns - start, block_columns<Arch, T>),
          [&](auto k, Index j, auto lanes) { block.add(k, map(lanes.load(x + j, rest))); });
    }
    block.merge_into(sums);
  }
}

/// Adds up x and its square.
template <class Arch, class X, class T = Compute<X>>
inline void add_power_sums(MomentSums<T>& sums, const Segments<X>& group) noexcept {
  add_power_sums<Arch>(sums, group, T(0), [](const auto& x) { return keep(x); });
}

/// Moments of x * scale - shift.
template <class Arch, bool Scaled, class Group, class T = typename Group::T>
inline Moments<T> moments_around(const Group& group, T scale, T shift) noexcept {
  const Deviation<Arch, T, Scaled> deviation(scale, shift);
  const Index at_once = block_segments<Arch, T>(group.columns);
  MomentSums<T> sums;
  for (Index first = 0; first < group.segments; first += at_once) {
    add_power_sums<Arch>(sums, group.part(first, at_once), shift / scale, deviation);
  }
  // Divided, not multiplied by 1 / n: the deviations of a constant row, all alike, have exactly themselves as mean.
  const auto n = static_cast<Wide<T>>(group.size());
  return {sums.sum.value() / n, sums.square.value() / n};
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

/// The moments of x * scale - shift, by which x has its statistics to all digits.
template <class T>
struct ShiftedMoments {
  Moments<T> moments;
  T scale, shift;
};

template <class T>
inline RowStatistics<T> statistics_of(const ShiftedMoments<T>& m, double eps) noexcept {
  const Wide<T> shift = m.shift / Wide<T>(m.scale), offset = m.moments.mean / m.scale;
  const T mean = keep(static_cast<T>(shift + offset));
  return {mean, static_cast<T>(keep(shift - mean) + offset), reciprocal_root<T>(variance(m.moments), eps, m.scale)};
}

/// The biased variance of x.
template <class T>
inline T variance_of(const ShiftedMoments<T>& m) noexcept {
  return static_cast<T>(std::max(variance(m.moments), Wide<T>(0)) / m.scale / m.scale);
}

/// The bits of a number that is not negative: they grow with it. Infinity and NaN are above every number, which
/// comparisons of the numbers do not tell where the compiler may take them not to exist.
inline std::int64_t magnitude_bits(double v) noexcept {
  std::int64_t bits;
  std::memcpy(&bits, &v, sizeof(v));
  return bits & std::numeric_limits<std::int64_t>::max();
}

template <class T>
inline bool is_ordinary(Wide<T> square, Wide<T> square_plus_eps) noexcept {
  using Range = OrdinaryRange<T>;
  return magnitude_bits(square) <= magnitude_bits(Range::largest_square) && square_plus_eps >= Range::smallest_square;
}

/// The power of two for a row whose squares are out of range (or NaN, where any does).
template <class T>
inline T rescue_scale(Wide<T> square) noexcept {
  return magnitude_bits(square) < magnitude_bits(1) ? OrdinaryRange<T>::scale_up : OrdinaryRange<T>::scale_down;
}

/// Moments of a group whose mean is large against its spread, or whose squares leave the type's range.
template <class Arch, class Group, class T = typename Group::T>
[[gnu::noinline, gnu::flatten]] inline ShiftedMoments<T> accurate_moments_again(const Group& group, double eps,
                                                                                const Moments<T>& first) noexcept {
  const T shift = static_cast<T>(first.mean);
  const auto m = moments_around<Arch, false>(group, T(1), shift);
  if (m.mean * m.mean <= variance(m) && is_ordinary<T>(m.square, variance(m) + eps)) return {m, T(1), shift};
  // Around the mean refined: the deviations of a constant row are exactly 0 now, not rounding errors.
  const T refined = static_cast<T>(shift + m.mean);
  const auto again = moments_around<Arch, false>(group, T(1), refined);
  const bool is_constant = magnitude_bits(again.square) == 0 && std::abs(refined) > OrdinaryRange<T>::coarse_mean;
  if (is_constant || is_ordinary<T>(again.square, variance(again) + eps)) return {again, T(1), refined};
  const T scale = rescue_scale<T>(again.square);
  // The shift times a power of two, be it subnormal: lanes past the end, which hold it, deviate by exactly 0.
  const T scaled_shift = keep(static_cast<T>(moments_around<Arch, true>(group, scale, T(0)).mean / scale)) * scale;
  return {moments_around<Arch, true>(group, scale, scaled_shift), scale, scaled_shift};
}

/// The moments that mean (two-part), variance and rstd of a group follow from, given those of x itself.
///
/// They are accurate if the variance is at least half of the mean square, whose difference it is: in nearly every row
/// of activations. Otherwise the pass is taken again around the mean that it has found.
///
/// Numerics  var within a few ulp for every row whose spread is between 1e-38 and the largest float.
/// Cost      nothing more is read; x once more where the mean is large, thrice where squares leave the type's range.
/// Source    shifted data algorithm; Chan, Golub, LeVeque 1983, "Algorithms for computing the sample variance".
template <class Arch, class Group, class T = typename Group::T>
inline ShiftedMoments<T> accurate_moments(const Moments<T>& m, const Group& group, double eps) noexcept {
  const Wide<T> var = variance(m);
  if (m.mean * m.mean <= var && is_ordinary<T>(m.square, var + eps)) return {m, T(1), T(0)};
  return accurate_moments_again<Arch>(group, eps, m);
}

/// Mean (two-part) and rstd of a row from its moments.
template <class Arch, class Group, class T = typename Group::T>
inline RowStatistics<T> layer_statistics(const Moments<T>& m, const Group& row, double eps) noexcept {
  return statistics_of(accurate_moments<Arch>(m, row, eps), eps);
}

/// 1 / sqrt(mean(x^2) + eps) of a row whose squares leave the type's range.
template <class Arch, class Group, class T = typename Group::T>
[[gnu::noinline, gnu::flatten]] inline T reciprocal_rms_again(const Group& row, double eps,
                                                              const Moments<T>& first) noexcept {
  const T scale = rescue_scale<T>(first.square);
  return reciprocal_root<T>(moments_around<Arch, true>(row, scale, T(0)).square, eps, scale);
}

/// 1 / sqrt(mean(x^2) + eps) of a row from its moments.
///
/// Numerics  as layer_statistics.
/// Cost      nothing more is read; x once more where squares leave the type's range.
template <class Arch, class Group, class T = typename Group::T>
inline T reciprocal_rms(const Moments<T>& m, const Group& row, double eps) noexcept {
  if (is_ordinary<T>(m.square, m.square + eps)) return reciprocal_root<T>(m.square, eps, T(1));
  return reciprocal_rms_again<Arch>(row, eps, m);
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
