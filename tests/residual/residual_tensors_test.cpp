// Tests of residual/residual.hpp: every kind of tensor, in either storage order. F is y = x^2, and all norms are there.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "evenkeel/core/eigen_tensor.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/residual/residual.hpp"
#include "evenkeel/sublayers/function_sublayer.hpp"
#include "support/matrix.hpp"
#include "support/random.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Context;
using evenkeel::Index;
using evenkeel::Parameter;
using evenkeel::TensorView;
using LayerNorm = evenkeel::LayerNorm<double>;
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ColumnMatrix = Eigen::MatrixXd;
template <int Order>
using Tensor3 = Eigen::Tensor<double, 3, Order>;

constexpr Index rows = 6, features = 5;

/// y = x^2 for whatever has coefficients.
struct Square {
  template <class X>
  auto operator()(const X& x) const {
    if constexpr (requires { x.cwiseAbs2(); }) {
      return x.cwiseAbs2();
    } else {
      return x.square();  // arrays and tensors
    }
  }
};
struct SquareBackward {
  template <class DY, class X>
  auto operator()(const DY& dy, const X& x) const {
    if constexpr (requires { x.cwiseProduct(dy); }) {
      return 2 * x.cwiseProduct(dy);
    } else {
      return dy * x * 2.0;
    }
  }
};
using Block = evenkeel::Residual<LayerNorm, evenkeel::FunctionSublayer<Square, SquareBackward>>;

Block random_block(int axis) {
  const LayerNorm norm(features, {.axis = axis});
  Block block(evenkeel::sublayer(Square(), SquareBackward()), {.in = norm, .branch = norm, .skip = norm, .trunk = norm},
              {.alpha = 1.25, .lambda = -0.5});
  std::uint64_t seed = 100;
  for_each_parameter(block, [&](const std::string&, Parameter<double>& parameter) {
    parameter.load(normal_vector<double>(features, seed++).data(), features);
  });
  return block;
}

RowMatrix random_matrix(std::uint64_t seed) { return normal_matrix<double>(rows, features, seed); }

class ResidualTensors : public testing::Test {
 protected:
  ResidualTensors() {
    y = block.forward(x, saved);
    dx = block.backward(dy, saved);
  }

  /// Inference, training and backward over another kind of tensor, whose elements lie as those of x lie.
  template <class X, class DY>
  void expect_the_same(const X& other_x, const DY& other_dy, int axis = evenkeel::features_last) {
    Block other = random_block(axis);
    Block::Saved other_saved;
    expect_elements(other.forward(other_x), y);
    expect_elements(other.forward(other_x, other_saved), y);
    expect_elements(other.backward(other_dy, other_saved), dx);
    std::vector<double> gradients, expected;
    for_each_parameter(other, [&](auto, const auto& p) {
      gradients.insert(gradients.end(), p.gradient().begin(), p.gradient().end());
    });
    for_each_parameter(
        block, [&](auto, const auto& p) { expected.insert(expected.end(), p.gradient().begin(), p.gradient().end()); });
    EXPECT_EQ(gradients, expected);
  }
  /// The elements of `got` in the order of its memory are those of `expected` in its.
  template <class X>
  static void expect_elements(const X& got, const RowMatrix& expected) {
    EXPECT_EQ(std::vector<double>(got.data(), got.data() + got.size()),
              std::vector<double>(expected.data(), expected.data() + expected.size()));
  }

  const RowMatrix x = random_matrix(1), dy = random_matrix(2);
  Block block = random_block(evenkeel::features_last);
  Block::Saved saved;
  RowMatrix y, dx;
};

TEST_F(ResidualTensors, MapsRefsAndArrays) {
  expect_the_same(Eigen::Map<const RowMatrix>(x.data(), rows, features), Eigen::Ref<const RowMatrix>(dy));
  using RowArray = Eigen::Array<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const RowArray x_array = x, dy_array = dy;
  expect_the_same(x_array, dy_array);
}

TEST_F(ResidualTensors, MatricesOfFixedSize) {
  using Fixed = Eigen::Matrix<double, rows, features, Eigen::RowMajor>;
  expect_the_same(Fixed(x), Fixed(dy));
}

TEST_F(ResidualTensors, ColumnMajorMatricesWithATokenInEachColumn) {
  const ColumnMatrix tokens = x.transpose(), dtokens = dy.transpose();  // [features, tokens]: the same memory as x
  expect_the_same(tokens, dtokens, evenkeel::features_first);
  expect_the_same(x.transpose(), dy.transpose(), evenkeel::features_first);
}

TEST_F(ResidualTensors, TensorsOfRankThree) {
  using RowTensor = Tensor3<Eigen::RowMajor>;
  const Eigen::TensorMap<const RowTensor> x_map(x.data(), 2, 3, features), dy_map(dy.data(), 2, 3, features);
  const RowTensor x_tensor = x_map, dy_tensor = dy_map;
  expect_the_same(x_map, dy_map);
  expect_the_same(x_tensor, dy_tensor);
}

TEST_F(ResidualTensors, ColumnMajorTensorsOfRankThree) {
  using ColumnTensor = Tensor3<Eigen::ColMajor>;
  const Eigen::TensorMap<const ColumnTensor> x_map(x.data(), features, 3, 2), dy_map(dy.data(), features, 3, 2);
  const ColumnTensor x_tensor = x_map, dy_tensor = dy_map;
  expect_the_same(x_tensor, dy_tensor, evenkeel::features_first);
}

TEST_F(ResidualTensors, AVectorIsOneToken) {
  Block other = random_block(evenkeel::features_last);
  Block::Saved other_saved;
  const Eigen::VectorXd token = x.row(3), dtoken = dy.row(3);
  EXPECT_EQ(Eigen::RowVectorXd(other.forward(token)), y.row(3));
  EXPECT_EQ(Eigen::RowVectorXd(other.forward(token, other_saved)), y.row(3));
  EXPECT_EQ(Eigen::RowVectorXd(other.backward(dtoken, other_saved)), dx.row(3));
}

TEST_F(ResidualTensors, BlocksWithStridesOfTheirOwn) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  RowMatrix wide_x = RowMatrix::Constant(8, 11, nan), wide_dy = RowMatrix::Constant(7, 9, nan);
  RowMatrix wide_y = RowMatrix::Constant(7, 8, 77), wide_dx = RowMatrix::Constant(9, 6, 77);
  wide_x.block(1, 2, rows, features) = x, wide_dy.block(1, 3, rows, features) = dy;
  const auto x_block = wide_x.block(1, 2, rows, features);
  block.forward_into(x_block, wide_y.block(1, 2, rows, features), saved);
  block.backward_into(wide_dy.block(1, 3, rows, features), saved, wide_dx.block(2, 1, rows, features));
  EXPECT_EQ(wide_y.block(1, 2, rows, features), y);
  EXPECT_EQ(wide_dx.block(2, 1, rows, features), dx);
  std::as_const(block).forward_into(x_block, wide_y.block(0, 0, rows, features));
  EXPECT_EQ(wide_y.block(0, 0, rows, features), y);
  wide_y.block(0, 0, rows, features).setConstant(77), wide_y.block(1, 2, rows, features).setConstant(77);
  wide_dx.block(2, 1, rows, features).setConstant(77);
  EXPECT_TRUE((wide_y.array() == 77).all() && (wide_dx.array() == 77).all()) << "elements around a block";
}

TEST_F(ResidualTensors, ColumnMajorBlocksWithStridesOfTheirOwn) {
  Block other = random_block(evenkeel::features_first);
  Block::Saved other_saved;
  ColumnMatrix wide_x = ColumnMatrix::Zero(9, 8), wide_dx = ColumnMatrix::Constant(7, 9, 77);
  wide_x.block(2, 1, features, rows) = x.transpose();
  const auto x_block = wide_x.block(2, 1, features, rows);
  EXPECT_EQ(other.forward(x_block, other_saved), y.transpose());
  other.backward_into(ColumnMatrix(dy.transpose()), other_saved, wide_dx.block(1, 2, features, rows));
  EXPECT_EQ(wide_dx.block(1, 2, features, rows), dx.transpose());
  wide_dx.block(1, 2, features, rows).setConstant(77);
  EXPECT_TRUE((wide_dx.array() == 77).all()) << "elements around a block";
}

TEST_F(ResidualTensors, HalvesOfColumnMajorMatrices) {
  Block other = random_block(evenkeel::features_first);
  Block::Saved other_saved;
  const ColumnMatrix tokens = x.transpose(), dtokens = dy.transpose();
  ColumnMatrix dtokens_x(features, rows);
  const auto entered = other.enter(tokens, other_saved);
  EXPECT_EQ(other.leave(tokens, ColumnMatrix(entered.cwiseAbs2()), other_saved), y.transpose());
  const ColumnMatrix df = other.leave_backward(dtokens, other_saved, dtokens_x);
  other.enter_backward(ColumnMatrix(2 * entered.cwiseProduct(df)), other_saved, dtokens_x);
  EXPECT_EQ(dtokens_x, dx.transpose());
}

/// Views need no Eigen, and a sublayer that writes where it is told to.
struct SquareInto {
  struct Saved {
    TensorView<const double> x;
  };
  void forward_into(const TensorView<const double>& x, const TensorView<double>& y, const Context&) const {
    for (Index i = 0; i < x.size(); ++i) y.data()[i] = x.data()[i] * x.data()[i];
  }
  void forward_into(const TensorView<const double>& x, const TensorView<double>& y, Saved& s, const Context& c) const {
    s.x = x;
    forward_into(x, y, c);
  }
  void backward_into(const TensorView<const double>& dy, const Saved& s, const evenkeel::TensorGradient<double>& dx,
                     const Context&) const {
    for (Index i = 0; i < dy.size(); ++i) dx.view().data()[i] = 2 * s.x.data()[i] * dy.data()[i];
  }
  std::size_t workspace_bytes(const evenkeel::Shape&) const { return 0; }
};

TEST_F(ResidualTensors, ViewsOfPlainPointers) {
  evenkeel::Residual<LayerNorm, SquareInto> other(SquareInto(), block.norms(), block.settings());
  decltype(other)::Saved other_saved;
  std::vector<double> other_y(rows * features), other_dx(rows * features);
  const evenkeel::Shape shape{2, 3, features};
  other.forward_into(TensorView<const double>(x.data(), shape), TensorView<double>(other_y.data(), shape), other_saved);
  other.backward_into(TensorView<const double>(dy.data(), shape), other_saved,
                      TensorView<double>(other_dx.data(), shape));
  expect_elements(other_y, y);
  expect_elements(other_dx, dx);
  std::as_const(other).forward_into(TensorView<const double>(x.data(), shape),
                                    TensorView<double>(other_dx.data(), shape));
  expect_elements(other_dx, y);
}

}  // namespace
}  // namespace evenkeel_test
