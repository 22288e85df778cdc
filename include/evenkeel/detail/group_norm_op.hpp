#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "evenkeel/detail/channel_op.hpp"
#include "evenkeel/detail/masked_group_norm.hpp"
#include "evenkeel/detail/row_norm_op.hpp"

/// GroupNorm and InstanceNorm (a group for each channel) between tensors and kernels: everything is checked here, then
/// the kernel is called, for the tensors as they are or, where their layout is none of the kernel's, for copies.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// What a group norm is over; without a number of groups, each channel is one. And which positions are valid.
struct GroupNormAxes {
  std::optional<Index> groups;
  ImageAxes axes;
  MaskView mask = {};
};

/// Throws unless the channels can be divided into groups: those of x, if it is there already.
inline void require_groups(const char* where, Index groups, Index channels, const Shape* x = nullptr) {
  if (groups >= 1 && channels % groups == 0) return;
  const std::string context = x ? " (" + has_shape("x", *x) + ")" : "";
  const std::string what = "groups is " + std::to_string(groups) + ", expected ";
  if (groups < 1) raise_invalid_argument(where, what + "at least 1" + context);
  raise_invalid_argument(where,
                         what + "a divisor of " + std::to_string(channels) + ", the number of channels" + context);
}

struct ResolvedGroups {
  Index groups;
  ImageAxes axes;
};

/// The number of groups, and axes counted from the first.
inline ResolvedGroups resolve(const char* where, const GroupNormAxes& norm, const Shape& x) {
  const ImageAxes axes = resolve_image_axes(where, norm.axes, x);
  const Index channels = x[axes.channel];
  if (!norm.groups) return {channels, axes};
  require_groups(where, *norm.groups, channels, &x);
  return {*norm.groups, axes};
}

// ---------------------------------------------------------------- copies, for layouts that the kernel does not take

/// Examples that are copied at once: a few, if they are small, as they may lie side by side in memory.
template <class Scalar>
Index examples_at_once(const Shape& x, int batch_axis) noexcept {
  const Index example = x.size() / std::max<Index>(1, x[batch_axis]);
  const Index bytes = std::max<Index>(1, example * static_cast<Index>(sizeof(kernels::Compute<Scalar>)));
  return std::clamp<Index>(std::clamp<Index>((Index{256} << 10) / bytes, 1, 16), 1, std::max<Index>(1, x[batch_axis]));
}

/// copy(element of images, element of the dense copy) for all elements.
template <class Scalar, class Dense, class Copy>
void for_each_copied(const Images<Scalar>& images, Dense* dense, const Copy& copy) {
  const Index pixels = images.pixels(), channels = images.channels().extent, examples = images.batch().extent;
  for (Index c = 0; c < channels; ++c) {
    Index pixel = 0;
    images.for_each_pixel([&](Index offset) {
      Scalar* at = images.data() + c * images.channels().stride + offset;
      for (Index n = 0; n < examples; ++n) {
        copy(at[n * images.batch().stride], dense[(n * channels + c) * pixels + pixel]);
      }
      ++pixel;
    });
  }
}

/// Copies are of the type that images are computed in.
template <class Scalar, class T = kernels::Compute<Scalar>>
Images<const T> gathered(const Images<const Scalar>& images, T* dense) {
  for_each_copied(images, dense, [](const Scalar& from, T& to) { to = kernels::to_compute(from); });
  return Images<const T>(dense, images.batch().extent, images.channels().extent, images.pixels());
}
/// The copy in place of images; or, with `adds`, added to them.
template <class Scalar, class T = kernels::Compute<Scalar>>
void scatter(const Images<Scalar>& images, T* dense, bool adds = false) {
  for_each_copied(images, dense, [adds](Scalar& to, const T& from) { put(to, from, adds); });
}

// ---------------------------------------------------------------- forward

/// Forward by way of copies of x, each of which becomes y.
template <class Scalar>
void normalize_copies(const Executor& executor, const ChannelNormForward<kernels::Compute<Scalar>>& call,
                      const Images<const Scalar>& x, const Images<Scalar>& y, Index groups, Index at_once,
                      Scratch& scratch) {
  using T = kernels::Compute<Scalar>;
  T* dense = scratch.take<T>(at_once * x.channels().extent * x.pixels());
  for (Index first = 0; first < x.batch().extent; first += at_once) {
    const Index count = std::min(at_once, x.batch().extent - first);
    const auto part = gathered(x.examples(first, count), dense);
    const Images<T> result(dense, count, x.channels().extent, x.pixels());
    normalize_images(executor, call, group_layout(part), part, result, groups, first * groups, nullptr);
    scatter(y.examples(first, count), dense);
  }
}

template <class Scalar>
void normalize_groups(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                      const ParameterView<Scalar>& gamma, const ParameterView<Scalar>& beta, double eps,
                      const GroupNormAxes& norm, NormStatistics<Scalar>* saved, const Context& context) {
  using T = kernels::Compute<Scalar>;
  require_vectorized_scalar<Scalar>();
  require_eps(where, eps);
  const auto [groups, axes] = resolve(where, norm, x.shape());
  require_like_x<Scalar>(where, "y", y, x);
  require_channels_if(gamma.is_given(), where, "gamma", gamma, x.shape(), axes.channel);
  require_channels_if(beta.is_given(), where, "beta", beta, x.shape(), axes.channel);
  require_in_place_or_no_overlap(where, "y", y, "x", x);
  require_no_overlap(where, "y", y, "gamma", gamma.bytes());
  require_no_overlap(where, "y", y, "beta", beta.bytes());
  const PositionMask mask = position_mask<Scalar>(where, norm.mask, x, axes, "y", y);

  const Images<const Scalar> from(x, axes);
  const Images<Scalar> to(y, axes);
  const GroupLayout layout = x.size() == 0 ? GroupLayout::pixels_contiguous  // of nothing, as any other
                                           : common_layout(from, to);
  const bool is_copied = layout == GroupLayout::other;
  const Index at_once = examples_at_once<Scalar>(x.shape(), axes.batch);
  const Index copied = is_copied ? at_once * from.channels().extent * from.pixels() : 0;
  const std::size_t bytes = x.size() == 0 ? 0 : forward_bytes(layout, from, groups);
  Scratch scratch(
      where, context,
      widened_bytes(gamma, beta) +
          (mask.is_given() ? masked_images_bytes(from, 1) : Scratch::bytes<T>(copied) + Scratch::bytes_of(bytes)));
  if (saved) reset(*saved, x.shape(), from.batch().extent * groups, true, mask.is_given());
  const ChannelNormForward<T> call{.gamma = widened(gamma, scratch),
                                   .beta = widened(beta, scratch),
                                   .eps = eps,
                                   .mean = saved ? saved->mean.data() : nullptr,
                                   .mean_rest = saved ? saved->mean_rest.data() : nullptr,
                                   .rstd = saved ? saved->rstd.data() : nullptr};
  if (x.size() == 0) return;
  if (mask.is_given()) return normalize_masked(context.executor, call, mask, from, to, groups, scratch);
  if (is_copied) return normalize_copies(context.executor, call, from, to, groups, at_once, scratch);
  normalize_images(context.executor, call, layout, from, to, groups, 0, scratch.take_bytes(bytes));
}

// ---------------------------------------------------------------- backward

template <class Scalar>
void require_saved_groups(const char* where, const NormStatistics<Scalar>& saved, const Shape& x, Index groups) {
  if (saved.is_empty()) {
    raise_logic_error(where, "saved is empty, expected what a forward of x has saved (" + has_shape("x", x) + ")");
  }
  require_same_shape(where, "x", x, "the x that was saved", saved.shape);
  const auto expected = static_cast<std::size_t>(groups);
  if (saved.rstd.size() != expected || saved.mean.size() != expected || saved.mean_rest.size() != expected) {
    raise_invalid_argument(where, "saved has statistics of " + std::to_string(saved.rstd.size()) +
                                      " groups, expected " + std::to_string(groups) +
                                      " (saved by another norm, or with other groups or axes?)");
  }
}

template <class Scalar>
void require_group_gradients(const char* where, const RowNormGradients<Scalar>& to, const TensorView<const Scalar>& dy,
                             const TensorView<const Scalar>& x, const ParameterView<Scalar>& gamma, int channel_axis) {
  require_like_x<Scalar>(where, "dy", dy, x);
  if (to.dx.is_wanted()) require_like_x<Scalar>(where, "dx", to.dx.view(), x);
  require_channels_if(gamma.is_given(), where, "gamma", gamma, x.shape(), channel_axis);
  require_channels_if(to.dgamma.is_wanted(), where, "dgamma", to.dgamma, x.shape(), channel_axis);
  require_channels_if(to.dbeta.is_wanted(), where, "dbeta", to.dbeta, x.shape(), channel_axis);
  require_gradient_memory(where, to, dy, x, gamma);
}

/// Backward by way of copies of x and dy, the second of which becomes dx.
template <class Scalar>
void differentiate_copies(const Executor& executor, ChannelNormBackward<kernels::Compute<Scalar>> call,
                          const GradientImages<Scalar>& t, Index groups, Index at_once, Scratch& scratch) {
  using T = kernels::Compute<Scalar>;
  const auto& [dy, x, dx] = t;
  const Index copied = at_once * x.channels().extent * x.pixels();
  T *dense_dy = scratch.take<T>(copied), *dense_x = scratch.take<T>(copied);
  const bool adds = std::exchange(call.add_dx, false);
  for (Index first = 0; first < x.batch().extent; first += at_once) {
    const Index count = std::min(at_once, x.batch().extent - first);
    const auto x_part = gathered(x.examples(first, count), dense_x);
    const auto dy_part = gathered(dy.examples(first, count), dense_dy);
    const Images<T> result(dx.data() ? dense_dy : nullptr, count, x.channels().extent, x.pixels());
    differentiate_images(executor, call, group_layout(x_part), dy_part, x_part, result, groups, first * groups);
    call.add_dgamma = call.add_dbeta = true;
    if (dx.data()) scatter(dx.examples(first, count), dense_dy, adds);
  }
}

template <class Scalar>
void differentiate_groups(const char* where, const TensorView<const Scalar>& dy, const TensorView<const Scalar>& x,
                          const NormStatistics<Scalar>& saved, const ParameterView<Scalar>& gamma,
                          const GroupNormAxes& norm, const RowNormGradients<Scalar>& to, const Context& context) {
  using T = kernels::Compute<Scalar>;
  require_vectorized_scalar<Scalar>();
  const auto [groups, axes] = resolve(where, norm, x.shape());
  require_saved_groups(where, saved, x.shape(), x.shape()[axes.batch] * groups);
  require_group_gradients(where, to, dy, x, gamma, axes.channel);
  const PositionMask mask = position_mask<Scalar>(where, norm.mask, x, axes, "dx", to.dx.view());

  const Images<const Scalar> dy_images(dy, axes), x_images(x, axes);
  const bool with_dx = to.dx.is_wanted();
  const TensorView<Scalar> no_dx(nullptr, x.shape(), x.strides(), x.order());
  const Images<Scalar> dx_images(with_dx ? to.dx.view() : no_dx, axes);
  const GroupLayout layout = x.size() == 0 ? GroupLayout::pixels_contiguous  // of nothing, as any other
                                           : common_layout(x_images, dy_images, dx_images);
  const bool is_copied = layout == GroupLayout::other;
  const Index at_once = examples_at_once<Scalar>(x.shape(), axes.batch);
  const Index copied = is_copied ? at_once * x_images.channels().extent * x_images.pixels() : 0;
  const bool with_parameters = to.dgamma.is_wanted() || to.dbeta.is_wanted();
  const bool has_lanes = groups > 0 && group_kernel(layout, x_images, groups) == GroupKernel::group_lanes;
  const std::size_t bytes = mask.is_given() ? masked_backward_bytes(x_images)
                            : with_parameters || has_lanes
                                ? backward_bytes(layout, x_images, std::max<Index>(groups, 1))
                                : 0;
  Scratch scratch(where, context,
                  Scratch::bytes_of(bytes) + widened_bytes(gamma, to.dgamma, to.dbeta) +
                      (mask.is_given() ? masked_images_bytes(x_images, 2) : 2 * Scratch::bytes<T>(copied)));
  const ChannelNormBackward<T> call{.gamma = widened(gamma, scratch),
                                    .mean = saved.mean.data(),
                                    .mean_rest = saved.mean_rest.data(),
                                    .rstd = saved.rstd.data(),
                                    .dgamma = widened(to.dgamma, scratch),
                                    .dbeta = widened(to.dbeta, scratch),
                                    .add_dx = to.dx.adds(),
                                    .add_dgamma = to.dgamma.adds(),
                                    .add_dbeta = to.dbeta.adds(),
                                    .workspace = scratch.take_bytes(bytes)};
  if (groups == 0) return;
  const GradientImages<Scalar> images{dy_images, x_images, dx_images};
  if (mask.is_given() && x.size() > 0) {
    differentiate_masked(context.executor, call, mask, images, groups, scratch);
  } else if (is_copied) {
    differentiate_copies(context.executor, call, images, groups, at_once, scratch);
  } else {
    differentiate_images(context.executor, call, layout, dy_images, x_images, dx_images, groups, 0);
  }
  round_gradient(call.dgamma, to.dgamma);
  round_gradient(call.dbeta, to.dbeta);
}

/// Bytes of workspace for forward and backward of a tensor of this shape, in whatever layout.
template <class Scalar>
std::size_t group_norm_workspace_bytes(const char* where, const Shape& x, const ImageAxes& given) {
  const ImageAxes axes = resolve_image_axes(where, given, x);
  const Index examples = x[axes.batch], channels = x[axes.channel];
  const Index example = examples == 0 ? 0 : x.size() / examples;
  const std::size_t copied =
      2 * Scratch::bytes<kernels::Compute<Scalar>>(examples_at_once<Scalar>(x, axes.batch) * example) +
      Scratch::bytes_of(kernels::segment_norm_backward_workspace_bytes<Scalar>(channels)) +
      Scratch::bytes<std::uint8_t>(example / std::max<Index>(1, channels));
  const std::size_t lanes = Scratch::bytes_of(
      kernels::group_lanes_backward_workspace_bytes<Scalar>(channels * std::max<Index>(1, examples), channels));
  return most_widened_bytes<Scalar>(channels) + std::max(copied, lanes);
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
