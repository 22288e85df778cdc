#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "evenkeel/ops/batch_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

namespace detail {

/// BatchNorm in inference as numbers for each channel: y = (x - mean) * scale + beta, in double.
struct FoldedNorm {
  std::vector<double> mean, scale, beta;
};

template <class Scalar>
void require_folded(const char* where, const char* name, bool is_given, const TensorView<const Scalar>& numbers,
                    Index channels, const char* expected) {
  if (!is_given || numbers.size() == channels) return;
  raise_invalid_argument(where, std::string(name) + " has " + std::to_string(numbers.size()) + " elements, expected " +
                                    std::to_string(channels) + " (" + expected + ")");
}

/// What folding writes, by name.
template <class Scalar>
using FoldOutputs = std::initializer_list<std::pair<const char*, TensorView<const Scalar>>>;

/// Sizes, variances, and that `outputs` overlap neither what is read nor one another.
template <class Scalar>
void require_foldable(const char* where, const RunningStatistics<Scalar>& running, const BatchNormOptions<Scalar>& o,
                      Index channels, const char* expected, const FoldOutputs<Scalar>& outputs) {
  static_assert(
      std::is_same_v<Scalar, float> || std::is_same_v<Scalar, double>,
      "evenkeel: folding a norm takes numbers of float or double; of 16 bits fold a float copy, and round that");
  require_eps(where, o.eps);
  require_plain(where, "gamma", o.gamma);
  require_plain(where, "beta", o.beta);
  const std::pair<const char*, TensorView<const Scalar>> inputs[] = {{"running mean", running.mean.view()},
                                                                     {"running var", running.var.view()},
                                                                     {"gamma", o.gamma.view()},
                                                                     {"beta", o.beta.view()}};
  const bool is_given[] = {running.mean.is_given(), running.var.is_given(), o.gamma.is_given(), o.beta.is_given()};
  for (int i = 0; i < 4; ++i) {
    require_folded<Scalar>(where, inputs[i].first, is_given[i], inputs[i].second, channels, expected);
    for (const auto& output : outputs) {
      require_no_overlap(where, output.first, output.second, inputs[i].first, inputs[i].second);
    }
  }
  for (const auto* a = outputs.begin(); a != outputs.end(); ++a) {
    for (const auto* b = outputs.begin(); b != a; ++b)
      require_no_overlap(where, a->first, a->second, b->first, b->second);
  }
  require_variances(where, running.var);
}

/// Everything is checked here.
template <class Scalar>
FoldedNorm folded_norm(const char* where, const RunningStatistics<Scalar>& running, const BatchNormOptions<Scalar>& o,
                       Index channels, const char* expected, const FoldOutputs<Scalar>& outputs) {
  require_foldable(where, running, o, channels, expected, outputs);
  FoldedNorm norm;
  for (Index c = 0; c < channels; ++c) {
    norm.mean.push_back(running.mean.is_given() ? static_cast<double>(running.mean[c]) : 0.0);
    norm.scale.push_back(scale_of(running, o.gamma, o.eps, c));
    norm.beta.push_back(o.beta.is_given() ? static_cast<double>(o.beta.data()[c]) : 0.0);
  }
  return norm;
}

template <class Scalar>
void require_bias(const char* where, const ChannelView<Scalar>& bias, Index outputs) {
  if (bias.is_given() && bias.size() == outputs) return;
  raise_invalid_argument(where, "bias has " + std::to_string(bias.size()) + " elements, expected " +
                                    std::to_string(outputs) +
                                    " (the outputs of weight; zeros for a layer without a bias)");
}

/// Calls body(element, c) for each element of weight, which is of index c along the axis.
template <class Scalar, class Body>
void for_each_weight(const TensorView<Scalar>& weight, const AxisView& a, const Body& body) {
  for (Index o = 0; o < a.outer.extent; ++o) {
    for (Index c = 0; c < a.length.extent; ++c) {
      Scalar* w = weight.data() + o * a.outer.stride + c * a.length.stride;
      for (Index i = 0; i < a.inner.extent; ++i) body(w[i * a.inner.stride], c);
    }
  }
}

}  // namespace detail

/// Folds BatchNorm in inference into two numbers for each channel, y = x * scale + shift:
/// scale = gamma / sqrt(var + eps), shift = beta - mean * scale.
///
/// Shapes    scale, shift, and all that is given of running and options [channels]; options.channel_axis is not read.
/// Types     float or double, as in all folding.
/// Writes    scale and shift.
/// Numerics  in double, rounded once. Applied, the folded form loses the digits that mean * scale has more than y:
///           batch_norm_into, and channel_affine_into with a center, do not.
/// Errors    throws std::invalid_argument, before anything is written, if sizes differ, eps is negative or NaN, a
///           running variance is negative or NaN, memory overlaps.
template <class Scalar>
void fold_into_scale_shift(const RunningStatistics<Scalar>& running, const BatchNormOptions<Scalar>& options,
                           const std::type_identity_t<ChannelView<Scalar>>& scale,
                           const std::type_identity_t<ChannelView<Scalar>>& shift) {
  const char* where = "fold_into_scale_shift";
  detail::require_folded<Scalar>(where, "shift", true, shift.view(), scale.size(), "the size of scale");
  const detail::FoldedNorm norm = detail::folded_norm<Scalar>(
      where, running, options, scale.size(), "the size of scale", {{"scale", scale.view()}, {"shift", shift.view()}});
  for (Index c = 0; c < scale.size(); ++c) {
    const auto i = static_cast<std::size_t>(c);
    scale[c] = static_cast<Scalar>(norm.scale[i]);
    // Of the rounded scale, so that x = mean gives beta.
    shift[c] = static_cast<Scalar>(norm.beta[i] - norm.mean[i] * static_cast<double>(scale[c]));
  }
}

/// Folds BatchNorm in inference into the linear map before it: batch_norm(weight * x + bias) becomes
/// weight' * x + bias', with weight' = scale * weight and bias' = (bias - mean) * scale + beta.
///
/// Shapes    weight has the channels, which are its outputs, on out_axis: 0 for [out, in] and [out, in, height, width]
///           (PyTorch), -1 for [in, out] and [height, width, in, out] (Keras); bias [channels], zeros for a layer
///           without one.
/// Writes    weight and bias, in place.
/// Numerics  in double, rounded once.
/// Errors    as fold_into_scale_shift.
template <class W, class Scalar = ScalarOf<W>>
void fold_into_preceding_linear(const RunningStatistics<ScalarOf<W>>& running,
                                const BatchNormOptions<ScalarOf<W>>& options, W&& weight,
                                const ChannelView<ScalarOf<W>>& bias, int out_axis = 0) {
  const char* where = "fold_into_preceding_linear";
  const TensorView<Scalar> w = output_view<Scalar>(std::forward<W>(weight));
  const AxisView axes = axis_view(where, "weight", w, out_axis);
  detail::require_bias(where, bias, axes.length.extent);
  const detail::FoldedNorm norm = detail::folded_norm<Scalar>(
      where, running, options, bias.size(), "the outputs of weight", {{"weight", w}, {"bias", bias.view()}});
  detail::for_each_weight(w, axes, [&](Scalar& element, Index c) {
    element = static_cast<Scalar>(static_cast<double>(element) * norm.scale[static_cast<std::size_t>(c)]);
  });
  for (Index c = 0; c < bias.size(); ++c) {
    const auto i = static_cast<std::size_t>(c);
    bias[c] = static_cast<Scalar>((static_cast<double>(bias[c]) - norm.mean[i]) * norm.scale[i] + norm.beta[i]);
  }
}

/// Folds BatchNorm in inference into the linear map behind it: weight * batch_norm(x) + bias becomes
/// weight' * x + bias', with weight' = weight * scale and bias' = bias + weight * (beta - mean * scale).
///
/// Not for a convolution that pads with zeros: what it pads with would have to be folded too.
///
/// Shapes    weight, a matrix, has the channels, which are its inputs, on in_axis: 1 for [out, in] (PyTorch), 0 for
///           [in, out] (Keras); bias [out], zeros for a layer without one.
/// Writes    weight and bias, in place.
/// Numerics  in double, rounded once.
/// Errors    as fold_into_scale_shift, and if weight is not a matrix.
template <class W, class Scalar = ScalarOf<W>>
void fold_into_following_linear(const RunningStatistics<ScalarOf<W>>& running,
                                const BatchNormOptions<ScalarOf<W>>& options, W&& weight,
                                const ChannelView<ScalarOf<W>>& bias, int in_axis = 1) {
  const char* where = "fold_into_following_linear";
  const TensorView<Scalar> w = output_view<Scalar>(std::forward<W>(weight));
  if (w.rank() != 2) {
    raise_invalid_argument(
        where, "weight has " + std::to_string(w.rank()) + " axes, expected 2 (" + has_shape("weight", w.shape()) + ")");
  }
  const int in = Axes(in_axis).first(where, w.shape()), out = 1 - in;
  detail::require_bias(where, bias, w.shape()[out]);
  const detail::FoldedNorm norm = detail::folded_norm<Scalar>(
      where, running, options, w.shape()[in], "the inputs of weight", {{"weight", w}, {"bias", bias.view()}});
  for (Index r = 0; r < w.shape()[out]; ++r) {
    auto sum = static_cast<double>(bias[r]);
    for (Index c = 0; c < w.shape()[in]; ++c) {
      const auto i = static_cast<std::size_t>(c);
      Scalar& element = w.data()[r * w.stride(out) + c * w.stride(in)];
      sum += static_cast<double>(element) * (norm.beta[i] - norm.mean[i] * norm.scale[i]);
      element = static_cast<Scalar>(static_cast<double>(element) * norm.scale[i]);
    }
    bias[r] = static_cast<Scalar>(sum);
  }
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
