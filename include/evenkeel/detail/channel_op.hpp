#pragma once

#include <cstdio>
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

/// Makes tensors of one shape and order alike: where the elements of an inner axis have gaps in any of them, that axis
/// is the outer one in all.
inline void align(std::initializer_list<ChannelAxes*> tensors) noexcept {
  bool is_contiguous = true;
  for (const ChannelAxes* t : tensors) is_contiguous = is_contiguous && (t->inner.extent <= 1 || t->inner.stride == 1);
  if (is_contiguous) return;
  for (ChannelAxes* t : tensors) std::swap(t->outer, t->inner);
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
