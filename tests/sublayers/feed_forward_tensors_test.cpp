// Tests of sublayers/feed_forward.hpp: the tensors and the workspace it takes, and its errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/core/eigen_tensor.hpp"
#include "evenkeel/sublayers/feed_forward.hpp"
#include "support/matrix.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"
#include "support/workspace.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Context;
using evenkeel::Index;
using evenkeel::Parameter;
using evenkeel::Shape;
using evenkeel::TensorView;
using FeedForward = evenkeel::FeedForward<double>;
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowTensor = Eigen::Tensor<double, 3, Eigen::RowMajor>;

FeedForward random_feed_forward() {
  FeedForward f(4, 6);
  std::uint64_t seed = 100;
  for_each_parameter(f, [&](const std::string&, Parameter<double>& parameter) {
    parameter.load(normal_vector<double>(static_cast<std::size_t>(parameter.size()), seed++).data(), parameter.size());
  });
  return f;
}

/// Not to the bit: those of Eigen's products depend on where a matrix lies.
template <class X>
testing::AssertionResult near(const X& got, const RowMatrix& expected) {
  const std::vector<double> values(got.data(), got.data() + got.size());
  return within_ulp(values, std::vector<double>(expected.data(), expected.data() + expected.size()), 8,
                    {expected.cwiseAbs().maxCoeff()});
}

testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
}

TEST(FeedForwardTensors, TakesTensorsOfRankThreeAndVectors) {
  FeedForward f = random_feed_forward();
  FeedForward::Saved saved;
  const RowMatrix x = normal_matrix<double>(6, 4, 1), dy = normal_matrix<double>(6, 4, 2);
  const RowMatrix y = f.forward(x, saved), dx = f.backward(dy, saved);

  const Eigen::TensorMap<const RowTensor> x3(x.data(), 2, 3, 4), dy3(dy.data(), 2, 3, 4);
  const RowTensor y3 = f.forward(x3, saved), dx3 = f.backward(dy3, saved);
  EXPECT_TRUE(near(y3, y));
  EXPECT_TRUE(near(dx3, dx));
  EXPECT_EQ(y3.dimension(0), 2);

  const Eigen::VectorXd x1 = x.row(2), dy1 = dy.row(2);
  EXPECT_TRUE(near(f.forward(x1, saved), y.row(2)));
  EXPECT_TRUE(near(f.backward(dy1, saved), dx.row(2)));
}

TEST(FeedForwardTensors, TakesBlocksWithStridesOfTheirOwn) {
  FeedForward f = random_feed_forward();
  FeedForward::Saved saved;
  const RowMatrix x = normal_matrix<double>(6, 4, 3), dy = normal_matrix<double>(6, 4, 4);
  const RowMatrix y = f.forward(x, saved), dx = f.backward(dy, saved);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  RowMatrix wide_x = RowMatrix::Constant(7, 9, nan), wide_dy = RowMatrix::Constant(7, 8, nan);
  RowMatrix wide_y = RowMatrix::Constant(8, 10, 7), wide_dx = RowMatrix::Constant(6, 5, 7);
  wide_x.block(1, 2, 6, 4) = x, wide_dy.block(0, 3, 6, 4) = dy;
  const auto x_block = wide_x.block(1, 2, 6, 4);
  f.forward_into(x_block, wide_y.block(1, 5, 6, 4), saved);
  f.backward_into(wide_dy.block(0, 3, 6, 4), saved, wide_dx.leftCols(4));
  EXPECT_TRUE(near(RowMatrix(wide_y.block(1, 5, 6, 4)), y));
  EXPECT_TRUE(near(RowMatrix(wide_dx.leftCols(4)), dx));
  wide_y.block(1, 5, 6, 4).setConstant(7);
  EXPECT_TRUE((wide_y.array() == 7).all() && (wide_dx.rightCols(1).array() == 7).all()) << "elements around a block";
}

TEST(FeedForwardTensors, ASavedServesOneShapeAfterAnother) {
  FeedForward f = random_feed_forward();
  FeedForward::Saved saved;
  for (const Index rows : {5, 2, 9, 1}) {
    FeedForward fresh = random_feed_forward();
    FeedForward::Saved fresh_saved;
    const RowMatrix x = normal_matrix<double>(rows, 4, 5), dy = normal_matrix<double>(rows, 4, 6);
    EXPECT_TRUE(near(f.forward(x, saved), fresh.forward(x, fresh_saved)));
    EXPECT_TRUE(near(f.backward(dy, saved), fresh.backward(dy, fresh_saved)));
  }
}

TEST(FeedForwardTensors, WorksWithoutRows) {
  FeedForward f = random_feed_forward();
  FeedForward::Saved saved;
  const RowMatrix x(0, 4);
  EXPECT_EQ(f.forward(x).rows(), 0);
  EXPECT_EQ(f.forward(x, saved).rows(), 0);
  EXPECT_EQ(f.backward(x, saved).cols(), 4);
  for_each_parameter(f, [&](const std::string& path, const auto& parameter) {
    ASSERT_TRUE(parameter.has_gradient()) << path;
    for (const double value : parameter.gradient()) EXPECT_EQ(value, 0) << path;
  });
}

TEST(FeedForwardTensors, NamesItsParametersInTheOrderOfTheirUse) {
  const FeedForward f(4, 6);
  FeedForward no_bias(4, 6, {.with_bias = false});
  std::vector<std::string> paths, without_bias;
  for_each_parameter(f, [&](const std::string& path, const auto&) { paths.push_back(path); });
  for_each_parameter(
      no_bias, [&](const std::string& path, const auto&) { without_bias.push_back(path); }, "f.");
  EXPECT_EQ(paths, (std::vector<std::string>{"up.weight", "up.bias", "down.weight", "down.bias"}));
  EXPECT_EQ(without_bias, (std::vector<std::string>{"f.up.weight", "f.down.weight"}));
}

TEST(FeedForwardTensors, TheDefaultIsTheExactGeluWithBias) {
  const FeedForward f = random_feed_forward();
  FeedForward gelu(4, 6, {.activation = evenkeel::Activation::gelu, .with_bias = true});
  gelu.up() = f.up(), gelu.down() = f.down();
  const RowMatrix x = normal_matrix<double>(3, 4, 7);
  EXPECT_TRUE(near(f.forward(x), gelu.forward(x)));
}

/// What took the temporary's memory since is not read for it.
TEST(FeedForwardTensors, ATemporaryIsMovedIntoSaved) {
  FeedForward f = random_feed_forward();
  FeedForward::Saved saved, viewing;
  const RowMatrix x = normal_matrix<double>(3, 4, 8), dy = normal_matrix<double>(3, 4, 9);
  f.forward(RowMatrix(x), saved);
  const std::vector<RowMatrix> others(8, dy);
  f.forward(x, viewing);
  EXPECT_TRUE(near(f.backward(dy, saved), f.backward(dy, viewing)));
}

TEST(FeedForwardTensors, WorksInAWorkspaceOfTheSizeItNamesAtAnyAddress) {
  FeedForward f = random_feed_forward(), other = f;
  FeedForward::Saved saved, other_saved;
  const RowMatrix x = normal_matrix<double>(3, 4, 8), dy = normal_matrix<double>(3, 4, 9);
  const std::size_t bytes = f.workspace_bytes(Shape{3, 4});
  const RowMatrix y = other.forward(x, other_saved), dx = other.backward(dy, other_saved);
  for (std::size_t offset = 0; offset < 64; offset += 7) {
    Workspace workspace(bytes, offset);
    const Context context = workspace.context();
    EXPECT_TRUE(near(f.forward(x, context), y));
    EXPECT_TRUE(near(f.forward(x, saved, context), y));
    EXPECT_TRUE(near(f.backward(dy, saved, context), dx));
    EXPECT_TRUE(workspace.is_fence_intact());
  }
}

// ---------------------------------------------------------------- errors

class FeedForwardError : public testing::Test {
 protected:
  void expect_no_gradient() const {
    for_each_parameter(f, [](const std::string& path, const auto& parameter) {
      EXPECT_FALSE(parameter.has_gradient()) << path << " was added to before the error";
    });
  }

  FeedForward f = random_feed_forward();
  FeedForward::Saved saved;
  RowMatrix x = normal_matrix<double>(3, 4, 1), y = RowMatrix::Constant(3, 4, 7), dy = normal_matrix<double>(3, 4, 2);
};

TEST_F(FeedForwardError, NamesTheShapeOfX) {
  const RowMatrix wrong(3, 5);
  const std::string text =
      "evenkeel::FeedForward::forward: x has shape [3, 5], expected [3, 4] (the shape of the input)";
  EXPECT_EQ(error_text<std::invalid_argument>([&] { f.forward(wrong); }), text);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { f.forward(wrong, saved); }), text);
}

TEST_F(FeedForwardError, NamesTheShapeOfYAndWritesNothing) {
  RowMatrix wrong = RowMatrix::Constant(2, 4, 7);
  const std::string text = "evenkeel::FeedForward::forward: y has shape [2, 4], expected [3, 4] (the shape of x)";
  EXPECT_EQ(error_text<std::invalid_argument>([&] { f.forward_into(x, wrong); }), text);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { f.forward_into(x, wrong, saved); }), text);
  EXPECT_TRUE((wrong.array() == 7).all());
}

TEST_F(FeedForwardError, RefusesFeaturesThatAreNotContiguous) {
  const Eigen::MatrixXd columns = x;
  EXPECT_THROW(f.forward_into(columns, y), std::invalid_argument);
  EXPECT_TRUE((y.array() == 7).all());
  Eigen::MatrixXd column_y = y;
  EXPECT_THROW(f.forward_into(x, column_y), std::invalid_argument);
  EXPECT_TRUE((column_y.array() == 7).all());
}

TEST_F(FeedForwardError, RefusesToTrainInPlace) {
  const RowMatrix before = x;
  EXPECT_THROW(f.forward_into(x, x, saved), std::invalid_argument) << "backward reads x again";
  EXPECT_EQ(x, before);
}

TEST_F(FeedForwardError, ABackwardNeedsAForward) {
  EXPECT_EQ(error_text<std::logic_error>([&] { f.backward(dy, saved); }),
            "evenkeel::FeedForward::backward: saved is empty, expected the Saved of a forward(x, saved) call");
}

TEST_F(FeedForwardError, ABackwardOfAnotherShapeAddsToNoGradient) {
  f.forward_into(x, y, saved);
  const RowMatrix other = normal_matrix<double>(2, 4, 3);
  EXPECT_TRUE(contains(error_text<std::invalid_argument>([&] { f.backward(other, saved); }),
                       "dy has shape [2, 4], expected [3, 4]"));
  expect_no_gradient();
}

TEST_F(FeedForwardError, ADxThatIsRefusedLeavesTheGradientsAlone) {
  f.forward_into(x, y, saved);
  RowMatrix wrong(3, 5);
  EXPECT_TRUE(contains(error_text<std::invalid_argument>([&] { f.backward_into(dy, saved, wrong); }),
                       "dx has shape [3, 5], expected [3, 4]"));
  EXPECT_TRUE(
      contains(error_text<std::invalid_argument>([&] { f.backward_into(dy, saved, x); }), "dx overlaps x in memory"));
  expect_no_gradient();
}

TEST_F(FeedForwardError, NamesTheSizeOfAWorkspaceThatIsTooSmall) {
  const std::size_t bytes = f.workspace_bytes(Shape{3, 4});
  std::vector<std::byte> memory(bytes - 1);
  const Context context{.workspace = memory};
  const std::string sizes =
      "workspace has " + std::to_string(bytes - 1) + " bytes, expected at least " + std::to_string(bytes);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { f.forward(x, context); }),
            "evenkeel::FeedForward::forward: " + sizes);
  f.forward_into(x, y, saved);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { f.backward(dy, saved, context); }),
            "evenkeel::FeedForward::backward: " + sizes);
  expect_no_gradient();
}

TEST_F(FeedForwardError, AFailedForwardDoesNotMixTwoShapes) {
  f.forward_into(x, y, saved);
  const RowMatrix dx = f.backward(dy, saved);
  const Eigen::MatrixXd columns = normal_matrix<double>(20, 4, 4);  // refused by the first of the two products
  RowMatrix column_y(20, 4);
  EXPECT_THROW(f.forward_into(columns, column_y, saved), std::invalid_argument);
  try {
    EXPECT_TRUE(near(f.backward(dy, saved), dx));
  } catch (const std::logic_error&) {  // an emptied Saved is as good
  }
}

}  // namespace
}  // namespace evenkeel_test
