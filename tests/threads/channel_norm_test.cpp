#include <gtest/gtest.h>

#include "support/compiled_norms.hpp"
#include "threads/channel_norm_run.hpp"

namespace evenkeel_test {
namespace {

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
