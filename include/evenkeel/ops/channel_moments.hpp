#pragma once

#include <cstddef>
#include <vector>

#include "evenkeel/core/moments.hpp"
#include "evenkeel/detail/batch_norm_op.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// What channel_moments measures.
struct ChannelMomentsOptions {
  int channel_axis = 1;  ///< negative: counted from the end; -1 is channels last
  MaskView mask = {};    ///< which positions are valid, of x's shape without the channels; absent: all
};

/// Count, mean and spread of each channel, over all axes but the channels': what BatchNorm measures of a batch.
///
/// For a batch that is spread over processes: merge what each has measured, normalize with the result, and let it enter
/// the running statistics.
/// @code
///   std::vector<Moments> all = channel_moments(x);                        // send, receive, and merge those of others
///   for (std::size_t c = 0; c < all.size(); ++c) all[c].merge(theirs[c]);
///   std::vector<float> mean, var;
///   for (const Moments& m : all) mean.push_back(float(m.mean)), var.push_back(float(m.var_biased()));
///   auto y = batch_norm(x, {mean, var}, {.gamma = gamma, .beta = beta});
///   update_running_statistics<float>({.mean = running_mean, .var = running_var}, all);
/// @endcode
///
/// Shapes    x [N, C, ...], or with the channels on any other axis; a Moments for each channel, all 0 for no values.
/// Numerics  means within an ulp of the channel's spread, however large they are; variances within 4 ulp
///           (ChannelMoments tests).
/// Cost      x read once, or twice where runs of a channel are short; with masked positions, as batch_norm_into.
/// Errors    throws std::invalid_argument if the channel axis is out of range, the mask has another shape, or the
///           context's workspace is smaller than batch_norm_workspace_bytes (with a mask).
template <class X>
std::vector<Moments> channel_moments(const X& x, const ChannelMomentsOptions& options = {},
                                     const Context& context = {}) {
  using Scalar = ScalarOf<X>;
  const BatchNormOptions<Scalar> as_batch_norm{.eps = 0, .channel_axis = options.channel_axis, .mask = options.mask};
  BatchNormStatistics<Scalar> batch;
  const Index count =
      detail::measure_channels<Scalar>("channel_moments", input_view<Scalar>(x), as_batch_norm, batch, context);
  std::vector<Moments> moments;
  for (std::size_t c = 0; c < batch.mean.size(); ++c) {
    const double mean = static_cast<double>(batch.mean[c]) + static_cast<double>(batch.mean_rest[c]);
    moments.push_back({count, mean, static_cast<double>(batch.var_biased[c]) * static_cast<double>(count)});
  }
  return moments;
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
