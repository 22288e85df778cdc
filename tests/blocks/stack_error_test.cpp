// Tests of blocks/stack.hpp: what is refused, with which message; other kinds of tensor; and cases that broke other
// libraries.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/blocks/plain_residual.hpp"
#include "evenkeel/blocks/post_norm.hpp"
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/blocks/stack.hpp"
#include "evenkeel/core/eigen_tensor.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/sublayers/function_sublayer.hpp"
#include "support/matrix.hpp"
#include "support/random.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Context;
using evenkeel::Index;
using evenkeel::PostNorm;
using evenkeel::PreNorm;
using evenkeel::Shape;
using evenkeel::TensorView;
using LayerNorm = evenkeel::LayerNorm<double>;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Row = Eigen::RowVectorXd;

constexpr Index rows = 4, features = 5;

/// y = factor * x, but for an x of `forbidden` elements.
struct Times {
  double factor = 1;
  Index forbidden = -1;
  template <class X>
  auto operator()(const X& x) const {
    if (x.size() == forbidden) throw std::runtime_error("F has failed");
    return x * factor;
  }
  template <class DY, class X>
  auto operator()(const DY& dy, const X&) const {
    return dy * factor;
  }
};
using Sublayer = evenkeel::FunctionSublayer<Times, Times>;
using Block = evenkeel::Residual<LayerNorm, Sublayer>;
using PlainResidual = evenkeel::PlainResidual<LayerNorm, Sublayer>;
using Stack = evenkeel::Stack<LayerNorm, Sublayer>;

Sublayer times(double factor, Index forbidden = -1) {
  return evenkeel::sublayer(Times{factor, forbidden}, Times{factor, forbidden});
}

Matrix random_matrix(std::uint64_t seed, Index matrix_rows = rows) {
  return normal_matrix<double>(matrix_rows, features, seed);
}

testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
}

/// A stack after a training forward: without a norm anywhere, with a final norm, and of Post-Norm blocks.
class StackError : public testing::Test {
 protected:
  template <class Check>
  void for_every_stack(const Check& check) {
    const LayerNorm n(features);
    const std::vector<std::pair<const char*, Stack>> stacks = {
        {"plain", Stack({PlainResidual(times(2)), PlainResidual(times(-3))})},
        {"pre-norm", Stack({PreNorm(n, times(2)), PreNorm(n, times(-3))})},
        {"post-norm", Stack({PostNorm(n, times(2)), PostNorm(n, times(-3))})}};
    for (const auto& [name, made] : stacks) {
      SCOPED_TRACE(name);
      Stack stack = made;
      Stack::Saved saved;
      stack.forward(x, saved);
      check(stack, saved);
      for_each_parameter(stack, [](const std::string& path, const auto& parameter) {
        EXPECT_FALSE(parameter.has_gradient()) << path << " was added to before the error";
      });
    }
  }

  Matrix x = random_matrix(1);
  const Matrix dy = random_matrix(2);
};

TEST_F(StackError, ABackwardWithoutAForward) {
  for_every_stack([&](Stack& stack, Stack::Saved&) {
    const Stack::Saved empty;
    Matrix dx(rows, features);
    const std::string text =
        "evenkeel::Stack::backward: saved is empty, expected the Saved of a forward(x, saved) call";
    EXPECT_EQ(error_text<std::logic_error>([&] { stack.backward(dy, empty); }), text);
    EXPECT_EQ(error_text<std::logic_error>([&] { stack.backward_into(dy, empty, dx); }), text);
  });
}

TEST_F(StackError, AYOfAnotherShapeOrOrderOrOverX) {
  for_every_stack([&](Stack& stack, Stack::Saved& saved) {
    Matrix y = Matrix::Constant(rows - 1, features, 7);
    Eigen::MatrixXd columns = Eigen::MatrixXd::Constant(rows, features, 7);
    const std::string where = "evenkeel::Stack::forward: ";
    const std::string shape = where + "y has shape [3, 5], expected [4, 5] (the shape of x)";
    const std::string order =
        where + "y is column-major, expected row-major as x is (copy into a tensor of that order first)";
    const std::string overlap = where + "y overlaps x in memory, expected memory of its own";
    EXPECT_EQ(error_text<std::invalid_argument>([&] { stack.forward_into(x, y); }), shape);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { stack.forward_into(x, y, saved); }), shape);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { stack.forward_into(x, columns); }), order);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { stack.forward_into(x, columns, saved); }), order);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { stack.forward_into(x, x); }), overlap);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { stack.forward_into(x, x, saved); }), overlap)
        << "training in place";
    EXPECT_TRUE((y.array() == 7).all() && (columns.array() == 7).all());
    EXPECT_EQ(x, random_matrix(1));
  });
}

TEST_F(StackError, ADyOfAnotherShapeOrOrder) {
  for_every_stack([&](Stack& stack, Stack::Saved& saved) {
    const Eigen::MatrixXd columns = dy;
    EXPECT_EQ(error_text<std::invalid_argument>([&] { stack.backward(random_matrix(3, 6), saved); }),
              "evenkeel::Stack::backward: dy has shape [6, 5], expected [4, 5] (the shape of the x that was saved)");
    EXPECT_TRUE(contains(error_text<std::invalid_argument>([&] { stack.backward(columns, saved); }),
                         "dy is column-major, expected row-major"));
  });
}

TEST_F(StackError, ADxOfAnotherShapeOrOrder) {
  for_every_stack([&](Stack& stack, Stack::Saved& saved) {
    std::vector<double> memory(100, 7);  // behind the two rows too
    const TensorView<double> wrong(memory.data(), {2, features});
    Eigen::MatrixXd columns = Eigen::MatrixXd::Constant(rows, features, 7);
    EXPECT_TRUE(contains(error_text<std::invalid_argument>([&] { stack.backward_into(dy, saved, wrong); }),
                         "dx has shape [2, 5], expected [4, 5]"));
    EXPECT_TRUE(contains(error_text<std::invalid_argument>([&] { stack.backward_into(dy, saved, columns); }),
                         "dx is column-major, expected row-major"));
    EXPECT_EQ(memory, std::vector<double>(100, 7));
    EXPECT_TRUE((columns.array() == 7).all());
  });
}

TEST_F(StackError, AnXWithGapsBetweenItsFeatures) {
  std::vector<double> memory = normal_vector<double>(100, 5);
  using Strided = Eigen::Map<Matrix, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;
  const Strided gaps(memory.data(), rows, features, {16, 2});
  const std::string text = "has stride 2 between the elements of axis 1";
  for_every_stack([&](Stack& stack, Stack::Saved&) {
    Stack::Saved other;
    EXPECT_TRUE(contains(error_text<std::invalid_argument>([&] { stack.forward(gaps); }), text));
    EXPECT_TRUE(contains(error_text<std::invalid_argument>([&] { stack.forward(gaps, other); }), text));
  });
}

/// Norms take such a dy as it is; sums and sublayers refuse it.
TEST_F(StackError, ADyWithGapsBetweenItsFeatures) {
  std::vector<double> memory = normal_vector<double>(100, 5);
  using Strided = Eigen::Map<Matrix, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;
  const Strided gaps(memory.data(), rows, features, {16, 2});
  const Matrix dense = gaps;
  const LayerNorm n(features);
  for (Stack stack : {Stack({PreNorm(n, times(2))}), Stack({PostNorm(n, times(2))})}) {
    Stack::Saved saved;
    stack.forward(x, saved);
    Matrix dx;
    const std::string text = error_text_if_any<std::invalid_argument>([&] { dx = stack.backward(gaps, saved); });
    if (text.empty()) {
      EXPECT_TRUE(dx.isApprox(stack.backward(dense, saved), 1e-14));
    } else {
      EXPECT_TRUE(contains(text, "has stride 2 between the elements of axis 1"));
    }
  }
}

TEST_F(StackError, AWorkspaceThatIsTooSmall) {
  for_every_stack([&](Stack& stack, Stack::Saved& saved) {
    const std::size_t bytes = stack.workspace_bytes(Shape{rows, features});
    std::vector<std::byte> memory(bytes - 1);
    const Context context{.workspace = memory};
    const std::string sizes =
        "workspace has " + std::to_string(bytes - 1) + " bytes, expected at least " + std::to_string(bytes);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { stack.forward(x, context); }),
              "evenkeel::Stack::forward: " + sizes);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { stack.backward(dy, saved, context); }),
              "evenkeel::Stack::backward: " + sizes);
  });
}

/// Whether the failed call has emptied the Saved or left it as it was, a backward must not mix two forwards.
TEST_F(StackError, ASavedAfterAForwardThatFailed) {
  const LayerNorm n(features);
  for (const std::size_t failing : {0, 1}) {
    const Index tall = 50;
    std::vector<Block> blocks = {PreNorm(n, times(2)), PreNorm(n, times(-3))};
    blocks[failing].sublayer() = times(2, tall * features);
    Stack stack(blocks);
    Stack::Saved saved;
    stack.forward(x, saved);
    const Matrix dx = stack.backward(dy, saved);
    EXPECT_THROW(stack.forward(random_matrix(6, tall), saved), std::runtime_error);
    try {
      EXPECT_EQ(stack.backward(dy, saved), dx) << "block " << failing;
    } catch (const std::logic_error&) {
    }
  }
}

// ---------------------------------------------------------------- kinds of tensor

/// Inference, training and backward of another kind of tensor, whose elements lie as those of x lie.
template <class X>
void expect_the_same(Stack stack, Stack other, const Matrix& x, const X& other_x, const Matrix& dy, const X& other_dy) {
  Stack::Saved saved, other_saved;
  const auto values = [](const auto& m) { return std::vector<double>(m.data(), m.data() + m.size()); };
  EXPECT_EQ(values(std::as_const(other).forward(other_x)), values(stack.forward(x, saved)));
  EXPECT_EQ(values(other.forward(other_x, other_saved)), values(stack.forward(x)));
  EXPECT_EQ(values(other.backward(other_dy, other_saved)), values(stack.backward(dy, saved)));
}

TEST(StackTensors, AreOfAnyRankAndEitherOrder) {
  const Matrix x = random_matrix(1), dy = random_matrix(2);
  const LayerNorm last(features), first(features, {.axis = evenkeel::features_first});
  const Stack stack({PreNorm(last, times(2)), PostNorm(last, times(-3)), PreNorm(last, times(0.5))});
  const Stack columns({PreNorm(first, times(2)), PostNorm(first, times(-3)), PreNorm(first, times(0.5))});
  using RowTensor = Eigen::Tensor<double, 3, Eigen::RowMajor>;
  const RowTensor x3 = Eigen::TensorMap<const RowTensor>(x.data(), 2, 2, features);
  const RowTensor dy3 = Eigen::TensorMap<const RowTensor>(dy.data(), 2, 2, features);
  expect_the_same(stack, stack, x, x3, dy, dy3);
  expect_the_same<Eigen::MatrixXd>(stack, columns, x, x.transpose(), dy, dy.transpose());
  Matrix wide = Matrix::Constant(rows, 9, 77);
  wide.middleCols(2, features) = x;
  Stack::Saved saved;
  EXPECT_EQ(Stack(stack).forward(wide.middleCols(2, features), saved), stack.forward(x));
  stack.forward_into(x, wide.middleCols(2, features));
  EXPECT_EQ(wide.middleCols(2, features), stack.forward(x));
  EXPECT_TRUE((wide.leftCols(2).array() == 77).all() && (wide.rightCols(2).array() == 77).all());
}

// ---------------------------------------------------------------- cases that broke other libraries

double deviation_of(const Row& row) { return std::sqrt((row.array() - row.mean()).square().mean()); }

TEST(StackCases, APreNormStackEndsWithANorm) {  // B95
  const Block block = PreNorm(LayerNorm(4), times(0));
  const Row x{{1, 2, 3, 4}}, normalized{{-1.3416354, -0.4472118, 0.4472118, 1.3416354}};
  EXPECT_EQ(Stack({block, block, block}, std::nullopt).forward(x), x);
  EXPECT_TRUE(Stack({block, block, block}).forward(x).isApprox(normalized, 1e-7));
}

TEST(StackCases, APostNormStackHasNoSecondNormAtItsEnd) {  // B96
  LayerNorm last(4);
  last.gamma() = evenkeel::Parameter<double>(Shape{4}, 3);
  const Block block = PostNorm(LayerNorm(4), times(0));
  const Stack stack({block, block, block, PostNorm(last, times(0))});
  int gammas = 0;
  for_each_parameter(stack, [&](const std::string& path, const auto&) { gammas += path.ends_with("gamma"); });
  EXPECT_EQ(gammas, 4);
  EXPECT_NEAR(deviation_of(stack.forward(Row{{1, 2, 3, 4}})), 3, 1e-4);
}

TEST(StackCases, APostNormStreamGoesOnFromTheNormalizedSum) {  // B98
  LayerNorm first(4);
  first.gamma() = evenkeel::Parameter<double>(Shape{4}, 3);
  const LayerNorm norm(4);
  Stack stack({PostNorm(first, times(0)), PostNorm(norm, times(0))});
  Stack::Saved saved;
  const Row x{{1, 2, 3, 5}};
  EXPECT_EQ(stack.forward(x, saved), norm.forward(first.forward(x)));
  const Row second_input = Eigen::Map<const Row>(saved.stream(0).data(), 4);
  EXPECT_NEAR(deviation_of(second_input), 3, 1e-4);
}

TEST(StackCases, AnIdleStackPassesGradientsUnchanged) {  // B97, through a stack
  const Block block = PreNorm(LayerNorm(features), times(0));
  Stack stack({block, block, block}, std::nullopt);
  Stack::Saved saved;
  const Matrix x = random_matrix(1), dy = random_matrix(2);
  EXPECT_EQ(stack.forward(x, saved), x);
  EXPECT_EQ(stack.backward(dy, saved), dy);
}

}  // namespace
}  // namespace evenkeel_test
