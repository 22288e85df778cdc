// Tests of residual/residual.hpp: what is refused, with which message, and that nothing has been written then.
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/residual/residual.hpp"
#include "evenkeel/sublayers/function_sublayer.hpp"
#include "support/matrix.hpp"
#include "support/random.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Context;
using evenkeel::Index;
using evenkeel::Shape;
using evenkeel::TensorView;
using LayerNorm = evenkeel::LayerNorm<double>;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ColumnMatrix = Eigen::MatrixXd;

constexpr Index rows = 3, features = 4;

Matrix random_matrix(std::uint64_t seed, Index matrix_rows = rows, Index columns = features) {
  return normal_matrix<double>(matrix_rows, columns, seed);
}

/// y = x^2, but for an x of `forbidden` rows.
struct Square {
  Index forbidden = -1;
  template <class X>
  auto operator()(const X& x) const {
    if (x.rows() == forbidden) throw std::runtime_error("F has failed");
    return x.cwiseAbs2();
  }
};
struct SquareBackward {
  template <class DY, class X>
  auto operator()(const DY& dy, const X& x) const {
    return 2 * x.cwiseProduct(dy);
  }
};
using Block = evenkeel::Residual<LayerNorm, evenkeel::FunctionSublayer<Square, SquareBackward>>;

Block block_with(int slots, Square square = {}) {
  evenkeel::ResidualNorms<LayerNorm> norms;
  int bit = 1;
  for (auto* place : {&norms.in, &norms.branch, &norms.skip, &norms.trunk}) {
    if (slots & bit) place->emplace(features);
    bit *= 2;
  }
  return Block(evenkeel::sublayer(square, SquareBackward()), norms, {.alpha = 1.5, .lambda = 0.5});
}

testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
}

const std::string forward_error = "evenkeel::Residual::forward: ", backward_error = "evenkeel::Residual::backward: ";

/// For every combination of norms, a block after a training forward.
class ResidualError : public testing::Test {
 protected:
  template <class Check>
  void for_every_block(const Check& check) {
    for (int slots = 0; slots < 16; ++slots) {
      SCOPED_TRACE("norms " + std::to_string(slots));
      Block block = block_with(slots);
      Block::Saved saved;
      block.forward(x, saved);
      check(block, saved);
      for_each_parameter(block, [](const std::string& path, const auto& parameter) {
        EXPECT_FALSE(parameter.has_gradient()) << path << " was added to before the error";
      });
    }
  }

  Matrix x = random_matrix(1);
  const Matrix dy = random_matrix(2);
};

using Settings = evenkeel::ResidualSettings<double>;
using Lambda = evenkeel::Lambda<double>;

TEST_F(ResidualError, FactorsThatAreNotFinite) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto error_with = [](const Settings& settings) {
    return error_text<std::invalid_argument>(
        [&] { Block(evenkeel::sublayer(Square(), SquareBackward()), {}, settings); });
  };
  EXPECT_EQ(error_with({.alpha = nan}), "evenkeel::Residual: alpha is nan, expected a finite number");
  EXPECT_EQ(error_with({.alpha = inf}), "evenkeel::Residual: alpha is inf, expected a finite number");
  EXPECT_EQ(error_with({.alpha = -inf}), "evenkeel::Residual: alpha is -inf, expected a finite number");
  EXPECT_EQ(error_with({.in_scale = nan}), "evenkeel::Residual: in_scale is nan, expected a finite number");
  EXPECT_EQ(error_with({.in_scale = inf}), "evenkeel::Residual: in_scale is inf, expected a finite number");
  for (const double value : {nan, inf}) {
    const std::string text = "evenkeel::Residual: lambda is " + std::to_string(value) + ", expected a finite number";
    EXPECT_EQ(error_text<std::invalid_argument>([&] { Lambda{value}; }), text);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { Lambda::constant(value); }), text);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { Lambda::learned_scalar(value); }), text);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { Lambda::learned_vector(features, value); }), text);
  }
  EXPECT_NO_THROW(Block(evenkeel::sublayer(Square(), SquareBackward()), {}, {.alpha = 0, .lambda = -1e300}));
}

TEST_F(ResidualError, ALambdaOfNoFeatures) {
  EXPECT_EQ(error_text<std::invalid_argument>([] { Lambda::learned_vector(0, 1); }),
            "evenkeel::Lambda::learned_vector: features is 0, expected at least 1");
}

TEST_F(ResidualError, ALambdaThatDoesNotFitTheLastAxis) {
  Block block(evenkeel::sublayer(Square(), SquareBackward()), {}, {.lambda = Lambda::learned_vector(features + 1, 1)});
  Block::Saved saved;
  Matrix y = Matrix::Constant(rows, features, 7);
  const std::string text = "lambda has 5 elements, expected 4 (the last axis of x; x has shape [3, 4])";
  EXPECT_EQ(error_text<std::invalid_argument>([&] { block.forward_into(x, y); }), forward_error + text);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { block.forward_into(x, y, saved); }), forward_error + text);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { block.leave(x, x); }), "evenkeel::Residual::leave: " + text);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { block.leave(x, x, saved); }), "evenkeel::Residual::leave: " + text);
  EXPECT_TRUE((y.array() == 7).all());
}

TEST_F(ResidualError, ABackwardWithoutAForward) {
  for_every_block([&](Block& block, Block::Saved&) {
    const Block::Saved empty;
    Matrix dx(rows, features);
    const std::string text = backward_error + "saved is empty, expected the Saved of a forward(x, saved) call";
    EXPECT_EQ(error_text<std::logic_error>([&] { block.backward(dy, empty); }), text);
    EXPECT_EQ(error_text<std::logic_error>([&] { block.backward_into(dy, empty, dx); }), text);
    EXPECT_EQ(error_text<std::logic_error>([&] { block.leave_backward(dy, empty, dx); }), text);
    EXPECT_EQ(error_text<std::logic_error>([&] { block.enter_backward(dy, empty, dx); }), text);
  });
}

TEST_F(ResidualError, AYOfAnotherShapeOrOrder) {
  for_every_block([&](Block& block, Block::Saved& saved) {
    Matrix y = Matrix::Constant(rows, features + 1, 7);
    ColumnMatrix columns = ColumnMatrix::Constant(rows, features, 7);
    const std::string shape = forward_error + "y has shape [3, 5], expected [3, 4] (the shape of x)";
    const std::string order =
        forward_error + "y is column-major, expected row-major as x is (copy into a tensor of that order first)";
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.forward_into(x, y); }), shape);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.forward_into(x, y, saved); }), shape);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.forward_into(x, columns); }), order);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.forward_into(x, columns, saved); }), order);
    EXPECT_TRUE((y.array() == 7).all() && (columns.array() == 7).all());
  });
}

TEST_F(ResidualError, AYThatOverlapsX) {
  for_every_block([&](Block& block, Block::Saved& saved) {
    const std::string text = forward_error + "y overlaps x in memory, expected memory of its own";
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.forward_into(x, x, saved); }), text) << "training in place";
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.forward_into(x, x); }), text);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.forward_into(x.topRows(2), x.bottomRows(2)); }), text);
    EXPECT_EQ(x, random_matrix(1));
  });
}

TEST_F(ResidualError, ADyOfAnotherShapeOrOrder) {
  for_every_block([&](Block& block, Block::Saved& saved) {
    const Matrix wrong = random_matrix(3, rows + 1);
    const ColumnMatrix columns = dy;
    Matrix dx = Matrix::Constant(rows + 1, features, 7);
    const std::string shape =
        backward_error + "dy has shape [4, 4], expected [3, 4] (the shape of the x that was saved)";
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.backward(wrong, saved); }), shape);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.backward_into(wrong, saved, dx); }), shape);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.leave_backward(wrong, saved, dx); }), shape);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.enter_backward(wrong, saved, dx); }), shape);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.backward(columns, saved); }),
              backward_error +
                  "dy is column-major, expected row-major as the x that was saved is (copy into a tensor of "
                  "that order first)");
    EXPECT_TRUE((dx.array() == 7).all());
  });
}

TEST_F(ResidualError, ADxOfAnotherShape) {
  for_every_block([&](Block& block, Block::Saved& saved) {
    std::vector<double> memory(100, 7);  // behind the two rows too
    const TensorView<double> wrong(memory.data(), {rows - 1, features});
    const std::string text = "dx has shape [2, 4], expected [3, 4]";
    EXPECT_TRUE(contains(error_text<std::invalid_argument>([&] { block.backward_into(dy, saved, wrong); }), text));
    EXPECT_TRUE(
        contains(error_text<std::invalid_argument>([&] { block.backward_into(dy, saved, add_to(wrong)); }), text));
    EXPECT_TRUE(contains(error_text<std::invalid_argument>([&] { block.leave_backward(dy, saved, wrong); }), text));
    EXPECT_TRUE(contains(error_text<std::invalid_argument>([&] { block.enter_backward(dy, saved, wrong); }), text));
    EXPECT_EQ(memory, std::vector<double>(100, 7));
  });
}

TEST_F(ResidualError, ADxOfAnotherOrder) {
  for_every_block([&](Block& block, Block::Saved& saved) {
    ColumnMatrix columns = ColumnMatrix::Constant(rows, features, 7);
    const std::string text = "dx is column-major, expected row-major";
    EXPECT_TRUE(contains(error_text<std::invalid_argument>([&] { block.backward_into(dy, saved, columns); }), text));
    EXPECT_TRUE((columns.array() == 7).all());
  });
}

TEST_F(ResidualError, ADxThatOverlapsX) {
  for_every_block([&](Block& block, Block::Saved& saved) {
    EXPECT_TRUE(
        contains(error_text<std::invalid_argument>([&] { block.backward_into(dy, saved, x); }), "dx overlaps x"))
        << "backward reads x again";
    EXPECT_EQ(x, random_matrix(1));
    x = random_matrix(1);
  });
}

TEST_F(ResidualError, ADxThatOverlapsDyOtherThanInPlace) {
  for_every_block([&](Block& block, Block::Saved& saved) {
    std::vector<double> memory(100, 7);
    const Eigen::Map<const Matrix> upstream(memory.data(), rows, features);
    const TensorView<double> shifted(memory.data() + features, {rows, features});
    EXPECT_TRUE(contains(error_text<std::invalid_argument>([&] { block.backward_into(upstream, saved, shifted); }),
                         "dx overlaps dy"));
    EXPECT_EQ(memory, std::vector<double>(100, 7));
  });
}

TEST_F(ResidualError, AnXThatTheNormsDoNotFit) {
  for (int slots = 1; slots < 16; ++slots) {
    const Block block = block_with(slots);
    const Matrix wide = random_matrix(4, rows, features + 1);
    Matrix y = Matrix::Constant(rows, features + 1, 7);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.forward_into(wide, y); }),
              "evenkeel::LayerNorm::forward: normalized axes of x have shape [5], expected [4] (x has shape [3, 5])");
    EXPECT_TRUE((y.array() == 7).all());
  }
}

/// Norms take such an x as it is; sums and sublayers refuse it.
TEST_F(ResidualError, AnXWithGapsBetweenItsFeatures) {
  std::vector<double> memory = normal_vector<double>(64, 5);
  using Strided = Eigen::Map<Matrix, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;
  const Strided gaps(memory.data(), rows, features, {16, 2});
  const Matrix dense = gaps;
  for (int slots = 0; slots < 16; ++slots) {
    const Block block = block_with(slots);
    Matrix y;
    const std::string text = error_text_if_any<std::invalid_argument>([&] { y = block.forward(gaps); });
    if (text.empty()) {
      EXPECT_TRUE(y.isApprox(block.forward(dense), 1e-14)) << slots;
    } else {
      EXPECT_TRUE(contains(text, "has stride 2 between the elements of axis 1")) << slots;
    }
  }
}

TEST_F(ResidualError, AnFOfAnotherOrder) {
  for_every_block([&](Block& block, Block::Saved& saved) {
    const ColumnMatrix columns = x;
    const std::string text =
        "evenkeel::Residual: what the sublayer returned is column-major, expected row-major as what it was given is "
        "(copy into a tensor of that order first)";
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.leave(x, columns); }), text);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.leave(x, columns, saved); }), text);
  });
}

TEST_F(ResidualError, AWorkspaceThatIsTooSmall) {
  for_every_block([&](Block& block, Block::Saved& saved) {
    const std::size_t bytes = block.workspace_bytes(Shape{rows, features});
    std::vector<std::byte> memory(bytes - 1);
    const Context context{.workspace = memory};
    const std::string sizes =
        "workspace has " + std::to_string(bytes - 1) + " bytes, expected at least " + std::to_string(bytes);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.forward(x, context); }), forward_error + sizes);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.forward(x, saved, context); }), forward_error + sizes);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.backward(dy, saved, context); }), backward_error + sizes);
  });
}

/// Whether the failed call has emptied the Saved or left it as it was, a backward must not mix two forwards.
TEST_F(ResidualError, ASavedAfterAForwardThatFailed) {
  for (int slots = 0; slots < 16; ++slots) {
    Block block = block_with(slots, {.forbidden = 50}), other = block;
    Block::Saved saved;
    block.forward(x, saved);
    const Matrix dx = block.backward(dy, saved), tall = random_matrix(6, 50);
    EXPECT_THROW(block.forward(tall, saved), std::runtime_error);
    try {
      EXPECT_EQ(block.backward(dy, saved), dx) << slots;
    } catch (const std::logic_error&) {
    }
  }
}

}  // namespace
}  // namespace evenkeel_test
