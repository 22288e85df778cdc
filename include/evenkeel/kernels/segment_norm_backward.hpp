#pragma once

#include "evenkeel/kernels/parameter_totals.hpp"
#include "evenkeel/kernels/segment_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Parameters are where those of SegmentNormForward are, and types are its types.
template <class X>
struct SegmentNormBackward {
  using T = Compute<X>;
  const X* dy = nullptr;         ///< [outer, groups, segments, columns], columns contiguous
  const X* x = nullptr;          ///< the same
  const T* gamma = nullptr;      ///< or null: 1
  const T* mean = nullptr;       ///< [outer, groups]
  const T* mean_rest = nullptr;  ///< [outer, groups], or null: 0, which costs the accuracy of groups with a large mean
  const T* rstd = nullptr;       ///< [outer, groups]
  X* dx = nullptr;               ///< as x, or null: not wanted; may be dy
  T* dgamma = nullptr;           ///< or null: not wanted
  T* dbeta = nullptr;            ///< or null: not wanted
  bool add_dx = false, add_dgamma = false, add_dbeta = false;  ///< add to what is there instead of overwriting it
  Index outer = 0, groups = 0, segments = 0, columns = 0;
  Index dy_outer_stride = 0, dy_group_stride = 0, dy_segment_stride = 0;
  Index x_outer_stride = 0, x_group_stride = 0, x_segment_stride = 0;
  Index dx_outer_stride = 0, dx_group_stride = 0, dx_segment_stride = 0;
  Index parameter_group_step = 0, parameter_segment_step = 0;
  Index parameter_column_step = 0;   ///< 0 or 1
  bool constant_statistics = false;  ///< mean and rstd do not depend on x: dx = rstd * gamma * dy
  void* workspace =
      nullptr;  ///< segment_norm_backward_workspace_bytes, any alignment; not touched if only dx is wanted
};

/// Where parameters end.
template <class Args>
inline Index parameter_count(const Args& a) noexcept {
  Index count = 1;
  for (const auto& axis : {std::pair{a.groups, a.parameter_group_step}, std::pair{a.segments, a.parameter_segment_step},
                           std::pair{a.columns, a.parameter_column_step}}) {
    if (axis.second == 0) continue;
    if (axis.first == 0) return 0;
    count += (axis.first - 1) * axis.second;
  }
  return count;
}

/// The gradients of every group, in pieces for segment_norm_backward.
///
/// Pass 1 over a bundle of groups sums dy and dy * x_hat for each parameter. These sums are dbeta and dgamma; times
/// gamma they are the sums of g = dy * gamma and of g * x_hat, which pass 2 takes to write dx.
template <class Arch, template <class, class, int> class Parameter, class X>
class SegmentNormBackwardPass {
 public:
  using T = Compute<X>;

  /// `totals` is null if parameters have no gradients.
  SegmentNormBackwardPass(const SegmentNormBackward<X>& args, const ParameterTotals<T>* totals) noexcept
      : a_(args), totals_(totals), segments_at_once_(segments_of_a_sum(args)) {}

  void run() const noexcept {
    Group groups[most_bundle_groups];
    for_each_bundle(a_, [&](const Bundle& bundle) {
      for (Index g = 0; g < bundle.groups; ++g) groups[g] = open(bundle.outer, bundle.first + g);
      if (totals_ || !a_.constant_statistics) {
        for_each_part(bundle, groups, [&](Group& group, Index first) {
          group.ordinary ? sum<false>(group, first) : sum_extreme(group, first);
        });
      }
      if (!a_.dx) return;
      for (Index g = 0; g < bundle.groups; ++g) groups[g].to = input_gradient(groups[g]);
      for_each_part(bundle, groups, [&](const Group& group, Index first) {
        a_.add_dx ? write<true>(group, first) : write<false>(group, first);
      });
    });
  }

 private:
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;
  static constexpr bool per_column = Parameter<Arch, T, 1>::per_column;

  struct Group {
    const X *dy, *x;
    X* dx;
    Index first_parameter;
    RowStatistics<T> statistics;
    bool ordinary;
    WideSum<Wide<T>> g, gx;
    InputGradient<T> to;
  };

  /// Segments of one parameter are summed together; so are, in each column, those with a parameter for each column.
  static Index segments_of_a_sum(const SegmentNormBackward<X>& a) noexcept {
    if (per_column) return 32;  // the longest chain of additions
    return a.parameter_segment_step == 0 ? block_segments<Arch, T>(a.columns) : 1;
  }

  Group open(Index o, Index g) const noexcept {
    const Index i = o * a_.groups + g;
    Group group{};
    group.dy = a_.dy + o * a_.dy_outer_stride + g * a_.dy_group_stride;
    group.x = a_.x + o * a_.x_outer_stride + g * a_.x_group_stride;
    group.dx = a_.dx ? a_.dx + o * a_.dx_outer_stride + g * a_.dx_group_stride : nullptr;
    group.first_parameter = g * a_.parameter_group_step;
    group.statistics = {a_.mean[i], a_.mean_rest ? a_.mean_rest[i] : T(0), a_.rstd[i]};
    group.ordinary = is_ordinary(group.statistics);
    return group;
  }

  template <class Body>
  void for_each_part(const Bundle& bundle, Group* groups, const Body& body) const noexcept {
    for (Index first = 0; first < a_.segments; first += segments_at_once_) {
      for (Index g = 0; g < bundle.groups; ++g) body(groups[g], first);
    }
  }
  Index segments_from(Index first) const noexcept { return std::min(segments_at_once_, a_.segments - first); }
  Index columns_from(Index start) const noexcept { return std::min(block_columns<Arch, T>, a_.columns - start); }

  [[gnu::noinline, gnu::flatten]] void sum_extreme(Group& group, Index first) const noexcept {
    sum<true>(group, first);
  }
  template <bool Scaled>
  void sum(Group& group, Index first) const noexcept {
    const LayerNormRow<Arch, T, Scaled> row(group.statistics);
    for (Index start = 0; start < a_.columns; start += block_columns<Arch, T>) {
      if constexpr (per_column) {
        sum_columns(row, group, first, start);
      } else {
        sum_segments(row, group, first, start);
      }
    }
  }

  /// A block of columns of segments with one parameter.
  template <class Row>
  void sum_segments(const Row& row, Group& group, Index first, Index start) const noexcept {
    const Batch mean = S::broadcast(group.statistics.mean);  // stands for x past the end: x_hat has to be finite there
    Batch dy_sum[accumulators], dy_x_sum[accumulators];
    for (int k = 0; k < accumulators; ++k) dy_sum[k] = dy_x_sum[k] = S::broadcast(T(0));
    for (Index s = first; s < first + segments_from(first); ++s) {
      const X* dy = group.dy + s * a_.dy_segment_stride + start;
      const X* x = group.x + s * a_.x_segment_stride + start;
      for_each_vector<Arch, T, accumulators>(columns_from(start), [&](auto k, Index j, auto lanes) {
        const Batch dy_j = keep(lanes.load(dy + j));
        dy_sum[k] = dy_sum[k] + dy_j;
        dy_x_sum[k] = S::fma(dy_j, row.x_hat(lanes.load(x + j, mean)), dy_x_sum[k]);
      });
    }
    const Index parameter = group.first_parameter + first * a_.parameter_segment_step;
    const T gamma = a_.gamma ? a_.gamma[parameter] : T(1);
    const Wide<T> dbeta = S::sum(dy_sum[0] + dy_sum[1]), dgamma = S::sum(dy_x_sum[0] + dy_x_sum[1]);
    group.g.add(dbeta * gamma);
    group.gx.add(dgamma * gamma);
    if (totals_) totals_->add(parameter, dgamma, dbeta);
  }

  /// A block of columns, each of which has a parameter.
  template <class Row>
  void sum_columns(const Row& row, Group& group, Index first, Index start) const noexcept {
    const Batch mean = S::broadcast(group.statistics.mean);
    const Parameter<Arch, T, 1> gamma(a_.gamma ? a_.gamma + group.first_parameter : nullptr, start);
    for_each_vector<Arch, T, accumulators>(columns_from(start), [&](auto, Index j, auto lanes) {
      const X* dy = group.dy + first * a_.dy_segment_stride + start + j;
      const X* x = group.x + first * a_.x_segment_stride + start + j;
      Batch dy_sum = S::broadcast(T(0)), dy_x_sum = dy_sum;
      for (Index s = 0; s < segments_from(first); ++s) {
        const Batch dy_s = keep(lanes.load(dy + s * a_.dy_segment_stride));
        dy_sum = dy_sum + dy_s;
        dy_x_sum = S::fma(dy_s, row.x_hat(lanes.load(x + s * a_.x_segment_stride, mean)), dy_x_sum);
      }
      const Batch gamma_j = gamma.load(lanes, j);
      group.g.add(S::sum(dy_sum * gamma_j));
      group.gx.add(S::sum(dy_x_sum * gamma_j));
      if (totals_) add_columns(group.first_parameter + start + j, a_.columns - start - j, dy_sum, dy_x_sum);
    });
  }

  void add_columns(Index parameter, Index columns, const Batch& dy_sum, const Batch& dy_x_sum) const noexcept {
    T dbeta[S::width], dgamma[S::width];
    S::store(dbeta, dy_sum);
    S::store(dgamma, dy_x_sum);
    for (Index j = 0; j < std::min(columns, S::width); ++j) totals_->add(parameter + j, dgamma[j], dbeta[j]);
  }

  InputGradient<T> input_gradient(const Group& group) const noexcept {
    if (a_.constant_statistics) return {group.statistics.rstd, T(0), T(0)};
    const Index n = a_.segments * a_.columns;
    // One value alone is its own mean, whatever it is. The formula would leave the rounding error of g * rstd.
    if (n == 1) return {T(0), T(0), T(0)};
    const auto wide_n = static_cast<Wide<T>>(n);
    const Wide<T> mean_g = group.g.value() / wide_n, mean_gx = group.gx.value() / wide_n;
    return group.ordinary ? LayerNormRow<Arch, T, false>::input_gradient(group.statistics, mean_g, mean_gx)
                          : LayerNormRow<Arch, T, true>::input_gradient(group.statistics, mean_g, mean_gx);
  }

  template <bool Add>
  void write(const Group& group, Index first) const noexcept {
    if (a_.constant_statistics) {
      const Batch gain = S::broadcast(group.to.gain);
      return write_part<Add>(group, first, [&](auto, const X*, const Batch& g) { return g * gain; });
    }
    group.ordinary ? write_normalized<Add, false>(group, first) : write_extreme<Add>(group, first);
  }
  template <bool Add>
  [[gnu::noinline, gnu::flatten]] void write_extreme(const Group& group, Index first) const noexcept {
    write_normalized<Add, true>(group, first);
  }
  template <bool Add, bool Scaled>
  void write_normalized(const Group& group, Index first) const noexcept {
    const LayerNormRow<Arch, T, Scaled> row(group.statistics);
    const Batch gain = S::broadcast(group.to.gain), slope = S::broadcast(group.to.slope);
    const Batch intercept = S::broadcast(group.to.intercept);
    write_part<Add>(group, first, [&](auto lanes, const X* x, const Batch& g) {
      return S::fma(g, gain, S::fma(row.deviation(lanes.load(x)), slope, intercept));
    });
  }

  /// dx = gradient(lanes, where x is, g) of some segments.
  template <bool Add, class Gradient>
  void write_part(const Group& group, Index first, const Gradient& gradient) const noexcept {
    for (Index s = first; s < first + segments_from(first); ++s) {
      const T* gamma_s = a_.gamma ? a_.gamma + group.first_parameter + s * a_.parameter_segment_step : nullptr;
      for (Index start = 0; start < a_.columns; start += block_columns<Arch, T>) {
        const X* dy = group.dy + s * a_.dy_segment_stride + start;
        const X* x = group.x + s * a_.x_segment_stride + start;
        X* dx = group.dx + s * a_.dx_segment_stride + start;
        const Parameter<Arch, T, 1> gamma(gamma_s, start);
        for_each_vector<Arch, T, accumulators>(columns_from(start), [&](auto, Index j, auto lanes) {
          const Batch dx_j = gradient(lanes, x + j, keep(lanes.load(dy + j) * gamma.load(lanes, j)));
          lanes.store(dx + j, Add ? add(lanes.load(dx + j), dx_j) : dx_j);
        });
      }
    }
  }

  SegmentNormBackward<X> a_;
  const ParameterTotals<T>* totals_;
  Index segments_at_once_;
};

template <class Arch, template <class, class, int> class Parameter, class X>
[[gnu::flatten]] inline void differentiate_segments(const SegmentNormBackward<X>& a,
                                                    const ParameterTotals<Compute<X>>* totals) noexcept {
  SegmentNormBackwardPass<Arch, Parameter, X>(a, totals).run();
}

/// Some groups of one outer index.
template <class X>
inline SegmentNormBackward<X> groups_of(SegmentNormBackward<X> a, Index o, Index first, Index count) noexcept {
  a.dy += o * a.dy_outer_stride + first * a.dy_group_stride;
  a.x += o * a.x_outer_stride + first * a.x_group_stride;
  if (a.dx) a.dx += o * a.dx_outer_stride + first * a.dx_group_stride;
  if (a.gamma) a.gamma += first * a.parameter_group_step;
  for (const Compute<X>** statistic : {&a.mean, &a.mean_rest, &a.rstd}) {
    if (*statistic) *statistic += o * a.groups + first;
  }
  a.outer = 1, a.groups = count;
  return a;
}

template <class Arch, class X, class T = Compute<X>>
inline void differentiate_groups(const SegmentNormBackward<X>& a, const ParameterTotals<T>* totals, Index o,
                                 Index first, Index count) noexcept {
  const auto groups = groups_of(a, o, first, count);
  const auto of_groups = totals ? totals->from(first * a.parameter_group_step) : ParameterTotals<T>(nullptr, 0);
  const ParameterTotals<T>* sums = totals ? &of_groups : nullptr;
  a.parameter_column_step == 0 ? differentiate_segments<Arch, SegmentParameter>(groups, sums)
                               : differentiate_segments<Arch, ColumnParameters>(groups, sums);
}

/// Groups with gradients of parameters are taken with those of every outer index, as these are summed in order.
template <class Arch, class X, class Run>
inline void differentiate_all_groups(const SegmentNormBackward<X>& a, const ParameterTotals<Compute<X>>* totals,
                                     const Run& run) noexcept {
  if (a.outer * a.groups * a.segments * a.columns == 0) return;
  if (totals) {
    return run(a.groups, a.outer * group_bytes<X>(a), [&](Index first, Index last) {
      for (Index o = 0; o < a.outer; ++o) differentiate_groups<Arch>(a, totals, o, first, last - first);
    });
  }
  run(a.outer * a.groups, group_bytes<X>(a), [&](Index first, Index last) {
    for_each_outer(a.groups, first, last,
                   [&](Index o, Index group, Index count) { differentiate_groups<Arch>(a, totals, o, group, count); });
  });
}

/// Bytes of workspace that segment_norm_backward takes for dgamma and dbeta of so many elements.
template <class X>
inline std::size_t segment_norm_backward_workspace_bytes(Index parameters) noexcept {
  return ParameterTotals<Compute<X>>::workspace_bytes(parameters);
}

/// Gradients of segment_norm_forward, from its x and statistics: with g = gamma * dy and means over a group,
/// dx = rstd * (g - mean(g) - x_hat * mean(g * x_hat)); dgamma = sum of dy * x_hat; dbeta = sum of dy.
///
/// With `constant_statistics` (BatchNorm in inference) they are those of y = (x - mean) * rstd * gamma + beta with
/// mean and rstd given: dx = rstd * g. Groups are differentiated by `run`, see InOnePiece.
///
/// Shapes    dy, x, dx [outer, groups, segments, columns]; mean, mean_rest, rstd [outer, groups].
/// Aliasing  dx may be dy, with the same strides; nothing else may overlap.
/// Writes    dx, dgamma, dbeta where given: added to where add_* says so, else overwritten.
/// Numerics  dx within 4 ulp of rstd * (max|g| + max|x_hat| * |mean(g * x_hat)|), dgamma and dbeta within
///           4 * sqrt(groups of a parameter) ulp of max|dy| * max|x_hat| for each element (SegmentNormAccuracy tests);
///           dx is exactly 0 for groups of one element.
/// Cost      x and dy read once from memory and once from cache, as far as a group fits it, dx written once; no
///           allocation.
/// Errors    none: sizes are the caller's duty, workspace of segment_norm_backward_workspace_bytes included.
template <class Arch = native, class X, class Run = InOnePiece>
inline void segment_norm_backward(const SegmentNormBackward<X>& args, const Run& run = {}) noexcept {
  if (!args.dgamma && !args.dbeta) {
    if (args.dx) differentiate_all_groups<Arch>(args, nullptr, run);
    return;
  }
  const ParameterTotals<Compute<X>> totals(args.workspace, parameter_count(args));
  differentiate_all_groups<Arch>(args, &totals, run);
  totals.write(args.dgamma, args.add_dgamma, args.dbeta, args.add_dbeta);
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
