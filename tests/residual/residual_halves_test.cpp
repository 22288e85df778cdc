// Tests of residual/residual.hpp: the two halves of a block, what it saves, and where its gradients go.
//
// F is y = x^2: its bits do not depend on where a matrix lies, so that everything here is compared to the last bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/layers/rms_norm.hpp"
#include "evenkeel/residual/residual.hpp"
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
using evenkeel::Shape;

constexpr Index rows = 5, features = 9;

template <class T>
using RowMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

auto square() {
  return evenkeel::sublayer([](const auto& x) { return x.cwiseAbs2(); },
                            [](const auto& dy, const auto& x) { return 2 * x.cwiseProduct(dy); });
}
template <class N>
using BlockOf = evenkeel::Residual<N, decltype(square())>;

/// With the norms whose bit is set in `slots`: in, branch, skip, trunk. A lambda of each kind is with some of them.
template <class N>
BlockOf<N> random_block(int slots) {
  using Lambda = evenkeel::Lambda<typename N::Scalar>;
  evenkeel::ResidualNorms<N> norms;
  int bit = 1;
  for (auto* place : {&norms.in, &norms.branch, &norms.skip, &norms.trunk}) {
    if (slots & bit) place->emplace(features);
    bit *= 2;
  }
  const Lambda lambda = slots % 3 == 0   ? Lambda(-0.875)
                        : slots % 3 == 1 ? Lambda::learned_scalar()
                                         : Lambda::learned_vector(features, 1);
  BlockOf<N> block(square(), norms, {.alpha = 1.625, .lambda = lambda, .in_scale = slots == 0 ? 1 : 0.75});
  using T = typename N::Scalar;
  std::uint64_t seed = 100;
  for_each_parameter(block, [&](const std::string&, Parameter<T>& parameter) {
    parameter.load(normal_vector<T>(static_cast<std::size_t>(parameter.size()), seed++).data(), parameter.size());
  });
  return block;
}

template <class T>
RowMatrix<T> random_matrix(std::uint64_t seed, Index matrix_rows = rows) {
  return normal_matrix<T>(matrix_rows, features, seed);
}

/// The gradients of all parameters, one after another.
template <class Block>
std::vector<typename Block::Scalar> parameter_gradients(const Block& block) {
  std::vector<typename Block::Scalar> all;
  for_each_parameter(block, [&](const std::string&, const auto& parameter) {
    all.insert(all.end(), parameter.gradient().begin(), parameter.gradient().end());
  });
  return all;
}

template <class N>
class ResidualHalves : public testing::Test {
 protected:
  using Scalar = typename N::Scalar;
  using Block = BlockOf<N>;
  using Saved = typename Block::Saved;
  using Matrix = RowMatrix<Scalar>;

  const Matrix x = random_matrix<Scalar>(1), dy = random_matrix<Scalar>(2);
};
using Norms = testing::Types<evenkeel::LayerNorm<float>, evenkeel::RMSNorm<double>>;
TYPED_TEST_SUITE(ResidualHalves, Norms);

TYPED_TEST(ResidualHalves, MakeTheWholeForwardAndBackwardBitForBit) {
  for (int slots = 0; slots < 16; ++slots) {
    auto whole = random_block<TypeParam>(slots), halves = whole;
    typename TestFixture::Saved saved, halves_saved;
    typename TestFixture::Block::SublayerType::Saved f_saved;
    auto& f = halves.sublayer();
    typename TestFixture::Matrix dx = random_matrix<typename TestFixture::Scalar>(3);

    const auto y = whole.forward(this->x, saved);
    const auto entered = halves.enter(this->x, halves_saved);
    EXPECT_EQ(halves.leave(this->x, f.forward(entered, f_saved), halves_saved), y) << slots;

    const auto df = halves.leave_backward(this->dy, halves_saved, dx);
    halves.enter_backward(f.backward(df, f_saved), halves_saved, dx);
    EXPECT_EQ(dx, whole.backward(this->dy, saved)) << slots;
    EXPECT_EQ(parameter_gradients(halves), parameter_gradients(whole)) << slots;
  }
}

TYPED_TEST(ResidualHalves, MakeTheWholeInferenceBitForBit) {
  for (int slots = 0; slots < 16; ++slots) {
    const auto block = random_block<TypeParam>(slots);
    const auto entered = block.enter(this->x);
    EXPECT_EQ(block.leave(this->x, block.sublayer().forward(entered)), block.forward(this->x)) << slots;
  }
}

TYPED_TEST(ResidualHalves, TrainingGivesTheBitsOfInference) {
  for (int slots = 0; slots < 16; ++slots) {
    auto block = random_block<TypeParam>(slots);
    typename TestFixture::Saved saved;
    const auto inference = std::as_const(block).forward(this->x);
    EXPECT_EQ(block.forward(this->x, saved), inference) << slots;
  }
}

TYPED_TEST(ResidualHalves, EnterInTrainingIsAViewOfXWhereNoNormStandsBeforeF) {
  auto plain = random_block<TypeParam>(0), pre = random_block<TypeParam>(1);
  typename TestFixture::Saved saved, pre_saved;
  EXPECT_EQ(plain.enter(this->x, saved).data(), this->x.data());
  EXPECT_NE(pre.enter(this->x, pre_saved).data(), this->x.data());
  EXPECT_EQ(plain.enter(this->x), this->x);
}

TYPED_TEST(ResidualHalves, LeaveBackwardAddsToDxWhereAsked) {
  for (const int slots : {0, 2, 4, 8, 15}) {
    auto block = random_block<TypeParam>(slots);
    typename TestFixture::Saved saved;
    typename TestFixture::Matrix added = random_matrix<typename TestFixture::Scalar>(4), alone = added;
    const typename TestFixture::Matrix before = added;
    block.forward(this->x, saved);
    const auto df = block.leave_backward(this->dy, saved, alone);
    EXPECT_EQ(block.leave_backward(this->dy, saved, add_to(added)), df) << slots;
    EXPECT_TRUE(added.isApprox(before + alone, 1e-6f)) << slots;
    EXPECT_EQ(block.leave_backward(this->dy, saved, {}), df) << slots << ": dx is not wanted";
  }
}

// ---------------------------------------------------------------- Saved, and gradients

TYPED_TEST(ResidualHalves, BackwardTwiceOnOneSavedAddsTheSameGradientsAgain) {
  using T = typename TestFixture::Scalar;
  for (int slots = 0; slots < 16; ++slots) {
    auto block = random_block<TypeParam>(slots);
    typename TestFixture::Saved saved;
    block.forward(this->x, saved);
    const auto dx = block.backward(this->dy, saved);
    std::vector<T> twice = parameter_gradients(block);
    for (T& value : twice) value *= 2;
    EXPECT_EQ(block.backward(this->dy, saved), dx) << slots;
    EXPECT_EQ(parameter_gradients(block), twice) << slots;
    zero_gradients(block);
    EXPECT_EQ(block.backward(this->dy, saved), dx) << slots;
    for (T& value : twice) value /= 2;
    EXPECT_EQ(parameter_gradients(block), twice) << slots;
  }
}

TYPED_TEST(ResidualHalves, ASavedCanBeMoved) {
  for (int slots = 0; slots < 16; ++slots) {
    auto block = random_block<TypeParam>(slots), other = block;
    typename TestFixture::Saved saved, other_saved, assigned;
    block.forward(this->x, saved);
    other.forward(this->x, other_saved);
    typename TestFixture::Saved moved = std::move(saved);
    assigned = std::move(moved);
    EXPECT_EQ(block.backward(this->dy, assigned), other.backward(this->dy, other_saved)) << slots;
    EXPECT_EQ(parameter_gradients(block), parameter_gradients(other)) << slots;
  }
}

TYPED_TEST(ResidualHalves, ASavedServesOneShapeAfterAnother) {
  using T = typename TestFixture::Scalar;
  for (int slots = 0; slots < 16; ++slots) {
    auto block = random_block<TypeParam>(slots);
    typename TestFixture::Saved saved;
    for (const Index n : {5, 2, 9, 0, 1}) {
      auto fresh = random_block<TypeParam>(slots);
      typename TestFixture::Saved fresh_saved;
      const auto input = random_matrix<T>(5, n), upstream = random_matrix<T>(6, n);
      EXPECT_EQ(block.forward(input, saved), fresh.forward(input, fresh_saved)) << slots;
      EXPECT_EQ(block.backward(upstream, saved), fresh.backward(upstream, fresh_saved)) << slots;
    }
  }
}

TYPED_TEST(ResidualHalves, AddsToDxWhereAsked) {
  using T = typename TestFixture::Scalar;
  for (int slots = 0; slots < 16; ++slots) {
    auto block = random_block<TypeParam>(slots);
    typename TestFixture::Saved saved;
    block.forward(this->x, saved);
    typename TestFixture::Matrix added = random_matrix<T>(7), overwritten = added;
    const typename TestFixture::Matrix before = added, dx = block.backward(this->dy, saved);
    block.backward_into(this->dy, saved, add_to(added));
    block.backward_into(this->dy, saved, overwritten);
    EXPECT_TRUE(added.isApprox(before + dx, 8 * std::numeric_limits<T>::epsilon())) << slots;
    EXPECT_EQ(overwritten, dx) << slots;
  }
}

TYPED_TEST(ResidualHalves, ParametersGetTheirGradientsWhereDxIsNotWanted) {
  for (int slots = 0; slots < 16; ++slots) {
    auto block = random_block<TypeParam>(slots), other = block;
    typename TestFixture::Saved saved;
    block.forward(this->x, saved);
    block.backward_into(this->dy, saved, {});
    other.forward(this->x, saved);
    other.backward(this->dy, saved);
    EXPECT_EQ(parameter_gradients(block), parameter_gradients(other)) << slots;
  }
}

/// dx may be dy, the identical view, as everywhere in the library; if not, it has to be refused.
TYPED_TEST(ResidualHalves, DxMayBeDyOrIsRefused) {
  for (int slots = 0; slots < 16; ++slots) {
    auto block = random_block<TypeParam>(slots);
    typename TestFixture::Saved saved;
    block.forward(this->x, saved);
    const auto dx = block.backward(this->dy, saved);
    typename TestFixture::Matrix in_place = this->dy;
    try {
      block.backward_into(in_place, saved, in_place);
      EXPECT_EQ(in_place, dx) << slots;
    } catch (const std::invalid_argument&) {
      EXPECT_EQ(in_place, this->dy) << slots;
    }
  }
}

/// What took the temporary's memory since is not read for it.
TYPED_TEST(ResidualHalves, ATemporaryIsMovedIntoSaved) {
  using Tensor = std::remove_const_t<decltype(this->x)>;
  for (int slots = 0; slots < 16; ++slots) {
    auto block = random_block<TypeParam>(slots);
    typename TestFixture::Saved saved, viewing;
    block.forward(Tensor(this->x), saved);
    const std::vector<Tensor> others(8, this->dy);
    block.forward(this->x, viewing);
    EXPECT_EQ(block.backward(this->dy, saved), block.backward(this->dy, viewing)) << slots;
  }
}

TYPED_TEST(ResidualHalves, NeitherXNorDyChanges) {
  using T = typename TestFixture::Scalar;
  for (int slots = 0; slots < 16; ++slots) {
    auto block = random_block<TypeParam>(slots);
    typename TestFixture::Saved saved;
    block.forward(this->x, saved);
    block.backward(this->dy, saved);
    EXPECT_EQ(this->x, random_matrix<T>(1)) << slots;
    EXPECT_EQ(this->dy, random_matrix<T>(2)) << slots;
  }
}

TYPED_TEST(ResidualHalves, WorkInAWorkspaceOfTheSizeTheBlockNames) {
  using T = typename TestFixture::Scalar;
  for (const Index n : {Index{5}, Index{300}}) {  // of many rows, the workspace of a norm is less than a temporary
    const auto input = random_matrix<T>(8, n), upstream = random_matrix<T>(9, n);
    for (int slots = 0; slots < 16; ++slots) {
      auto block = random_block<TypeParam>(slots), other = block;
      typename TestFixture::Saved saved, other_saved;
      const auto y = other.forward(input, other_saved);
      const auto dx = other.backward(upstream, other_saved);
      for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{33}}) {
        Workspace workspace(block.workspace_bytes(Shape{n, features}), offset);
        const Context context = workspace.context();
        EXPECT_EQ(std::as_const(block).forward(input, context), y) << slots;
        EXPECT_EQ(block.forward(input, saved, context), y) << slots;
        zero_gradients(block);
        EXPECT_EQ(block.backward(upstream, saved, context), dx) << slots;
        EXPECT_EQ(parameter_gradients(block), parameter_gradients(other)) << slots;
        EXPECT_TRUE(workspace.is_fence_intact()) << slots;
      }
    }
  }
}

}  // namespace
}  // namespace evenkeel_test
