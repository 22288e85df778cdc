// Tests of blocks/parallel_block.hpp and two_norm_parallel_block.hpp, and so of sublayers/parallel_sublayers.hpp and
// sublayers/normalized.hpp: values and every gradient against the oracle.
#include "evenkeel/blocks/parallel_block.hpp"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/blocks/stack.hpp"
#include "evenkeel/blocks/two_norm_parallel_block.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/sublayers/feed_forward.hpp"
#include "evenkeel/sublayers/linear.hpp"
#include "support/gradient_check.hpp"
#include "support/model_inputs.hpp"
#include "support/oracle.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Index;
using evenkeel::Shape;
using evenkeel::TensorView;
using LayerNorm = evenkeel::LayerNorm<double>;
using FeedForward = evenkeel::FeedForward<double>;
using Linear = evenkeel::Linear<double>;
using Shared = evenkeel::ParallelBlock<LayerNorm, Linear, FeedForward>;
using TwoNorms = evenkeel::TwoNormParallelBlock<LayerNorm, Linear, FeedForward>;

constexpr Index rows = 3, features = 4, d_ff = 5;
constexpr std::size_t size = rows * features;
constexpr double eps = 0.01;

/// The parallel formula, with the paths of the norms and of the two sublayers.
struct Paths {
  std::string attention_norm, attention, feed_forward_norm, feed_forward;
};
const Paths shared_paths = {"norm_in", "sublayer.attention", "norm_in", "sublayer.feed_forward"};
const Paths two_norm_paths = {"sublayer.attention.norm", "sublayer.attention.sublayer", "sublayer.feed_forward.norm",
                              "sublayer.feed_forward.sublayer"};

auto oracle_of(const Paths& p, const std::map<std::string, std::size_t>& index) {
  return [&p, index](const auto& in) {
    using Vector = std::remove_cvref_t<decltype(in[0])>;
    const auto at = [&](const std::string& path) { return in[index.at(path)]; };
    const auto norm = [&](const std::string& path) {
      return oracle::layer_norm(in[0], rows, features, at(path + ".gamma"), at(path + ".beta"), eps);
    };
    const Vector a = oracle::linear(norm(p.attention_norm), rows, features, features, at(p.attention + ".weight"),
                                    at(p.attention + ".bias"));
    const Vector m = oracle::feed_forward(norm(p.feed_forward_norm), rows, features, d_ff,
                                          at(p.feed_forward + ".up.weight"), at(p.feed_forward + ".up.bias"),
                                          at(p.feed_forward + ".down.weight"), at(p.feed_forward + ".down.bias"));
    Vector y = in[0];
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += a[i] + m[i];
    return y;
  };
}

TensorView<double> matrix(std::vector<double>& values) { return {values.data(), {rows, features}}; }
TensorView<const double> matrix(const std::vector<double>& values) { return {values.data(), {rows, features}}; }

/// Errors are measured by the largest entry.
template <class Got>
testing::AssertionResult near(const Got& got, const Reals& expected, double ulps) {
  return within_ulp(got, expected, ulps, {oracle::largest_magnitude(expected)});
}

template <class Block>
void expect_formula_and_gradients(Block block, const Paths& paths) {
  const std::vector<double> x = normal_vector<double>(size, 1, 0.5, 2), dy = normal_vector<double>(size, 2);
  const NamedInputs inputs = named_inputs(x, block);
  const auto formula = oracle_of(paths, inputs.index);
  typename Block::Saved saved;
  std::vector<double> y(size), inference(size), dx(size);
  std::as_const(block).forward_into(matrix(x), matrix(inference));
  block.forward_into(matrix(x), matrix(y), saved);
  block.backward_into(matrix(dy), saved, matrix(dx));
  EXPECT_TRUE(near(y, formula(inputs.values), 8));
  EXPECT_EQ(inference, y);
  EXPECT_TRUE(near(dx, gradient(inputs.values, 0, formula, oracle::widen(dy)), 32));
  for_each_parameter(block, [&](const std::string& path, const auto& parameter) {
    const Reals expected = gradient(inputs.values, inputs.index.at(path), formula, oracle::widen(dy));
    EXPECT_TRUE(near(parameter.gradient(), expected, 64)) << path;
  });
}

Shared shared_block() {
  return randomized(Shared(LayerNorm(features, {.eps = eps}), Linear(features, features), FeedForward(features, d_ff)));
}
TwoNorms two_norm_block() {
  const LayerNorm norm(features, {.eps = eps});
  return randomized(TwoNorms(norm, Linear(features, features), norm, FeedForward(features, d_ff)));
}

TEST(ParallelBlock, AndItsEveryGradientMatchDualNumbers) { expect_formula_and_gradients(shared_block(), shared_paths); }

TEST(TwoNormParallelBlock, AndItsEveryGradientMatchDualNumbers) {
  expect_formula_and_gradients(two_norm_block(), two_norm_paths);
}

TEST(ParallelBlock, IsDeducedAndStandsInAStack) {
  const Shared block = shared_block();
  static_assert(
      std::is_same_v<decltype(evenkeel::ParallelBlock(LayerNorm(4), Linear(4, 4), FeedForward(4, 4))), Shared>);
  static_assert(std::is_same_v<decltype(evenkeel::TwoNormParallelBlock(LayerNorm(4), Linear(4, 4), LayerNorm(4),
                                                                       FeedForward(4, 4))),
                               TwoNorms>);
  std::vector<evenkeel::Residual<LayerNorm, evenkeel::ParallelSublayers<Linear, FeedForward>>> blocks = {block, block};
  const evenkeel::Stack stack(blocks);
  ASSERT_TRUE(stack.final_norm().has_value());
  const Eigen::Matrix<double, -1, -1, Eigen::RowMajor> x = Eigen::MatrixXd::Random(rows, features);
  EXPECT_EQ(stack.forward(x), stack.final_norm()->forward(block.forward(block.forward(x))));
}

TEST(ParallelBlock, AddsToTheGradientAtItsInput) {
  const std::vector<double> x = normal_vector<double>(size, 3), dy = normal_vector<double>(size, 4);
  auto sum = randomized(evenkeel::ParallelSublayers(Linear(features, features), FeedForward(features, d_ff)));
  decltype(sum)::Saved saved;
  std::vector<double> y(size), dx(size), added(size, 0.5);
  sum.forward_into(matrix(x), matrix(y), saved);
  sum.backward_into(matrix(dy), saved, matrix(dx));
  sum.backward_into(matrix(dy), saved, add_to(matrix(added)));
  sum.backward_into(matrix(dy), saved, {});
  for (double& value : dx) value += 0.5;
  EXPECT_TRUE(near(added, oracle::widen(dx), 8));
}

TEST(ParallelBlock, RefusesAYOfAnotherShape) {
  const evenkeel::ParallelSublayers sum(Linear(features, features), FeedForward(features, d_ff));
  const Eigen::Matrix<double, -1, -1, Eigen::RowMajor> x = Eigen::MatrixXd::Random(rows, features);
  Eigen::Matrix<double, -1, -1, Eigen::RowMajor> y(rows, features + 1);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { sum.forward_into(x, y); }),
            "evenkeel::ParallelSublayers::forward: y has shape [3, 5], expected [3, 4] (the shape of x)");
}

}  // namespace
}  // namespace evenkeel_test
