// Tests of blocks/: the named settings of the residual formula. Gradients of the formula with any settings are tested
// in tests/residual/residual_gradient_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "evenkeel/blocks/deep_norm.hpp"
#include "evenkeel/blocks/layer_norm_scaling.hpp"
#include "evenkeel/blocks/layer_scale.hpp"
#include "evenkeel/blocks/peri_norm.hpp"
#include "evenkeel/blocks/plain_residual.hpp"
#include "evenkeel/blocks/post_norm.hpp"
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/blocks/re_zero.hpp"
#include "evenkeel/blocks/res_post_norm.hpp"
#include "evenkeel/blocks/sandwich_norm.hpp"
#include "evenkeel/blocks/skip_init.hpp"
#include "evenkeel/blocks/skip_norm.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/layers/rms_norm.hpp"
#include "evenkeel/sublayers/function_sublayer.hpp"
#include "support/matrix.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {
namespace {

using namespace evenkeel;
template <class T>
using RowMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index rows = 5, features = 6;

/// y = factor * x.
struct Times {
  double factor;
  template <class X>
  auto operator()(const X& x) const {
    return x * static_cast<typename X::Scalar>(factor);
  }
  template <class DY, class X>
  auto operator()(const DY& dy, const X&) const {
    return (*this)(dy);
  }
};
using TimesSublayer = evenkeel::FunctionSublayer<Times, Times>;
TimesSublayer times(double factor) { return evenkeel::sublayer(Times{factor}, Times{factor}); }

struct Square {
  template <class X>
  auto operator()(const X& x) const {
    return x.cwiseAbs2();
  }
};
struct SquareBackward {
  template <class DY, class X>
  auto operator()(const DY& dy, const X& x) const {
    return 2 * x.cwiseProduct(dy);
  }
};
using SquareSublayer = evenkeel::FunctionSublayer<Square, SquareBackward>;

template <class T>
RowMatrix<T> random_matrix(std::uint64_t seed) {
  return normal_matrix<T>(rows, features, seed);
}

template <class N>
N random_norm() {
  N norm(features);
  std::uint64_t seed = 100;
  for_each_parameter(norm, [&](const std::string&, Parameter<typename N::Scalar>& parameter) {
    parameter.load(normal_vector<typename N::Scalar>(features, seed++).data(), features);
  });
  return norm;
}

template <class N>
class Placements : public testing::Test {
 protected:
  using T = typename N::Scalar;
  using Matrix = RowMatrix<T>;

  /// What F gives for a, and the gradient of df through it.
  static Matrix f(const Matrix& a) { return a.cwiseAbs2(); }
  static Matrix f_backward(const Matrix& df, const Matrix& a) { return 2 * a.cwiseProduct(df); }
  static void expect_equal(const Matrix& got, const Matrix& expected, double ulps = 2) {
    EXPECT_TRUE(within_ulp(std::vector<T>(got.data(), got.data() + got.size()),
                           std::vector<T>(expected.data(), expected.data() + expected.size()), ulps));
  }

  const SquareSublayer square = evenkeel::sublayer(Square(), SquareBackward());
  const Matrix x = random_matrix<T>(1), dy = random_matrix<T>(2);
  N norm = random_norm<N>();
  typename N::Saved norm_saved;
};
using Norms = testing::Types<LayerNorm<float>, RMSNorm<double>>;
TYPED_TEST_SUITE(Placements, Norms);

TYPED_TEST(Placements, PreNormIsXPlusFOfNOfX) {
  using Values = typename TestFixture::Matrix;
  PreNorm block(this->norm, this->square);
  typename decltype(block)::Saved saved;
  const Values a = this->norm.forward(this->x, this->norm_saved), y = this->x + this->f(a);
  EXPECT_EQ(std::as_const(block).forward(this->x), y);
  EXPECT_EQ(block.forward(this->x, saved), y);
  const Values da = this->f_backward(this->dy, a);
  this->expect_equal(block.backward(this->dy, saved), this->dy + this->norm.backward(da, this->norm_saved));
}

TYPED_TEST(Placements, PostNormIsNOfXPlusFOfX) {
  using Values = typename TestFixture::Matrix;
  PostNorm block(this->norm, this->square);
  typename decltype(block)::Saved saved;
  const Values sum = this->x + this->f(this->x), y = this->norm.forward(sum, this->norm_saved);
  EXPECT_EQ(std::as_const(block).forward(this->x), y);
  EXPECT_EQ(block.forward(this->x, saved), y);
  const Values dsum = this->norm.backward(this->dy, this->norm_saved);
  this->expect_equal(block.backward(this->dy, saved), dsum + this->f_backward(dsum, this->x));
}

TYPED_TEST(Placements, PlainResidualIsXPlusFOfX) {
  using Values = typename TestFixture::Matrix;
  PlainResidual<TypeParam, SquareSublayer> block(this->square);
  typename decltype(block)::Saved saved;
  const Values y = this->x + this->f(this->x);
  EXPECT_EQ(std::as_const(block).forward(this->x), y);
  EXPECT_EQ(block.forward(this->x, saved), y);
  this->expect_equal(block.backward(this->dy, saved), this->dy + this->f_backward(this->dy, this->x));
}

/// Named blocks with two norms of different parameters, or one, and with factors, against their formulas.
TYPED_TEST(Placements, WithTwoNormsOrFactorsAreTheirFormulas) {
  using Values = typename TestFixture::Matrix;
  using S = typename TestFixture::T;
  const auto& f = this->square;
  TypeParam n = this->norm, m = this->norm;
  for (S& value : m.gamma().mutable_values()) value = S(0.5) - value;
  const auto expect_formula = [&](const Residual<TypeParam, SquareSublayer>& block, const Values& y) {
    this->expect_equal(block.forward(this->x), y);
  };
  const Values nx = std::as_const(n).forward(this->x), f_nx = this->f(nx), fx = this->f(this->x);
  expect_formula(SandwichNorm(n, m, f), m.forward(Values(this->x + f_nx)));
  expect_formula(PeriNorm(n, m, f), this->x + m.forward(f_nx));
  expect_formula(ResPostNorm(n, f), this->x + n.forward(fx));
  expect_formula(SkipNorm(n, f), nx + fx);
  expect_formula(DeepNorm(n, f, 1.75), n.forward(Values(S(1.75) * this->x + fx)));
  const DeepNormScales scales = deepnorm_scales::decoder_only(8);
  expect_formula(DeepNorm(n, f, scales), n.forward(Values(S(scales.alpha) * this->x + fx)));
  expect_formula(LayerNormScaling(n, f, 4), this->x + this->f(S(0.5) * nx));
  expect_formula(LayerScale(n, f, features, 0.25), this->x + S(0.25) * f_nx);
  expect_formula(LayerScale(n, f, features), this->x + S(1e-5) * f_nx);
  expect_formula(ReZero<TypeParam, SquareSublayer>(f), this->x);
  expect_formula(SkipInit<TypeParam, SquareSublayer>(f), this->x);
  expect_formula(SkipInit<TypeParam, SquareSublayer>(f, 0.125), this->x + S(0.125) * fx);
}

/// LayerScale: dlambda_j = sum over rows of dy * F(N(x)); ReZero: the sum over all elements.
TYPED_TEST(Placements, LearnTheirLambda) {
  using Values = typename TestFixture::Matrix;
  using S = typename TestFixture::T;
  LayerScale scaled(this->norm, this->square, features, 0.25);
  ReZero<TypeParam, SquareSublayer> zero(this->square);
  typename decltype(scaled)::Saved saved;
  const Values products = this->dy.cwiseProduct(this->f(std::as_const(this->norm).forward(this->x)));
  scaled.forward(this->x, saved);
  scaled.backward(this->dy, saved);
  zero.forward(this->x, saved);
  zero.backward(this->dy, saved);
  const Values expected = products.colwise().sum();
  for (Index j = 0; j < features; ++j) {
    const double error = std::abs(scaled.lambda().parameter().gradient()[static_cast<std::size_t>(j)] - expected(0, j));
    EXPECT_LE(error, 16 * std::numeric_limits<S>::epsilon());
  }
  const S sum = this->dy.cwiseProduct(this->f(this->x)).sum();
  EXPECT_NEAR(zero.lambda().parameter().gradient()[0], sum, 64 * std::numeric_limits<S>::epsilon());
}

/// With columns in memory, lambda is still that of the last axis.
TYPED_TEST(Placements, HaveTheLambdaOfTheLastAxisInAnyStorageOrder) {
  using S = typename TestFixture::T;
  using Columns = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>;
  LayerScale block(this->norm, this->square, features, 0.25), by_columns = block;
  for (auto* b : {&block, &by_columns}) {
    b->lambda().parameter().load(normal_vector<S>(features, 9).data(), features);
  }
  typename decltype(block)::Saved saved, saved_columns;
  const Columns x_columns = this->x, dy_columns = this->dy;
  this->expect_equal(std::as_const(by_columns).forward(x_columns), block.forward(this->x, saved), 16);
  by_columns.forward(x_columns, saved_columns);
  this->expect_equal(by_columns.backward(dy_columns, saved_columns), block.backward(this->dy, saved), 16);
  const auto got = by_columns.lambda().parameter().gradient(), expected = block.lambda().parameter().gradient();
  for (std::size_t j = 0; j < features; ++j) EXPECT_NEAR(got[j], expected[j], 16 * std::numeric_limits<S>::epsilon());
}

TYPED_TEST(Placements, AreResidualsOfTheSameBits) {
  using Block = Residual<TypeParam, SquareSublayer>;
  static_assert(std::is_base_of_v<Block, PreNorm<TypeParam, SquareSublayer>>);
  static_assert(sizeof(Block) == sizeof(PreNorm<TypeParam, SquareSublayer>), "slicing loses nothing");
  static_assert(sizeof(Block) == sizeof(PostNorm<TypeParam, SquareSublayer>));
  static_assert(sizeof(Block) == sizeof(PlainResidual<TypeParam, SquareSublayer>));
  static_assert(sizeof(Block) == sizeof(SandwichNorm<TypeParam, SquareSublayer>));
  static_assert(sizeof(Block) == sizeof(PeriNorm<TypeParam, SquareSublayer>));
  static_assert(sizeof(Block) == sizeof(ResPostNorm<TypeParam, SquareSublayer>));
  static_assert(sizeof(Block) == sizeof(SkipNorm<TypeParam, SquareSublayer>));
  static_assert(sizeof(Block) == sizeof(DeepNorm<TypeParam, SquareSublayer>));
  static_assert(sizeof(Block) == sizeof(LayerScale<TypeParam, SquareSublayer>));
  static_assert(sizeof(Block) == sizeof(ReZero<TypeParam, SquareSublayer>));
  static_assert(sizeof(Block) == sizeof(SkipInit<TypeParam, SquareSublayer>));
  static_assert(sizeof(Block) == sizeof(LayerNormScaling<TypeParam, SquareSublayer>));
  PreNorm pre(this->norm, this->square);
  PostNorm post(this->norm, this->square);
  PlainResidual<TypeParam, SquareSublayer> plain(this->square);
  std::vector<Block> blocks;
  blocks.push_back(pre);
  blocks.push_back(PostNorm(this->norm, this->square));
  blocks.emplace_back(plain);
  EXPECT_EQ(blocks[0].forward(this->x), pre.forward(this->x));
  EXPECT_EQ(blocks[1].forward(this->x), post.forward(this->x));
  EXPECT_EQ(blocks[2].forward(this->x), plain.forward(this->x));
  typename Block::Saved saved, pre_saved;
  blocks[0].forward(this->x, saved);
  pre.forward(this->x, pre_saved);
  EXPECT_EQ(blocks[0].backward(this->dy, saved), pre.backward(this->dy, pre_saved));
}

TEST(PlacementsOf, AreDeducedFromNormAndSublayer) {
  const LayerNorm<float> norm(features);
  const auto f = times(2);
  static_assert(std::is_same_v<decltype(PreNorm(norm, f)), PreNorm<LayerNorm<float>, TimesSublayer>>);
  static_assert(std::is_same_v<decltype(PostNorm(norm, f)), PostNorm<LayerNorm<float>, TimesSublayer>>);
  static_assert(
      std::is_same_v<decltype(PreNorm(RMSNorm<double>(features), times(2))), PreNorm<RMSNorm<double>, TimesSublayer>>);
  const PreNorm block(norm, f);
  static_assert(std::is_same_v<decltype(PreNorm(block)), PreNorm<LayerNorm<float>, TimesSublayer>>, "a copy");
}

TEST(PlacementsOf, HaveTheirNormWhereTheirNameSays) {
  const LayerNorm<float> norm(features);
  const auto places = [](const auto& block) {
    const auto& n = block.norms();
    return std::vector<bool>{n.in.has_value(), n.branch.has_value(), n.skip.has_value(), n.trunk.has_value()};
  };
  EXPECT_EQ(places(PreNorm(norm, times(1))), (std::vector{true, false, false, false}));
  EXPECT_EQ(places(PostNorm(norm, times(1))), (std::vector{false, false, false, true}));
  EXPECT_EQ(places(PlainResidual<LayerNorm<float>, TimesSublayer>(times(1))), (std::vector(4, false)));
  EXPECT_EQ(places(SandwichNorm(norm, norm, times(1))), (std::vector{true, false, false, true}));
  EXPECT_EQ(places(PeriNorm(norm, norm, times(1))), (std::vector{true, true, false, false}));
  EXPECT_EQ(places(ResPostNorm(norm, times(1))), (std::vector{false, true, false, false}));
  EXPECT_EQ(places(SkipNorm(norm, times(1))), (std::vector{false, false, true, false}));
  EXPECT_EQ(places(DeepNorm(norm, times(1), 2)), (std::vector{false, false, false, true}));
  EXPECT_EQ(PreNorm(norm, times(1)).settings().alpha, 1);
  EXPECT_EQ(PreNorm(norm, times(1)).settings().lambda.initial(), 1);
}

TEST(PlacementsOf, ACopyHasParametersOfItsOwn) {
  PreNorm block(LayerNorm<float>(features), times(2));
  auto copy = block;
  copy.norms().in->gamma().mutable_values()[0] = 5;
  EXPECT_EQ(block.norms().in->gamma().values()[0], 1);
}

}  // namespace
}  // namespace evenkeel_test
