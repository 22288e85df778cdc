#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "evenkeel/detail/group_norm_kernels.hpp"
#include "evenkeel/detail/valid_positions.hpp"

/// GroupNorm and InstanceNorm of images of which some pixels are masked: of one example after another the valid ones
/// are copied, and the kernel of segments takes the copy.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// The mask of a call: of x without the channels. Its slowest axis is that of examples.
template <class Scalar>
PositionMask position_mask(const char* where, const MaskView& mask, const TensorView<const Scalar>& x,
                           const ImageAxes& axes, const char* output_name, const TensorView<const Scalar>& output) {
  const PositionMask positions(where, &mask, x, axes.channel, 1, axes.batch);
  positions.require_no_overlap(where, output_name, output);
  return positions;
}

/// What a masked call takes of a workspace, for flags and for copies of so many tensors.
template <class Scalar>
std::size_t masked_images_bytes(const Images<const Scalar>& x, int copies) noexcept {
  const Index pixels = x.pixels();
  return Scratch::bytes<std::uint8_t>(pixels) +
         static_cast<std::size_t>(copies) * Scratch::bytes<kernels::Compute<Scalar>>(x.channels().extent * pixels);
}
template <class Scalar>
std::size_t masked_backward_bytes(const Images<const Scalar>& x) noexcept {
  return kernels::segment_norm_backward_workspace_bytes<Scalar>(x.channels().extent);
}

template <class Scalar>
void normalize_masked(const Executor& executor, const ChannelNormForward<kernels::Compute<Scalar>>& call,
                      const PositionMask& mask, const Images<const Scalar>& x, const Images<Scalar>& y, Index groups,
                      Scratch& scratch) {
  using T = kernels::Compute<Scalar>;
  const Index channels = x.channels().extent;
  auto* flags = scratch.take<std::uint8_t>(x.pixels());
  T* dense = scratch.take<T>(channels * x.pixels());
  for (Index n = 0; n < x.batch().extent; ++n) {
    const ValidPositions valid{flags, mask.read_inner(n, flags)};
    const auto to = y.examples(n, 1);
    if (valid.count > 0) {
      gather_valid(x.examples(n, 1), valid, dense);
      normalize_images(executor, call, GroupLayout::pixels_contiguous, Images<const T>(dense, 1, channels, valid.count),
                       Images<T>(dense, 1, channels, valid.count), groups, n * groups, nullptr);
      scatter_valid(to, valid, dense);
    }
    write_zeros_where_masked(to, valid);
  }
}

/// The images of a backward; dx has no data where it is not wanted.
template <class Scalar>
struct GradientImages {
  Images<const Scalar> dy, x;
  Images<Scalar> dx;
};

/// An example without a valid pixel is taken too: the parameters' gradients begin at 0 with the first.
template <class Scalar>
void differentiate_masked(const Executor& executor, ChannelNormBackward<kernels::Compute<Scalar>> call,
                          const PositionMask& mask, const GradientImages<Scalar>& t, Index groups, Scratch& scratch) {
  using T = kernels::Compute<Scalar>;
  const Index channels = t.x.channels().extent, pixels = t.x.pixels();
  const bool adds = std::exchange(call.add_dx, false);
  auto* flags = scratch.take<std::uint8_t>(pixels);
  T *dense_dy = scratch.take<T>(channels * pixels), *dense_x = scratch.take<T>(channels * pixels);
  for (Index n = 0; n < t.x.batch().extent; ++n) {
    const ValidPositions valid{flags, mask.read_inner(n, flags)};
    gather_valid(t.dy.examples(n, 1), valid, dense_dy);
    gather_valid(t.x.examples(n, 1), valid, dense_x);
    const auto dense = [&](auto* data) { return Images(data, 1, channels, valid.count); };
    differentiate_images(executor, call, GroupLayout::pixels_contiguous, dense(static_cast<const T*>(dense_dy)),
                         dense(static_cast<const T*>(dense_x)), dense(t.dx.data() ? dense_dy : nullptr), groups,
                         n * groups);
    call.add_dgamma = call.add_dbeta = true;
    if (!t.dx.data()) continue;
    scatter_valid(t.dx.examples(n, 1), valid, dense_dy, adds);
    if (!adds) write_zeros_where_masked(t.dx.examples(n, 1), valid);
  }
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
