#pragma once

#include "evenkeel/kernels/channel_affine.hpp"
#include "evenkeel/kernels/lane_norm_backward.hpp"
#include "evenkeel/kernels/segment_norm_backward.hpp"
#include "evenkeel/kernels/segment_norm_forward.hpp"

/// BatchNorm where channels lie in runs too short to fill vectors: small images, a few channels, or, in column-major
/// tensors, small batches. Every position of a row is taken as a lane; the statistics of a channel are merged from
/// those of its lanes.
///
/// The arguments are those of the kernels of segments: a group is a channel, a segment its run in one row.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Channels [first, first + channels) as lanes: `joined` rows of `channels` runs of `inner` lanes each.
struct ShortRuns {
  Index first = 0, channels = 0, inner = 0, joined = 1;
  Index lanes() const noexcept { return joined * channels * inner; }

  /// Calls body(lane, c) for each lane, and its channel counted from the first.
  template <class Body>
  void for_each_lane(const Body& body) const noexcept {
    Index lane = 0;
    for (Index r = 0; r < joined; ++r) {
      for (Index c = 0; c < channels; ++c) {
        for (Index i = 0; i < inner; ++i) body(lane++, c);
      }
    }
  }
};

/// Whether runs are short enough for these kernels, and lie side by side. `is_dense`: in all tensors of the call.
template <class T>
inline bool are_short_runs(Index channels, Index inner, bool is_dense) noexcept {
  return is_dense && inner * static_cast<Index>(sizeof(T)) < 256 && (inner > 1 || 16 * channels <= most_lanes<T>);
}

/// Calls body(runs) for all channels, as many at a time as make a block of lanes. Rows that are `rows_adjoin` are
/// joined where all of their channels are few.
template <class T, class Args, class Body>
inline void for_each_short_runs(const Args& a, bool rows_adjoin, const Body& body) noexcept {
  const Index row = a.groups * a.columns, most = most_lanes<T> / a.columns;
  Index joined = 1;
  while (rows_adjoin && 2 * joined * row <= most_lanes<T> / 2 && a.segments % (2 * joined) == 0) joined *= 2;
  for (Index first = 0; first < a.groups; first += most) {
    body(ShortRuns{first, std::min(most, a.groups - first), a.columns, joined});
  }
}

/// The statistics of channels in the making: of their lanes, which have as many elements each.
template <class T>
class MergedLanes {
 public:
  /// `base` is near the means that follow.
  void begin(T base) noexcept { *this = MergedLanes(), base_ = base; }
  void add_mean(T mean, T mean_rest) noexcept { sum_.add(deviation(mean, mean_rest)), ++count_; }
  void add_var(T mean, T mean_rest, T var) noexcept {
    const Wide<T> d = deviation(mean, mean_rest) - offset();
    squares_ += var + d * d;
  }
  /// The variance is that within lanes, and that between them.
  Wide<T> var() const noexcept { return squares_ / static_cast<Wide<T>>(count_); }
  RowStatistics<T> statistics(double eps) const noexcept {
    const T mean = keep(static_cast<T>(base_ + offset()));
    const Wide<T> radicand = var() + static_cast<Wide<T>>(eps);
    return {mean, static_cast<T>(keep(base_ - static_cast<Wide<T>>(mean)) + offset()),
            static_cast<T>(1 / std::sqrt(radicand))};
  }

 private:
  Wide<T> deviation(T mean, T mean_rest) const noexcept { return keep(static_cast<Wide<T>>(mean) - base_) + mean_rest; }
  Wide<T> offset() const noexcept { return sum_.value() / static_cast<Wide<T>>(count_); }

  Wide<T> base_ = 0, squares_ = 0;
  WideSum<Wide<T>> sum_;
  Index count_ = 0;
};

/// Forward, in pieces for short_run_norm_forward.
template <class Arch, class X>
class ShortRunForwardPass {
 public:
  using T = Compute<X>;

  explicit ShortRunForwardPass(const SegmentNormForward<X>& args) noexcept : a_(args) {}

  /// Statistics of every channel, before anything is written; of one that is not ordinary, an rstd of -1.
  void measure() noexcept {
    for_each_short_runs<T>(a_, a_.x_segment_stride == a_.groups * a_.columns, [&](const ShortRuns& runs) {
      meter_.measure(
          {a_.x + runs.first * a_.columns, a_.segments / runs.joined, runs.joined * a_.x_segment_stride, runs.lanes()},
          a_.eps);
      merge(runs);
    });
  }

  /// Ordinary channels as many at a time as follow one another; the others by the kernel of segments.
  void write() const noexcept {
    for (Index first = 0; first < a_.groups;) {
      Index last = first;
      while (last < a_.groups && last - first < block && !(a_.rstd[last] < 0)) ++last;
      if (last == first) segment_norm_forward<Arch>(one_channel(first));
      if (last > first && a_.y) write(first, last - first);
      first = std::max(last, first + 1);
    }
  }

 private:
  static constexpr Index block = most_lanes<T>;

  void write(Index first, Index count) const noexcept {
    T scale[block], shift[block];
    for (Index c = 0; c < count; ++c) {
      const Index g = first + c;
      scale[c] = (a_.gamma ? a_.gamma[g] : T(1)) * a_.rstd[g];
      shift[c] = (a_.beta ? a_.beta[g] : T(0)) - a_.mean_rest[g] * scale[c];
    }
    ChannelAffine<X> affine;
    affine.x = a_.x + first * a_.columns, affine.y = a_.y + first * a_.columns;
    affine.center = a_.mean + first, affine.scale = scale, affine.shift = shift;
    affine.outer = a_.segments, affine.channels = count, affine.inner = a_.columns;
    affine.x_outer_stride = a_.x_segment_stride, affine.y_outer_stride = a_.y_segment_stride;
    affine.x_channel_stride = affine.y_channel_stride = a_.columns;
    channel_affine<Arch>(affine);
  }

  SegmentNormForward<X> one_channel(Index c) const noexcept {
    SegmentNormForward<X> one = a_;
    one.groups = 1;
    one.x += c * a_.columns;
    if (one.y) one.y += c * a_.columns;
    one.mean += c, one.mean_rest += c, one.rstd += c, one.var += c;
    if (one.gamma) one.gamma += c;
    if (one.beta) one.beta += c;
    return one;
  }

  void merge(const ShortRuns& runs) noexcept {
    for (Index c = 0; c < runs.channels; ++c) merged_[c].begin(meter_.mean.at[c * runs.inner]);
    runs.for_each_lane([&](Index l, Index c) { merged_[c].add_mean(meter_.mean.at[l], meter_.mean_rest.at[l]); });
    runs.for_each_lane(
        [&](Index l, Index c) { merged_[c].add_var(meter_.mean.at[l], meter_.mean_rest.at[l], meter_.var.at[l]); });
    for (Index c = 0; c < runs.channels; ++c) {
      const Wide<T> var = merged_[c].var();
      const RowStatistics<T> statistics = merged_[c].statistics(a_.eps);
      a_.mean[runs.first + c] = statistics.mean;
      a_.mean_rest[runs.first + c] = statistics.mean_rest;
      a_.rstd[runs.first + c] = is_ordinary<T>(var, var + a_.eps) ? statistics.rstd : T(-1);
      a_.var[runs.first + c] = static_cast<T>(var);
    }
  }

  SegmentNormForward<X> a_;
  LaneMeter<Arch, LayerNormRow, X> meter_;
  MergedLanes<T> merged_[most_lanes<T>];
};

/// BatchNorm of short runs, in training; all four statistics are wanted.
///
/// Numerics  as segment_norm_forward, whose the channels are that are not ordinary: whose spread is near an end of the
///           type's range, is 0 without an eps, or NaN.
/// Cost      x read twice, y written once; 100 KiB of stack; no allocation.
/// Source    merging: Chan, Golub, LeVeque 1979.
template <class Arch = native, class X>
[[gnu::flatten]] inline void short_run_norm_forward(const SegmentNormForward<X>& args) noexcept {
  ShortRunForwardPass<Arch, X> pass(args);
  pass.measure();
  pass.write();
}

/// Backward, in pieces for short_run_norm_backward.
template <class Arch, class X>
class ShortRunBackwardPass {
 public:
  using T = Compute<X>;

  explicit ShortRunBackwardPass(const SegmentNormBackward<X>& args) noexcept : a_(args) {}

  /// Of NaN, everything is NaN in any kernel.
  bool is_ordinary_or_nan_everywhere() const noexcept {
    for (Index c = 0; c < a_.groups; ++c) {
      if (a_.rstd[c] < OrdinaryRange<T>::smallest_rstd || a_.rstd[c] > OrdinaryRange<T>::largest_rstd) return false;
    }
    return true;
  }

  void run() noexcept {
    const Index row = a_.groups * a_.columns;
    const bool rows_adjoin =
        a_.x_segment_stride == row && a_.dy_segment_stride == row && (!a_.dx || a_.dx_segment_stride == row);
    for_each_short_runs<T>(a_, rows_adjoin, [&](const ShortRuns& runs) {
      const bool wants_sums = a_.dgamma || a_.dbeta || !a_.constant_statistics;
      std::fill_n(g_, runs.channels, Wide<T>(0));
      std::fill_n(gx_, runs.channels, Wide<T>(0));
      if (wants_sums) sum(runs);
      write_parameters(runs);
      if (!a_.dx) return;
      spread(runs);
      a_.add_dx ? write<true>(runs) : write<false>(runs);
    });
  }

 private:
  using S = Simd<Arch, T>;

  /// dy and dy * x_hat of each lane by the kernel of lanes, as gradients of a gamma and a beta for each.
  void sum(const ShortRuns& runs) noexcept {
    runs.for_each_lane([&](Index l, Index c) {
      const Index channel = runs.first + c;
      one_.at[l] = a_.mean[channel];
      two_.at[l] = a_.mean_rest ? a_.mean_rest[channel] : T(0);
      three_.at[l] = a_.rstd[channel];
    });
    LaneNormBackward<X, T> lanes;
    const Index start = runs.first * a_.columns;
    lanes.dy = a_.dy + start, lanes.x = a_.x + start;
    lanes.mean = one_.at, lanes.mean_rest = two_.at, lanes.rstd = three_.at;
    lanes.dgamma = four_.at, lanes.dbeta = five_.at;
    lanes.outer = 1, lanes.length = a_.segments / runs.joined, lanes.lanes = runs.lanes();
    lanes.dy_stride = runs.joined * a_.dy_segment_stride, lanes.x_stride = runs.joined * a_.x_segment_stride;
    lanes.parameters_per_lane = true, lanes.workspace = totals_;
    lane_norm_backward<Arch, LayerNormRow>(lanes);
    runs.for_each_lane([&](Index l, Index c) {
      gx_[c] += four_.at[l];
      g_[c] += five_.at[l];
    });
  }

  void write_parameters(const ShortRuns& runs) const noexcept {
    for (Index c = 0; c < runs.channels; ++c) {
      const Index channel = runs.first + c;
      if (a_.dgamma) a_.dgamma[channel] = static_cast<T>(gx_[c] + (a_.add_dgamma ? a_.dgamma[channel] : T(0)));
      if (a_.dbeta) a_.dbeta[channel] = static_cast<T>(g_[c] + (a_.add_dbeta ? a_.dbeta[channel] : T(0)));
    }
  }

  InputGradient<T> input_gradient(const ShortRuns& runs, Index c) const noexcept {
    const Index channel = runs.first + c, n = a_.segments * a_.columns;
    const RowStatistics<T> statistics{a_.mean[channel], a_.mean_rest ? a_.mean_rest[channel] : T(0), a_.rstd[channel]};
    if (a_.constant_statistics) return {statistics.rstd, T(0), T(0)};
    if (n == 1) return {T(0), T(0), T(0)};
    const Wide<T> gamma = a_.gamma ? a_.gamma[channel] : T(1), share = gamma / static_cast<Wide<T>>(n);
    return LayerNormRow<Arch, T, false>::input_gradient(statistics, g_[c] * share, gx_[c] * share);
  }

  /// The coefficients of dx for each lane.
  void spread(const ShortRuns& runs) noexcept {
    for (Index c = 0; c < runs.channels; ++c) to_[c] = input_gradient(runs, c);
    runs.for_each_lane([&](Index l, Index c) {
      const Index channel = runs.first + c;
      one_.at[l] = a_.mean[channel];
      two_.at[l] = (a_.gamma ? a_.gamma[channel] : T(1)) * to_[c].gain;
      three_.at[l] = to_[c].slope;
      four_.at[l] = to_[c].intercept;
    });
  }

  /// dx = dy * gamma * gain + deviation * slope + intercept.
  template <bool Add>
  void write(const ShortRuns& runs) const noexcept {
    const Index start = runs.first * a_.columns, length = runs.lanes();
    for (Index o = 0; o < a_.segments / runs.joined; ++o) {
      const X* x = a_.x + start + o * runs.joined * a_.x_segment_stride;
      const X* dy = a_.dy + start + o * runs.joined * a_.dy_segment_stride;
      X* dx = a_.dx + start + o * runs.joined * a_.dx_segment_stride;
      for_each_vector<Arch, T, accumulators>(length, [&](auto, Index j, auto lanes) {
        const auto deviation = keep(lanes.load(x + j) - lanes.load(one_.at + j));
        const auto rest = S::fma(deviation, lanes.load(three_.at + j), lanes.load(four_.at + j));
        const auto dx_j = S::fma(lanes.load(dy + j), lanes.load(two_.at + j), rest);
        lanes.store(dx + j, Add ? add(lanes.load(dx + j), dx_j) : dx_j);
      });
    }
  }

  SegmentNormBackward<X> a_;
  LaneArray<T> one_, two_, three_, four_, five_;
  Wide<T> g_[most_lanes<T>], gx_[most_lanes<T>];
  InputGradient<T> to_[most_lanes<T>];
  alignas(64) unsigned char totals_[2 * most_lanes<T> * 2 * sizeof(Wide<T>) + 64];
};

/// Gradients of short_run_norm_forward. Returns false, and has written nothing, if a channel is not ordinary.
///
/// Numerics  as segment_norm_backward.
/// Cost      x and dy read twice, dx written once; 160 KiB of stack, no allocation, and no workspace.
template <class Arch = native, class X>
[[gnu::flatten]] inline bool short_run_norm_backward(const SegmentNormBackward<X>& args) noexcept {
  ShortRunBackwardPass<Arch, X> pass(args);
  if (args.segments * args.groups * args.columns == 0 || !pass.is_ordinary_or_nan_everywhere()) return false;
  pass.run();
  return true;
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
