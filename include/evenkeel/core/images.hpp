#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "evenkeel/core/axis_view.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Which axis of a tensor numbers its examples, and which their channels; every other axis is one of pixels.
struct ImageAxes {
  int batch, channel;
};

namespace detail {

/// Both axes, counted from the first.
///
/// Errors    throws std::invalid_argument if x has fewer than 2 axes, an axis is out of range, or both are the same.
inline ImageAxes resolve_image_axes(const char* where, const ImageAxes& axes, const Shape& x) {
  if (x.rank() < 2) {
    raise_invalid_argument(where, "x has " + std::to_string(x.rank()) + (x.rank() == 1 ? " axis" : " axes") +
                                      ", expected at least 2, of examples and of channels (" + has_shape("x", x) + ")");
  }
  const ImageAxes resolved{resolve_axis(where, "batch_axis", axes.batch, x),
                           resolve_axis(where, "channel_axis", axes.channel, x)};
  if (resolved.batch == resolved.channel) {
    raise_invalid_argument(where, "channel_axis and batch_axis are both " + std::to_string(resolved.channel) +
                                      ", expected two axes (" + has_shape("x", x) + ")");
  }
  return resolved;
}

/// A tensor as [batch, channels, pixels], in whatever order they are in memory.
template <class Scalar>
class Images {
 public:
  /// `axes` as resolve_image_axes gives them.
  Images(const TensorView<Scalar>& view, const ImageAxes& axes)
      : data_(view.data()), batch_(axis_of(view, axes.batch)), channels_(axis_of(view, axes.channel)) {
    append_pixels(view, axes);
  }
  /// One example, of which all axes but the channels' are pixels.
  Images(const TensorView<Scalar>& view, int channel)
      : data_(view.data()), batch_{1, 0}, channels_(axis_of(view, channel)) {
    append_pixels(view, {-1, channel});
  }
  /// Dense memory, channels first.
  Images(Scalar* data, Index batch, Index channels, Index pixels) noexcept
      : data_(data), batch_{batch, channels * pixels}, channels_{channels, pixels}, count_(1) {
    pixel_axes_[0] = {pixels, 1};
  }

  Scalar* data() const noexcept { return data_; }
  const Axis& batch() const noexcept { return batch_; }
  const Axis& channels() const noexcept { return channels_; }
  Index pixels() const noexcept {
    Index product = 1;
    for (std::size_t k = 0; k < count_; ++k) product *= pixel_axes_[k].extent;
    return product;
  }

  /// The pixels as one axis, if theirs follow one another in memory without gaps.
  std::optional<Axis> joined_pixels() const noexcept {
    Axis joined;
    for (std::size_t k = 0; k < count_; ++k) {
      const Axis& axis = pixel_axes_[k];
      if (axis.extent == 1) continue;
      if (joined.extent == 1) joined.stride = axis.stride;
      if (axis.stride != joined.extent * joined.stride) return std::nullopt;
      joined.extent *= axis.extent;
    }
    return joined;
  }

  /// `count` examples from `first` on.
  Images examples(Index first, Index count) const noexcept {
    Images part = *this;
    part.data_ += first * batch_.stride;
    part.batch_.extent = count;
    return part;
  }

  /// `count` channels from `first` on.
  Images channel_range(Index first, Index count) const noexcept {
    Images part = *this;
    part.data_ += first * channels_.stride;
    part.channels_.extent = count;
    return part;
  }

  /// body(offset) of every pixel, in the order of memory: the same for all tensors of one shape and storage order.
  template <class Body>
  void for_each_pixel(const Body& body) const {
    visit_pixels(count_, 0, 0, body);
  }

  /// The pixels along the fastest axes in memory, as far as they follow one another at the same distance.
  Axis run() const noexcept {
    Axis run;
    for (std::size_t k = 0; k < run_axes(); ++k) {
      if (run.extent == 1) run.stride = pixel_axes_[k].stride;
      run.extent *= pixel_axes_[k].extent;
    }
    return run;
  }
  /// body(offset) of every run, in the order of for_each_pixel.
  template <class Body>
  void for_each_run(const Body& body) const {
    visit_pixels(count_, run_axes(), 0, body);
  }

 private:
  static Axis axis_of(const TensorView<Scalar>& view, int axis) { return {view.shape()[axis], view.stride(axis)}; }

  /// From the fastest axis in memory to the slowest.
  void append_pixels(const TensorView<Scalar>& view, const ImageAxes& others) {
    for (int k = 0; k < view.rank(); ++k) {
      const int axis = view.order() == StorageOrder::row_major ? view.rank() - 1 - k : k;
      if (axis != others.batch && axis != others.channel) pixel_axes_[count_++] = axis_of(view, axis);
    }
  }

  /// body(offset) of the first pixel at every index along the axes [first, last).
  template <class Body>
  void visit_pixels(std::size_t last, std::size_t first, Index offset, const Body& body) const {
    if (last == first) return body(offset);
    const Axis& slowest = pixel_axes_[last - 1];
    for (Index i = 0; i < slowest.extent; ++i) visit_pixels(last - 1, first, offset + i * slowest.stride, body);
  }

  /// How many of the fastest axes make a run.
  std::size_t run_axes() const noexcept {
    Axis run;
    for (std::size_t k = 0; k < count_; ++k) {
      const Axis& axis = pixel_axes_[k];
      if (axis.extent == 1) continue;
      if (run.extent != 1 && axis.stride != run.extent * run.stride) return k;
      if (run.extent == 1) run.stride = axis.stride;
      run.extent *= axis.extent;
    }
    return count_;
  }

  Scalar* data_;
  Axis batch_, channels_;
  std::size_t count_ = 0;
  std::array<Axis, max_rank> pixel_axes_{};  // the fastest first
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
