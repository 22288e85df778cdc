#pragma once

#include "evenkeel/kernels/row_norm.hpp"

/// Statistics over a strided axis: of lanes, which lie side by side in memory and are measured side by side in vectors.
///
/// A block of lanes is read row by row, as memory lies: a row here is one element of each lane. What a lane has summed
/// is kept in arrays in the L1 cache.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// The most lanes of a block: one array of them takes 4 KiB.
template <class T>
inline constexpr Index most_lanes = 4096 / static_cast<Index>(sizeof(T));

/// One number for each lane of a block; a cache line longer than 4 KiB, so that the same lanes of several arrays do not
/// compete for one set of the L1 cache.
template <class T>
struct LaneArray {
  alignas(64) T at[most_lanes<T> + 64 / sizeof(T)];
};

/// Elements [length][lanes], the lanes contiguous.
template <class X>
struct LaneBlock {
  X* data = nullptr;
  Index length = 0, stride = 0, lanes = 0;

  X* row(Index l) const noexcept { return data + l * stride; }
  LaneBlock part(Index first, Index count) const noexcept {
    return {data ? data + first : data, length, stride, count};
  }
  /// Short rows without gaps: as a run of memory they are best written as they lie, one at a time.
  bool is_one_run() const noexcept { return lanes <= 256 && stride <= 2 * lanes; }
};

/// Lanes between two bounds at which blocks may begin and end; whether lanes are scaled is decided for each strip by
/// itself. So results do not depend on how many lanes a block has.
template <class T>
inline constexpr Index lane_strip = most_lanes<T> / 16;

/// Whether n lanes with these reciprocal standard deviations are all ordinary.
template <class T>
inline bool are_ordinary(const T* rstd, Index n) noexcept {
  bool is_fine = true;
  for (Index j = 0; j < n; ++j) is_fine = is_fine && is_ordinary(RowStatistics<T>{T(0), T(0), rstd[j]});
  return is_fine;
}

/// Rows that are added up in registers before the sums in the L1 cache are touched.
inline constexpr Index step_rows = 8;
/// Steps whose sums make a chain, after which it goes to the totals.
inline constexpr Index chunk_steps = 16;

/// A number as the sum of two.
template <class Batch>
struct TwoPart {
  Batch value, rest;
};

/// v1 + v2 + ... for each lane, the rounding errors carried along: with nearly twice T's digits.
template <class T>
class LaneTotal {
 public:
  void clear(Index lanes) noexcept {
    std::fill_n(sum_.at, lanes, T(0));
    std::fill_n(rest_.at, lanes, T(0));
  }

  template <class Arch, class Batch>
  void add(Index j, const Batch& v) noexcept {
    using S = Simd<Arch, T>;
    const Batch before = S::load(sum_.at + j), sum = keep(before + v), added = keep(sum - before);
    const Batch error = keep(before - keep(sum - added)) + keep(v - added);
    S::store(sum_.at + j, sum);
    S::store(rest_.at + j, S::load(rest_.at + j) + error);
  }

  /// A vector of totals divided by n.
  template <class Arch>
  TwoPart<typename Simd<Arch, T>::Batch> mean(Index j, T n) const noexcept {
    using S = Simd<Arch, T>;
    const auto inv_n = S::broadcast(1 / n), sum = S::load(sum_.at + j);
    const auto value = keep(sum * inv_n);
    return {value, (keep(S::fma(-value, S::broadcast(n), sum)) + S::load(rest_.at + j)) * inv_n};
  }

  Wide<T> value(Index lane) const noexcept { return static_cast<Wide<T>>(sum_.at[lane]) + rest_.at[lane]; }

 private:
  LaneArray<T> sum_, rest_;
};

/// The sum of neighbours first: chains stay short.
template <class Batch, std::size_t Count>
inline Batch tree_sum(const Batch (&v)[Count]) noexcept {
  if constexpr (Count == 1) {
    return v[0];
  } else {
    Batch half[Count / 2];
    for (std::size_t k = 0; k < Count / 2; ++k) half[k] = v[2 * k] + v[2 * k + 1];
    return tree_sum(half);
  }
}

/// Measures a block of lanes.
template <class Arch, template <class, class, bool> class NormRow, class X>
class LaneMeter {
 public:
  using T = Compute<X>;
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;
  static constexpr bool centred = NormRow<Arch, T, false>::centred;

  LaneArray<T> mean, mean_rest, rstd;
  LaneArray<T> var;  ///< the mean square, for RMSNorm

  /// Fills the four arrays. Returns whether every lane is ordinary.
  bool measure(const LaneBlock<const X>& x, double eps) noexcept {
    sample(x);
    sum<false>(x);
    return finish(x, static_cast<T>(eps)) || measure_again(x, eps);
  }

 private:
  static Index padded(Index lanes) noexcept { return (lanes + S::width - 1) / S::width * S::width; }

  /// shift = the mean of up to 16 rows, spread over the block so that a trend is met; a power of two of them, so that
  /// the shift of a constant lane is exactly its value.
  [[gnu::flatten]] void sample(const LaneBlock<const X>& x) noexcept {
    std::fill_n(shift_.at, padded(x.lanes), T(0));
    if (!centred) return;
    Index rows = 1;
    while (rows < 16 && 4 * rows <= x.length) rows *= 2;
    const Index step = x.length / rows, first = (x.length - (rows - 1) * step) / 2;
    const Batch weight = S::broadcast(T(1) / static_cast<T>(rows));
    for_each_vector<Arch, T, 1>(x.lanes, [&](auto, Index j, auto lanes) {
      const X* row = x.row(first) + j;
      Batch sum = lanes.load(row);
      for (Index k = 1; k < rows; ++k) sum = sum + lanes.load(row += step * x.stride);
      S::store(shift_.at + j, sum * weight);
    });
  }

  /// The totals of x * scale - shift and of its squares.
  template <bool Scaled>
  [[gnu::noinline]] void sum(const LaneBlock<const X>& x) noexcept {
    sum_.clear(padded(x.lanes));
    square_.clear(padded(x.lanes));
    for (Index first = 0; first < x.length; first += chunk_steps * step_rows) {
      sum_chunk<Scaled>(x, first, std::min(x.length, first + chunk_steps * step_rows));
      for (Index j = 0; j < x.lanes; j += S::width) {
        if (centred) sum_.template add<Arch>(j, S::load(chunk_sum_.at + j));
        square_.template add<Arch>(j, S::load(chunk_square_.at + j));
      }
    }
  }

  template <bool Scaled>
  void sum_chunk(const LaneBlock<const X>& x, Index first, Index last) noexcept {
    std::fill_n(chunk_sum_.at, padded(x.lanes), T(0));
    std::fill_n(chunk_square_.at, padded(x.lanes), T(0));
    Index l = first;
    for (; l + step_rows <= last; l += step_rows) sum_rows<Scaled, step_rows>(x, l);
    for (; l < last; ++l) sum_rows<Scaled, 1>(x, l);
  }

  template <bool Scaled, int Rows>
  [[gnu::flatten]] void sum_rows(const LaneBlock<const X>& x, Index l) noexcept {
    const X* row = x.row(l);
    for_each_vector<Arch, T, 1>(x.lanes, [&](auto, Index j, auto lanes) {
      const Deviation<Arch, T, Scaled> deviation(S::load((Scaled ? scale_ : shift_).at + j), S::load(shift_.at + j));
      Batch d[Rows], square[2] = {S::broadcast(T(0)), S::broadcast(T(0))};
      unroll<Rows>([&](auto r) {
        d[r] = deviation(keep(lanes.load(row + r * x.stride + j)));
        square[r % 2] = S::fma(d[r], d[r], square[r % 2]);
      });
      S::store(chunk_square_.at + j, S::load(chunk_square_.at + j) + (square[0] + square[1]));
      if (centred) S::store(chunk_sum_.at + j, S::load(chunk_sum_.at + j) + tree_sum(d));
    });
  }

  /// Statistics of every lane, and whether all of them are settled.
  [[gnu::flatten]] bool finish(const LaneBlock<const X>& x, T eps) noexcept {
    bool is_fine = true;
    for_each_vector<Arch, T, 1>(x.lanes, [&](auto, Index j, auto lanes) {
      finish(j, static_cast<T>(x.length), eps);
      is_fine = is_settled(j, lanes) && is_fine;
    });
    return is_fine;
  }

  /// Statistics of one vector of lanes.
  void finish(Index j, T n, T eps) noexcept {
    const auto offset = sum_.template mean<Arch>(j, n), square = square_.template mean<Arch>(j, n);
    const Batch shift = S::load(shift_.at + j);
    const Batch m = keep(shift + offset.value), added = keep(m - shift);
    S::store(mean.at + j, m);
    S::store(mean_rest.at + j, (keep(offset.value - added) + keep(shift - keep(m - added))) + offset.rest);
    // var = mean square - offset^2, each of them in two parts.
    const Batch offset_square = keep(offset.value * offset.value);
    const Batch lost = S::fma(offset.value, offset.value, -offset_square);
    const Batch lost_rest = add(lost, (offset.value + offset.value) * offset.rest);
    const Batch v = keep(square.value - offset_square) + (square.rest - lost_rest);
    S::store(var.at + j, v);
    S::store(offset_square_.at + j, offset_square);
    S::store(rstd.at + j, S::broadcast(T(1)) / S::sqrt(v + S::broadcast(eps)));
  }

  /// Whether every lane of a vector is accurate (as accurate_moments has it) and ordinary.
  template <class Lanes>
  bool is_settled(Index j, Lanes lanes) const noexcept {
    const Batch one = S::broadcast(T(1));
    const Batch r = lanes.load(rstd.at + j, one);
    return S::all_at_most(lanes.load(offset_square_.at + j), lanes.load(var.at + j, one)) &&
           S::all_at_most(S::broadcast(OrdinaryRange<T>::smallest_rstd), r) &&
           S::all_at_most(r, S::broadcast(OrdinaryRange<T>::largest_rstd));
  }

  /// As accurate_moments_again and reciprocal_rms_again, for all lanes in the same passes.
  [[gnu::noinline]] bool measure_again(const LaneBlock<const X>& x, double eps) noexcept {
    for (Index i = 0; i < x.lanes; ++i) {
      is_pending_[i] = !(offset_square_.at[i] <= var.at[i] && is_ordinary(RowStatistics<T>{T(0), T(0), rstd.at[i]}));
    }
    std::fill_n(scale_.at, padded(x.lanes), T(1));
    bool pending = settle(x, eps, false);
    if (centred && pending) {
      sum<false>(x);
      pending = settle(x, eps, false);
    }
    if (centred && pending) {
      sum<false>(x);  // around the mean refined: the deviations of a constant lane are exactly 0 now
      pending = settle(x, eps, true);
    }
    if (pending) rescue(x, eps);
    return are_ordinary(rstd.at, x.lanes);
  }

  /// Takes the statistics of lanes whose sums are accurate; the others are shifted to their mean. Returns whether there
  /// are any.
  bool settle(const LaneBlock<const X>& x, double eps, bool is_refined) noexcept {
    bool pending = false;
    for (Index i = 0; i < x.lanes; ++i) {
      if (!is_pending_[i]) continue;
      const Moments<T> m = moments(i, x.length);
      const Wide<T> v = variance(m);
      const bool is_constant = is_refined && m.square == 0 && std::abs(shift_.at[i]) > OrdinaryRange<T>::coarse_mean;
      const bool is_centred = is_refined || m.mean * m.mean <= v;
      if (is_constant || (is_centred && is_ordinary<T>(m.square, v + eps))) {
        take(i, {m, T(1), shift_.at[i]}, eps);
      } else {
        if (!is_refined) shift_.at[i] = static_cast<T>(shift_.at[i] + m.mean);
        pending = true;
      }
    }
    return pending;
  }

  /// The lanes whose squares leave the type's range: with x times a power of two.
  void rescue(const LaneBlock<const X>& x, double eps) noexcept {
    for (Index i = 0; i < x.lanes; ++i) {
      if (is_pending_[i]) scale_.at[i] = rescue_scale<T>(moments(i, x.length).square);
    }
    std::fill_n(shift_.at, padded(x.lanes), T(0));
    sum<true>(x);
    if (centred) {
      for (Index i = 0; i < x.lanes; ++i) {
        shift_.at[i] = keep(static_cast<T>(moments(i, x.length).mean / scale_.at[i])) * scale_.at[i];
      }
      sum<true>(x);
    }
    for (Index i = 0; i < x.lanes; ++i) {
      if (is_pending_[i]) take(i, {moments(i, x.length), scale_.at[i], shift_.at[i]}, eps);
    }
  }

  void take(Index i, const ShiftedMoments<T>& m, double eps) noexcept {
    const RowStatistics<T> lane = statistics_of(m, eps);
    mean.at[i] = lane.mean;
    mean_rest.at[i] = lane.mean_rest;
    rstd.at[i] = lane.rstd;
    var.at[i] = variance_of(m);
    is_pending_[i] = false;
  }

  Moments<T> moments(Index i, Index length) const noexcept {
    const auto n = static_cast<Wide<T>>(length);
    return {sum_.value(i) / n, square_.value(i) / n};
  }

  LaneArray<T> shift_, scale_, chunk_sum_, chunk_square_, offset_square_;
  LaneTotal<T> sum_, square_;
  bool is_pending_[most_lanes<T>];
};

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
