#pragma once

#include <utility>

#include "evenkeel/core/tensor.hpp"
#include "evenkeel/detail/channel_norm_call.hpp"
#include "evenkeel/detail/channel_op.hpp"
#include "evenkeel/detail/row_norm_op.hpp"
#include "evenkeel/kernels/channel_affine.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// What channel_affine_into does to each channel.
template <class Scalar>
struct ChannelAffineOptions {
  ParameterView<Scalar> center = {};  ///< [channels]; absent: 0
  ParameterView<Scalar> scale = {};   ///< [channels]; absent: 1
  ParameterView<Scalar> shift = {};   ///< [channels]; absent: 0
  int channel_axis = 1;               ///< negative: counted from the end; -1 is channels last
};

namespace detail {

/// The kernel's arguments for channels [first, first + count), but for the coefficients.
template <class Scalar>
kernels::ChannelAffine<Scalar> affine_args(const Scalar* x, const ChannelAxes& in, Scalar* y, const ChannelAxes& out,
                                           Index first, Index count) {
  return {.x = x + first * in.channel.stride,
          .y = y + first * out.channel.stride,
          .outer = in.outer.extent,
          .channels = count,
          .inner = in.inner.extent,
          .x_outer_stride = in.outer.stride,
          .x_channel_stride = in.channel.stride,
          .y_outer_stride = out.outer.stride,
          .y_channel_stride = out.channel.stride};
}

template <class Scalar, class Activation>
void channel_affine(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                    const ChannelAffineOptions<Scalar>& o, const Activation& activation, const Context& context) {
  require_vectorized_scalar<Scalar>();
  ChannelAxes in = channel_axes(where, "x", x, o.channel_axis);
  require_like_x<Scalar>(where, "y", y, x);
  ChannelAxes out = channel_axes(where, "y", y, o.channel_axis);
  require_in_place_or_no_overlap(where, "y", y, "x", x);
  for (const auto& [name, numbers] :
       {std::pair{"center", &o.center}, std::pair{"scale", &o.scale}, std::pair{"shift", &o.shift}}) {
    require_channels_if(numbers->is_given(), where, name, *numbers, x.shape(), o.channel_axis);
    require_no_overlap(where, "y", y, name, numbers->bytes());
  }
  align({&in, &out});
  Scratch scratch(where, context, widened_bytes(o.center, o.scale, o.shift));
  auto args = affine_args(x.data(), in, y.data(), out, 0, in.channel.extent);
  args.center = widened(o.center, scratch);
  args.scale = widened(o.scale, scratch);
  args.shift = widened(o.shift, scratch);
  kernels::channel_affine<native>(args, activation, InBlocks(context.executor));
}

}  // namespace detail

/// Scale and shift of each channel, and an activation in the same pass: y = activation((x - center) * scale + shift).
///
/// For a BatchNorm that has been folded (see fold_into_scale_shift), or any other affine map of channels. The
/// activation is a function of a SIMD batch, `kernels::Relu{}` or one's own:
/// `[](const auto& v) { return xsimd::min(v, decltype(v)(6)); }`.
///
/// Shapes    x, y alike, in the same storage order; center, scale, shift [channels], the size of the channel axis.
/// Aliasing  y may be x, the identical view; any other overlap is an error.
/// Numerics  see kernels/channel_affine.hpp.
/// Cost      x read once, y written once; no allocation. Coefficients of 16 bits are widened in the context's
/// workspace,
///           which takes no more than batch_norm_workspace_bytes.
/// Errors    throws std::invalid_argument, before anything is written, if shapes or storage orders do not match, the
///           channel axis is out of range, memory overlaps, or the context's workspace is too small.
template <class X, class Y, class Activation = kernels::Identity>
void channel_affine_into(const X& x, Y&& y, const ChannelAffineOptions<ScalarOf<X>>& options,
                         const Activation& activation = {}, const Context& context = {}) {
  detail::channel_affine<ScalarOf<X>>("channel_affine_into", input_view<ScalarOf<X>>(x),
                                      output_view<ScalarOf<X>>(std::forward<Y>(y)), options, activation, context);
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
