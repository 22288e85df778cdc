#pragma once

#include <cstddef>
#include <utility>

#include "evenkeel/detail/group_norm_op.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// How to normalize. The backward takes the same options; of them it reads all but beta and eps.
template <class Scalar>
struct GroupNormOptions {
  ParameterView<Scalar> gamma = {};  ///< [channels]; absent: 1
  ParameterView<Scalar> beta = {};   ///< [channels]; absent: 0
  Index groups = 0;                  ///< a divisor of the number of channels; has to be given
  double eps = default_eps;          ///< in units of x squared
  int channel_axis = 1;              ///< -1: channels last
  int batch_axis = 0;  ///< examples are normalized apart; -1 for images [width, height, channels, examples]
  MaskView mask = {};  ///< which pixels of which examples are valid, of x's shape without the channels; absent: all
};

namespace detail {
template <class Scalar>
GroupNormAxes group_norm_axes(const GroupNormOptions<Scalar>& o) {
  return {o.groups, {o.batch_axis, o.channel_axis}, o.mask};
}
}  // namespace detail

/// The gradients that are asked for; `add_to(t)` adds to t instead of overwriting it.
template <class Scalar>
struct GroupNormGradients {
  TensorGradient<Scalar> dx = {};         ///< shape of x
  ParameterGradient<Scalar> dgamma = {};  ///< [channels]
  ParameterGradient<Scalar> dbeta = {};   ///< [channels]
};

/// Group normalization: y = (x - mean) * rstd * gamma + beta, with mean and var over the pixels of all channels of a
/// group, for each example. Groups are channels that follow one another.
///
/// var is biased (divided by the elements of a group); rstd = 1 / sqrt(var + eps).
///
/// Of masked pixels y is exactly 0, whatever x holds there, and they do not count; of a group without a valid one, what
/// is saved is 0.
///
/// Shapes    x, y alike [examples, channels, ...], in the same storage order, or with other axes for examples and
///           channels; gamma, beta [channels].
/// Types     float, double, bfloat16 or half; beside 16 bits gamma and beta are of x's type or float.
/// Aliasing  y may be x, the identical view; any other overlap is an error.
/// Numerics  within 4 ulp of max(|y|, 1), see kernels/segment_norm_forward.hpp. 16 bits are computed in float and
///           rounded once (GroupNorm16 tests).
/// Cost      no copy where the pixels of a channel, the channels of a pixel, or (column-major) the examples of all
///           channels are contiguous; the latter two take a little of the context's workspace. Other layouts, with gaps
///           or transposed, are copied through it, some examples at a time; so are those with a mask, one
///           example at a time. Parameters of 16 bits are widened in it. Without a workspace, memory is allocated.
/// Errors    throws std::invalid_argument, before anything is written, if shapes or storage orders do not match, groups
///           do not divide the channels, eps is negative or NaN, an axis is out of range, memory overlaps, or the
///           context's workspace is too small.
/// Source    Wu, He 2018, arXiv:1803.08494; agrees with torch.nn.GroupNorm.
template <class X, class Y>
void group_norm_into(const X& x, Y&& y, const GroupNormOptions<ScalarOf<X>>& options, const Context& context = {}) {
  detail::normalize_groups<ScalarOf<X>>("group_norm_into", input_view<ScalarOf<X>>(x),
                                        output_view<ScalarOf<X>>(std::forward<Y>(y)), options.gamma, options.beta,
                                        options.eps, detail::group_norm_axes(options), nullptr, context);
}

/// As above, and keeps in `saved` what group_norm_backward takes.
template <class X, class Y>
void group_norm_into(const X& x, Y&& y, NormStatistics<ScalarOf<X>>& saved,
                     const GroupNormOptions<ScalarOf<X>>& options, const Context& context = {}) {
  detail::normalize_groups<ScalarOf<X>>("group_norm_into", input_view<ScalarOf<X>>(x),
                                        output_view<ScalarOf<X>>(std::forward<Y>(y)), options.gamma, options.beta,
                                        options.eps, detail::group_norm_axes(options), &saved, context);
}

/// The group normalization of x as a new tensor of x's scalar, rank and storage order. See group_norm_into.
template <class X>
OwnedOf<X> group_norm(const X& x, const GroupNormOptions<ScalarOf<X>>& options) {
  auto y = make_like(x);
  group_norm_into(x, y, options);
  return y;
}

/// As above, and keeps in `saved` what group_norm_backward takes.
template <class X>
OwnedOf<X> group_norm(const X& x, NormStatistics<ScalarOf<X>>& saved, const GroupNormOptions<ScalarOf<X>>& options) {
  auto y = make_like(x);
  group_norm_into(x, y, saved, options);
  return y;
}

/// Gradients of group_norm, from its x and what it has saved: with g = gamma * dy and means over a group,
/// dx = rstd * (g - mean(g) - x_hat * mean(g * x_hat)); dgamma = sum of dy * x_hat, dbeta = sum of dy, over the
/// examples and pixels of a channel.
///
/// Of masked pixels dx is exactly 0 (nothing is added, in add mode), and dgamma and dbeta leave them out.
///
/// Shapes    dy, x, dx alike, in the same storage order; gamma, dgamma, dbeta [channels].
/// Aliasing  dx may be dy, the identical view; any other overlap is an error.
/// Writes    the gradients that are given, and nothing else.
/// Numerics  see kernels/segment_norm_backward.hpp.
/// Errors    throws std::invalid_argument, before anything is written, as group_norm_into does, and if `saved` is of
///           another shape; std::logic_error if it is empty.
template <class DY, class X>
void group_norm_backward(const DY& dy, const X& x, const NormStatistics<ScalarOf<X>>& saved,
                         const GroupNormOptions<ScalarOf<X>>& options, const GroupNormGradients<ScalarOf<X>>& to,
                         const Context& context = {}) {
  detail::differentiate_groups<ScalarOf<X>>("group_norm_backward", input_view<ScalarOf<X>>(dy),
                                            input_view<ScalarOf<X>>(x), saved, options.gamma,
                                            detail::group_norm_axes(options), {to.dx, to.dgamma, to.dbeta}, context);
}

/// Bytes of workspace with which forward and backward allocate nothing, whatever the layout of x.
template <class Scalar>
std::size_t group_norm_workspace_bytes(const Shape& x, int channel_axis = 1, int batch_axis = 0) {
  return detail::group_norm_workspace_bytes<Scalar>("group_norm_workspace_bytes", x, {batch_axis, channel_axis});
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
