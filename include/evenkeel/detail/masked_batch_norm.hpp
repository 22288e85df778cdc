#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "evenkeel/detail/batch_norm_kernels.hpp"
#include "evenkeel/detail/valid_positions.hpp"

/// BatchNorm of tensors of which some positions are masked: the valid ones of a few channels at a time are copied, one
/// channel after another, and the kernel of segments takes the copy.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// Channels that are copied together: a cache line of them, where they lie side by side.
template <class Scalar>
inline constexpr Index channels_at_once = 64 / static_cast<Index>(sizeof(Scalar));

/// What a masked call takes of a workspace, for flags and for copies of so many tensors.
template <class Scalar>
std::size_t masked_batch_norm_bytes(Index positions, int copies) noexcept {
  return Scratch::bytes<std::uint8_t>(positions) +
         static_cast<std::size_t>(copies) *
             Scratch::bytes<kernels::Compute<Scalar>>(channels_at_once<Scalar> * positions);
}
template <class Scalar>
std::size_t masked_batch_norm_bytes(const PositionMask& mask, int copies) noexcept {
  return mask.is_given() ? masked_batch_norm_bytes<Scalar>(mask.size(), copies) : 0;
}

/// Without a mask, all of `positions`.
inline ValidPositions valid_positions(const PositionMask& mask, Index positions, Scratch& scratch) {
  if (!mask.is_given()) return {nullptr, positions};
  auto* flags = scratch.take<std::uint8_t>(mask.size());
  return {flags, mask.read(flags)};
}

/// body(first channel, number of channels) for as many as are copied together.
template <class Scalar, class Body>
void for_each_channels(Index channels, const Body& body) {
  for (Index first = 0; first < channels; first += channels_at_once<Scalar>) {
    body(first, std::min(channels_at_once<Scalar>, channels - first));
  }
}

/// The arguments that are of channels, from `first` on.
template <class T>
void move_to_channel(Index first, std::initializer_list<T**> of_channels) noexcept {
  for (T** numbers : of_channels) {
    if (*numbers) *numbers += first;
  }
}

/// The arguments that say how a dense copy [channels, positions] lies.
template <class Args>
void set_dense(Args& args, Index channels, Index positions) noexcept {
  args.outer = 1, args.groups = channels, args.segments = 1, args.columns = positions;
  args.x_group_stride = positions, args.parameter_group_step = 1;
}

/// Forward with the statistics of the valid positions; without y where that has no data.
template <class Scalar>
void normalize_valid(const Executor& executor, const Images<const Scalar>& x, const Images<Scalar>& y,
                     const ValidPositions& valid, const ChannelNormForward<kernels::Compute<Scalar>>& call,
                     Scratch& scratch) {
  using T = kernels::Compute<Scalar>;
  T* dense = scratch.take<T>(channels_at_once<Scalar> * valid.count);
  for_each_channels<Scalar>(x.channels().extent, [&](Index first, Index count) {
    gather_valid(x.channel_range(first, count), valid, dense);
    auto args = forward_args<kernels::SegmentNormForward<T>>(dense, dense, call);
    set_dense(args, count, valid.count);
    args.y_group_stride = valid.count;
    move_to_channel(first, {&args.gamma, &args.beta});
    move_to_channel(first, {&args.mean, &args.mean_rest, &args.rstd, &args.var});
    kernels::segment_norm_forward<native>(args, InBlocks(executor));
    if (y.data()) scatter_valid(y.channel_range(first, count), valid, dense);
  });
}

/// The tensors of a backward; dx has no data where it is not wanted.
template <class Scalar>
struct MaskedGradientImages {
  Images<const Scalar> dy, x;
  Images<Scalar> dx;
};

template <class Scalar>
void differentiate_valid(const Executor& executor, const MaskedGradientImages<Scalar>& t, const ValidPositions& valid,
                         const ChannelNormBackward<kernels::Compute<Scalar>>& call, Scratch& scratch) {
  using T = kernels::Compute<Scalar>;
  const Index size = channels_at_once<Scalar> * valid.count;
  T *dense_dy = scratch.take<T>(size), *dense_x = scratch.take<T>(size);
  const bool with_dx = t.dx.data() != nullptr;
  for_each_channels<Scalar>(t.x.channels().extent, [&](Index first, Index count) {
    gather_valid(t.dy.channel_range(first, count), valid, dense_dy);
    gather_valid(t.x.channel_range(first, count), valid, dense_x);
    auto args = backward_args<kernels::SegmentNormBackward<T>>(dense_dy, dense_x, with_dx ? dense_dy : nullptr, call);
    set_dense(args, count, valid.count);
    args.dy_group_stride = args.dx_group_stride = valid.count;
    args.add_dx = false;
    move_to_channel(first, {&args.gamma, &args.mean, &args.mean_rest, &args.rstd});
    move_to_channel(first, {&args.dgamma, &args.dbeta});
    kernels::segment_norm_backward<native>(args, InBlocks(executor));
    if (with_dx) scatter_valid(t.dx.channel_range(first, count), valid, dense_dy, call.add_dx);
  });
  if (with_dx && !call.add_dx) write_zeros_where_masked(t.dx, valid);
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
