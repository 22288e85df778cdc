#pragma once

#include <cstddef>
#include <utility>

#include "evenkeel/detail/batch_norm_op.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Batch normalization in training: y = (x - mean) * rstd * gamma + beta, with each channel's mean and var over the
/// batch: over all axes but the channels'.
///
/// var is biased (divided by the values per channel); rstd = 1 / sqrt(var + eps). Once y is computed, the running
/// statistics of `update` are updated in the caller's memory; their variance is unbiased, as PyTorch has it, unless
/// asked otherwise. Of masked positions y is exactly 0, whatever x holds there, and they do not count: a batch without
/// a valid one is an empty one. One value per channel has no variance: an error before anything changes, unless
/// options.allow_one_value says that y = beta will do (the running variance stays as it is). An empty batch changes no
/// running statistic and is not counted.
///
/// Shapes    x, y alike, in the same storage order: [N, C], [N, C, L], [N, C, H, W], ..., or with the channels on any
///           other axis; gamma, beta, mean and var [C].
/// Types     float, double, bfloat16 or half; beside 16 bits gamma and beta are of x's type or float, statistics float.
/// Aliasing  y may be x, the identical view (but x is what batch_norm_backward reads); any other overlap is an error.
/// Writes    y, saved, and the running statistics and counter of `update`.
/// Numerics  within 4 ulp of max(|y|, 1); a constant channel gives exactly beta (BatchNormOp tests). 16 bits are
/// computed
///           in float and rounded once (BatchNorm16 tests).
/// Cost      x read twice, y written once; no allocation. With masked positions the valid ones are copied through the
///           context's workspace, some channels at a time, which takes several times as long. Parameters of 16 bits are
///           widened in the workspace.
/// Errors    throws std::invalid_argument, before anything is written, if shapes or storage orders do not match, the
///           channel axis is out of range, eps is negative or NaN, there is one value per channel, memory overlaps, or
///           the context's workspace is too small.
/// Source    Ioffe, Szegedy 2015, arXiv:1502.03167; agrees with torch.nn.BatchNorm1d, 2d and 3d.
template <class X, class Y>
void batch_norm_into(const X& x, Y&& y, BatchNormStatistics<ScalarOf<X>>& saved,
                     const BatchNormOptions<ScalarOf<X>>& options = {}, const RunningUpdate<ScalarOf<X>>& update = {},
                     const Context& context = {}) {
  detail::batch_norm_training<ScalarOf<X>>("batch_norm_into", input_view<ScalarOf<X>>(x),
                                           output_view<ScalarOf<X>>(std::forward<Y>(y)), saved, options, update,
                                           context);
}

/// The same as a new tensor of x's scalar, rank and storage order.
template <class X>
OwnedOf<X> batch_norm(const X& x, BatchNormStatistics<ScalarOf<X>>& saved,
                      const BatchNormOptions<ScalarOf<X>>& options = {},
                      const RunningUpdate<ScalarOf<X>>& update = {}) {
  auto y = make_like(x);
  batch_norm_into(x, y, saved, options, update);
  return y;
}

/// Batch normalization in inference, with running statistics, and an activation in the same pass.
///
/// The activation is a function of a SIMD batch: `kernels::Relu{}`, or one's own, see channel_affine_into.
///
/// Of masked positions y is exactly 0.
///
/// Shapes    as in training; running.mean and running.var [C].
/// Aliasing  y may be x, the identical view; any other overlap is an error.
/// Writes    y, and nothing else.
/// Numerics  the mean is taken off first: within 4 ulp of max(|y|, 1), however large it is.
/// Cost      x read once, y written once; no allocation, as in training.
/// Errors    throws std::invalid_argument, before anything is written, as in training, and if a running variance is
///           negative or NaN, which it names the channel of.
template <class X, class Y, class Activation = kernels::Identity>
void batch_norm_into(const X& x, Y&& y, const RunningStatistics<ScalarOf<X>>& running,
                     const BatchNormOptions<ScalarOf<X>>& options = {}, const Activation& activation = {},
                     const Context& context = {}) {
  detail::batch_norm_inference<ScalarOf<X>>("batch_norm_into", input_view<ScalarOf<X>>(x),
                                            output_view<ScalarOf<X>>(std::forward<Y>(y)), running, options, activation,
                                            context);
}

/// The same as a new tensor of x's scalar, rank and storage order.
template <class X, class Activation = kernels::Identity>
OwnedOf<X> batch_norm(const X& x, const RunningStatistics<ScalarOf<X>>& running,
                      const BatchNormOptions<ScalarOf<X>>& options = {}, const Activation& activation = {}) {
  auto y = make_like(x);
  batch_norm_into(x, y, running, options, activation);
  return y;
}

/// Training with frozen statistics: normalizes with the running ones, which do not change, and keeps in `saved` what
/// batch_norm_backward takes. gamma and beta may go on learning.
template <class X, class Y>
void batch_norm_into(const X& x, Y&& y, const RunningStatistics<ScalarOf<X>>& running,
                     BatchNormStatistics<ScalarOf<X>>& saved, const BatchNormOptions<ScalarOf<X>>& options = {},
                     const Context& context = {}) {
  detail::batch_norm_frozen<ScalarOf<X>>("batch_norm_into", input_view<ScalarOf<X>>(x),
                                         output_view<ScalarOf<X>>(std::forward<Y>(y)), running, saved, options,
                                         context);
}

/// The same as a new tensor of x's scalar, rank and storage order.
template <class X>
OwnedOf<X> batch_norm(const X& x, const RunningStatistics<ScalarOf<X>>& running,
                      BatchNormStatistics<ScalarOf<X>>& saved, const BatchNormOptions<ScalarOf<X>>& options = {}) {
  auto y = make_like(x);
  batch_norm_into(x, y, running, saved, options);
  return y;
}

/// Gradients of batch_norm, from its x and what it has saved: with g = gamma * dy and means over a channel,
/// dx = rstd * (g - mean(g) - x_hat * mean(g * x_hat)); dgamma = sum of dy * x_hat; dbeta = sum of dy.
///
/// Of masked positions dx is exactly 0 (nothing is added, in add mode), and dgamma and dbeta leave them out. Of a
/// forward with running statistics, which do not depend on x, dx = rstd * g. `saved` knows which it was.
///
/// Shapes    dy, x, dx alike, in the same storage order; gamma, dgamma, dbeta [channels].
/// Aliasing  dx may be dy, the identical view; any other overlap is an error.
/// Writes    the gradients that are given, and nothing else. Of an empty batch, dgamma and dbeta are 0.
/// Numerics  see kernels/segment_norm_backward.hpp.
/// Errors    throws std::invalid_argument, before anything is written, as the forward does, and if `saved` is of
///           another shape or channel axis, or the context's workspace is too small; std::logic_error if `saved` is
///           empty.
template <class DY, class X>
void batch_norm_backward(const DY& dy, const X& x, const BatchNormStatistics<ScalarOf<X>>& saved,
                         const BatchNormOptions<ScalarOf<X>>& options, const BatchNormGradients<ScalarOf<X>>& to,
                         const Context& context = {}) {
  detail::batch_norm_backward<ScalarOf<X>>("batch_norm_backward", input_view<ScalarOf<X>>(dy),
                                           input_view<ScalarOf<X>>(x), saved, options, to, context);
}

/// Bytes of workspace with which batch_norm_backward allocates nothing; and batch_norm_into, which without a mask, and
/// without parameters of 16 bits, takes none.
///
/// Errors    throws std::invalid_argument if the channel axis is out of range.
template <class Scalar>
std::size_t batch_norm_workspace_bytes(const Shape& x, int channel_axis = 1, bool with_mask = false) {
  const char* where = "batch_norm_workspace_bytes";
  const Index channels = x[detail::resolved_axis(where, channel_axis, x)];
  const Index positions = with_mask && channels > 0 ? x.size() / channels : 0;
  return detail::most_widened_bytes<Scalar>(channels) +
         Scratch::bytes_of(detail::batch_norm_backward_bytes<Scalar>(channels)) +
         detail::masked_batch_norm_bytes<Scalar>(positions, 2);
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
