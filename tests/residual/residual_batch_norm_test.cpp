// BatchNorm as the norm of residual blocks: its training changes it, in every slot.
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/blocks/stack.hpp"
#include "evenkeel/layers/batch_norm.hpp"
#include "evenkeel/sublayers/linear.hpp"
#include "kernels/kernel_test.hpp"
#include "support/batch_norm_oracle.hpp"
#include "support/matrix.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::BatchNorm;
using evenkeel::Linear;
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

std::vector<double> values_of(const RowMatrix& m) { return {m.data(), m.data() + m.size()}; }

TEST(ResidualBatchNorm, ForwardAndInputGradientMatchTheFormulaInEverySlot) {
  const Index rows = 5, channels = 3;
  const oracle::ChannelShape shape{5, 3, 1};
  Linear<double> f(channels, channels);
  const RowMatrix w = normal_matrix<double>(channels, channels, 1);
  f.weight().load(w.data(), 9);
  BatchNorm<double> norm(channels);
  const auto gamma = normal_vector<double>(3, 2), beta = normal_vector<double>(3, 3);
  norm.gamma().load(gamma.data(), 3), norm.beta().load(beta.data(), 3);
  evenkeel::Residual<BatchNorm<double>, Linear<double>> block(
      f, {.in = norm, .branch = norm, .skip = norm, .trunk = norm}, {.alpha = 0.5, .lambda = 2});
  const RowMatrix x = normal_matrix<double>(rows, channels, 4), dy = normal_matrix<double>(rows, channels, 5);
  decltype(block)::Saved saved;
  const RowMatrix y = block.forward(x, saved), dx = block.backward(dy, saved);

  const auto formula = [&](const auto& in) {
    using T = typename std::remove_cvref_t<decltype(in)>::value_type::value_type;
    using oracle::widen;
    const auto n = [&](const std::vector<T>& v) {
      return oracle::batch_norm(v, shape, widen<T>(gamma), widen<T>(beta), 1e-5L);
    };
    const auto linear = [&](const std::vector<T>& v) {
      return oracle::linear(v, 5, 3, 3, widen<T>(values_of(w)), std::vector<T>());
    };
    return oracle::Residual<T>{linear, n, n, n, n, T(0.5), {T(2)}}(in[0]);
  };
  const std::vector<Reals> inputs{oracle::widen(values_of(x))};
  // 1.6 measured.
  EXPECT_TRUE(within_ulp(values_of(y), formula(inputs), 4));
  EXPECT_TRUE(within_ulp(values_of(dx), gradient(inputs, 0, formula, oracle::widen(values_of(dy))), 4));
}

TEST(ResidualBatchNorm, TrainingUpdatesAndInferenceUsesRunningStatistics) {
  using Block = evenkeel::Residual<BatchNorm<double>, Linear<double>>;
  Linear<double> f(3, 3);
  f.weight().load(normal_matrix<double>(3, 3, 1).data(), 9);
  const BatchNorm<double> norm(3, {.average = evenkeel::UpdateRate(1), .variance = evenkeel::RunningVariance::biased});
  evenkeel::Stack<BatchNorm<double>, Linear<double>> stack(
      {Block(f, {.in = norm, .trunk = norm}), Block(f, {.branch = norm, .skip = norm})}, norm);
  const RowMatrix x = normal_matrix<double>(5, 3, 4);
  decltype(stack)::Saved saved;
  const RowMatrix y = stack.forward(x, saved);
  std::vector<std::string> paths;
  evenkeel::for_each_buffer(stack, [&](const std::string& path, auto& buffer) {
    paths.push_back(path);
    EXPECT_TRUE(path.ends_with("mean") || buffer.values()[0] != 1) << path;
  });
  EXPECT_EQ(paths, (std::vector<std::string>{"blocks.0.norm_in.running_mean", "blocks.0.norm_in.running_var",
                                             "blocks.0.norm_trunk.running_mean", "blocks.0.norm_trunk.running_var",
                                             "blocks.1.norm_branch.running_mean", "blocks.1.norm_branch.running_var",
                                             "blocks.1.norm_skip.running_mean", "blocks.1.norm_skip.running_var",
                                             "final_norm.running_mean", "final_norm.running_var"}));
  // With a rate of 1 the running statistics are those of the last batch.
  EXPECT_TRUE(std::as_const(stack).forward(x).isApprox(y, 1e-12));
}

}  // namespace
}  // namespace evenkeel_test
