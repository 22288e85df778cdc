// Inputs that broke other libraries, through blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "evenkeel/blocks/deep_norm.hpp"
#include "evenkeel/blocks/peri_norm.hpp"
#include "evenkeel/blocks/post_norm.hpp"
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/blocks/sandwich_norm.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/layers/rms_norm.hpp"
#include "evenkeel/sublayers/function_sublayer.hpp"
#include "support/matrix.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Index;
using evenkeel::LayerNorm;
using evenkeel::Parameter;
using evenkeel::PostNorm;
using evenkeel::PreNorm;
using evenkeel::Residual;
using evenkeel::RMSNorm;
template <class T>
using RowMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using Row = Eigen::RowVector<T, Eigen::Dynamic>;

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

template <class T>
RowMatrix<T> random_matrix(std::uint64_t seed) {
  return normal_matrix<T>(rows, features, seed);
}

template <class T>
class BlockCases : public testing::Test {
 protected:
  using Block = Residual<LayerNorm<T>, TimesSublayer>;
  static LayerNorm<T> norm(Index size, double eps = 1e-5) { return LayerNorm<T>(size, {.eps = eps}); }
  static void expect_row(const Row<T>& got, const std::vector<double>& expected) {
    ASSERT_EQ(got.size(), static_cast<Index>(expected.size()));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      // The table's numbers have seven digits.
      EXPECT_NEAR(got[static_cast<Index>(i)], expected[i], 4e-7 * std::max(1.0, std::abs(expected[i]))) << i;
    }
  }
};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(BlockCases, Scalars);

TYPED_TEST(BlockCases, AlphaScalesTheSkipPathAndTheNormIsOfTheSum) {  // B93
  using T = TypeParam;
  const auto f = evenkeel::sublayer(
      [](const auto&) {
        return Row<T>{{1, -1, 0}};
      },
      [](const auto& dy, const auto&) { return 0 * dy; });
  const evenkeel::DeepNorm block(this->norm(3), f, 2);
  this->expect_row(block.forward(Row<T>{{1, 3, 5}}), {-1.0190487, -0.3396829, 1.3587317});
}

TYPED_TEST(BlockCases, APreNormOfZeroReturnsXAndDyExactly) {  // B97
  using T = TypeParam;
  PreNorm block(this->norm(features), times(0));
  typename decltype(block)::Saved saved;
  const auto x = random_matrix<T>(3), dy = random_matrix<T>(4);
  EXPECT_EQ(block.forward(x), x);
  EXPECT_EQ(block.forward(x, saved), x);
  EXPECT_EQ(block.backward(dy, saved), dy);
}

TYPED_TEST(BlockCases, TheTwoSandwichesAreTwoFormulas) {  // B99
  using T = TypeParam;
  const Row<T> x{{1, 3}};
  const auto n = this->norm(2, 0);
  this->expect_row(PreNorm(n, times(10)).forward(x), {-9, 13});
  this->expect_row(evenkeel::PeriNorm(n, n, times(10)).forward(x), {0, 4});
  this->expect_row(evenkeel::SandwichNorm(n, n, times(10)).forward(x), {-1, 1});
}

TYPED_TEST(BlockCases, DroppingEverythingLeavesTheSkipPath) {  // B100
  using T = TypeParam;
  using AnyBlock = typename TestFixture::Block;
  const auto n = this->norm(features);
  const auto x = random_matrix<T>(6), dy = random_matrix<T>(7);
  for (const auto kind : {evenkeel::DropoutKind::per_element, evenkeel::DropoutKind::per_sample}) {
    const evenkeel::Dropout<T> all(1, 1, "drop", kind);
    AnyBlock pre(times(3), {.in = n}, {.drop = all}), post(times(3), {.trunk = n}, {.drop = all});
    typename AnyBlock::Saved saved;
    EXPECT_EQ(pre.forward(x, saved), x);
    EXPECT_EQ(pre.backward(dy, saved), dy);
    EXPECT_EQ(post.forward(x, saved), n.forward(x));
  }
}

TYPED_TEST(BlockCases, EpsReachesTheNorm) {  // B34
  using T = TypeParam;
  const Row<T> x = Row<T>::Constant(4, T(0.001));
  for (const auto& [eps, normalized] : {std::pair{1e-6, 0.7071068}, std::pair{1e-5, 0.3015113}}) {
    const RMSNorm<T> norm(4, {.eps = eps});
    const auto y = PreNorm(norm, times(1)).forward(x);
    const auto post = PostNorm(norm, times(0)).forward(x);
    EXPECT_NEAR(y[0], normalized + 0.001, 4e-7);
    EXPECT_NEAR(post[0], normalized, 4e-7);
  }
}

TYPED_TEST(BlockCases, AGammaOfZeroLeavesEveryGradientFinite) {  // B52
  using T = TypeParam;
  for (const bool pre : {true, false}) {
    LayerNorm<T> norm(4);
    norm.gamma().load(std::vector<T>{1, 0, 2, -1}.data(), 4);
    Residual<LayerNorm<T>, TimesSublayer> block = pre ? typename TestFixture::Block(PreNorm(norm, times(1)))
                                                      : typename TestFixture::Block(PostNorm(norm, times(1)));
    typename TestFixture::Block::Saved saved;
    const Row<T> x{{1, 2, 4, 9}}, dy{{1, 0, -2, 3}};
    block.forward(x, saved);
    EXPECT_TRUE(block.backward(dy, saved).allFinite());
    for_each_parameter(block, [](const std::string& path, const Parameter<T>& parameter) {
      for (const T value : parameter.gradient()) EXPECT_TRUE(std::isfinite(value)) << path;
    });
  }
}

TYPED_TEST(BlockCases, NaNAndInfinityStayInTheirRow) {
  using T = TypeParam;
  auto x = random_matrix<T>(5);
  const auto clean = x;
  x(1, 2) = std::numeric_limits<T>::quiet_NaN();
  x(3, 0) = std::numeric_limits<T>::infinity();
  const auto n = this->norm(features);
  using AnyBlock = typename TestFixture::Block;
  const AnyBlock all(times(2), {.in = n, .branch = n, .skip = n, .trunk = n});
  const auto y = all.forward(x), expected = all.forward(clean);
  for (const Index row : {0, 2, 4}) EXPECT_EQ(y.row(row), expected.row(row)) << row;
  for (const Index row : {1, 3}) EXPECT_TRUE(y.row(row).array().isNaN().all()) << row;
}

}  // namespace
}  // namespace evenkeel_test
