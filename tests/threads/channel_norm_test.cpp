#include <gtest/gtest.h>

#include "evenkeel/ops/batch_norm.hpp"
#include "evenkeel/ops/group_norm.hpp"
#include "support/compiled_norms.hpp"
#include "threads/threads_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;
using evenkeel::BatchNormStatistics;
using evenkeel::NormStatistics;

struct ChannelCase {
  std::string name;
  Shape shape;
  int channel_axis = 1;
  Index groups = 0;  // 0: BatchNorm
  StorageOrder order = StorageOrder::row_major;

  Index channels() const { return shape[channel_axis < 0 ? shape.rank() + channel_axis : channel_axis]; }
};

const std::vector<ChannelCase>& batch_norm_cases() {
  static const std::vector<ChannelCase> all = {
      {"lanes", {900, 130}},
      {"images", {6, 40, 17, 19}},
      {"channels last", {6, 17, 19, 140}, -1},
      {"one image", {1, 40, 40, 30}},
  };
  return all;
}
const std::vector<ChannelCase>& group_norm_cases() {
  static const std::vector<ChannelCase> all = {
      {"images", {6, 40, 17, 19}, 1, 8},
      {"channels last, long groups", {5, 17, 11, 280}, -1, 4},
      {"channels last, a group each", {5, 33, 11, 140}, -1, 140},
  };
  return all;
}

template <class S>
class ChannelRun {
 public:
  explicit ChannelRun(const ChannelCase& c)
      : case_(c),
        x_(c.shape, c.order, 0, 1, 1),
        dy_(c.shape, c.order, 0, 3, 2),
        channels_(static_cast<std::size_t>(c.channels())),
        gamma_(normal_vector<S>(channels_, 3)),
        beta_(normal_vector<S>(channels_, 4)) {}

  Bits batch_forward(const Context& context) {
    const OwnTensor<S> y(case_.shape, case_.order, 0, 2);
    std::vector<S> mean(channels_), var(channels_, S(1));
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
    const std::vector<S> var(channels_, S(0.7));
    evenkeel::batch_norm_into(x_.view(), y.view(), evenkeel::RunningStatistics<S>{.mean = beta_, .var = var},
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

template <class S>
class ChannelNormThreads : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(ChannelNormThreads, Scalars);

TYPED_TEST(ChannelNormThreads, BatchNormHasTheBitsOfOneThread) {
  for (const ChannelCase& c : batch_norm_cases()) {
    SCOPED_TRACE(c.name);
    ChannelRun<TypeParam> run(c);
    expect_parallel([&](const Context& context) { return run.batch_forward(context); });
    expect_parallel([&](const Context& context) { return run.batch_backward(context); });
    expect_parallel([&](const Context& context) { return run.batch_inference(context); });
  }
}

TYPED_TEST(ChannelNormThreads, GroupNormHasTheBitsOfOneThread) {
  for (const ChannelCase& c : group_norm_cases()) {
    SCOPED_TRACE(c.name);
    ChannelRun<TypeParam> run(c);
    expect_parallel([&](const Context& context) { return run.group_forward(context); });
    expect_parallel([&](const Context& context) { return run.group_backward(context); });
    expect_parallel([&](const Context& context) { return run.group_input_gradient(context); });
  }
}

TYPED_TEST(ChannelNormThreads, ShortRunsAreLeftToTheCaller) {
  ChannelRun<TypeParam> run({"short runs", {600, 40, 3}});
  expect_serial([&](const Context& context) { return run.batch_forward(context); });
  expect_serial([&](const Context& context) { return run.batch_backward(context); });
}

TYPED_TEST(ChannelNormThreads, GroupsOfLanesAreLeftToTheCaller) {
  ChannelRun<TypeParam> run({"channels last, short groups", {5, 17, 11, 140}, -1, 35});
  expect_serial([&](const Context& context) { return run.group_forward(context); });
  expect_serial([&](const Context& context) { return run.group_backward(context); });
}

TYPED_TEST(ChannelNormThreads, LanesThatAreScaledHaveTheBitsOfOneThread) {
  using S = TypeParam;
  std::vector<S> x = normal_vector<S>(900 * 130, 1);
  for (std::size_t i = 0; i < x.size(); i += 130) {
    x[i + 70] *= S(1e-20);  // a channel of its own kind among ordinary ones
    x[i + 3] += S(1e30);
  }
  const std::vector<S> dy = normal_vector<S>(x.size(), 2);
  const TensorView<const S> x_view(x.data(), {900, 130}), dy_view(dy.data(), {900, 130});
  expect_parallel([&](const Context& context) {
    std::vector<S> y(x.size()), dx(x.size()), dgamma(130);
    BatchNormStatistics<S> saved;
    evenkeel::batch_norm_into(x_view, TensorView<S>(y.data(), {900, 130}), saved, {.eps = 1e-50}, {}, context);
    evenkeel::batch_norm_backward(dy_view, x_view, saved, {},
                                  {.dx = TensorView<S>(dx.data(), {900, 130}), .dgamma = dgamma}, context);
    return Bits(y, dx, dgamma, saved.mean, saved.rstd);
  });
}

}  // namespace
}  // namespace evenkeel_test
