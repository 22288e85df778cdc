// gamma that is one number for all features, and its gradient, which is one number too.
#include "core/error_text.hpp"
#include "evenkeel/ops/group_norm.hpp"
#include "ops/op_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;
using evenkeel::around_zero;
using evenkeel::scalar_gamma;

template <class Op>
class NormScalarGamma : public testing::Test {};
TYPED_TEST_SUITE(NormScalarGamma, Ops, OpName);

/// Rows, lanes, and rows that are gathered.
template <class S>
std::vector<TensorView<const S>> layouts_of(const std::vector<S>& values, Index rows, Index features) {
  return {TensorView<const S>(values.data(), {rows, features}),
          TensorView<const S>(values.data(), {rows, features}, StorageOrder::column_major),
          TensorView<const S>(values.data(), {rows, features}, {2 * features, 2}, StorageOrder::row_major)};
}

template <class Op, class S = typename Op::Scalar>
struct ScalarGammaRun {
  std::vector<S> y, dx, dgamma, dbeta;

  /// What is not written stays 0.
  ScalarGammaRun(const std::vector<S>& x, const std::vector<S>& dy, std::size_t layout, const OpOptions<S>& options,
                 std::size_t gammas)
      : y(x.size()), dx(x.size()), dgamma(gammas), dbeta(40) {
    const auto like = [&](std::vector<S>& memory) {
      const auto view = layouts_of(x, 6, 40)[layout];
      return TensorView<S>(memory.data(), view.shape(), view.strides(), view.order());
    };
    NormStatistics<S> saved;
    Op::into(layouts_of(x, 6, 40)[layout], like(y), saved, options);
    std::vector<std::byte> workspace(Op::workspace_bytes({6, 40}));
    Op::backward(layouts_of(dy, 6, 40)[layout], layouts_of(x, 6, 40)[layout], saved, options,
                 {.dx = like(dx), .dgamma = dgamma, .dbeta = dbeta}, {.workspace = workspace});
  }
};

/// As a gamma with that number everywhere, bit for bit; its gradient is the sum of that one's.
TYPED_TEST(NormScalarGamma, IsTheSameNumberForEveryFeature) {
  using S = typename TypeParam::Scalar;
  const auto x = normal_vector<S>(480, 91, 0.5), dy = normal_vector<S>(480, 92), beta = normal_vector<S>(40, 93);
  const S number = S(1.75);
  const std::vector<S> numbers(40, number);
  for (const std::size_t layout : {0, 1, 2}) {
    SCOPED_TRACE(layout);
    const ScalarGammaRun<TypeParam> got(x, dy, layout, {.gamma = scalar_gamma(number), .beta = beta}, 1);
    const ScalarGammaRun<TypeParam> expected(x, dy, layout, {.gamma = numbers, .beta = beta}, 40);
    EXPECT_TRUE(same_bits(got.y, expected.y) && same_bits(got.dx, expected.dx));
    EXPECT_TRUE(same_bits(got.dbeta, expected.dbeta));
    long double sum = 0, scale = 0;
    for (const S dgamma : expected.dgamma) sum += dgamma, scale += std::abs(dgamma);
    EXPECT_TRUE(within_ulp(got.dgamma, Reals{sum}, 1, {scale}));
  }
}

TYPED_TEST(NormScalarGamma, GradientMatchesTheOracle) {
  using S = typename TypeParam::Scalar;
  using Norm = typename TypeParam::Kernel::Norm;
  const auto x = normal_vector<S>(240, 94, 0.5), dy = normal_vector<S>(240, 95);
  const S number = S(-0.375);
  const ScalarGammaRun<TypeParam> got(x, dy, 0, {.gamma = scalar_gamma(number)}, 1);
  const auto expected =
      Norm::gradients(oracle::widen(dy), oracle::widen(x), 6, 40, Reals(40, static_cast<long double>(number)), 1e-5);
  const long double dgamma = oracle::mean_of(expected.dgamma) * 40;
  EXPECT_TRUE(within_ulp(got.dgamma, Reals{dgamma}, 4 * std::sqrt(240.0L), expected.dgamma_scale));
  EXPECT_TRUE(within_ulp(got.dx, expected.dx, 4, expected.dx_scale));
}

TYPED_TEST(NormScalarGamma, AroundZeroAndAddedTo) {
  using S = typename TypeParam::Scalar;
  const auto x = normal_vector<S>(240, 96), dy = normal_vector<S>(240, 97);
  const S number = S(1.5), less_one = S(0.5);
  const ScalarGammaRun<TypeParam> expected(x, dy, 0, {.gamma = scalar_gamma(number)}, 1);
  const ScalarGammaRun<TypeParam> got(x, dy, 0, {.gamma = around_zero(scalar_gamma(less_one))}, 1);
  EXPECT_TRUE(same_bits(got.y, expected.y) && same_bits(got.dx, expected.dx) && same_bits(got.dgamma, expected.dgamma));

  const TensorView<const S> x_view(x.data(), {6, 40}), dy_view(dy.data(), {6, 40});
  NormStatistics<S> saved;
  std::vector<S> y(240), sum(1, 3);
  TypeParam::into(x_view, TensorView<S>(y.data(), {6, 40}), saved);
  TypeParam::backward(dy_view, x_view, saved, {.gamma = scalar_gamma(number)}, {.dgamma = add_to(sum)});
  EXPECT_TRUE(within_ulp(sum, Reals{3 + static_cast<long double>(expected.dgamma[0])}, 2));
}

TYPED_TEST(NormScalarGamma, IsNeverGuessed) {
  using S = typename TypeParam::Scalar;
  const std::vector<S> x(12, 1), one(1, 2);
  std::vector<S> y(12, poison<S>), discarded(12), dgamma(4, poison<S>);
  const TensorView<const S> x_view(x.data(), {3, 4});
  NormStatistics<S> saved;
  TypeParam::into(x_view, TensorView<S>(discarded.data(), {3, 4}), saved);
  const auto forward = [&](const OpOptions<S>& options) {
    return error_text<std::invalid_argument>([&] {
      TypeParam::into(x_view, TensorView<S>(y.data(), {3, 4}), options);
    });
  };
  const std::string name = std::string("evenkeel::") + TypeParam::name;
  EXPECT_EQ(forward({.gamma = one}),
            name + "_into: gamma has 1 elements, expected 4 (normalized axes of shape [4]; x has shape [3, 4])");
  EXPECT_EQ(error_text<std::invalid_argument>([&] {
              TypeParam::backward(x_view, x_view, saved, {.gamma = scalar_gamma(one[0])}, {.dgamma = dgamma});
            }),
            name + "_backward: dgamma has 4 elements, expected 1 (gamma is one number for all features)");
  EXPECT_TRUE(same_bits(y, std::vector<S>(12, poison<S>)) && same_bits(dgamma, std::vector<S>(4, poison<S>)));
}

TEST(NormScalarGammaOfOthers, IsRefused) {
  const std::vector<float> x(12, 1), shift(4);
  std::vector<float> y(12, 7);
  const float number = 2;
  const TensorView<const float> x_view(x.data(), {3, 4});
  const TensorView<float> y_view(y.data(), {3, 4});
  const std::string text =
      " is given as scalar_gamma, expected a number for each (scalar_gamma is for gamma of LayerNorm and RMSNorm)";
  EXPECT_EQ(error_text<std::invalid_argument>(
                [&] { evenkeel::layer_norm_into(x_view, y_view, {.beta = scalar_gamma(number)}); }),
            "evenkeel::layer_norm_into: beta" + text);
  EXPECT_EQ(error_text<std::invalid_argument>(
                [&] { evenkeel::group_norm_into(x_view, y_view, {.gamma = scalar_gamma(number), .groups = 2}); }),
            "evenkeel::group_norm_into: gamma" + text);
  EXPECT_EQ(y, std::vector<float>(12, 7));
}

}  // namespace
}  // namespace evenkeel_test
