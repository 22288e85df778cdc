// Tests of residual/residual.hpp with a mask: rows that are not valid pass on the skip path alone, and nothing of them
// reaches the sublayer or a gradient of a parameter in the branch.
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/residual/residual.hpp"
#include "evenkeel/sublayers/feed_forward.hpp"
#include "evenkeel/sublayers/function_sublayer.hpp"
#include "sublayers/attention_test.hpp"
#include "support/matrix.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Lambda;
using LayerNorm = evenkeel::LayerNorm<double>;
using FeedForward = evenkeel::FeedForward<double>;
using Block = evenkeel::Residual<LayerNorm, FeedForward>;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index rows = 5, features = 4;
const std::vector<std::uint8_t> flags = {1, 0, 1, 1, 0};
const std::vector<Index> valid = {0, 2, 3}, invalid = {1, 4};

Matrix random_matrix(std::uint64_t seed) { return normal_matrix<double>(rows, features, seed); }

Matrix pick(const Matrix& x, const std::vector<Index>& which) { return x(which, Eigen::all); }

evenkeel::ResidualNorms<LayerNorm> norms_of(int slots) {
  evenkeel::ResidualNorms<LayerNorm> norms;
  int bit = 1;
  for (auto* place : {&norms.in, &norms.branch, &norms.skip, &norms.trunk}) {
    if (slots & bit) place->emplace(features);
    bit *= 2;
  }
  return norms;
}

Block block_of(int slots, const Lambda<double>& lambda) {
  return randomized(
      Block(FeedForward(features, 6), norms_of(slots), {.alpha = 1.5, .lambda = lambda, .in_scale = 0.5}));
}

testing::AssertionResult equals(const Matrix& got, const Matrix& expected) {
  return within_ulp(std::vector<double>(got.data(), got.data() + got.size()),
                    std::vector<double>(expected.data(), expected.data() + expected.size()), 16,
                    {std::max(expected.cwiseAbs().maxCoeff(), 1.0)});
}

/// The gradient of a parameter, as a row.
Matrix gradient_of(const Block& block, const std::string& wanted) {
  Matrix gradient;
  for_each_parameter(block, [&](const std::string& path, const auto& parameter) {
    if (path != wanted) return;
    const auto values = parameter.gradient();
    gradient = Eigen::Map<const Matrix>(values.data(), 1, static_cast<Index>(values.size()));
  });
  return gradient;
}

/// One block computes all rows with a mask; a copy the valid rows alone; and a third, without its branch, the others.
void expect_masked(int slots, const Lambda<double>& lambda) {
  Block block = block_of(slots, lambda), of_valid = block, of_invalid = block;
  for (auto* linear : {&of_invalid.sublayer().up(), &of_invalid.sublayer().down()}) {
    *linear = evenkeel::Linear<double>(linear->in_features(), linear->out_features());
  }
  if (of_invalid.norms().branch) of_invalid.norms().branch = LayerNorm(features);  // of zeros: beta, which is 0
  const Matrix x = random_matrix(1), dy = random_matrix(2);
  const Matrix valid_x = pick(x, valid), invalid_x = pick(x, invalid);
  const Context context{.mask = flags};
  Block::Saved saved, valid_saved, invalid_saved;
  const Matrix y = block.forward(x, saved, context), dx = block.backward(dy, saved, context);
  const Matrix valid_y = of_valid.forward(valid_x, valid_saved),
               invalid_y = of_invalid.forward(invalid_x, invalid_saved);
  const Matrix valid_dx = of_valid.backward(pick(dy, valid), valid_saved);
  const Matrix invalid_dx = of_invalid.backward(pick(dy, invalid), invalid_saved);
  EXPECT_TRUE(equals(pick(y, valid), valid_y));
  EXPECT_TRUE(equals(pick(y, invalid), invalid_y));
  EXPECT_TRUE(equals(block.forward(x, context), y));
  EXPECT_TRUE(equals(pick(dx, valid), valid_dx));
  EXPECT_TRUE(equals(pick(dx, invalid), invalid_dx));
  for_each_parameter(of_valid, [&](const std::string& path, const auto&) {
    Matrix expected = gradient_of(of_valid, path);
    if (path.find("skip") != path.npos || path.find("trunk") != path.npos) expected += gradient_of(of_invalid, path);
    EXPECT_TRUE(equals(gradient_of(block, path), expected)) << path;
  });
}

TEST(ResidualMask, MaskedRowsPassOnTheSkipPathAlone) {
  for (int slots = 0; slots < 16; ++slots) {
    SCOPED_TRACE(slots);
    expect_masked(slots, 0.75);
    expect_masked(slots, Lambda<double>::learned_vector(features, 0.5));
  }
}

TEST(ResidualMask, PaddingMayBeNaN) {
  for (int slots = 0; slots < 4; ++slots) {
    SCOPED_TRACE(slots);
    Block block = block_of(slots, 0.75), other = block;
    const Context context{.mask = flags};
    Matrix x = random_matrix(1), dy = random_matrix(2), nan_x = x;
    for (const Index row : invalid) {
      nan_x.row(row).setConstant(std::numeric_limits<double>::quiet_NaN());
      dy.row(row).setZero();
    }
    Block::Saved saved, nan_saved;
    const Matrix y = block.forward(x, saved, context), nan_y = other.forward(nan_x, nan_saved, context);
    EXPECT_EQ(pick(nan_y, valid), pick(y, valid));
    EXPECT_EQ(pick(other.forward(nan_x, context), valid), pick(block.forward(x, context), valid));
    EXPECT_EQ(other.backward(dy, nan_saved), block.backward(dy, saved));
    for_each_parameter(block, [&](const std::string& path, const auto&) {
      EXPECT_EQ(gradient_of(other, path), gradient_of(block, path)) << path;
    });
  }
}

struct Square {
  template <class X>
  auto operator()(const X& x) const {
    return x.array().square().matrix();
  }
};
struct SquareBackward {
  template <class DY, class X>
  auto operator()(const DY& dy, const X& x) const {
    return 2 * x.cwiseProduct(dy);
  }
};

TEST(ResidualMask, IsForSublayersOfTheUsersAndColumnMajorTensorsToo) {
  using Columns = Eigen::MatrixXd;
  evenkeel::Residual<LayerNorm, evenkeel::FunctionSublayer<Square, SquareBackward>> block(
      evenkeel::sublayer(Square(), SquareBackward()));
  decltype(block)::Saved saved;
  const Columns x = random_matrix(1), dy = random_matrix(2);
  const Context context{.mask = flags};
  Columns expected = x + x.cwiseAbs2(), expected_dx = dy + 2 * x.cwiseProduct(dy);
  for (const Index row : invalid) expected.row(row) = x.row(row), expected_dx.row(row) = dy.row(row);
  EXPECT_TRUE(equals(block.forward(x, context), expected));
  EXPECT_TRUE(equals(block.forward(x, saved, context), expected));
  EXPECT_TRUE(equals(block.backward(dy, saved, context), expected_dx));
  const Columns entered = block.enter(x, context), left = block.leave(x, entered, context);
  EXPECT_TRUE((entered.row(1).array() == 0).all());
  EXPECT_EQ(left.row(1), x.row(1));
  block.forward(x, saved);
  EXPECT_TRUE(equals(block.backward(dy, saved), dy + 2 * x.cwiseProduct(dy))) << "a mask is of one forward";
}

TEST(ResidualMask, OfAnotherShapeIsRefused) {
  Block block = block_of(5, 1);
  Block::Saved saved;
  const Matrix x = random_matrix(1);
  Matrix y = Matrix::Constant(rows, features, 7);
  const std::vector<float> four(4, 1);
  const Context context{.mask = four};
  const std::string tail = ": mask has shape [4], expected [5] (one element for each row; x has shape [5, 4])";
  EXPECT_EQ(error_text<std::invalid_argument>([&] { block.forward_into(x, y, context); }),
            "evenkeel::Residual::forward" + tail);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { block.forward_into(x, y, saved, context); }),
            "evenkeel::Residual::forward" + tail);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { block.enter(x, context); }), "evenkeel::Residual::enter" + tail);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { block.leave(x, x, context); }), "evenkeel::Residual::leave" + tail);
  EXPECT_TRUE((y.array() == 7).all());
}

}  // namespace
}  // namespace evenkeel_test
