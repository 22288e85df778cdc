// LayerNorm and RMSNorm layers of bfloat16 and half, with parameters of their type or float.
#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/layers/rms_norm.hpp"

namespace evenkeel_test {
namespace {

using B = Eigen::bfloat16;
using evenkeel::Index;
using evenkeel::LayerNorm;
using evenkeel::NormStatistics;
using evenkeel::RMSNorm;

template <class X>
using Matrix = Eigen::Matrix<X, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A layer gives what the op gives with its parameters, forward and backward.
template <class X, class P>
void expect_like_op(LayerNorm<X, P>& norm) {
  const Index features = norm.normalized_shape()[0];
  const Matrix<X> x = Matrix<X>::Random(3, features), dy = Matrix<X>::Random(3, features);
  for (Index j = 0; j < features; ++j) {
    norm.gamma().mutable_values()[static_cast<std::size_t>(j)] = P(0.5f + 0.25f * static_cast<float>(j % 5));
    norm.beta().mutable_values()[static_cast<std::size_t>(j)] = P(0.125f * static_cast<float>(j % 3));
  }
  typename LayerNorm<X, P>::Saved saved;
  const Matrix<X> y = norm.forward(x, saved), dx = norm.backward(dy, saved);
  EXPECT_EQ(y, norm.forward(x));

  NormStatistics<X> statistics;
  const auto gamma = norm.gamma().values(), beta = norm.beta().values();
  const Matrix<X> expected_y = evenkeel::layer_norm(x, statistics, {.gamma = gamma, .beta = beta});
  Matrix<X> expected_dx(3, features);
  std::vector<P> dgamma(static_cast<std::size_t>(features)), dbeta(dgamma);
  evenkeel::layer_norm_backward(dy, x, statistics, {.gamma = gamma},
                                {.dx = expected_dx, .dgamma = dgamma, .dbeta = dbeta});
  EXPECT_EQ(y, expected_y);
  EXPECT_EQ(dx, expected_dx);
  for (std::size_t j = 0; j < dgamma.size(); ++j) {
    EXPECT_EQ(static_cast<float>(norm.gamma().gradient()[j]), static_cast<float>(dgamma[j]));
    EXPECT_EQ(static_cast<float>(norm.beta().gradient()[j]), static_cast<float>(dbeta[j]));
  }
}

TEST(NormLayer16, HasParametersOfItsTypeByDefault) {
  static_assert(std::is_same_v<LayerNorm<B>::ParameterScalar, B>);
  static_assert(std::is_same_v<LayerNorm<B, float>::ParameterScalar, float>);
  LayerNorm<B> norm(33);
  EXPECT_EQ(static_cast<float>(norm.gamma().values()[7]), 1);
  EXPECT_EQ(static_cast<float>(norm.beta().values()[7]), 0);
  expect_like_op(norm);
}

TEST(NormLayer16, ParametersMayBeFloat) {
  LayerNorm<B, float> norm(33);
  expect_like_op(norm);
  const LayerNorm<B, float> fresh = norm.fresh();
  EXPECT_EQ(fresh.gamma().values()[1], 1);
}

TEST(NormLayer16, RMSNormOfHalf) {
  RMSNorm<Eigen::half, float> wide(16);
  RMSNorm<Eigen::half> narrow(16);
  const Matrix<Eigen::half> x = Matrix<Eigen::half>::Random(2, 16);
  RMSNorm<Eigen::half, float>::Saved saved;
  RMSNorm<Eigen::half>::Saved narrow_saved;
  EXPECT_EQ(wide.forward(x, saved), narrow.forward(x, narrow_saved));
  EXPECT_EQ(wide.backward(x, saved), narrow.backward(x, narrow_saved));
  static_assert(std::is_same_v<decltype(saved.statistics().rstd), std::vector<float>>);
}

}  // namespace
}  // namespace evenkeel_test
