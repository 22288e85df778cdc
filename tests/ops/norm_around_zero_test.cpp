// gamma that is stored as its distance from 1, as an operation and in a layer.
#include "core/error_text.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/layers/rms_norm.hpp"
#include "evenkeel/ops/group_norm.hpp"
#include "ops/op_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::around_zero;

/// The same data with gamma less 1, which is exact.
template <class S>
std::vector<S> less_one(const std::vector<S>& gamma) {
  std::vector<S> less = gamma;
  for (S& value : less) value -= 1;
  return less;
}
template <class S>
Data<S> data_with_coarse_gamma(Index rows, Index features) {
  auto d = random_data<S>(rows, features, 501, 0.5);
  for (S& value : d.gamma) value = std::round(value * 64) / 64;
  return d;
}

template <class Op>
class NormAroundZero : public testing::Test {};
TYPED_TEST_SUITE(NormAroundZero, Ops, OpName);

TYPED_TEST(NormAroundZero, IsGammaLessOne) {
  using S = typename TypeParam::Scalar;
  const auto d = data_with_coarse_gamma<S>(5, 33);
  const auto weight = less_one(d.gamma);
  const auto saved_by_kernel = forward<typename TypeParam::Kernel>(d);
  const auto expected = backward<typename TypeParam::Kernel>(d, saved_by_kernel);
  const TensorView<const S> x(d.x.data(), {5, 33}), dy(d.dy.data(), {5, 33});
  auto options = options_of(d);
  options.gamma = around_zero(weight);
  std::vector<S> y(d.x.size()), dx(d.x.size()), dgamma(33), dbeta(33);
  NormStatistics<S> saved;
  TypeParam::into(x, TensorView<S>(y.data(), {5, 33}), saved, options);
  TypeParam::backward(dy, x, saved, options,
                      {.dx = TensorView<S>(dx.data(), {5, 33}), .dgamma = dgamma, .dbeta = dbeta});
  EXPECT_TRUE(same_bits(y, saved_by_kernel.y));
  EXPECT_TRUE(same_bits(dx, expected.dx));
  EXPECT_TRUE(same_bits(dgamma, expected.dgamma));
  EXPECT_TRUE(!is_centred<TypeParam> || same_bits(dbeta, expected.dbeta));
}

TYPED_TEST(NormAroundZero, IsForGammaOnly) {
  using S = typename TypeParam::Scalar;
  const std::vector<S> weight(4);
  const RowMatrix<S> x = RowMatrix<S>::Random(3, 4);
  if (is_centred<TypeParam>) {
    EXPECT_EQ(error_text<std::invalid_argument>([&] { TypeParam::of(x, {.beta = around_zero(weight)}); }),
              std::string("evenkeel::") + TypeParam::name +
                  "_into: beta is given around_zero, expected the numbers themselves (around_zero is for gamma of "
                  "LayerNorm and RMSNorm)");
  }
  EXPECT_EQ(
      error_text<std::invalid_argument>([&] { evenkeel::group_norm(x, {.gamma = around_zero(weight), .groups = 2}); }),
      "evenkeel::group_norm_into: gamma is given around_zero, expected the numbers themselves (around_zero is for "
      "gamma of LayerNorm and RMSNorm)");
}

template <class Norm>
class LayerAroundZero : public testing::Test {};
using Layers = testing::Types<evenkeel::LayerNorm<float>, evenkeel::RMSNorm<double>>;
TYPED_TEST_SUITE(LayerAroundZero, Layers);

TYPED_TEST(LayerAroundZero, StartsAtZeroAndIsTheLayerOfGammaPlusOne) {
  using S = typename TypeParam::Scalar;
  const auto d = data_with_coarse_gamma<S>(5, 12);
  const RowMatrix<S> x = Eigen::Map<const RowMatrix<S>>(d.x.data(), 5, 12);
  const RowMatrix<S> dy = Eigen::Map<const RowMatrix<S>>(d.dy.data(), 5, 12);
  TypeParam norm(12, {.gamma_around_zero = true}), plain(12);
  EXPECT_EQ(norm.gamma().values()[3], S(0));
  EXPECT_EQ(norm.forward(x), plain.forward(x));
  norm.gamma().load(less_one(d.gamma).data(), 12);
  plain.gamma().load(d.gamma.data(), 12);
  typename TypeParam::Saved saved, plain_saved;
  EXPECT_EQ(norm.forward(x, saved), plain.forward(x, plain_saved));
  EXPECT_EQ(norm.backward(dy, saved), plain.backward(dy, plain_saved));
  for (std::size_t j = 0; j < 12; ++j) EXPECT_EQ(norm.gamma().gradient()[j], plain.gamma().gradient()[j]);
  EXPECT_EQ(norm.fresh().forward(x), TypeParam(12).forward(x));
}

/// 1 + gamma is taken in float, and not rounded to the 16 bits of gamma.
TEST(NormAroundZero16, AddsOneInFloat) {
  using S = Eigen::bfloat16;
  const auto d = random_data<float>(3, 20, 503);
  std::vector<S> x(d.x.begin(), d.x.end()), weight(d.gamma.begin(), d.gamma.end()), y(60), y_wide(60), dgamma(20);
  std::vector<float> gamma(20), dgamma_wide(20);
  for (std::size_t j = 0; j < 20; ++j) gamma[j] = 1 + static_cast<float>(weight[j]);
  const TensorView<const S> view(x.data(), {3, 20});
  NormStatistics<S> saved;
  evenkeel::rms_norm_into(view, TensorView<S>(y.data(), {3, 20}), saved, {.gamma = around_zero(weight)});
  evenkeel::rms_norm_into(view, TensorView<S>(y_wide.data(), {3, 20}), {.gamma = gamma});
  evenkeel::rms_norm_backward(view, view, saved, {.gamma = around_zero(weight)}, {.dgamma = dgamma});
  evenkeel::rms_norm_backward(view, view, saved, {.gamma = gamma}, {.dgamma = dgamma_wide});
  for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(static_cast<float>(y[i]), static_cast<float>(y_wide[i]));
  for (std::size_t j = 0; j < 20; ++j) EXPECT_EQ(static_cast<float>(dgamma[j]), static_cast<float>(S(dgamma_wide[j])));
}

}  // namespace
}  // namespace evenkeel_test
