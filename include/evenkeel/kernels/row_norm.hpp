#pragma once

#include "evenkeel/kernels/moments.hpp"
#include "evenkeel/kernels/row_norm_any.hpp"

/// What tells LayerNorm from RMSNorm, row by row: how a row is measured, and how x_hat follows from x. All else,
/// forward (row_norm_forward.hpp) and backward (row_norm_backward.hpp), is code that the two share.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Whether all rows together (`arrays` of them) come from beyond the L2 cache, where a loop is as fast as the
/// prefetching of the hardware can follow it.
template <class X>
inline bool is_beyond_l2(Index arrays, Index rows, Index features) noexcept {
  return arrays * rows * features * static_cast<Index>(sizeof(X)) >= (Index{4} << 20);
}

/// One block of a row of constants, which stands for gamma (1) or beta (0) where there is none.
template <class T>
struct ConstantBlock {
  T values[1024];
  constexpr explicit ConstantBlock(T value) noexcept : values() {
    for (T& v : values) v = value;
  }
};
template <class T, int Value>
inline constexpr ConstantBlock<T> constant_block{T(Value)};
/// The same in words of 16 bits.
template <StorageFormat Format, int Value>
inline constexpr ConstantBlock<std::uint16_t> constant_words{Value == 1 ? StorageConversion<Format>::one
                                                                        : std::uint16_t{0}};

/// The columns of parameters from `start` on.
template <int Default, class P>
inline const P* parameter_block(const P* parameters, Index start) noexcept {
  static_assert(Default == 0 || Default == 1);
  if (parameters) return parameters + start;
  if constexpr (is_16_bit<P>) {
    return reinterpret_cast<const P*>(constant_words<StorageTraits<P>::format, Default>.values);
  } else {
    return constant_block<P, Default>.values;
  }
}

/// dx = g * gain + deviation * slope + intercept, for one row.
template <class T>
struct InputGradient {
  T gain, slope, intercept;
};

/// What the deviations of a scaled row are multiplied by: the power of two just below rstd, which is exact; 1 for an
/// ordinary row, which has the same bits beside an extreme one as alone.
template <class T>
inline T row_scale(T rstd) noexcept {
  return is_ordinary(RowStatistics<T>{T(0), T(0), rstd}) ? T(1) : power_of_two_below(rstd);
}

/// LayerNorm: x_hat = ((x - mean) - mean_rest) * rstd.
///
/// In a scaled row the deviation x - mean is taken times row_scale, which keeps what is near either end of the type's
/// range from over- or underflowing: x_hat = deviation * gain + offset.
template <class Arch, class T, bool Scaled>
struct LayerNormRow {
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;
  static constexpr bool centred = true;

  Deviation<Arch, T, Scaled> deviation;
  Batch gain, offset;

  /// Of a row, as Segments or SharedRow, from its moments.
  template <class Group>
  static RowStatistics<T> statistics(const Moments<T>& m, const Group& row, double eps) noexcept {
    return layer_statistics<Arch>(m, row, eps);
  }
  explicit LayerNormRow(const RowStatistics<T>& row) noexcept
      : LayerNormRow(row, Scaled ? row_scale(row.rstd) : T(1)) {}
  /// V is T, or a batch where each lane is a row of its own.
  template <class V>
  LayerNormRow(const RowStatistics<V>& row, const V& scale) noexcept
      : deviation(scale, Scaled ? row.mean * scale : row.mean),
        gain(Batch(Scaled ? row.rstd / scale : row.rstd)),
        offset(Batch(-row.mean_rest * row.rstd)) {}
  Batch x_hat(const Batch& x) const noexcept { return S::fma(deviation(x), gain, offset); }
  /// What lanes past the end of a row hold: 0 less a large mean, times rstd, may be infinite.
  Batch padding() const noexcept { return Scaled ? deviation.shift / deviation.scale : deviation.shift; }

  /// dx = rstd * (g - mean_g - x_hat * mean_gx), with x_hat written out and everything but g and x folded.
  static InputGradient<T> input_gradient(const RowStatistics<T>& row, Wide<T> mean_g, Wide<T> mean_gx) noexcept {
    const T gain = keep(row.rstd / (Scaled ? row_scale(row.rstd) : T(1)));
    const Wide<T> offset = keep(-row.mean_rest * row.rstd);
    const Wide<T> mean = keep(mean_g) + keep(offset * mean_gx);  // contracted, or not, with all that they come from
    return {row.rstd, static_cast<T>(-(mean_gx * row.rstd) * gain), static_cast<T>(-mean * row.rstd)};
  }
  /// The same of rows that are lanes.
  InputGradient<Batch> input_gradient(const Batch& rstd, const Batch& mean_g, const Batch& mean_gx) const noexcept {
    return {rstd, -(mean_gx * rstd) * gain, -(S::fma(offset, mean_gx, mean_g) * rstd)};
  }
};

/// RMSNorm: x_hat = x * rstd.
template <class Arch, class T, bool Scaled>
struct RMSNormRow {
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;
  static constexpr bool centred = false;

  Batch rstd;

  template <class Group>
  static RowStatistics<T> statistics(const Moments<T>& m, const Group& row, double eps) noexcept {
    return {T(0), T(0), reciprocal_rms<Arch>(m, row, eps)};
  }
  explicit RMSNormRow(const RowStatistics<T>& row) noexcept : RMSNormRow(row, T(1)) {}
  template <class V>
  RMSNormRow(const RowStatistics<V>& row, const V&) noexcept : rstd(Batch(row.rstd)) {}
  Batch deviation(const Batch& x) const noexcept { return keep(x * rstd); }
  Batch x_hat(const Batch& x) const noexcept { return deviation(x); }
  Batch padding() const noexcept { return S::broadcast(T(0)); }

  /// dx = rstd * (g - x_hat * mean_gx).
  static InputGradient<T> input_gradient(const RowStatistics<T>& row, Wide<T>, Wide<T> mean_gx) noexcept {
    return {row.rstd, static_cast<T>(-mean_gx * row.rstd), T(0)};
  }
  InputGradient<Batch> input_gradient(const Batch&, const Batch&, const Batch& mean_gx) const noexcept {
    return {rstd, -mean_gx * rstd, Batch(T(0))};
  }
};

template <class T>
inline bool is_ordinary(const RowStatistics<T>& row) noexcept {
  return row.rstd >= OrdinaryRange<T>::smallest_rstd && row.rstd <= OrdinaryRange<T>::largest_rstd;
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
