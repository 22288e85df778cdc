#pragma once

#include "evenkeel/kernels/segment_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// gamma and beta of an element are at group * parameter_group_step + segment * parameter_segment_step + column *
/// parameter_column_step. Data is of type X; parameters and statistics are of the type that it is computed in.
template <class X>
struct SegmentNormForward {
  using T = Compute<X>;
  const X* x = nullptr;      ///< [outer, groups, segments, columns], columns contiguous
  X* y = nullptr;            ///< the same; may be x. Null: statistics alone are wanted
  const T* gamma = nullptr;  ///< or null: 1
  const T* beta = nullptr;   ///< or null: 0
  T* mean = nullptr;         ///< [outer, groups], or null: not wanted; as those that follow
  T* mean_rest = nullptr;
  T* rstd = nullptr;
  T* var = nullptr;  ///< biased, without eps
  Index outer = 0, groups = 0, segments = 0, columns = 0;
  Index x_outer_stride = 0, x_group_stride = 0, x_segment_stride = 0;
  Index y_outer_stride = 0, y_group_stride = 0, y_segment_stride = 0;
  Index parameter_group_step = 0, parameter_segment_step = 0;
  Index parameter_column_step = 0;  ///< 0 or 1
  double eps = 0;
};

/// Forward normalization of every group, in pieces for segment_norm_forward. `Parameter` says where gamma and beta of
/// a segment are.
///
/// A bundle of groups is measured, then written: one group, which is still in the cache then; or, where segments of
/// other groups lie in between, all of those groups together, so that both passes go through memory in its order.
template <class Arch, template <class, class, int> class Parameter, class X>
class SegmentNormForwardPass {
 public:
  using T = Compute<X>;

  explicit SegmentNormForwardPass(const SegmentNormForward<X>& args) noexcept
      : a_(args), segments_at_once_(block_segments<Arch, T>(args.columns)) {}

  void run() const noexcept {
    MomentSums<T> sums[most_bundle_groups];
    RowStatistics<T> row[most_bundle_groups];
    for_each_bundle(a_, [&](const Bundle& bundle) {
      measure(bundle, sums, row);
      if (a_.y) write(bundle, row);
    });
  }

 private:
  void measure(const Bundle& bundle, MomentSums<T>* sums, RowStatistics<T>* row) const noexcept {
    std::fill_n(sums, bundle.groups, MomentSums<T>());
    for (Index s = 0; s < a_.segments; s += segments_at_once_) {
      for (Index g = 0; g < bundle.groups; ++g) {
        add_power_sums<Arch>(sums[g], group(bundle, g).part(s, segments_at_once_));
      }
    }
    const Wide<T> inv_n = 1 / static_cast<Wide<T>>(a_.segments * a_.columns);
    for (Index g = 0; g < bundle.groups; ++g) {
      row[g] = finish(sums[g].moments(inv_n), group(bundle, g), bundle.outer * a_.groups + bundle.first + g);
    }
  }

  RowStatistics<T> finish(const Moments<T>& first, const Segments<X>& group, Index i) const noexcept {
    const auto moments = accurate_moments<Arch>(first, group, a_.eps);
    const auto row = statistics_of(moments, a_.eps);
    if (a_.mean) a_.mean[i] = row.mean;
    if (a_.mean_rest) a_.mean_rest[i] = row.mean_rest;
    if (a_.rstd) a_.rstd[i] = row.rstd;
    if (a_.var) a_.var[i] = variance_of(moments);
    return row;
  }

  Segments<X> group(const Bundle& bundle, Index g) const noexcept {
    return {a_.x + bundle.outer * a_.x_outer_stride + (bundle.first + g) * a_.x_group_stride, a_.columns, a_.segments,
            a_.x_segment_stride};
  }

  void write(const Bundle& bundle, const RowStatistics<T>* row) const noexcept {
    for (Index s = 0; s < a_.segments; s += segments_at_once_) {
      for (Index g = 0; g < bundle.groups; ++g) {
        is_ordinary(row[g]) ? write_part<false>(row[g], bundle, g, s) : write_extreme_part(row[g], bundle, g, s);
      }
    }
  }
  [[gnu::noinline, gnu::flatten]] void write_extreme_part(const RowStatistics<T>& statistics, const Bundle& bundle,
                                                          Index g, Index first) const noexcept {
    write_part<true>(statistics, bundle, g, first);
  }

  template <bool Scaled>
  void write_part(const RowStatistics<T>& statistics, const Bundle& bundle, Index g, Index first) const noexcept {
    const LayerNormRow<Arch, T, Scaled> row(statistics);
    const auto x = group(bundle, g).part(first, segments_at_once_);
    X* y = a_.y + bundle.outer * a_.y_outer_stride + (bundle.first + g) * a_.y_group_stride;
    for (Index r = 0; r < x.segments; ++r) {
      write_segment(row, x.x + r * x.stride, y + (first + r) * a_.y_segment_stride,
                    (bundle.first + g) * a_.parameter_group_step + (first + r) * a_.parameter_segment_step);
    }
  }

  template <class Row>
  void write_segment(const Row& row, const X* x, X* y, Index first_parameter) const noexcept {
    for (Index start = 0; start < a_.columns; start += block_columns<Arch, T>) {
      const Parameter<Arch, T, 1> gamma(a_.gamma ? a_.gamma + first_parameter : nullptr, start);
      const Parameter<Arch, T, 0> beta(a_.beta ? a_.beta + first_parameter : nullptr, start);
      for_each_vector<Arch, T, accumulators>(
          std::min(a_.columns - start, block_columns<Arch, T>), [&](auto, Index j, auto lanes) {
            const auto x_hat = row.x_hat(lanes.load(x + start + j));
            lanes.store(y + start + j, Simd<Arch, T>::fma(x_hat, gamma.load(lanes, j), beta.load(lanes, j)));
          });
    }
  }

  SegmentNormForward<X> a_;
  Index segments_at_once_;
};

template <class Arch, template <class, class, int> class Parameter, class X>
[[gnu::flatten]] inline void normalize_segments(const SegmentNormForward<X>& a) noexcept {
  SegmentNormForwardPass<Arch, Parameter, X>(a).run();
}

/// Some groups of one outer index.
template <class X>
inline SegmentNormForward<X> groups_of(SegmentNormForward<X> a, Index o, Index first, Index count) noexcept {
  a.x += o * a.x_outer_stride + first * a.x_group_stride;
  if (a.y) a.y += o * a.y_outer_stride + first * a.y_group_stride;
  for (const Compute<X>** parameter : {&a.gamma, &a.beta}) {
    if (*parameter) *parameter += first * a.parameter_group_step;
  }
  for (Compute<X>** statistic : {&a.mean, &a.mean_rest, &a.rstd, &a.var}) {
    if (*statistic) *statistic += o * a.groups + first;
  }
  a.outer = 1, a.groups = count;
  return a;
}

/// Normalization of groups: y = (x - mean) * rstd * gamma + beta, each of a group's own mean and variance (biased).
///
/// A group is `segments` runs of `columns` contiguous elements. GroupNorm and InstanceNorm of channels-first images
/// have a segment for each channel of a group, BatchNorm a group for each channel and a segment for each image;
/// GroupNorm of channels-last images has a segment for each pixel, and parameters for each column. Groups are
/// normalized by `run`, see InOnePiece.
///
/// Shapes    x, y [outer, groups, segments, columns]; mean, mean_rest, rstd, var [outer, groups].
/// Units     eps is in units of x squared; gamma and beta scale and shift y.
/// Aliasing  y may be x, with the same strides; nothing else may overlap.
/// Writes    y; mean, mean_rest, rstd and var where given. Nothing if there are no elements.
/// Numerics  as layer_norm_forward: within 4 ulp of max(|y|, 1) for gamma 1, beta 0; a constant group gives exactly
///           beta (SegmentNormAccuracy tests).
/// Cost      x read once from memory and once from cache, as far as a group fits it, y written once; no allocation.
/// Errors    none: sizes are the caller's duty.
/// Source    Wu, He 2018, arXiv:1803.08494; Ulyanov, Vedaldi, Lempitsky 2016, arXiv:1607.08022; Ioffe, Szegedy 2015,
///           arXiv:1502.03167.
template <class Arch = native, class X, class Run = InOnePiece>
inline void segment_norm_forward(const SegmentNormForward<X>& args, const Run& run = {}) noexcept {
  if (args.outer * args.groups * args.segments * args.columns == 0) return;
  run(args.outer * args.groups, group_bytes<X>(args), [&](Index first, Index last) {
    for_each_outer(args.groups, first, last, [&](Index o, Index group, Index count) {
      const auto groups = groups_of(args, o, group, count);
      args.parameter_column_step == 0 ? normalize_segments<Arch, SegmentParameter>(groups)
                                      : normalize_segments<Arch, ColumnParameters>(groups);
    });
  });
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
