// Tests of blocks/stack.hpp with feed-forward sublayers: values and every gradient against the oracle, and threads.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "evenkeel/blocks/plain_residual.hpp"
#include "evenkeel/blocks/post_norm.hpp"
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/blocks/stack.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/sublayers/feed_forward.hpp"
#include "support/gradient_check.hpp"
#include "support/model_inputs.hpp"
#include "support/oracle.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Index;
using evenkeel::TensorView;
using LayerNorm = evenkeel::LayerNorm<double>;
using FeedForward = evenkeel::FeedForward<double>;
using Block = evenkeel::Residual<LayerNorm, FeedForward>;
using Stack = evenkeel::Stack<LayerNorm, FeedForward>;

constexpr Index rows = 3, features = 4, d_ff = 5;
constexpr std::size_t size = rows * features;

/// Pre, post, plain, sandwich, peri and a block with a norm on its skip path and scales: a final norm follows.
Stack random_stack() {
  const LayerNorm norm(features);
  const FeedForward f(features, d_ff);
  return randomized(Stack({evenkeel::PostNorm(norm, f), evenkeel::PlainResidual<LayerNorm, FeedForward>(f),
                           Block(f, {.in = norm, .trunk = norm}), Block(f, {.in = norm, .branch = norm}),
                           Block(f, {.skip = norm}, {.alpha = 1.5, .lambda = -0.75}), evenkeel::PreNorm(norm, f)}));
}

/// The stack as the oracle computes it, from x and the parameters.
auto oracle_of(const Stack& stack, const std::map<std::string, std::size_t>& index) {
  return [&stack, index](const auto& in) {
    using Vector = std::remove_cvref_t<decltype(in[0])>;
    using T = typename Vector::value_type;
    const auto at = [&](const std::string& path) { return in[index.at(path)]; };
    const auto norm = [&](const std::string& path) {
      return [gamma = at(path + ".gamma"), beta = at(path + ".beta")](const Vector& v) {
        return oracle::layer_norm(v, rows, features, gamma, beta, 1e-5);
      };
    };
    Vector stream = in[0];
    for (std::size_t i = 0; i < stack.blocks().size(); ++i) {
      const std::string path = "blocks." + std::to_string(i) + ".";
      const Block& block = stack.blocks()[i];
      oracle::Residual<T> residual{.sublayer = [&](const Vector& v) {
        return oracle::feed_forward(v, rows, features, d_ff, at(path + "sublayer.up.weight"),
                                    at(path + "sublayer.up.bias"), at(path + "sublayer.down.weight"),
                                    at(path + "sublayer.down.bias"));
      }};
      if (block.norms().in) residual.norm_in = norm(path + "norm_in");
      if (block.norms().branch) residual.norm_branch = norm(path + "norm_branch");
      if (block.norms().skip) residual.norm_skip = norm(path + "norm_skip");
      if (block.norms().trunk) residual.norm_trunk = norm(path + "norm_trunk");
      residual.alpha = T(block.settings().alpha);
      residual.lambda = {T(block.settings().lambda.initial())};
      stream = residual(stream);
    }
    return norm("final_norm")(stream);
  };
}

TensorView<double> matrix(std::vector<double>& values) { return {values.data(), {rows, features}}; }
TensorView<const double> matrix(const std::vector<double>& values) { return {values.data(), {rows, features}}; }

/// Errors are measured by the largest entry.
template <class Got>
testing::AssertionResult near(const Got& got, const Reals& expected, double ulps) {
  return within_ulp(got, expected, ulps, {oracle::largest_magnitude(expected)});
}

class StackGradient : public testing::Test {
 protected:
  const std::vector<double> x = normal_vector<double>(size, 1), dy = normal_vector<double>(size, 2);
  Stack stack = random_stack();
};

TEST_F(StackGradient, OfEveryParameterOfSixMixedBlocksMatchesDualNumbers) {
  const NamedInputs inputs = named_inputs(x, stack);
  const auto formula = oracle_of(stack, inputs.index);
  Stack::Saved saved;
  std::vector<double> y(size), inference(size), dx(size);
  stack.forward_into(matrix(x), matrix(y), saved);
  stack.backward_into(matrix(dy), saved, matrix(dx));
  std::as_const(stack).forward_into(matrix(x), matrix(inference));
  EXPECT_TRUE(near(y, formula(inputs.values), 8));          // measured: 1.9
  EXPECT_TRUE(near(inference, formula(inputs.values), 8));  // measured: 1.9
  const auto expected = [&](const std::string& of) {
    return gradient(inputs.values, inputs.index.at(of), formula, oracle::widen(dy));
  };
  EXPECT_TRUE(near(dx, expected("x"), 16));  // measured: 3.6
  int parameters = 0;
  for_each_parameter(stack, [&](const std::string& path, const auto& parameter) {
    EXPECT_TRUE(near(parameter.gradient(), expected(path), 128)) << path;  // measured: 29.3
    ++parameters;
  });
  EXPECT_EQ(parameters, 6 * 4 + 7 * 2 + 2);
}

TEST_F(StackGradient, ManyThreadsRunInferenceOnOneConstStack) {
  using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Stack& shared = stack;
  const RowMatrix input = Eigen::Map<const RowMatrix>(x.data(), rows, features);
  const RowMatrix expected = shared.forward(input);
  constexpr int runs = 50;
  std::vector<RowMatrix> results(8 * runs);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::byte> memory(shared.workspace_bytes(evenkeel::Shape{rows, features}));
      for (std::size_t run = 0; run < runs; ++run) {
        const evenkeel::Context context{.workspace = run % 2 == 0 ? std::span(memory) : std::span<std::byte>()};
        results[t * runs + run] = shared.forward(input, context);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const RowMatrix& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace evenkeel_test
