// Tests of residual/residual.hpp with a drop: what of the branch is dropped when. F is y = x^2, to the last bit.
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/residual/residual.hpp"
#include "evenkeel/sublayers/function_sublayer.hpp"
#include "support/matrix.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Dropout;
using evenkeel::DropoutKind;
using evenkeel::Index;
using evenkeel::Parameter;
using LayerNorm = evenkeel::LayerNorm<float>;
using Lambda = evenkeel::Lambda<float>;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index rows = 16, features = 9;

auto square() {
  return evenkeel::sublayer([](const auto& x) { return x.cwiseAbs2(); },
                            [](const auto& dy, const auto& x) { return 2 * x.cwiseProduct(dy); });
}
using Block = evenkeel::Residual<LayerNorm, decltype(square())>;

Matrix random_matrix(std::uint64_t seed) { return normal_matrix<float>(rows, features, seed); }

/// Every combination of norms, with a lambda of each kind.
template <class Check>
void for_every_block(DropoutKind kind, const Check& check) {
  for (int slots = 0; slots < 16; ++slots) {
    for (const Lambda& lambda : {Lambda(0.75), Lambda::learned_scalar(0.5), Lambda::learned_vector(features, 0.25)}) {
      SCOPED_TRACE("norms " + std::to_string(slots) + (lambda.is_vector() ? " vector" : ""));
      evenkeel::ResidualNorms<LayerNorm> norms;
      int bit = 1;
      for (auto* place : {&norms.in, &norms.branch, &norms.skip, &norms.trunk}) {
        if (slots & bit) place->emplace(features);
        bit *= 2;
      }
      check(Block(square(), norms, {.alpha = 1.5, .lambda = lambda, .drop = Dropout<float>(0.5, 3, "drop", kind)}));
    }
  }
}

std::vector<float> parameter_gradients(const Block& block) {
  std::vector<float> all;
  for_each_parameter(block, [&](const std::string&, const auto& parameter) {
    all.insert(all.end(), parameter.gradient().begin(), parameter.gradient().end());
  });
  return all;
}

class ResidualDrop : public testing::TestWithParam<DropoutKind> {
 protected:
  const Matrix x = random_matrix(1), dy = random_matrix(2);
  Block::Saved saved;
};
INSTANTIATE_TEST_SUITE_P(Kinds, ResidualDrop, testing::Values(DropoutKind::per_element, DropoutKind::per_sample),
                         [](const auto& kind) {
                           return kind.param == DropoutKind::per_sample ? "Samples" : "Elements";
                         });

TEST_P(ResidualDrop, IsNotInInference) {
  for_every_block(GetParam(), [&](Block block) {
    Block without = block;
    without.drop().reset();
    const Matrix y = without.forward(x);
    EXPECT_EQ(std::as_const(block).forward(x), y);
    EXPECT_NE(block.forward(x, saved), y);
    EXPECT_EQ(std::as_const(block).forward(x), y) << "after training";
  });
}

TEST_P(ResidualDrop, DropsTheBranchAndNothingElse) {
  Block block(square(), {}, {.alpha = 1, .lambda = 1, .drop = Dropout<float>(0.5, 3, "drop", GetParam())});
  const Matrix y = block.forward(x, saved), branch = y - x;
  Index dropped = 0, dropped_rows = 0;
  for (Index i = 0; i < rows; ++i) {
    dropped_rows += (branch.row(i).array() == 0).all();
    for (Index j = 0; j < features; ++j) {
      dropped += branch(i, j) == 0;
      const float twice = branch(i, j) == 0 ? 0 : 2 * x(i, j) * x(i, j);
      EXPECT_FLOAT_EQ(y(i, j), x(i, j) + twice);
    }
  }
  EXPECT_GT(dropped, 0);
  EXPECT_LT(dropped, rows * features);
  if (GetParam() == DropoutKind::per_sample) {
    EXPECT_EQ(dropped, dropped_rows * features);
  }
}

TEST_P(ResidualDrop, BackwardHasTheMaskOfItsForward) {
  for_every_block(GetParam(), [&](Block block) {
    Block other = block;
    Block::Saved first, second, other_saved;
    const Matrix y = block.forward(x, first);
    EXPECT_NE(block.forward(x, second), y) << "each step drops anew";
    EXPECT_EQ(other.forward(x, other_saved), y);
    const Matrix dx = other.backward(dy, other_saved);
    EXPECT_EQ(block.backward(dy, first), dx);
    EXPECT_EQ(parameter_gradients(block), parameter_gradients(other));
    EXPECT_EQ(block.backward(dy, first), dx) << "twice on one Saved";
  });
}

TEST_P(ResidualDrop, HalvesMakeTheWholeBitForBit) {
  for_every_block(GetParam(), [&](Block whole) {
    Block halves = whole;
    Block::Saved halves_saved;
    Block::SublayerType::Saved f_saved;
    Matrix dx(rows, features);
    const Matrix y = whole.forward(x, saved);
    const Matrix entered = halves.enter(x, halves_saved);
    EXPECT_EQ(halves.leave(x, halves.sublayer().forward(entered, f_saved), halves_saved), y);
    const Matrix df = halves.leave_backward(dy, halves_saved, dx);
    halves.enter_backward(halves.sublayer().backward(df, f_saved), halves_saved, dx);
    EXPECT_EQ(dx, whole.backward(dy, saved));
    EXPECT_EQ(parameter_gradients(halves), parameter_gradients(whole));
  });
}

/// Whoever looks at the branch sees it dropped, in a pass of its own; else the sum drops.
template <class M>
void expect_the_same_if_seen(Block block, const M& x, const M& dy, const evenkeel::Context& context = {}) {
  Block seen = block;
  Block::Saved saved, seen_saved;
  M y(x.rows(), x.cols()), seen_y = y, dx = y, seen_dx = y;
  Index dropped = 0;
  block.forward_into(x, y, saved, context);
  seen.forward_into(x, seen_y, seen_saved, context, [&](const auto& branch) {
    for (Index i = 0; i < branch.size(); ++i) dropped += branch.data()[i] == 0;
  });
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(y, seen_y);
  block.backward_into(dy, saved, dx, context);
  seen.backward_into(dy, seen_saved, seen_dx, context);
  EXPECT_EQ(dx, seen_dx);
  EXPECT_EQ(parameter_gradients(block), parameter_gradients(seen));
  EXPECT_EQ(block.drop()->step(), seen.drop()->step());
}

TEST_P(ResidualDrop, LookingAtTheBranchChangesNoBit) {
  using ColumnMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic>;
  std::vector<std::uint8_t> mask(rows, 1);
  mask[3] = mask[rows - 1] = 0;
  for_every_block(GetParam(), [&](const Block& block) {
    expect_the_same_if_seen(block, x, dy);
    expect_the_same_if_seen(block, ColumnMatrix(x), ColumnMatrix(dy));
    expect_the_same_if_seen(block, x, dy, {.mask = mask});
  });
}

/// With an operation of its own for each step, forward and backward.
TEST_P(ResidualDrop, IsTheCompositionBitForBit) {
  for (const bool has_trunk : {false, true}) {
    LayerNorm norm(features);
    Dropout<float> drop(0.3, 3, "drop", GetParam());
    evenkeel::ResidualNorms<LayerNorm> norms;
    if (has_trunk) norms.trunk = norm;
    Block block(square(), norms, {.alpha = 1.5, .lambda = 0.75, .drop = drop});
    const Matrix y = block.forward(x, saved), dx = block.backward(dy, saved);

    Dropout<float>::Saved drop_saved;
    LayerNorm::Saved norm_saved;
    const Matrix f = x.cwiseAbs2(), branch = drop.forward(f, drop_saved);
    Matrix sum(rows, features);
    evenkeel::residual_add_into(x, branch, sum, {.alpha = 1.5, .lambda = 0.75});
    EXPECT_EQ(y, has_trunk ? norm.forward(sum, norm_saved) : sum);
    const Matrix dsum = has_trunk ? norm.backward(dy, norm_saved) : dy;
    const Matrix at_branch = 0.75f * dsum, df = drop.backward(at_branch, drop_saved);
    const Matrix of_skip = 1.5f * dsum, of_branch = 2 * x.cwiseProduct(df);
    EXPECT_EQ(dx, of_skip + of_branch);
    if (has_trunk) {
      EXPECT_EQ(block.norms().trunk->gamma().gradient()[1], norm.gamma().gradient()[1]);
    }
  }
}

TEST_P(ResidualDrop, WorksInAWorkspaceOfTheSizeTheBlockNames) {
  for_every_block(GetParam(), [&](Block block) {
    Block other = block;
    Block::Saved other_saved;
    const Matrix y = other.forward(x, other_saved), dx = other.backward(dy, other_saved);
    std::vector<std::byte> memory(block.workspace_bytes(evenkeel::Shape{rows, features}));
    const evenkeel::Context context{.workspace = memory};
    EXPECT_EQ(block.forward(x, saved, context), y);
    EXPECT_EQ(block.backward(dy, saved, context), dx);
    EXPECT_EQ(parameter_gradients(block), parameter_gradients(other));
  });
}

TEST(ResidualDropError, APOutsideZeroToOne) {
  const auto error_with = [](double p) {
    return error_text<std::invalid_argument>([&] { Block(square(), {}, {.drop = Dropout<float>(p, 1, "drop")}); });
  };
  EXPECT_EQ(error_with(1.5), "evenkeel::Dropout: p is 1.500000, expected a number from 0 to 1");
  EXPECT_EQ(error_with(-0.25), "evenkeel::Dropout: p is -0.250000, expected a number from 0 to 1");
  EXPECT_EQ(error_with(std::numeric_limits<double>::quiet_NaN()),
            "evenkeel::Dropout: p is nan, expected a number from 0 to 1");
}

}  // namespace
}  // namespace evenkeel_test
