// Calls of norms of channels on an executor, and the bits that they write.
#pragma once

#include <string>
#include <vector>

#include "evenkeel/ops/batch_norm.hpp"
#include "evenkeel/ops/group_norm.hpp"
#include "threads/threads_test.hpp"

namespace evenkeel_test {

using evenkeel::add_to;
using evenkeel::BatchNormStatistics;
using evenkeel::NormStatistics;

/// BatchNorm or GroupNorm of a tensor.
struct ChannelCase {
  std::string name;
  Shape shape;
  int channel_axis = 1;
  Index groups = 0;  // 0: BatchNorm
  StorageOrder order = StorageOrder::row_major;

  Index channels() const { return shape[channel_axis < 0 ? shape.rank() + channel_axis : channel_axis]; }
};

template <class S>
class ChannelRun {
 public:
  using Number = evenkeel::kernels::Compute<S>;

  explicit ChannelRun(const ChannelCase& c)
      : case_(c),
        x_(c.shape, c.order, 0, 1, 1),
        dy_(c.shape, c.order, 0, 3, 2),
        channels_(static_cast<std::size_t>(c.channels())),
        gamma_(normal_vector<S>(channels_, 3)),
        beta_(normal_vector<S>(channels_, 4)) {}

  Bits batch_forward(const Context& context) {
    const OwnTensor<S> y(case_.shape, case_.order, 0, 2);
    std::vector<Number> mean(channels_), var(channels_, 1);
    evenkeel::batch_norm_into(x_.view(), y.view(), batch_, batch_options(), {.mean = mean, .var = var}, context);
    return Bits(y.memory(), batch_.mean, batch_.mean_rest, batch_.rstd, mean, var);
  }
  Bits batch_backward(const Context& context) {
    return backward(context, [&](const TensorView<S>& dx, std::vector<S>& dgamma, std::vector<S>& dbeta) {
      evenkeel::batch_norm_backward(dy_.view(), x_.view(), batch_, batch_options(),
                                    {.dx = dx, .dgamma = add_to(dgamma), .dbeta = dbeta}, context);
    });
  }
  Bits batch_inference(const Context& context) {
    const OwnTensor<S> y(case_.shape, case_.order, 0, 2);
    const std::vector<Number> mean(beta_.begin(), beta_.end()), var(channels_, Number(0.7));
    evenkeel::batch_norm_into(x_.view(), y.view(), evenkeel::RunningStatistics<S>{.mean = mean, .var = var},
                              batch_options(), evenkeel::kernels::Relu{}, context);
    return Bits(y.memory());
  }
  Bits group_forward(const Context& context) {
    const OwnTensor<S> y(case_.shape, case_.order, 0, 2);
    evenkeel::group_norm_into(x_.view(), y.view(), group_, group_options(), context);
    return Bits(y.memory(), group_.mean, group_.mean_rest, group_.rstd);
  }
  Bits group_backward(const Context& context) {
    return backward(context, [&](const TensorView<S>& dx, std::vector<S>& dgamma, std::vector<S>& dbeta) {
      evenkeel::group_norm_backward(dy_.view(), x_.view(), group_, group_options(),
                                    {.dx = dx, .dgamma = dgamma, .dbeta = add_to(dbeta)}, context);
    });
  }
  Bits group_input_gradient(const Context& context) {
    const OwnTensor<S> dx(dy_);
    evenkeel::group_norm_backward(dy_.view(), x_.view(), group_, group_options(), {.dx = add_to(dx.view())}, context);
    return Bits(dx.memory());
  }

 private:
  evenkeel::BatchNormOptions<S> batch_options() const {
    return {.gamma = gamma_, .beta = beta_, .channel_axis = case_.channel_axis};
  }
  evenkeel::GroupNormOptions<S> group_options() const {
    return {.gamma = gamma_, .beta = beta_, .groups = case_.groups, .channel_axis = case_.channel_axis};
  }
  template <class Differentiate>
  Bits backward(const Context&, const Differentiate& differentiate) {
    const OwnTensor<S> dx(case_.shape, case_.order, 0, 1);
    auto dgamma = normal_vector<S>(channels_, 5), dbeta = normal_vector<S>(channels_, 6);
    differentiate(dx.view(), dgamma, dbeta);
    return Bits(dx.memory(), dgamma, dbeta);
  }

  ChannelCase case_;
  OwnTensor<S> x_, dy_;
  std::size_t channels_;
  std::vector<S> gamma_, beta_;
  BatchNormStatistics<S> batch_;
  NormStatistics<S> group_;
};

}  // namespace evenkeel_test
