#pragma once

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <utility>

#include "evenkeel/core/axis_view.hpp"
#include "evenkeel/core/channel_view.hpp"
#include "evenkeel/core/overlap.hpp"
#include "evenkeel/core/parameter_view.hpp"
#include "evenkeel/core/shape_check.hpp"

/// Tensors with an axis of channels: how they lie in memory, and what is checked of numbers for each channel.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// A tensor as [outer, channels, inner] in the order of its memory. In inner, elements are contiguous.
struct ChannelAxes {
  Axis outer, channel, inner;
};

template <class Scalar>
ChannelAxes channel_axes(const char* where, const char* name, const TensorView<Scalar>& view, int channel_axis) {
  const AxisView a = axis_view(where, name, view, channel_axis);
  if (a.outer.extent > 1 && a.inner.extent > 1 && a.inner.stride != 1) {
    raise_invalid_argument(where, std::string(name) + " has stride " + std::to_string(a.inner.stride) +
                                      " along its fastest axis, expected contiguous elements (" +
                                      has_shape(name, view.shape()) + ", " + order_string(view.order()) + ")");
  }
  return {a.outer, a.length, a.inner};
}

/// Whether the elements of all tensors lie side by side along one of their axes.
inline bool are_contiguous(std::initializer_list<ChannelAxes*> tensors, Axis ChannelAxes::*axis) noexcept {
  return std::all_of(tensors.begin(), tensors.end(), [&](const ChannelAxes* t) { return (t->*axis).stride == 1; });
}

/// Makes tensors of one shape and order alike: elements are contiguous along the inner axis of all of them, if it is
/// longer than 1. Where there are gaps, or a better axis to be contiguous along, the outer axis changes places with it.
inline void align(std::initializer_list<ChannelAxes*> tensors) noexcept {
  const ChannelAxes& x = **tensors.begin();
  const bool has_gaps = x.inner.extent > 1 && !are_contiguous(tensors, &ChannelAxes::inner);
  const bool is_one_channel =
      x.channel.extent == 1 && x.inner.extent == 1 && are_contiguous(tensors, &ChannelAxes::outer);
  if (!has_gaps && !is_one_channel) return;
  for (ChannelAxes* t : tensors) std::swap(t->outer, t->inner);
}

/// Whether the channels of aligned tensors are lanes: side by side in memory, as in [rows, channels].
inline bool are_lanes(std::initializer_list<ChannelAxes*> tensors) noexcept {
  return (*tensors.begin())->inner.extent == 1 && are_contiguous(tensors, &ChannelAxes::channel);
}

inline int resolved_axis(const char* where, int channel_axis, const Shape& x) {
  return Axes(channel_axis).first(where, x);
}

/// "%g" of a number, which shows small ones too.
inline std::string number_string(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

/// Throws unless there is one number for each channel.
inline void require_channels(const char* where, const char* name, Index given, const Shape& x, int channel_axis) {
  const int axis = resolved_axis(where, channel_axis, x);
  if (given == x[axis]) return;
  std::string context = " (channels are axis " + std::to_string(axis) + "; " + has_shape("x", x);
  for (int other = 0; other < x.rank(); ++other) {
    if (x[other] != given) continue;
    context += ", whose axis " + std::to_string(other) + " has " + std::to_string(given);
    break;
  }
  raise_invalid_argument(where, std::string(name) + " has " + std::to_string(given) + " elements, expected " +
                                    std::to_string(x[axis]) + context + ")");
}

template <class Numbers>
void require_channels_if(bool is_given, const char* where, const char* name, const Numbers& numbers, const Shape& x,
                         int channel_axis) {
  if constexpr (requires { numbers.form(); }) require_plain(where, name, numbers);
  if (is_given) require_channels(where, name, numbers.view().size(), x, channel_axis);
}

/// Throws unless `output` is like x, and x itself or memory of its own.
template <class Scalar>
void require_like_x(const char* where, const char* name, const TensorView<const Scalar>& output,
                    const TensorView<const Scalar>& x) {
  require_same_shape(where, name, output.shape(), "x", x.shape());
  require_same_order(where, name, output, "x", x);
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
