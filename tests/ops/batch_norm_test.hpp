// What the tests of BatchNorm share: tensors of any shape in any memory, and calls that check what is around them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/ops/batch_norm.hpp"
#include "kernels/kernel_test.hpp"
#include "support/batch_norm_oracle.hpp"

namespace evenkeel_test {

using evenkeel::BatchNormGradients;
using evenkeel::BatchNormOptions;
using evenkeel::BatchNormStatistics;
using evenkeel::Context;
using evenkeel::CumulativeAverage;
using evenkeel::Decay;
using evenkeel::RunningStatistics;
using evenkeel::RunningUpdate;
using evenkeel::RunningVariance;
using evenkeel::Shape;
using evenkeel::StorageOrder;
using evenkeel::TensorView;
using evenkeel::UpdateRate;

// ---------------------------------------------------------------- memory

/// How a tensor lies: its order, and elements of gap in front of the axes that are slower than the channels' (`outer`),
/// in front of the channels' own (`channel`), and between all elements (`step`, which is 1 without).
struct Storage {
  const char* name = "";
  StorageOrder order = StorageOrder::row_major;
  Index outer_gap = 0, channel_gap = 0, step = 1, offset = 0;
};

inline const std::vector<Storage>& storages() {
  static const std::vector<Storage> all = {
      {"row-major"},
      {"row-major with gaps", StorageOrder::row_major, 3, 2, 1, 1},
      {"row-major with gaps between channels", StorageOrder::row_major, 0, 5, 1, 2},
      {"column-major", StorageOrder::column_major},
      {"column-major with gaps", StorageOrder::column_major, 1, 3, 1, 3},
  };
  return all;
}

/// A tensor in memory of its own, poison around its elements.
template <class S>
class Stored {
 public:
  /// `values` in row-major order; none: poison.
  Stored(const Shape& shape, int channel_axis, const Storage& storage, const std::vector<S>& values = {})
      : shape_(shape), storage_(storage) {
    const int axis = channel_axis < 0 ? channel_axis + shape.rank() : channel_axis;
    Index step = storage.step;
    for (int k = 0; k < shape.rank(); ++k) {
      const int a = storage.order == StorageOrder::row_major ? shape.rank() - 1 - k : k;
      if (a == axis && k > 0) step += storage.channel_gap;
      if (k > 0 && (storage.order == StorageOrder::row_major ? a + 1 : a - 1) == axis) step += storage.outer_gap;
      strides_[static_cast<std::size_t>(a)] = step;
      step *= shape[a];
    }
    memory_.assign(static_cast<std::size_t>(storage.offset + step + 1), poison<S>);
    if (values.empty()) return;
    for (Index i = 0; i < shape.size(); ++i) memory_[position(i)] = values[static_cast<std::size_t>(i)];
  }

  TensorView<S> view() { return {memory_.data() + storage_.offset, shape_, strides_, storage_.order}; }
  TensorView<const S> view() const { return {memory_.data() + storage_.offset, shape_, strides_, storage_.order}; }

  std::vector<S> values() const {
    std::vector<S> values;
    for (Index i = 0; i < shape_.size(); ++i) values.push_back(memory_[position(i)]);
    return values;
  }
  testing::AssertionResult is_intact_around() const {
    std::vector<S> around = memory_;
    for (Index i = 0; i < shape_.size(); ++i) around[position(i)] = poison<S>;
    return same_bits(around, std::vector<S>(around.size(), poison<S>));
  }

 private:
  std::size_t position(Index row_major_index) const {
    Index at = storage_.offset;
    for (int axis = shape_.rank() - 1; axis >= 0; --axis) {
      at += row_major_index % shape_[axis] * strides_[static_cast<std::size_t>(axis)];
      row_major_index /= shape_[axis];
    }
    return static_cast<std::size_t>(at);
  }

  Shape shape_;
  Storage storage_;
  std::array<Index, evenkeel::max_rank> strides_{};
  std::vector<S> memory_;
};

// ---------------------------------------------------------------- data

/// The data of one call, in row-major order. Empty gamma or beta: absent. P is the type of the parameters.
template <class S, class P = S>
struct BatchData {
  using Number = kernels::Compute<S>;
  Shape shape = {};
  int channel_axis = 1;
  std::vector<S> x = {}, dy = {};
  std::vector<P> gamma = {}, beta = {};
  std::vector<Number> running_mean = {}, running_var = {};
  double eps = 1e-5;

  oracle::ChannelShape channels() const {
    const int axis = channel_axis < 0 ? channel_axis + shape.rank() : channel_axis;
    oracle::ChannelShape s{1, static_cast<std::size_t>(shape[axis]), 1};
    for (int a = 0; a < axis; ++a) s.outer *= static_cast<std::size_t>(shape[a]);
    for (int a = axis + 1; a < shape.rank(); ++a) s.inner *= static_cast<std::size_t>(shape[a]);
    return s;
  }
  BatchNormOptions<S> options() const {
    BatchNormOptions<S> o{.eps = eps, .channel_axis = channel_axis};
    if (!gamma.empty()) o.gamma = gamma;
    if (!beta.empty()) o.beta = beta;
    return o;
  }
  RunningStatistics<S> running() const { return {running_mean, running_var}; }
};

template <class S, class P = S>
BatchData<S, P> random_batch(const Shape& shape, int channel_axis, std::uint64_t seed, double mean = 0.5) {
  using Number = kernels::Compute<S>;
  BatchData<S, P> d{.shape = shape, .channel_axis = channel_axis};
  const auto size = static_cast<std::size_t>(shape.size());
  const std::size_t channels = d.channels().channels;
  d.x = normal_vector<S>(size, seed, mean);
  d.dy = normal_vector<S>(size, seed + 1);
  d.gamma = normal_vector<P>(channels, seed + 2);
  d.beta = normal_vector<P>(channels, seed + 3);
  d.running_mean = normal_vector<Number>(channels, seed + 4, mean);
  d.running_var = normal_vector<Number>(channels, seed + 5, 7);
  return d;
}

/// Shapes of every rank, channels on every axis, sizes around the width of a vector.
inline std::vector<std::pair<Shape, int>> batch_shapes() {
  return {{{2, 1}, 1},          {{5, 4}, 1},          {{33, 7}, -1},     {{7, 33}, 0},         {{40, 65}, 1},
          {{2, 3, 5}, 1},       {{3, 4, 6}, -1},      {{4, 3, 2}, 0},    {{2, 3, 4, 5}, 1},    {{2, 4, 5, 3}, -1},
          {{3, 2, 4, 5}, 0},    {{1, 3, 17, 17}, 1},  {{2, 5, 1, 1}, 1}, {{2, 3, 2, 2, 3}, 1}, {{2, 3, 2, 2, 3}, 2},
          {{1, 1, 2, 1, 5}, 1}, {{2, 2, 3, 2, 3}, -1}};
}

template <class S, class P = S>
struct BatchResult {
  std::vector<S> y = {}, dx = {};
  std::vector<P> dgamma = {}, dbeta = {};
  BatchNormStatistics<S> saved = {};
  std::vector<kernels::Compute<S>> running_mean = {}, running_var = {};
};

/// Forward and backward of a training step of `d`; every tensor lies as `storage` says.
template <class S, class P>
BatchResult<S, P> train(const BatchData<S, P>& d, const Storage& storage, RunningUpdate<S> update = {}) {
  SCOPED_TRACE(storage.name);
  const auto poisoned = [](std::size_t size) { return std::vector<P>(size, poison<P>); };
  const std::size_t channels = d.channels().channels;
  BatchResult<S, P> r{.dgamma = poisoned(channels), .dbeta = poisoned(channels)};
  r.running_mean = d.running_mean, r.running_var = d.running_var;
  if (!d.running_mean.empty()) update.mean = r.running_mean, update.var = r.running_var;
  const Stored<S> x(d.shape, d.channel_axis, storage, d.x), dy(d.shape, d.channel_axis, storage, d.dy);
  Stored<S> y(d.shape, d.channel_axis, storage), dx(d.shape, d.channel_axis, storage);
  evenkeel::batch_norm_into(x.view(), y.view(), r.saved, d.options(), update);
  evenkeel::batch_norm_backward(dy.view(), x.view(), r.saved, d.options(),
                                {.dx = dx.view(), .dgamma = r.dgamma, .dbeta = r.dbeta});
  r.y = y.values(), r.dx = dx.values();
  EXPECT_TRUE(same_bits(x.values(), d.x));
  EXPECT_TRUE(same_bits(dy.values(), d.dy));
  for (const Stored<S>* t : {&x, &dy, static_cast<const Stored<S>*>(&y), static_cast<const Stored<S>*>(&dx)})
    EXPECT_TRUE(t->is_intact_around());
  return r;
}

/// What errors of y are measured in: max(|x_hat|, 1), through gamma and beta as x_hat goes.
template <class S, class P>
Reals batch_y_scale(const BatchData<S, P>& d, const Reals& x_hat) {
  Reals scale = output_scale(x_hat);
  const auto s = d.channels();
  for (std::size_t i = 0; i < scale.size(); ++i) {
    const std::size_t c = i / s.inner % s.channels;
    if (!d.gamma.empty()) scale[i] *= std::abs(static_cast<long double>(d.gamma[c]));
    if (!d.beta.empty()) scale[i] += std::abs(static_cast<long double>(d.beta[c]));
  }
  return scale;
}

template <class S>
void expect_gradients(const BatchResult<S>& r, const oracle::BatchNormGradients& expected, std::size_t values) {
  const long double root = std::sqrt(static_cast<long double>(values));
  EXPECT_TRUE(within_ulp(r.dx, expected.dx, 4, expected.dx_scale));
  EXPECT_TRUE(within_ulp(r.dgamma, expected.dgamma, 4 * root, expected.dgamma_scale));
  EXPECT_TRUE(within_ulp(r.dbeta, expected.dbeta, 4 * root, expected.dbeta_scale));
}

using BatchScalars = testing::Types<float, double>;
struct ScalarName {
  template <class S>
  static std::string GetName(int) {
    return std::is_same_v<S, float> ? "float" : "double";
  }
};

}  // namespace evenkeel_test
