// What the tests of GroupNorm and InstanceNorm share: images in several layouts of memory, and the oracle.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "evenkeel/ops/group_norm.hpp"
#include "evenkeel/ops/instance_norm.hpp"
#include "support/compiled_norms.hpp"
#include "support/gradient_check.hpp"
#include "support/oracle.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {

using evenkeel::Index;
using evenkeel::NormStatistics;
using evenkeel::Shape;
using evenkeel::StorageOrder;
using evenkeel::TensorView;

using Scalars = testing::Types<float, double>;
struct ScalarName {
  template <class S>
  static std::string GetName(int) {
    return std::is_same_v<S, float> ? "float" : "double";
  }
};

/// Data in logical order: x, dy [examples, channels, pixels], the pixels of `pixel_shape`. P is the type of the
/// parameters.
template <class S, class P = S>
struct ImageData {
  Index examples = 1, channels = 1;
  std::vector<Index> pixel_shape = {};
  Index groups = 1;
  std::vector<S> x = {}, dy = {};
  std::vector<P> gamma = {}, beta = {};
  double eps = 1e-5;

  Index pixels() const {
    Index product = 1;
    for (const Index extent : pixel_shape) product *= extent;
    return product;
  }
  std::string text() const {
    return std::to_string(examples) + " x " + std::to_string(channels) + " x " + std::to_string(pixels()) + ", rank " +
           std::to_string(pixel_shape.size() + 2) + ", " + std::to_string(groups) + " groups";
  }
};

template <class S, class P = S>
ImageData<S, P> random_images(Index examples, Index channels, const std::vector<Index>& pixel_shape, Index groups,
                              std::uint64_t seed, double mean = 0) {
  ImageData<S, P> d{.examples = examples, .channels = channels, .pixel_shape = pixel_shape, .groups = groups};
  const auto size = static_cast<std::size_t>(examples * channels * d.pixels());
  d.x = normal_vector<S>(size, seed, mean);
  d.dy = normal_vector<S>(size, seed + 1);
  d.gamma = normal_vector<P>(static_cast<std::size_t>(channels), seed + 2);
  d.beta = normal_vector<P>(static_cast<std::size_t>(channels), seed + 3);
  return d;
}

// ---------------------------------------------------------------- the oracle

template <class S>
Reals expected_y(const ImageData<S>& d) {
  using oracle::widen;
  return oracle::group_norm(widen(d.x), d.examples, d.channels, d.pixels(), d.groups, widen(d.gamma), widen(d.beta),
                            d.eps);
}

/// What errors of y are measured in: max(|x_hat|, 1), through gamma and beta as x_hat goes.
template <class S>
Reals y_scale(const ImageData<S>& d) {
  ImageData<S> plain = d;
  plain.gamma.clear(), plain.beta.clear();
  Reals scale = output_scale(expected_y(plain));
  for (std::size_t i = 0; i < scale.size(); ++i) {
    const std::size_t channel = i / static_cast<std::size_t>(d.pixels()) % static_cast<std::size_t>(d.channels);
    if (!d.gamma.empty()) scale[i] *= std::abs(static_cast<long double>(d.gamma[channel]));
    if (!d.beta.empty()) scale[i] += std::abs(static_cast<long double>(d.beta[channel]));
  }
  return scale;
}

/// The gradient with respect to x (0), gamma (1) or beta (2), by dual numbers through the oracle.
template <class S>
Reals dual_gradient(ImageData<S> d, std::size_t input) {
  if (d.gamma.empty()) d.gamma.assign(static_cast<std::size_t>(d.channels), S(1));
  if (d.beta.empty()) d.beta.assign(static_cast<std::size_t>(d.channels), S(0));
  const auto norm = [&](const auto& in) {
    return oracle::group_norm(in[0], d.examples, d.channels, d.pixels(), d.groups, in[1], in[2], d.eps);
  };
  return gradient({oracle::widen(d.x), oracle::widen(d.gamma), oracle::widen(d.beta)}, input, norm,
                  oracle::widen(d.dy));
}

/// What errors of the gradients are measured in: dx's for each group of each example.
template <class S>
oracle::NormGradients gradient_scales(const ImageData<S>& d) {
  const Index group_channels = d.channels / d.groups, n = group_channels * d.pixels();
  oracle::NormGradients scales{.dgamma_scale = {0}, .dbeta_scale = {0}};
  for (Index i = 0; i < d.examples * d.groups; ++i) {
    Reals gamma;
    for (Index j = 0; j < n; ++j) {
      const Index channel = i % d.groups * group_channels + j / d.pixels();
      gamma.push_back(d.gamma.empty() ? S(1) : d.gamma[static_cast<std::size_t>(channel)]);
    }
    const auto row = [&](const std::vector<S>& v) {
      return oracle::row_of(oracle::widen(v), static_cast<std::size_t>(i), static_cast<std::size_t>(n));
    };
    const auto group = oracle::layer_norm_backward(row(d.dy), row(d.x), 1, static_cast<std::size_t>(n), gamma, d.eps);
    scales.dx_scale.push_back(group.dx_scale[0]);
    scales.dgamma_scale[0] = std::max(scales.dgamma_scale[0], group.dgamma_scale[0]);
    scales.dbeta_scale[0] = std::max(scales.dbeta_scale[0], group.dbeta_scale[0]);
  }
  return scales;
}

// ---------------------------------------------------------------- layouts

/// How images lie in memory. `axes` of rank 4 are a permutation of examples (0), channels (1) and pixels (2, 3); of
/// other ranks the pixels' part is longer or shorter. `gap` elements follow each run along the tensor's axis
/// `gap_axis`.
struct ImageLayout {
  const char* name;
  bool channels_last, mirrored;  // [examples, pixels, channels]; all axes in reverse
  StorageOrder order;
  int gap_axis = -1;  // counted in memory, from the fastest
  Index gap = 0;
};

inline std::vector<ImageLayout> image_layouts() {
  using enum StorageOrder;
  return {{"row-major, channels first", false, false, row_major},
          {"row-major, channels last", true, false, row_major},
          {"column-major, channels first", false, false, column_major},
          {"column-major, channels last", true, false, column_major},
          {"column-major [pixels, channels, examples]", false, true, column_major},
          {"column-major [channels, pixels, examples]", true, true, column_major},
          {"row-major [pixels, channels, examples]", false, true, row_major},
          {"channels first, gaps between rows of pixels", false, false, row_major, 0, 3},
          {"channels first, gaps between channels", false, false, row_major, 1, 2},
          {"channels last, gaps between pixels", true, false, row_major, 0, 5}};
}

/// Memory of images in some layout, filled with `values` in logical order or with NaN, and NaN in between.
template <class S>
class ImageMemory {
 public:
  template <class P>
  ImageMemory(const ImageData<S, P>& d, const ImageLayout& layout, const std::vector<S>& values = {}) {
    std::vector<int> logical;  // which axis of [examples, channels, pixels...] each of the tensor's is
    for (int axis = 0; axis < static_cast<int>(d.pixel_shape.size()); ++axis) logical.push_back(axis + 2);
    logical.insert(layout.channels_last ? logical.end() : logical.begin(), 1);
    logical.insert(logical.begin(), 0);
    if (layout.mirrored) logical = {logical.rbegin(), logical.rend()};
    const int rank = static_cast<int>(logical.size());
    std::array<Index, evenkeel::max_rank> strides{};
    Index step = 1;
    for (int k = 0; k < rank; ++k) {
      const auto axis = static_cast<std::size_t>(layout.order == StorageOrder::row_major ? rank - 1 - k : k);
      strides[axis] = step;
      step *= extent(d, logical[axis]) + (k == layout.gap_axis ? layout.gap : 0);
    }
    for (const int axis : logical) shape_.append(extent(d, axis));
    memory_.assign(static_cast<std::size_t>(step), nan);
    view_ = TensorView<S>(memory_.data(), shape_, strides, layout.order);
    find_offsets(d, logical);
    for (std::size_t i = 0; i < values.size(); ++i) memory_[offsets_[i]] = values[i];
  }
  ImageMemory(const ImageMemory&) = delete;
  ImageMemory& operator=(const ImageMemory&) = delete;

  TensorView<S> view() { return view_; }
  int batch_axis() const { return batch_axis_; }
  int channel_axis() const { return channel_axis_; }
  /// In logical order.
  std::vector<S> values() const {
    std::vector<S> values;
    for (const std::size_t offset : offsets_) values.push_back(memory_[offset]);
    return values;
  }
  bool is_intact_around() const {
    std::vector<bool> inside(memory_.size());
    for (const std::size_t offset : offsets_) inside[offset] = true;
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if (!inside[i] && memory_[i] == memory_[i]) return false;  // NaN there is unlike itself
    }
    return true;
  }

 private:
  inline static const S nan{std::numeric_limits<float>::quiet_NaN()};

  template <class P>
  static Index extent(const ImageData<S, P>& d, int logical) {
    if (logical < 2) return logical == 0 ? d.examples : d.channels;
    return d.pixel_shape[static_cast<std::size_t>(logical - 2)];
  }
  template <class P>
  void find_offsets(const ImageData<S, P>& d, const std::vector<int>& logical) {
    std::vector<Index> stride_of(logical.size());
    for (std::size_t axis = 0; axis < logical.size(); ++axis) {
      stride_of[static_cast<std::size_t>(logical[axis])] = view_.strides()[axis];
      if (logical[axis] == 0) batch_axis_ = static_cast<int>(axis);
      if (logical[axis] == 1) channel_axis_ = static_cast<int>(axis);
    }
    for (Index i = 0; i < view_.size(); ++i) {
      Index offset = 0, rest = i;
      for (int axis = static_cast<int>(logical.size()) - 1; axis >= 0; --axis) {
        offset += rest % extent(d, axis) * stride_of[static_cast<std::size_t>(axis)];
        rest /= extent(d, axis);
      }
      offsets_.push_back(static_cast<std::size_t>(offset));
    }
  }

  Shape shape_;
  std::vector<S> memory_;
  TensorView<S> view_;
  std::vector<std::size_t> offsets_;
  int batch_axis_ = 0, channel_axis_ = 1;
};

template <class S, class P>
evenkeel::GroupNormOptions<S> options_of(const ImageData<S, P>& d, const ImageMemory<S>& x) {
  evenkeel::GroupNormOptions<S> options{
      .groups = d.groups, .eps = d.eps, .channel_axis = x.channel_axis(), .batch_axis = x.batch_axis()};
  if (!d.gamma.empty()) options.gamma = d.gamma;
  if (!d.beta.empty()) options.beta = d.beta;
  return options;
}

}  // namespace evenkeel_test
