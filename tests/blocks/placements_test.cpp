// Tests of blocks/pre_norm.hpp, post_norm.hpp and plain_residual.hpp.
#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <vector>

#include "evenkeel/blocks/plain_residual.hpp"
#include "evenkeel/blocks/post_norm.hpp"
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/layers/rms_norm.hpp"
#include "evenkeel/sublayers/function_sublayer.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Index;
using evenkeel::LayerNorm;
using evenkeel::Parameter;
using evenkeel::PlainResidual;
using evenkeel::PostNorm;
using evenkeel::PreNorm;
using evenkeel::Residual;
using evenkeel::RMSNorm;
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
  const auto values = normal_vector<T>(rows * features, seed);
  return Eigen::Map<const RowMatrix<T>>(values.data(), rows, features);
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
  static void expect_equal(const Matrix& got, const Matrix& expected) {
    EXPECT_TRUE(within_ulp(std::vector<T>(got.data(), got.data() + got.size()),
                           std::vector<T>(expected.data(), expected.data() + expected.size()), 2));
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

TYPED_TEST(Placements, AreResidualsOfTheSameBits) {
  using Block = Residual<TypeParam, SquareSublayer>;
  static_assert(std::is_base_of_v<Block, PreNorm<TypeParam, SquareSublayer>>);
  static_assert(sizeof(Block) == sizeof(PreNorm<TypeParam, SquareSublayer>), "slicing loses nothing");
  static_assert(sizeof(Block) == sizeof(PostNorm<TypeParam, SquareSublayer>));
  static_assert(sizeof(Block) == sizeof(PlainResidual<TypeParam, SquareSublayer>));
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
