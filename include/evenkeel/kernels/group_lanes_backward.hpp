#pragma once

#include "evenkeel/kernels/group_lanes.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Types are those of GroupLanesForward.
template <class X>
struct GroupLanesBackward {
  using T = Compute<X>;
  const X* dy = nullptr;                                       ///< [outer, length, lanes], lanes contiguous
  const X* x = nullptr;                                        ///< the same
  const T* gamma = nullptr;                                    ///< [channels], or null: 1
  const T* mean = nullptr;                                     ///< [outer, examples, groups]
  const T* mean_rest = nullptr;                                ///< [outer, examples, groups]
  const T* rstd = nullptr;                                     ///< [outer, examples, groups]
  X* dx = nullptr;                                             ///< as x, or null: not wanted; may be dy
  T* dgamma = nullptr;                                         ///< [channels], or null: not wanted
  T* dbeta = nullptr;                                          ///< [channels], or null: not wanted
  bool add_dx = false, add_dgamma = false, add_dbeta = false;  ///< add to what is there instead of overwriting it
  LaneGroups lanes;
  Index outer = 0;
  Index dy_outer_stride = 0, dy_stride = 0, x_outer_stride = 0, x_stride = 0, dx_outer_stride = 0, dx_stride = 0;
  void* workspace = nullptr;  ///< group_lanes_backward_workspace_bytes, any alignment
};

/// Gradients, in pieces for group_lanes_backward.
template <class Arch, class X>
class GroupLanesBackwardPass {
 public:
  using T = Compute<X>;

  explicit GroupLanesBackwardPass(const GroupLanesBackward<X>& args) noexcept
      : GroupLanesBackwardPass(args, LaneArrays<T>(args.workspace, args.lanes.lanes())) {}

  void run() const noexcept {
    if (a_.lanes.lanes() * a_.lanes.length == 0) return;
    for (Index o = 0; o < a_.outer; ++o) {
      const X *dy = a_.dy + o * a_.dy_outer_stride, *x = a_.x + o * a_.x_outer_stride;
      open(o);
      sum(dy, x);
      if (totals_) add_to_totals();
      if (!a_.dx) continue;
      find_input_gradients(o);
      X* dx = a_.dx + o * a_.dx_outer_stride;
      a_.add_dx ? write<true>(dy, x, dx) : write<false>(dy, x, dx);
    }
  }
  void set_totals(const ParameterTotals<T>* totals) noexcept { totals_ = totals; }
  static std::size_t workspace_bytes(Index lanes) noexcept {
    return LaneArrays<T>::bytes(12, lanes) + lane_norm_backward_workspace_bytes<X>(lanes);
  }

 private:
  GroupLanesBackwardPass(const GroupLanesBackward<X>& args, LaneArrays<T> carver) noexcept
      : a_(args),
        to_(carver),
        mean_(carver.take()),
        mean_rest_(carver.take()),
        rstd_(carver.take()),
        dgamma_(carver.take()),
        dbeta_(carver.take()),
        gamma_(carver.take()),
        slope_(carver.take()),
        intercept_(carver.take()),
        lane_workspace_(carver.rest()) {}

  template <class Body>
  void for_each_group(Index o, const Body& body) const noexcept {
    const LaneGroups& lanes = a_.lanes;
    for (Index n = 0; n < lanes.examples; ++n) {
      for (Index g = 0; g < lanes.groups; ++g) {
        body((o * lanes.examples + n) * lanes.groups + g, lanes.lane(g * lanes.group_channels, n));
      }
    }
  }

  /// The statistics of groups as those of their lanes.
  void open(Index o) const noexcept {
    for_each_group(o, [&](Index i, Index first) {
      const RowStatistics<T> row{a_.mean[i], a_.mean_rest[i], a_.rstd[i]};
      for (Index k = 0; k < a_.lanes.group_channels; ++k) {
        const Index lane = first + k * a_.lanes.examples;
        mean_[lane] = row.mean;
        mean_rest_[lane] = row.mean_rest;
        rstd_[lane] = row.rstd;
        to_.set(lane, row);
      }
    });
    for (Index c = 0; c < a_.lanes.channels(); ++c) {
      std::fill_n(gamma_ + a_.lanes.lane(c, 0), a_.lanes.examples, a_.gamma ? a_.gamma[c] : T(1));
    }
  }

  /// dy and dy * x_hat, summed down each lane.
  void sum(const X* dy, const X* x) const noexcept {
    LaneNormBackward<X, T> lanes;
    lanes.dy = dy, lanes.x = x;
    lanes.mean = mean_, lanes.mean_rest = mean_rest_, lanes.rstd = rstd_;
    lanes.dgamma = dgamma_, lanes.dbeta = dbeta_;
    lanes.outer = 1, lanes.length = a_.lanes.length, lanes.lanes = a_.lanes.lanes();
    lanes.dy_stride = a_.dy_stride, lanes.x_stride = a_.x_stride;
    lanes.parameters_per_lane = lanes.constant_statistics = true;
    lanes.workspace = lane_workspace_;
    lane_norm_backward<Arch, LayerNormRow>(lanes);
  }
  void add_to_totals() const noexcept {
    for (Index c = 0; c < a_.lanes.channels(); ++c) {
      for (Index n = 0; n < a_.lanes.examples; ++n) {
        const Index lane = a_.lanes.lane(c, n);
        totals_->add(c, dgamma_[lane], dbeta_[lane]);
      }
    }
  }

  void find_input_gradients(Index o) const noexcept {
    const auto n = static_cast<Wide<T>>(a_.lanes.group_channels * a_.lanes.length);
    for_each_group(o, [&](Index i, Index first) {
      WideSum<Wide<T>> g, gx;
      for (Index k = 0; k < a_.lanes.group_channels; ++k) {
        const Index lane = first + k * a_.lanes.examples;
        g.add(Wide<T>(dbeta_[lane]) * gamma_[lane]);
        gx.add(Wide<T>(dgamma_[lane]) * gamma_[lane]);
      }
      const RowStatistics<T> row{a_.mean[i], a_.mean_rest[i], a_.rstd[i]};
      const auto to = LayerNormRow<Arch, T, true>::input_gradient(row, g.value() / n, gx.value() / n);
      for (Index k = 0; k < a_.lanes.group_channels; ++k) {
        slope_[first + k * a_.lanes.examples] = to.slope;
        intercept_[first + k * a_.lanes.examples] = to.intercept;
      }
    });
  }

  template <bool Add>
  [[gnu::flatten]] void write(const X* dy, const X* x, X* dx) const noexcept {
    using S = Simd<Arch, T>;
    using Batch = typename S::Batch;
    for_each_lane_vector<Arch, T>(a_.lanes.length, a_.lanes.lanes(), [&](Index start, Index end, Index j, auto lanes) {
      const Batch scale = lanes.load(to_.scale + j), shift = lanes.load(to_.shift + j);
      const Batch slope = lanes.load(slope_ + j), intercept = lanes.load(intercept_ + j);
      const Batch gamma = lanes.load(gamma_ + j), gain = lanes.load(rstd_ + j);
      for (Index l = end - 1; l >= start; --l) {
        const Batch deviation = keep(S::fma(lanes.load(x + l * a_.x_stride + j), scale, -shift));
        const Batch g = keep(lanes.load(dy + l * a_.dy_stride + j) * gamma);
        const Batch dx_j = S::fma(g, gain, S::fma(deviation, slope, intercept));
        X* out = dx + l * a_.dx_stride + j;
        lanes.store(out, Add ? add(lanes.load(out), dx_j) : dx_j);
      }
    });
  }

  const GroupLanesBackward<X>& a_;
  LaneNormalization<T> to_;
  T *mean_, *mean_rest_, *rstd_, *dgamma_, *dbeta_, *gamma_, *slope_, *intercept_;
  void* lane_workspace_;
  const ParameterTotals<T>* totals_ = nullptr;
};

template <class X>
inline std::size_t group_lanes_backward_workspace_bytes(Index lanes, Index channels) noexcept {
  return GroupLanesBackwardPass<native, X>::workspace_bytes(lanes) +
         ParameterTotals<Compute<X>>::workspace_bytes(channels);
}

/// Gradients of group_lanes_forward, from its x and statistics: with g = gamma * dy and means over a group,
/// dx = rstd * (g - mean(g) - x_hat * mean(g * x_hat)); dgamma = sum of dy * x_hat; dbeta = sum of dy.
///
/// Aliasing  dx may be dy, with the same strides; nothing else may overlap.
/// Writes    dx, dgamma, dbeta where given: added to where add_* says so, else overwritten.
/// Numerics  as lane_norm_backward (GroupLanes tests).
/// Cost      x and dy read twice, dx written once; no allocation.
/// Errors    none: sizes are the caller's duty, the workspace included.
template <class Arch = native, class X>
inline void group_lanes_backward(const GroupLanesBackward<X>& a) noexcept {
  GroupLanesBackwardPass<Arch, X> pass(a);
  if (!a.dgamma && !a.dbeta) return pass.run();
  char* rest = static_cast<char*>(a.workspace) + GroupLanesBackwardPass<Arch, X>::workspace_bytes(a.lanes.lanes());
  const ParameterTotals<Compute<X>> totals(rest, a.lanes.channels());
  pass.set_totals(&totals);
  pass.run();
  totals.write(a.dgamma, a.add_dgamma, a.dbeta, a.add_dbeta);
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
