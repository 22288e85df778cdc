// Tests of blocks/stack.hpp: blocks one after another, the final norm, what is saved, and parameters.
//
// F is y = factor * x^2, whose bits do not depend on where a matrix lies: a stack is compared with its blocks bit for
// bit.
#include "evenkeel/blocks/stack.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/blocks/plain_residual.hpp"
#include "evenkeel/blocks/post_norm.hpp"
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/sublayers/function_sublayer.hpp"
#include "support/matrix.hpp"
#include "support/random.hpp"
#include "support/workspace.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;
using evenkeel::Context;
using evenkeel::Index;
using evenkeel::Parameter;
using evenkeel::PostNorm;
using evenkeel::PreNorm;
using evenkeel::Shape;
using evenkeel::TensorView;
using LayerNorm = evenkeel::LayerNorm<double>;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index rows = 4, features = 5;

struct Square {
  double factor;
  template <class X>
  auto operator()(const X& x) const {
    return factor * x.cwiseAbs2();
  }
};
struct SquareBackward {
  double factor;
  template <class DY, class X>
  auto operator()(const DY& dy, const X& x) const {
    return 2 * factor * x.cwiseProduct(dy);
  }
};
using Sublayer = evenkeel::FunctionSublayer<Square, SquareBackward>;
using Block = evenkeel::Residual<LayerNorm, Sublayer>;
using PlainResidual = evenkeel::PlainResidual<LayerNorm, Sublayer>;
using Stack = evenkeel::Stack<LayerNorm, Sublayer>;

/// Powers of two as factors: their products are exact.
Sublayer square(double factor = 0.25) { return evenkeel::sublayer(Square{factor}, SquareBackward{factor}); }

Matrix random_matrix(std::uint64_t seed, Index matrix_rows = rows) {
  return normal_matrix<double>(matrix_rows, features, seed);
}

template <class Model>
Model randomized(Model model, std::uint64_t seed = 100) {
  for_each_parameter(model, [&](const std::string&, Parameter<double>& parameter) {
    parameter.load(normal_vector<double>(static_cast<std::size_t>(parameter.size()), seed++, 1, 0.25).data(),
                   parameter.size());
  });
  return model;
}

/// Six placements: pre, post, plain, sandwich, peri, DeepNorm. All with parameters of their own.
std::vector<Block> mixed_blocks() {
  const LayerNorm norm(features);
  return {randomized<Block>(PreNorm(norm, square()), 1),
          randomized<Block>(PostNorm(norm, square(0.5)), 11),
          randomized<Block>(PlainResidual(square()), 21),
          randomized<Block>(Block(square(0.5), {.in = norm, .trunk = norm}), 31),
          randomized<Block>(Block(square(), {.in = norm, .branch = norm}), 41),
          randomized<Block>(Block(square(), {.skip = norm, .trunk = norm}, {.alpha = 2, .lambda = 0.5}), 51)};
}

/// The blocks called one by one, and then a norm: what a stack has to be.
struct OneByOne {
  std::vector<Block> blocks;
  std::optional<LayerNorm> final_norm;
  std::vector<Block::Saved> saved = std::vector<Block::Saved>(blocks.size());
  LayerNorm::Saved final_saved = {};
  std::vector<Matrix> streams = {}, gradients = {};  // after each block; at the input of each block

  Matrix forward(const Matrix& x) {
    streams.clear();
    streams.reserve(blocks.size());  // blocks view the streams before them
    for (std::size_t i = 0; i < blocks.size(); ++i)
      streams.push_back(blocks[i].forward(i == 0 ? x : streams[i - 1], saved[i]));
    return final_norm ? final_norm->forward(streams.back(), final_saved) : streams.back();
  }
  Matrix backward(const Matrix& dy) {
    gradients.assign(blocks.size(), {});
    Matrix stream = final_norm ? final_norm->backward(dy, final_saved) : dy;
    for (std::size_t i = blocks.size(); i-- > 0;) gradients[i] = stream = blocks[i].backward(stream, saved[i]);
    return stream;
  }
  std::vector<double> parameter_gradients() const {
    std::vector<double> all;
    const auto append = [&](const std::string&, const auto& p) {
      all.insert(all.end(), p.gradient().begin(), p.gradient().end());
    };
    for (const Block& block : blocks) for_each_parameter(block, append);
    if (final_norm) for_each_parameter(*final_norm, append);
    return all;
  }
};

std::vector<double> parameter_gradients(const Stack& stack) {
  std::vector<double> all;
  for_each_parameter(stack, [&](const std::string&, const auto& p) {
    all.insert(all.end(), p.gradient().begin(), p.gradient().end());
  });
  return all;
}

Matrix matrix_of(const TensorView<const double>& view) {
  return Eigen::Map<const Matrix>(view.data(), view.shape()[0], view.shape()[1]);
}

/// A stack of six kinds of blocks, with a final norm and without.
class StackOfMixedBlocks : public testing::TestWithParam<bool> {
 protected:
  std::optional<LayerNorm> final_norm() const {
    return GetParam() ? std::optional(randomized(LayerNorm(features), 61)) : std::nullopt;
  }
  const Matrix x = random_matrix(1), dy = random_matrix(2);
  Stack stack = Stack(mixed_blocks(), final_norm());
  OneByOne expected{mixed_blocks(), final_norm()};
  Stack::Saved saved;
};
INSTANTIATE_TEST_SUITE_P(FinalNorm, StackOfMixedBlocks, testing::Bool(),
                         [](const auto& with) { return with.param ? "With" : "Without"; });

TEST_P(StackOfMixedBlocks, IsOneBlockAfterAnother) {
  const Matrix y = expected.forward(x);
  EXPECT_EQ(std::as_const(stack).forward(x), y);
  EXPECT_EQ(stack.forward(x, saved), y) << "training";
}

TEST_P(StackOfMixedBlocks, BackwardIsOneBlockBeforeAnother) {
  expected.forward(x);
  stack.forward(x, saved);
  EXPECT_EQ(stack.backward(dy, saved), expected.backward(dy));
  EXPECT_EQ(parameter_gradients(stack), expected.parameter_gradients());
}

TEST_P(StackOfMixedBlocks, DropsWhatItsBlocksDrop) {
  for (auto* blocks : {&stack.blocks(), &expected.blocks}) {
    for (std::size_t i = 0; i < blocks->size(); ++i) (*blocks)[i].drop().emplace(0.5, i, "drop");
  }
  EXPECT_EQ(stack.forward(x, saved), expected.forward(x));
  EXPECT_EQ(stack.backward(dy, saved), expected.backward(dy));
}

TEST_P(StackOfMixedBlocks, SavesTheStreamAfterEachBlock) {
  expected.forward(x);
  EXPECT_EQ(saved.stream(0).rank(), 0) << "before a forward";
  EXPECT_EQ(saved.stream(0).data(), nullptr);
  stack.forward(x, saved);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(matrix_of(saved.stream(i)), expected.streams[i]) << "block " << i;
  EXPECT_EQ(saved.stream(6).rank(), 0);
}

struct GradientsSeen : evenkeel::NoObserver {
  void on_gradient(std::size_t i, const TensorView<const double>& dx, Block&) {
    order.push_back(i);
    EXPECT_EQ(matrix_of(dx), expected[i]) << "block " << i;
  }
  const std::vector<Matrix>& expected;
  std::vector<std::size_t> order;
};

TEST_P(StackOfMixedBlocks, ShowsTheGradientAtTheInputOfEachBlock) {
  expected.forward(x);
  stack.forward(x, saved);
  const Matrix expected_dx = expected.backward(dy);
  GradientsSeen seen{{}, expected.gradients, {}};
  Matrix dx(rows, features);
  stack.backward_into(dy, saved, dx, {}, seen);
  EXPECT_EQ(seen.order, (std::vector<std::size_t>{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(dx, expected_dx);
}

TEST_P(StackOfMixedBlocks, AddsToDxWhereAskedAndLeavesItOutWhereNotWanted) {
  stack.forward(x, saved);
  Matrix added = random_matrix(3);
  const Matrix before = added, dx = stack.backward(dy, saved);
  const auto once = parameter_gradients(stack);
  zero_gradients(stack);
  stack.backward_into(dy, saved, add_to(added));
  EXPECT_TRUE(added.isApprox(before + dx, 1e-15));
  zero_gradients(stack);
  stack.backward_into(dy, saved, {});
  EXPECT_EQ(parameter_gradients(stack), once);
}

TEST_P(StackOfMixedBlocks, BackwardTwiceAddsTheSameGradientsAgain) {
  stack.forward(x, saved);
  const Matrix dx = stack.backward(dy, saved);
  auto twice = parameter_gradients(stack);
  for (double& value : twice) value *= 2;
  EXPECT_EQ(stack.backward(dy, saved), dx);
  EXPECT_EQ(parameter_gradients(stack), twice);
}

/// What took the temporary's memory since is not read for it.
TEST_P(StackOfMixedBlocks, ATemporaryIsMovedIntoSaved) {
  const Matrix y = expected.forward(x), dx = expected.backward(dy);
  EXPECT_EQ(stack.forward(Matrix(x), saved), y);
  const std::vector<Matrix> others(8, Matrix::Constant(rows, features, 7));
  const Stack::Saved moved = std::move(saved);
  EXPECT_EQ(stack.backward(dy, moved), dx);
}

TEST_P(StackOfMixedBlocks, ASavedCanBeMovedAndServesOneShapeAfterAnother) {
  for (const Index n : {4, 2, 7, 0, 1}) {
    const Matrix x_n = random_matrix(4, n), dy_n = random_matrix(5, n);
    EXPECT_EQ(stack.forward(x_n, saved), expected.forward(x_n)) << n << " rows";
    Stack::Saved moved = std::move(saved);
    EXPECT_EQ(stack.backward(dy_n, moved), expected.backward(dy_n)) << n << " rows";
    saved = std::move(moved);
  }
}

TEST_P(StackOfMixedBlocks, DxMayBeDy) {
  stack.forward(x, saved);
  const Matrix dx = stack.backward(dy, saved);
  Matrix in_place = dy;
  stack.backward_into(in_place, saved, in_place);
  EXPECT_EQ(in_place, dx);
}

TEST_P(StackOfMixedBlocks, WorksInAWorkspaceOfTheSizeItNames) {
  const Matrix y = expected.forward(x), dx = expected.backward(dy);
  for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{40}}) {
    Workspace workspace(stack.workspace_bytes(Shape{rows, features}), offset);
    const Context context = workspace.context();
    EXPECT_EQ(std::as_const(stack).forward(x, context), y);
    EXPECT_EQ(stack.forward(x, saved, context), y);
    EXPECT_EQ(stack.backward(dy, saved, context), dx);
    EXPECT_TRUE(workspace.is_fence_intact());
  }
}

TEST_P(StackOfMixedBlocks, NeitherXNorDyChanges) {
  stack.forward(x, saved);
  stack.backward(dy, saved);
  EXPECT_EQ(x, random_matrix(1));
  EXPECT_EQ(dy, random_matrix(2));
}

// ---------------------------------------------------------------- the final norm

bool has_final_norm(Block last) {
  std::vector<Block> blocks;
  blocks.push_back(PreNorm(LayerNorm(features), square()));
  blocks.push_back(std::move(last));
  return Stack(std::move(blocks)).final_norm().has_value();
}

/// LayerNorm that counts the passes it takes together with a sum.
struct CountingNorm : LayerNorm {
  using LayerNorm::LayerNorm;
  CountingNorm fresh() const { return CountingNorm(features); }
  void add_forward_into(const evenkeel::detail::Addition<double>& sum, const TensorView<double>& s,
                        const TensorView<double>& y, Saved* saved, const Context& context) const {
    ++forwards;
    LayerNorm::add_forward_into(sum, s, y, saved, context);
  }
  void add_backward_into(const TensorView<const double>& dy, const Saved& saved, const TensorView<const double>& ds,
                         const evenkeel::detail::AdditionGradients<double>& to, const Context& context) {
    ++backwards;
    LayerNorm::add_backward_into(dy, saved, ds, to, context);
  }
  static inline int forwards = 0, backwards = 0;
};

TEST(StackSums, AreOnePassWithTheNormThatReadsThemNext) {
  const CountingNorm norm(features);
  const auto passes = [&](const auto& block, const Context& context = {}) {
    evenkeel::Stack<CountingNorm, Sublayer> stack({block, block, block});
    typename decltype(stack)::Saved saved;
    Matrix y(rows, features), dx(rows, features);
    CountingNorm::forwards = CountingNorm::backwards = 0;
    stack.forward_into(random_matrix(1), y, context);
    const int inference = CountingNorm::forwards;
    const Matrix x = random_matrix(1);
    stack.forward_into(x, y, saved, context);
    EXPECT_EQ(CountingNorm::forwards, 2 * inference);
    stack.backward_into(random_matrix(2), saved, dx);
    return std::pair{inference, CountingNorm::backwards};
  };
  // Two sums are read by the next block's norm, one by the final norm; backward adds each norm's share to dy.
  EXPECT_EQ(passes(PreNorm(norm, square())), std::pair(3, 3));
  EXPECT_EQ(passes(PostNorm(norm, square())), std::pair(3, 3));
  EXPECT_EQ(passes(evenkeel::PlainResidual<CountingNorm, Sublayer>(square())), std::pair(0, 0));
  const std::vector<std::uint8_t> valid = {1, 1, 0, 1};
  EXPECT_EQ(passes(PreNorm(norm, square()), {.mask = valid}), std::pair(0, 3)) << "a masked row enters as 0";
}

TEST(StackFinalNorm, IsThereByDefaultWhereTheLastBlockAddsANormalizedBranch) {
  const LayerNorm n(features);
  EXPECT_TRUE(has_final_norm(PreNorm(n, square())));
  EXPECT_TRUE(has_final_norm(Block(square(), {.in = n, .branch = n}))) << "peri-norm leaves a sum, too";
  EXPECT_TRUE(has_final_norm(Block(square(), {.branch = n}))) << "res-post-norm";
  EXPECT_FALSE(has_final_norm(PostNorm(n, square())));
  EXPECT_FALSE(has_final_norm(PlainResidual(square())));
  EXPECT_FALSE(has_final_norm(Block(square(), {.in = n, .trunk = n}))) << "sandwich norm";
  EXPECT_FALSE(has_final_norm(Block(square(), {.trunk = n}, {.alpha = 2}))) << "DeepNorm";
}

TEST(StackFinalNorm, IsTheCallersChoice) {
  const std::vector<Block> pre = {PreNorm(LayerNorm(features), square())};
  const std::vector<Block> post = {PostNorm(LayerNorm(features), square())};
  EXPECT_FALSE(Stack(pre, std::nullopt).final_norm().has_value());
  LayerNorm own(features);
  own.gamma().mutable_values()[2] = 7;
  const Stack with(post, own);
  ASSERT_TRUE(with.final_norm().has_value());
  EXPECT_EQ(with.final_norm()->gamma().values()[2], 7);
}

TEST(StackFinalNorm, HasTheSettingsOfTheLastNormAndParametersAsTheyStart) {
  LayerNorm trained(features, {.eps = 0.5, .with_beta = false});
  trained.gamma().mutable_values()[1] = 7;
  const Stack stack({PreNorm(LayerNorm(features), square()), PreNorm(trained, square())});
  ASSERT_TRUE(stack.final_norm().has_value());
  EXPECT_EQ(stack.final_norm()->eps(), 0.5);
  EXPECT_TRUE(stack.final_norm()->beta().is_absent());
  for (const double value : stack.final_norm()->gamma().values()) EXPECT_EQ(value, 1);
}

// ---------------------------------------------------------------- construction and parameters

TEST(Stack, IsDeducedFromItsBlocks) {
  std::vector<Block> blocks = {PreNorm(LayerNorm(features), square())};
  const evenkeel::Stack stack(blocks);
  static_assert(std::is_same_v<decltype(stack), const Stack>);
  const evenkeel::Stack with_final(blocks, std::optional(LayerNorm(features)));
  static_assert(std::is_same_v<decltype(with_final), const Stack>);
  EXPECT_EQ(stack.blocks().size(), 1u);
}

TEST(Stack, NeedsABlock) {
  const std::string text = "evenkeel::Stack: 0 blocks, expected at least 1";
  EXPECT_EQ(error_text<std::invalid_argument>([] { Stack(std::vector<Block>()); }), text);
  EXPECT_EQ(error_text<std::invalid_argument>([] { Stack({}, LayerNorm(features)); }), text);
}

TEST(Stack, NamesItsParametersByBlock) {
  const LayerNorm n(features), no_beta(features, {.with_beta = false});
  const Stack stack({PreNorm(n, square()), PostNorm(no_beta, square()), PlainResidual(square()), PreNorm(n, square())});
  std::vector<std::string> paths;
  for_each_parameter(stack, [&](const std::string& path, const auto&) { paths.push_back(path); });
  EXPECT_EQ(paths, (std::vector<std::string>{"blocks.0.norm_in.gamma", "blocks.0.norm_in.beta",
                                             "blocks.1.norm_trunk.gamma", "blocks.3.norm_in.gamma",
                                             "blocks.3.norm_in.beta", "final_norm.gamma", "final_norm.beta"}));
}

TEST(Stack, ACopyHasParametersAndGradientsOfItsOwn) {
  Stack stack(mixed_blocks(), LayerNorm(features)), copy = stack;
  const Matrix x = random_matrix(1), y = stack.forward(x);
  Stack::Saved saved;
  for_each_parameter(copy,
                     [](const std::string&, Parameter<double>& parameter) { parameter.mutable_values()[0] += 1; });
  EXPECT_EQ(stack.forward(x), y);
  EXPECT_NE(copy.forward(x), y);
  copy.forward(x, saved);
  copy.backward(x, saved);
  for_each_parameter(
      stack, [](const std::string& path, const auto& parameter) { EXPECT_FALSE(parameter.has_gradient()) << path; });
  copy = stack;
  EXPECT_EQ(copy.forward(x), y);
}

TEST(Stack, AMovedStackGivesTheSame) {
  Stack stack(mixed_blocks(), LayerNorm(features));
  const Matrix x = random_matrix(1), y = stack.forward(x);
  Stack moved = std::move(stack);
  EXPECT_EQ(moved.forward(x), y);
}

}  // namespace
}  // namespace evenkeel_test
