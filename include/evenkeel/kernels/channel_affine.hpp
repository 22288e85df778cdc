#pragma once

#include "evenkeel/kernels/in_one_piece.hpp"
#include "evenkeel/kernels/row_norm.hpp"

/// What BatchNorm is in inference, and everything else that scales and shifts channels: one pass over memory.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Data is of type X, coefficients of the type that it is computed in.
template <class X>
struct ChannelAffine {
  using T = Compute<X>;
  const X* x = nullptr;       ///< [outer, channels, inner]
  const T* center = nullptr;  ///< [channels], or null: 0
  const T* scale = nullptr;   ///< [channels], or null: 1
  const T* shift = nullptr;   ///< [channels], or null: 0
  X* y = nullptr;             ///< [outer, channels, inner]; may be x
  Index outer = 0, channels = 0, inner = 0;
  Index x_outer_stride = 0, x_channel_stride = 0;  ///< elements along inner are contiguous
  Index y_outer_stride = 0, y_channel_stride = 0;
};

/// The activation of a channel_affine that has none.
struct Identity {
  template <class Batch>
  Batch operator()(const Batch& v) const noexcept {
    return v;
  }
};

/// max(v, 0) of each element; NaN stays NaN, -0 becomes 0.
struct Relu {
  template <class T, class Arch>
  xsimd::batch<T, Arch> operator()(const xsimd::batch<T, Arch>& v) const noexcept {
    const xsimd::batch<T, Arch> zero(T(0));
    return xsimd::select(v <= zero, zero, v);
  }
  template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>>
  T operator()(T v) const noexcept {
    return v <= 0 ? T(0) : v;
  }
};

/// The coefficients of contiguous elements that are all of one channel, ...
template <class Arch, class T>
struct OneChannel {
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;
  Batch center_, scale_, shift_;

  template <class X>
  OneChannel(const ChannelAffine<X>& a, Index c) noexcept
      : center_(S::broadcast(a.center ? a.center[c] : T(0))),
        scale_(S::broadcast(a.scale ? a.scale[c] : T(1))),
        shift_(S::broadcast(a.shift ? a.shift[c] : T(0))) {}
  template <class Lanes>
  Batch center(Index, Lanes) const noexcept {
    return center_;
  }
  template <class Lanes>
  Batch scale(Index, Lanes) const noexcept {
    return scale_;
  }
  template <class Lanes>
  Batch shift(Index, Lanes) const noexcept {
    return shift_;
  }
};

/// ... or of one channel each.
template <class Arch, class T>
struct ChannelEach {
  using Batch = typename Simd<Arch, T>::Batch;
  const T *center_, *scale_, *shift_;

  template <class Lanes>
  Batch center(Index j, Lanes lanes) const noexcept {
    return lanes.load(center_ + j);
  }
  template <class Lanes>
  Batch scale(Index j, Lanes lanes) const noexcept {
    return lanes.load(scale_ + j);
  }
  template <class Lanes>
  Batch shift(Index j, Lanes lanes) const noexcept {
    return lanes.load(shift_ + j);
  }
};

/// One coefficient for each of up to 1024 contiguous elements, where the caller has one for each channel.
template <class T>
struct SpreadCoefficients {
  static constexpr Index most = 1024;
  T center[most], scale[most], shift[most];

  /// Those of channels [first, first + count), each for `inner` elements, all of them `repeats` times.
  template <class X>
  SpreadCoefficients(const ChannelAffine<X>& a, Index first, Index count, Index repeats) noexcept {
    Index j = 0;
    for (Index repeat = 0; repeat < repeats; ++repeat) {
      for (Index c = first; c < first + count; ++c) {
        for (Index i = 0; i < a.inner; ++i, ++j) {
          center[j] = a.center ? a.center[c] : T(0);
          scale[j] = a.scale ? a.scale[c] : T(1);
          shift[j] = a.shift ? a.shift[c] : T(0);
        }
      }
    }
  }
};

/// Scales and shifts channels, in pieces for channel_affine.
template <class Arch, class X, class Activation>
class ChannelAffinePass {
 public:
  using T = Compute<X>;

  ChannelAffinePass(const ChannelAffine<X>& args, const Activation& activation, bool is_beyond_l2) noexcept
      : a_(args),
        activation_(activation),
        row_(args.channels * args.inner),
        one_by_one_(is_beyond_l2 && row_ * static_cast<Index>(sizeof(X)) <= 8192) {}

  void run() const noexcept {
    if (a_.inner >= 2 * Simd<Arch, T>::width || !channels_adjoin()) return by_channel();
    const bool has_tails = row_ % Simd<Arch, T>::width != 0;
    const Index rows = has_tails && rows_adjoin() ? SpreadCoefficients<T>::most / row_ : 0;
    if (rows > 1 && a_.outer >= worthwhile * rows) return by_rows(rows);
    a_.inner == 1 ? by_row() : by_piece_of_row();
  }

 private:
  using S = Simd<Arch, T>;
  static constexpr int rows_at_once = 4;
  static constexpr Index worthwhile = 8;  // uses of coefficients that have to be spread first

  bool channels_adjoin() const noexcept {
    return a_.channels == 1 || (a_.x_channel_stride == a_.inner && a_.y_channel_stride == a_.inner);
  }
  bool rows_adjoin() const noexcept { return a_.x_outer_stride == row_ && a_.y_outer_stride == row_; }

  /// Long runs of one channel: images whose channels come first.
  void by_channel() const noexcept {
    for (Index o = 0; o < a_.outer; ++o) {
      for (Index c = 0; c < a_.channels; ++c) {
        apply<1>(x(o) + c * a_.x_channel_stride, 0, y(o) + c * a_.y_channel_stride, 0, a_.inner,
                 OneChannel<Arch, T>(a_, c));
      }
    }
  }

  /// Channels last: a row of coefficients for every row of elements.
  void by_row() const noexcept {
    constexpr Index block = 1024;  // of constant_block
    for_each_rows(a_.outer, [&](Index o, auto rows) {
      for (Index start = 0; start < row_; start += block) {
        apply<rows>(x(o) + start, a_.x_outer_stride, y(o) + start, a_.y_outer_stride, std::min(row_ - start, block),
                    ChannelEach<Arch, T>{parameter_block<0>(a_.center, start), parameter_block<1>(a_.scale, start),
                                         parameter_block<0>(a_.shift, start)});
      }
    });
  }

  /// Short rows without gaps: several joined to a longer one, so that vectors are full.
  void by_rows(Index joined) const noexcept {
    const SpreadCoefficients<T> spread(a_, 0, a_.channels, joined);
    const Index whole = a_.outer / joined, length = joined * row_;
    for (Index o = 0; o < whole; ++o) apply<1>(a_.x + o * length, 0, a_.y + o * length, 0, length, each(spread));
    apply<1>(a_.x + whole * length, 0, a_.y + whole * length, 0, (a_.outer - whole * joined) * row_, each(spread));
  }

  /// Short runs of one channel each: several at once.
  void by_piece_of_row() const noexcept {
    const Index channels = SpreadCoefficients<T>::most / a_.inner;
    for (Index first = 0; first < a_.channels; first += channels) {
      const Index count = std::min(channels, a_.channels - first), start = first * a_.inner;
      const SpreadCoefficients<T> spread(a_, first, count, 1);
      for_each_rows(a_.outer, [&](Index o, auto rows) {
        apply<rows>(x(o) + start, a_.x_outer_stride, y(o) + start, a_.y_outer_stride, count * a_.inner, each(spread));
      });
    }
  }

  /// Calls body(first, number of rows), the number as a constant type: rows share the loads of their coefficients.
  /// From beyond the L2 cache they come one by one, unless they are so long that their coefficients leave the L1 cache:
  /// the hardware's prefetching follows few streams at once.
  template <class Body>
  void for_each_rows(Index rows, const Body& body) const noexcept {
    Index o = 0;
    for (; !one_by_one_ && o + rows_at_once <= rows; o += rows_at_once) {
      body(o, std::integral_constant<int, rows_at_once>{});
    }
    for (; o < rows; ++o) body(o, std::integral_constant<int, 1>{});
  }

  /// y = activation((x - center) * scale + shift) of `Rows` rows with the same coefficients.
  template <int Rows, class Coefficients>
  void apply(const X* x, Index x_stride, X* y, Index y_stride, Index n, const Coefficients& of) const noexcept {
    for_each_vector<Arch, T, accumulators>(n, [&](auto, Index j, auto lanes) {
      const auto center = of.center(j, lanes), scale = of.scale(j, lanes), shift = of.shift(j, lanes);
      unroll<Rows>([&](auto r) {
        const auto deviation = keep(lanes.load(x + r * x_stride + j) - center);
        lanes.store(y + r * y_stride + j, activation_(S::fma(deviation, scale, shift)));
      });
    });
  }

  static ChannelEach<Arch, T> each(const SpreadCoefficients<T>& spread) noexcept {
    return {spread.center, spread.scale, spread.shift};
  }
  const X* x(Index o) const noexcept { return a_.x + o * a_.x_outer_stride; }
  X* y(Index o) const noexcept { return a_.y + o * a_.y_outer_stride; }

  const ChannelAffine<X>& a_;
  const Activation& activation_;
  Index row_;
  bool one_by_one_;
};

/// channel_affine, of all that there is.
template <class Arch, class X, class Activation>
[[gnu::flatten]] inline void affine_channels(const ChannelAffine<X>& a, const Activation& activation,
                                             bool is_beyond_l2) noexcept {
  ChannelAffinePass<Arch, X, Activation>(a, activation, is_beyond_l2).run();
}

/// Some of the outer indices, and of the channels.
template <class X>
inline ChannelAffine<X> part_of(ChannelAffine<X> a, Index first_outer, Index outer, Index first, Index count) noexcept {
  a.x += first_outer * a.x_outer_stride + first * a.x_channel_stride;
  a.y += first_outer * a.y_outer_stride + first * a.y_channel_stride;
  for (const Compute<X>** coefficients : {&a.center, &a.scale, &a.shift}) {
    if (*coefficients) *coefficients += first;
  }
  a.outer = outer, a.channels = count;
  return a;
}

/// Scale and shift of each channel: y = activation((x - center) * scale + shift).
///
/// BatchNorm in inference: center the running mean, scale = gamma * rstd, shift = beta. Taking the mean off first keeps
/// the digits that the folded form x * scale + (beta - mean * scale) loses where the mean is large against the spread.
/// The activation is any function of a batch of elements, Simd<Arch, Compute<X>>::Batch, to one; lanes that are not
/// elements are among what it sees. Where there is no SIMD, a batch is a T. Outer indices, or channels if there is only
/// one, are taken by `run`, see InOnePiece; the activation then runs on several threads.
///
/// Shapes    x, y [outer, channels, inner], contiguous along inner; center, scale, shift [channels].
/// Aliasing  y may be x; nothing else may overlap.
/// Numerics  the difference is rounded, and the fma; where there is no center, the fma alone.
/// Cost      x read once, y written once; no allocation.
/// Errors    none: sizes are the caller's duty.
template <class Arch = native, class X, class Activation = Identity, class Run = InOnePiece>
inline void channel_affine(const ChannelAffine<X>& a, const Activation& activation = {}, const Run& run = {}) noexcept {
  if (a.outer == 0 || a.channels == 0 || a.inner == 0) return;
  const Index run_bytes = a.inner * static_cast<Index>(sizeof(X));
  const bool is_far = is_beyond_l2<X>(2, a.outer * a.channels, a.inner);
  if (a.outer > 1) {
    run(a.outer, a.channels * run_bytes, [&](Index first, Index last) {
      affine_channels<Arch>(part_of(a, first, last - first, 0, a.channels), activation, is_far);
    });
  } else {
    run(a.channels, run_bytes, [&](Index first, Index last) {
      affine_channels<Arch>(part_of(a, 0, 1, first, last - first), activation, is_far);
    });
  }
}

/// scale = gamma / sqrt(var + eps), and 0 where that is 1 / 0; gamma may be null: 1.
template <class Arch = native, class T>
[[gnu::flatten]] inline void channel_scales(const T* var, const T* gamma, double eps, Index channels,
                                            T* scale) noexcept {
  using S = Simd<Arch, T>;
  const auto eps_t = S::broadcast(static_cast<T>(eps)), one = S::broadcast(T(1));
  for_each_vector<Arch, T, accumulators>(channels, [&](auto, Index c, auto lanes) {
    const auto root = S::sqrt(lanes.load(var + c, one) + eps_t);
    lanes.store(scale + c, (gamma ? lanes.load(gamma + c) : one) / root);
  });
  if (static_cast<T>(eps) != 0) return;
  for (Index c = 0; c < channels; ++c) {
    if (var[c] == 0) scale[c] = 0;
  }
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
