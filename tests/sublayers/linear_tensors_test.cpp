// Tests of sublayers/linear.hpp: the tensors it takes, and its errors.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/core/eigen_tensor.hpp"
#include "evenkeel/sublayers/linear.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Index;
using evenkeel::TensorView;
using Linear = evenkeel::Linear<float>;
using RowMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowTensor = Eigen::Tensor<float, 3, Eigen::RowMajor>;

RowMatrix random_matrix(Index rows, Index columns, std::uint64_t seed) {
  const auto values = normal_vector<float>(static_cast<std::size_t>(rows * columns), seed);
  return Eigen::Map<const RowMatrix>(values.data(), rows, columns);
}

Linear random_linear(Index in, Index out) {
  Linear linear(in, out);
  linear.weight().load(normal_vector<float>(static_cast<std::size_t>(in * out), 100).data(), in * out);
  linear.bias().load(normal_vector<float>(static_cast<std::size_t>(out), 101).data(), out);
  return linear;
}

/// Not to the bit: those of Eigen's products depend on where a matrix lies.
template <class X>
testing::AssertionResult near(const X& got, const RowMatrix& expected) {
  const std::vector<float> values(got.data(), got.data() + got.size());
  return within_ulp(values, std::vector<float>(expected.data(), expected.data() + expected.size()), 8,
                    {expected.cwiseAbs().maxCoeff()});
}

TEST(LinearTensors, TakesEveryTensorWithContiguousRows) {
  Linear linear = random_linear(4, 3);
  const auto x = random_matrix(6, 4, 12), dy = random_matrix(6, 3, 13);
  Linear::Saved saved;
  const RowMatrix y = linear.forward(x, saved), dx = linear.backward(dy, saved);

  const Eigen::TensorMap<const RowTensor> x3(x.data(), 2, 3, 4), dy3(dy.data(), 2, 3, 3);
  const RowTensor y3 = linear.forward(x3, saved);
  EXPECT_TRUE(near(y3, y));
  EXPECT_TRUE(near(linear.backward(dy3, saved), dx));

  RowMatrix wide_x = RowMatrix::Constant(8, 11, 99), wide_y = wide_x, wide_dy = wide_x, wide_dx = wide_x;
  wide_x.block(1, 5, 6, 4) = x, wide_dy.block(1, 2, 6, 3) = dy;
  const auto x_block = wide_x.block(1, 5, 6, 4);
  linear.forward_into(x_block, wide_y.block(2, 1, 6, 3), saved);
  linear.backward_into(wide_dy.block(1, 2, 6, 3), saved, wide_dx.block(0, 7, 6, 4));
  EXPECT_TRUE(near(RowMatrix(wide_y.block(2, 1, 6, 3)), y));
  EXPECT_TRUE(near(RowMatrix(wide_dx.block(0, 7, 6, 4)), dx));
  wide_y.block(2, 1, 6, 3).setConstant(99), wide_dx.block(0, 7, 6, 4).setConstant(99);
  EXPECT_TRUE((wide_y.array() == 99).all() && (wide_dx.array() == 99).all()) << "elements around a block";

  std::vector<float> plain_y(18);
  linear.forward_into(TensorView<const float>(x.data(), {2, 3, 4}), TensorView<float>(plain_y.data(), {2, 3, 3}));
  EXPECT_TRUE(near(Eigen::Map<const RowMatrix>(plain_y.data(), 6, 3), y));
}

TEST(LinearTensors, TakesAVectorAsOneRow) {
  Linear linear = random_linear(4, 3);
  const auto x = random_matrix(1, 4, 14), dy = random_matrix(1, 3, 15);
  Linear::Saved saved;
  const RowMatrix y = linear.forward(x, saved), dx = linear.backward(dy, saved);
  const Eigen::VectorXf x_vector = x.row(0), dy_vector = dy.row(0);
  EXPECT_TRUE(near(linear.forward(x_vector, saved), y));
  EXPECT_TRUE(near(linear.backward(dy_vector, saved), dx));
}

// ---------------------------------------------------------------- errors

class LinearError : public testing::Test {
 protected:
  LinearError() : x(random_matrix(3, 4, 1)), y(RowMatrix::Constant(3, 2, 7)), dy(y) {}

  /// A backward whose dx is refused; nothing may have been added anywhere.
  template <class DX>
  std::string backward_error(const RowMatrix& upstream, DX&& dx) {
    linear.forward_into(x, y, saved);
    const std::string text = error_text<std::invalid_argument>([&] { linear.backward_into(upstream, saved, dx); });
    EXPECT_FALSE(linear.weight().has_gradient());
    EXPECT_FALSE(linear.bias().has_gradient());
    return text;
  }

  Linear linear = random_linear(4, 2);
  Linear::Saved saved;
  RowMatrix x, y, dy;
};

TEST_F(LinearError, NamesTheLastAxisOfX) {
  const RowMatrix wrong(3, 5);
  const std::string text = "evenkeel::Linear::forward: last axis of x has 5 elements, expected 4 (x has shape [3, 5])";
  EXPECT_EQ(error_text<std::invalid_argument>([&] { linear.forward(wrong); }), text);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { linear.forward(wrong, saved); }), text);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { linear.forward_into(wrong, y); }), text);
}

TEST_F(LinearError, NamesTheShapeOfYAndWritesNothing) {
  RowMatrix wrong = RowMatrix::Constant(3, 4, 7);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { linear.forward_into(x, wrong); }),
            "evenkeel::Linear::forward: y has shape [3, 4], expected [3, 2] (the shape of the output)");
  EXPECT_TRUE((wrong.array() == 7).all());
}

TEST_F(LinearError, RefusesFeaturesThatAreNotContiguous) {
  const Eigen::MatrixXf columns = x;
  EXPECT_TRUE(error_text<std::invalid_argument>([&] { linear.forward_into(columns, y); })
                  .starts_with("evenkeel::Linear::forward: x has stride 3 between the elements of axis 1, expected "
                               "contiguous elements along the "));
  Eigen::MatrixXf column_y = Eigen::MatrixXf::Constant(3, 2, 7);
  EXPECT_TRUE(error_text<std::invalid_argument>([&] {
                linear.forward_into(x, column_y);
              }).starts_with("evenkeel::Linear::forward: y has stride 3 between the elements of axis 1"));
  EXPECT_TRUE((y.array() == 7).all() && (column_y.array() == 7).all());
}

TEST_F(LinearError, RefusesYThatOverlapsX) {
  Linear square(4, 4);
  const std::string text = "evenkeel::Linear::forward: y overlaps x in memory, expected memory of its own";
  EXPECT_EQ(error_text<std::invalid_argument>([&] { square.forward_into(x, x); }), text);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { square.forward_into(x, x, saved); }), text);
  EXPECT_EQ(x, random_matrix(3, 4, 1));
}

TEST_F(LinearError, ABackwardNeedsAForward) {
  const std::string text = "evenkeel::Linear::backward: saved is empty, expected the Saved of a forward(x, saved) call";
  EXPECT_EQ(error_text<std::logic_error>([&] { linear.backward(dy, saved); }), text);
  EXPECT_EQ(error_text<std::logic_error>([&] { linear.backward_into(dy, saved, {}); }), text);
}

TEST_F(LinearError, NamesTheShapeOfDyAndDx) {
  RowMatrix dx(3, 4), wrong(3, 2);
  EXPECT_EQ(backward_error(random_matrix(2, 2, 1), dx),
            "evenkeel::Linear::backward: dy has shape [2, 2], expected [3, 2] (the shape of the output)");
  EXPECT_EQ(backward_error(dy, wrong),
            "evenkeel::Linear::backward: dx has shape [3, 2], expected [3, 4] (the shape of x)");
}

TEST_F(LinearError, RefusesDxThatOverlapsXOrDy) {
  EXPECT_EQ(backward_error(dy, x), "evenkeel::Linear::backward: dx overlaps x in memory, expected memory of its own");
  std::vector<float> memory(20);
  const TensorView<float> dx(memory.data() + 2, {3, 4});
  linear.forward_into(x, y, saved);
  EXPECT_EQ(error_text<std::invalid_argument>([&] {
              linear.backward_into(TensorView<const float>(memory.data(), {3, 2}), saved, dx);
            }),
            "evenkeel::Linear::backward: dx overlaps dy in memory, expected memory of its own");
  EXPECT_FALSE(linear.weight().has_gradient());
}

TEST_F(LinearError, AFailedForwardLeavesTheSavedAsItWas) {
  linear.forward_into(x, y, saved);
  const auto dx = linear.backward(dy, saved);
  const RowMatrix wrong(2, 5);
  EXPECT_THROW(linear.forward(wrong, saved), std::invalid_argument);
  EXPECT_TRUE(near(linear.backward(dy, saved), dx));
}

}  // namespace
}  // namespace evenkeel_test
