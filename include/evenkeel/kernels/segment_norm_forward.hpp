#pragma once

#include "evenkeel/kernels/segment_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// gamma and beta of an element are at group * parameter_group_step + segment * parameter_segment_step + column *
/// parameter_column_step.
template <class T>
struct SegmentNormForward {
  const T* x = nullptr;      ///< [outer, groups, segments, columns], columns contiguous
  T* y = nullptr;            ///< the same; may be x
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
template <class Arch, template <class, class, int> class Parameter, class T>
class SegmentNormForwardPass {
 public:
  explicit SegmentNormForwardPass(const SegmentNormForward<T>& args) noexcept : a_(args) {}

  /// Each group is written as soon as it is measured: from the cache.
  void run() const noexcept {
    for (Index o = 0; o < a_.outer; ++o) {
      for (Index g = 0; g < a_.groups; ++g) {
        const T* x = a_.x + o * a_.x_outer_stride + g * a_.x_group_stride;
        const auto row = statistics(x, o * a_.groups + g);
        is_ordinary(row) ? write<false>(row, o, g) : write_extreme(row, o, g);
      }
    }
  }

 private:
  RowStatistics<T> statistics(const T* x, Index i) const noexcept {
    const bool contiguous = a_.x_segment_stride == a_.columns;
    const auto group = contiguous ? Segments<T>{x, a_.columns * a_.segments}
                                  : Segments<T>{x, a_.columns, a_.segments, a_.x_segment_stride};
    const auto moments = accurate_moments<Arch>(moments_of<Arch>(group), group, a_.eps);
    const auto row = statistics_of(moments, a_.eps);
    if (a_.mean) a_.mean[i] = row.mean;
    if (a_.mean_rest) a_.mean_rest[i] = row.mean_rest;
    if (a_.rstd) a_.rstd[i] = row.rstd;
    if (a_.var) a_.var[i] = variance_of(moments);
    return row;
  }

  [[gnu::noinline, gnu::flatten]] void write_extreme(const RowStatistics<T>& row, Index o, Index g) const noexcept {
    write<true>(row, o, g);
  }

  /// From the last segment to the first: of a group beyond the cache, the last ones are still in it.
  template <bool Scaled>
  void write(const RowStatistics<T>& statistics, Index o, Index g) const noexcept {
    const LayerNormRow<Arch, T, Scaled> row(statistics);
    const T* x = a_.x + o * a_.x_outer_stride + g * a_.x_group_stride;
    T* y = a_.y + o * a_.y_outer_stride + g * a_.y_group_stride;
    for (Index s = a_.segments - 1; s >= 0; --s) {
      const Index first = g * a_.parameter_group_step + s * a_.parameter_segment_step;
      for (Index start = 0; start < a_.columns; start += block_columns<Arch, T>) {
        write_block(row, x + s * a_.x_segment_stride + start, y + s * a_.y_segment_stride + start,
                    Parameter<Arch, T, 1>(a_.gamma ? a_.gamma + first : nullptr, start),
                    Parameter<Arch, T, 0>(a_.beta ? a_.beta + first : nullptr, start),
                    std::min(a_.columns - start, block_columns<Arch, T>));
      }
    }
  }

  template <class Row, class Gamma, class Beta>
  static void write_block(const Row& row, const T* x, T* y, const Gamma& gamma, const Beta& beta,
                          Index columns) noexcept {
    for_each_vector<Arch, T, accumulators>(columns, [&](auto, Index j, auto lanes) {
      const auto x_hat = row.x_hat(lanes.load(x + j));
      lanes.store(y + j, Simd<Arch, T>::fma(x_hat, gamma.load(lanes, j), beta.load(lanes, j)));
    });
  }

  SegmentNormForward<T> a_;
};

template <class Arch, template <class, class, int> class Parameter, class T>
[[gnu::flatten]] inline void normalize_segments(const SegmentNormForward<T>& a) noexcept {
  SegmentNormForwardPass<Arch, Parameter, T>(a).run();
}

/// Normalization of groups: y = (x - mean) * rstd * gamma + beta, each of a group's own mean and variance (biased).
///
/// A group is `segments` runs of `columns` contiguous elements. GroupNorm and InstanceNorm of channels-first images
/// have a segment for each channel of a group, BatchNorm a group for each channel and a segment for each image;
/// GroupNorm of channels-last images has a segment for each pixel, and parameters for each column.
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
template <class Arch = native, class T>
inline void segment_norm_forward(const SegmentNormForward<T>& args) noexcept {
  if (args.outer * args.groups * args.segments * args.columns == 0) return;
  const auto a = with_longest_segments(args, args.gamma || args.beta,
                                       args.x_segment_stride == args.columns && args.y_segment_stride == args.columns);
  a.parameter_column_step == 0 ? normalize_segments<Arch, SegmentParameter>(a)
                               : normalize_segments<Arch, ColumnParameters>(a);
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
