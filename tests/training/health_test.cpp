// Tests of training/health.hpp and of observers of a stack: every number against one computed block by block, no bit
// that changes under observation; and that a stack learns.
#include "evenkeel/training/health.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "evenkeel/blocks/plain_residual.hpp"
#include "evenkeel/blocks/post_norm.hpp"
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/blocks/stack.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/sublayers/feed_forward.hpp"
#include "evenkeel/sublayers/function_sublayer.hpp"
#include "evenkeel/training/adamw.hpp"
#include "evenkeel/training/sgd.hpp"
#include "evenkeel/training/warmup.hpp"
#include "support/matrix.hpp"
#include "support/random.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Index;
using evenkeel::Parameter;
using evenkeel::TensorView;
using LayerNorm = evenkeel::LayerNorm<double>;
using FeedForward = evenkeel::FeedForward<double>;
using Block = evenkeel::Residual<LayerNorm, FeedForward>;
using Stack = evenkeel::Stack<LayerNorm, FeedForward>;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index rows = 6, features = 8, d_ff = 16;

Matrix random_matrix(std::uint64_t seed, Index n = rows, Index m = features) {
  return normal_matrix<double>(n, m, seed);
}
Matrix matrix_of(const TensorView<const double>& view) {
  return Eigen::Map<const Matrix>(view.data(), view.shape()[0], view.shape()[1]);
}

/// Around 1 for what a norm multiplies by, around 0 for the rest.
template <class Model>
void randomize(Model& model, double std, std::uint64_t seed = 100) {
  for_each_parameter(model, [&](const std::string& path, Parameter<double>& p) {
    const auto values =
        normal_vector<double>(static_cast<std::size_t>(p.size()), seed++, path.ends_with("gamma") ? 1 : 0, std);
    p.load(values.data(), p.size());
  });
}

/// Pre, post, plain, peri, and one with a norm of its skip path and factors: where f goes is another place in each.
Stack mixed_stack() {
  const LayerNorm norm(features);
  const FeedForward f(features, d_ff);
  Stack stack(
      {evenkeel::PreNorm(norm, f), evenkeel::PostNorm(norm, f), evenkeel::PlainResidual<LayerNorm, FeedForward>(f),
       Block(f, {.in = norm, .branch = norm}), Block(f, {.skip = norm, .trunk = norm}, {.alpha = 2, .lambda = 0.5})},
      norm);
  randomize(stack, 0.4);
  return stack;
}

double rms(const Matrix& m) {
  return static_cast<double>(std::sqrt(m.cast<long double>().squaredNorm() / static_cast<long double>(m.size())));
}
double mean(const Matrix& m) {
  return static_cast<double>(m.cast<long double>().sum() / static_cast<long double>(m.size()));
}

std::vector<double> parameter_gradients(Block& block) {
  std::vector<double> all;
  for_each_parameter(block, [&](const std::string&, const auto& p) {
    all.insert(all.end(), p.gradient().begin(), p.gradient().end());
  });
  return all;
}

/// Takes down what it is shown, and when.
struct Recorder {
  void on_branch(std::size_t i, const TensorView<const double>& branch) { take("branch", i, branch); }
  void on_stream(std::size_t i, const TensorView<const double>& stream) { take("stream", i, stream); }
  void on_gradient(std::size_t i, const TensorView<const double>& dx, Block& block) {
    take("gradient", i, dx);
    parameter_gradients_.push_back(parameter_gradients(block));
  }
  void take(const char* what, std::size_t i, const TensorView<const double>& view) {
    EXPECT_TRUE(is_dense(view));
    events.push_back(what + std::to_string(i));
    values.push_back(matrix_of(view));
  }
  std::vector<std::string> events;
  std::vector<Matrix> values;
  std::vector<std::vector<double>> parameter_gradients_;
};

class Observed : public testing::Test {
 protected:
  const Matrix x = random_matrix(1), dy = random_matrix(2);
  Stack stack = mixed_stack();
  Stack::Saved saved;
  Matrix y = Matrix(rows, features), dx = Matrix(rows, features);
};

TEST_F(Observed, SeesBranchStreamAndGradientOfEachBlock) {
  Recorder recorder;
  stack.forward_into(x, y, saved, {}, recorder);
  stack.backward_into(dy, saved, dx, {}, recorder);
  using Texts = std::vector<std::string>;
  EXPECT_EQ(recorder.events,
            (Texts{"branch0", "stream0", "branch1", "stream1", "branch2", "stream2", "branch3", "stream3", "branch4",
                   "stream4", "gradient4", "gradient3", "gradient2", "gradient1", "gradient0"}));
  Stack copy = mixed_stack();
  Matrix stream = x;
  std::vector<Block::Saved> block_saved(5);
  std::vector<Matrix> streams = {x, x, x, x, x};
  for (std::size_t i = 0; i < 5; ++i) {
    Block& block = copy.blocks()[i];
    Matrix branch = block.sublayer().forward(block.enter(stream));
    if (block.norms().branch) branch = block.norms().branch->forward(branch);
    EXPECT_TRUE(recorder.values[2 * i].isApprox(branch, 1e-14)) << "branch " << i;
    streams[i] = stream;
    stream = block.forward(streams[i], block_saved[i]);
    EXPECT_TRUE(recorder.values[2 * i + 1].isApprox(stream, 1e-14)) << "stream " << i;
  }
  LayerNorm::Saved final_saved;
  copy.final_norm()->forward(stream, final_saved);
  Matrix gradient = copy.final_norm()->backward(dy, final_saved);
  for (std::size_t k = 0; k < 5; ++k) {
    Block& block = copy.blocks()[4 - k];
    gradient = block.backward(gradient, block_saved[4 - k]);
    EXPECT_TRUE(recorder.values[10 + k].isApprox(gradient, 1e-13)) << "gradient " << 4 - k;
    EXPECT_EQ(recorder.parameter_gradients_[k].size(), parameter_gradients(block).size());
    EXPECT_NEAR(recorder.parameter_gradients_[k][3], parameter_gradients(block)[3], 1e-12);
  }
}

/// In the same memory: the bits of Eigen's matrix products depend on where a matrix lies.
TEST_F(Observed, ComputesTheSameBits) {
  const auto run = [&](auto&&... observer) {
    zero_gradients(stack);
    stack.forward_into(x, y, saved, {}, observer...);
    stack.backward_into(dy, saved, dx, {}, observer...);
    std::vector<std::vector<double>> gradients;
    for (Block& block : stack.blocks()) gradients.push_back(parameter_gradients(block));
    return std::tuple(y, dx, gradients);
  };
  run();  // zeroed gradients are then where they stay
  const auto unobserved = run();
  EXPECT_EQ(run(evenkeel::Health()), unobserved);
  EXPECT_EQ(run(evenkeel::NoObserver()), unobserved);
}

static_assert(evenkeel::StackObserver<evenkeel::NoObserver, Block>);
static_assert(evenkeel::StackObserver<evenkeel::Health, Block>);
static_assert(evenkeel::StackObserver<Recorder&, Block>);
static_assert(!evenkeel::StackObserver<int, Block>);

/// An observer that wants the gradients alone.
struct GradientNorms : evenkeel::NoObserver {
  void on_gradient(std::size_t, const auto& dx, auto&) { norms.push_back(matrix_of(dx).norm()); }
  std::vector<double> norms;
};

TEST_F(Observed, ByWhoeverDerivesFromNoObserver) {
  GradientNorms observer;
  stack.forward_into(x, y, saved, {}, observer);
  stack.backward_into(dy, saved, dx, {}, observer);
  ASSERT_EQ(observer.norms.size(), 5u);
  EXPECT_NEAR(observer.norms[4], dx.norm(), 1e-14);
}

/// A sublayer that returns a tensor of its own: the branch is in that.
TEST(Observer, SeesTheBranchOfACallable) {
  const auto twice =
      evenkeel::sublayer([](const auto& x) { return 2 * x; }, [](const auto& dy, const auto&) { return 2 * dy; });
  using TwiceStack = evenkeel::Stack<LayerNorm, std::remove_const_t<decltype(twice)>>;
  using Twice = TwiceStack::Block;
  TwiceStack stack({Twice(twice, {}, {.lambda = 10}), Twice(twice, {.branch = LayerNorm(features)})}, std::nullopt);
  const Matrix x = random_matrix(1);
  Matrix y(rows, features);
  TwiceStack::Saved saved;
  evenkeel::Health health;
  stack.forward_into(x, y, saved, {}, health);
  EXPECT_NEAR(health.blocks()[0].branch_rms, 2 * rms(x), 1e-14);
  EXPECT_NEAR(health.blocks()[0].stream_rms, 21 * rms(x), 1e-13);
  EXPECT_NEAR(health.blocks()[1].branch_rms, 1, 1e-5) << "normalized";
  EXPECT_NEAR(health.blocks()[1].branch_mean, 0, 1e-14);
}

// ---------------------------------------------------------------- health

TEST_F(Observed, HealthIsRMSMeanAndNorms) {
  Recorder recorder;
  evenkeel::Health health;
  stack.forward_into(x, y, saved, {}, recorder);
  stack.backward_into(dy, saved, dx, {}, recorder);
  zero_gradients(stack);
  EXPECT_TRUE(health.blocks().empty());
  stack.forward_into(x, y, saved, {}, health);
  ASSERT_EQ(health.blocks().size(), 5u);
  EXPECT_TRUE(std::isnan(health.blocks()[2].input_gradient_norm)) << "not seen yet";
  stack.backward_into(dy, saved, dx, {}, health);
  for (std::size_t i = 0; i < 5; ++i) {
    const evenkeel::BlockHealth& block = health.blocks()[i];
    EXPECT_NEAR(block.branch_rms, rms(recorder.values[2 * i]), 1e-15) << i;
    EXPECT_NEAR(block.branch_mean, mean(recorder.values[2 * i]), 1e-15) << i;
    EXPECT_NEAR(block.stream_rms, rms(recorder.values[2 * i + 1]), 1e-15) << i;
    EXPECT_NEAR(block.stream_mean, mean(recorder.values[2 * i + 1]), 1e-15) << i;
    EXPECT_NEAR(block.input_gradient_norm, recorder.values[14 - i].norm(), 1e-13) << i;
    const auto& gradients = recorder.parameter_gradients_[4 - i];
    const Eigen::Map<const Eigen::VectorXd> all(gradients.data(), static_cast<Index>(gradients.size()));
    EXPECT_NEAR(block.parameter_gradient_norm, all.norm(), 1e-13 * all.norm()) << i;
  }
}

TEST_F(Observed, HealthIsOfTheLatestForward) {
  evenkeel::Health health, latest;
  stack.forward_into(x, y, saved, {}, health);
  stack.backward_into(dy, saved, dx, {}, health);
  for (evenkeel::Health* each : {&health, &latest}) stack.forward_into(dy, y, saved, {}, *each);
  ASSERT_EQ(health.blocks().size(), 5u);
  EXPECT_EQ(health.blocks()[1].stream_rms, latest.blocks()[1].stream_rms);
  EXPECT_TRUE(std::isnan(health.blocks()[1].input_gradient_norm)) << "of the forward before";
}

TEST_F(Observed, HealthOfABackwardAloneHasGradientsAlone) {
  evenkeel::Health health;
  stack.forward(x, saved);
  stack.backward_into(dy, saved, dx, {}, health);
  ASSERT_EQ(health.blocks().size(), 5u);
  EXPECT_TRUE(std::isnan(health.blocks()[0].stream_rms));
  EXPECT_NEAR(health.blocks()[0].input_gradient_norm, dx.norm(), 1e-13);
}

TEST(Health, IsATable) {
  const auto half =
      evenkeel::sublayer([](const auto& x) { return 0.5 * x; }, [](const auto& dy, const auto&) { return 0.5 * dy; });
  using HalfStack = evenkeel::Stack<LayerNorm, std::remove_const_t<decltype(half)>>;
  HalfStack stack({HalfStack::Block(half), HalfStack::Block(half, {}, {.lambda = 2})}, std::nullopt);
  const Matrix x = Matrix{{2, 2}, {2, 2}};
  Matrix y(2, 2);
  HalfStack::Saved saved;
  evenkeel::Health health;
  stack.forward_into(x, y, saved, {}, health);
  stack.backward_into(x, saved, {}, {}, health);
  EXPECT_EQ(health.table(),
            "block   stream rms      mean  branch rms      mean   |dx|      |dparameters|\n"
            "    0            3         3           1         1   12        0        \n"
            "    1            6         6         1.5       1.5   8         0        \n");
}

// ---------------------------------------------------------------- learning

/// The mean of squared differences, and its gradient.
double loss_of(const Matrix& y, const Matrix& target, Matrix& dy) {
  dy = 2.0 / static_cast<double>(y.size()) * (y - target);
  return (y - target).squaredNorm() / static_cast<double>(y.size());
}

/// Trains a Pre-Norm stack to be a fixed random map of 32 tokens; the loss before and after.
template <class Optimizer>
std::pair<double, double> train(Optimizer optimizer, int steps) {
  std::vector<Block> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(evenkeel::PreNorm(LayerNorm(features), FeedForward(features, d_ff)));
  Stack stack(std::move(blocks), std::nullopt);
  randomize(stack, 0.2);
  const Matrix x = random_matrix(3, 32), target = x * random_matrix(4, features, features) / std::sqrt(features);
  const evenkeel::LinearWarmup warmup(10);
  Stack::Saved saved;
  Matrix dy, first = stack.forward(x, saved);
  const double before = loss_of(first, target, dy);
  for (int step = 1; step <= steps; ++step) {
    loss_of(stack.forward(x, saved), target, dy);
    zero_gradients(stack);
    stack.backward(dy, saved);
    clip_gradient_norm(stack, 1.0);
    optimizer.step(stack, warmup.factor(step));
  }
  return {before, loss_of(stack.forward(x, saved), target, dy)};
}

TEST(Learning, OfARandomMapByAdamW) {
  const auto [before, after] = train(evenkeel::AdamW<double>({.learning_rate = 1e-2}), 150);
  EXPECT_GT(before, 1);
  EXPECT_LT(after, before / 100);  // measured: 1.91, 0.0016
}

TEST(Learning, OfARandomMapBySGDWithMomentum) {
  const auto [before, after] =
      train(evenkeel::SGD<double>({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}), 150);
  EXPECT_LT(after, before / 100);  // measured: 1.91, 0.0031
}

}  // namespace
}  // namespace evenkeel_test
