// Norms of channels of 16 bits on several threads.
#include "threads/channel_norm_run.hpp"

namespace evenkeel_test {
namespace {

TEST(ChannelNormThreads16, BatchNormHasTheBitsOfOneThread) {
  for (const ChannelCase& c :
       {ChannelCase{"lanes", {1800, 130}}, {"images", {12, 40, 17, 19}}, {"channels last", {12, 17, 19, 140}, -1}}) {
    SCOPED_TRACE(c.name);
    ChannelRun<Eigen::half> run(c);
    expect_parallel([&](const Context& context) { return run.batch_forward(context); });
    expect_parallel([&](const Context& context) { return run.batch_backward(context); });
    expect_parallel([&](const Context& context) { return run.batch_inference(context); });
  }
}

TEST(ChannelNormThreads16, GroupNormHasTheBitsOfOneThread) {
  for (const ChannelCase& c :
       {ChannelCase{"images", {12, 40, 17, 19}, 1, 8}, {"channels last, long groups", {10, 17, 11, 280}, -1, 4}}) {
    SCOPED_TRACE(c.name);
    ChannelRun<Eigen::half> run(c);
    expect_parallel([&](const Context& context) { return run.group_forward(context); });
    expect_parallel([&](const Context& context) { return run.group_backward(context); });
    expect_parallel([&](const Context& context) { return run.group_input_gradient(context); });
  }
}

}  // namespace
}  // namespace evenkeel_test
