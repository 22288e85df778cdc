#pragma once

#include "evenkeel/kernels/group_lanes.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Data is of type X; parameters and statistics are of the type that it is computed in.
template <class X>
struct GroupLanesForward {
  using T = Compute<X>;
  const X* x = nullptr;      ///< [outer, length, lanes], lanes contiguous
  X* y = nullptr;            ///< the same; may be x
  const T* gamma = nullptr;  ///< [channels], or null: 1
  const T* beta = nullptr;   ///< [channels], or null: 0
  T* mean = nullptr;         ///< [outer, examples, groups], or null: not wanted; as mean_rest and rstd
  T* mean_rest = nullptr;
  T* rstd = nullptr;
  LaneGroups lanes;
  Index outer = 0;
  Index x_outer_stride = 0, x_stride = 0, y_outer_stride = 0, y_stride = 0;
  double eps = 0;
  void* workspace = nullptr;  ///< group_lanes_forward_workspace_bytes, any alignment
};

/// The statistics of a group from those of its lanes, which are all of the same length.
template <class T>
class LaneMerger {
 public:
  /// `rstd` of eps 0: 1 / the standard deviation.
  LaneMerger(const T* mean, const T* mean_rest, const T* rstd) noexcept
      : mean_(mean), mean_rest_(mean_rest), rstd_(rstd) {}

  /// Of `count` lanes, `step` apart from `first` on.
  RowStatistics<T> merge(Index first, Index step, Index count, double eps) const noexcept {
    Wide<T> offset = 0, largest = 0;
    for (Index k = 0; k < count; ++k) offset += deviation(first, first + k * step);
    offset /= static_cast<Wide<T>>(count);
    for (Index k = 0; k < count; ++k) {
      const Index lane = first + k * step;
      largest = std::max({largest, std::abs(deviation(first, lane) - offset), spread(lane)});
    }
    const Wide<T> mean_first = mean_[first], rest = mean_rest_[first] + offset;
    const T mean = keep(static_cast<T>(mean_first + rest));
    return {mean, static_cast<T>(keep(mean_first - mean) + rest),
            reciprocal(largest * root(first, step, count, offset, largest), eps)};
  }

 private:
  Wide<T> deviation(Index from, Index lane) const noexcept {
    return keep(Wide<T>(mean_[lane]) - mean_[from]) + (Wide<T>(mean_rest_[lane]) - mean_rest_[from]);
  }
  Wide<T> spread(Index lane) const noexcept { return rstd_[lane] == 0 ? 0 : 1 / Wide<T>(rstd_[lane]); }

  /// The standard deviation, as a part of `largest`: squares of those parts do not overflow.
  Wide<T> root(Index first, Index step, Index count, Wide<T> offset, Wide<T> largest) const noexcept {
    if (largest == 0) return 0;
    Wide<T> sum = 0;
    for (Index k = 0; k < count; ++k) {
      const Wide<T> between = (deviation(first, first + k * step) - offset) / largest;
      const Wide<T> within = spread(first + k * step) / largest;
      sum += keep(between * between) + keep(within * within);
    }
    return std::sqrt(sum / static_cast<Wide<T>>(count));
  }
  static T reciprocal(Wide<T> deviation, double eps) noexcept {
    const Wide<T> denominator = std::hypot(deviation, std::sqrt(Wide<T>(eps)));
    if (denominator == 0) return 0;
    return static_cast<T>(std::min<Wide<T>>(1 / denominator, std::numeric_limits<T>::max()));
  }

  const T *mean_, *mean_rest_, *rstd_;
};

/// Forward normalization, in pieces for group_lanes_forward.
template <class Arch, class X>
class GroupLanesForwardPass {
 public:
  using T = Compute<X>;

  explicit GroupLanesForwardPass(const GroupLanesForward<X>& args) noexcept
      : GroupLanesForwardPass(args, LaneArrays<T>(args.workspace, args.lanes.lanes())) {}

  void run() const noexcept {
    for (Index i = 0; i < a_.lanes.channels(); ++i) {
      std::fill_n(gamma_ + a_.lanes.lane(i, 0), a_.lanes.examples, a_.gamma ? a_.gamma[i] : T(1));
      std::fill_n(beta_ + a_.lanes.lane(i, 0), a_.lanes.examples, a_.beta ? a_.beta[i] : T(0));
    }
    for (Index o = 0; o < a_.outer; ++o) {
      measure(a_.x + o * a_.x_outer_stride);
      merge(o);
      write(a_.x + o * a_.x_outer_stride, a_.y + o * a_.y_outer_stride);
    }
  }
  static std::size_t workspace_bytes(Index lanes) noexcept { return LaneArrays<T>::bytes(9, lanes); }

 private:
  GroupLanesForwardPass(const GroupLanesForward<X>& args, LaneArrays<T> carver) noexcept
      : a_(args),
        to_(carver),
        mean_(carver.take()),
        mean_rest_(carver.take()),
        rstd_(carver.take()),
        gamma_(carver.take()),
        beta_(carver.take()) {}

  void measure(const X* x) const noexcept {
    LaneNormForward<X, T> lanes;
    lanes.x = x;
    lanes.mean = mean_;
    lanes.mean_rest = mean_rest_;
    lanes.rstd = rstd_;
    lanes.outer = 1;
    lanes.length = a_.lanes.length;
    lanes.lanes = a_.lanes.lanes();
    lanes.x_stride = a_.x_stride;
    lane_norm_forward<Arch, LayerNormRow>(lanes);
  }

  void merge(Index o) const noexcept {
    const LaneMerger<T> merger(mean_, mean_rest_, rstd_);
    const LaneGroups& lanes = a_.lanes;
    for (Index n = 0; n < lanes.examples; ++n) {
      for (Index g = 0; g < lanes.groups; ++g) {
        const Index first = lanes.lane(g * lanes.group_channels, n);
        const auto row = merger.merge(first, lanes.examples, lanes.group_channels, a_.eps);
        for (Index k = 0; k < lanes.group_channels; ++k) to_.set(first + k * lanes.examples, row);
        const Index i = (o * lanes.examples + n) * lanes.groups + g;
        if (a_.mean) a_.mean[i] = row.mean;
        if (a_.mean_rest) a_.mean_rest[i] = row.mean_rest;
        if (a_.rstd) a_.rstd[i] = row.rstd;
      }
    }
  }

  [[gnu::flatten]] void write(const X* x, X* y) const noexcept {
    using S = Simd<Arch, T>;
    using Batch = typename S::Batch;
    for_each_lane_vector<Arch, T>(a_.lanes.length, a_.lanes.lanes(), [&](Index start, Index end, Index j, auto lanes) {
      const Batch scale = lanes.load(to_.scale + j), shift = lanes.load(to_.shift + j);
      const Batch gain = lanes.load(to_.gain + j), offset = lanes.load(to_.offset + j);
      const Batch gamma = lanes.load(gamma_ + j), beta = lanes.load(beta_ + j);
      for (Index l = end - 1; l >= start; --l) {
        const Batch deviation = keep(S::fma(lanes.load(x + l * a_.x_stride + j), scale, -shift));
        lanes.store(y + l * a_.y_stride + j, S::fma(S::fma(deviation, gain, offset), gamma, beta));
      }
    });
  }

  const GroupLanesForward<X>& a_;
  LaneNormalization<T> to_;
  T *mean_, *mean_rest_, *rstd_, *gamma_, *beta_;
};

template <class X>
inline std::size_t group_lanes_forward_workspace_bytes(Index lanes) noexcept {
  return GroupLanesForwardPass<native, X>::workspace_bytes(lanes);
}

/// y = (x - mean) * rstd * gamma + beta, with mean and variance (biased) of each group of each example.
///
/// Aliasing  y may be x, with the same strides; nothing else may overlap.
/// Writes    y; mean, mean_rest and rstd where given. Nothing if there are no elements.
/// Numerics  as lane_norm_forward; merging lanes adds the rounding error of their variance (GroupLanes tests).
/// Cost      x read twice, y written once; no allocation.
/// Errors    none: sizes are the caller's duty, the workspace included.
/// Source    Chan, Golub, LeVeque 1983, "Algorithms for computing the sample variance".
template <class Arch = native, class X>
inline void group_lanes_forward(const GroupLanesForward<X>& a) noexcept {
  if (a.outer * a.lanes.lanes() * a.lanes.length == 0) return;
  GroupLanesForwardPass<Arch, X>(a).run();
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
