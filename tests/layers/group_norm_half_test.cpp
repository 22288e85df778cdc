// The layers GroupNorm and InstanceNorm of bfloat16 and half, with parameters of their type or float: what the
// operations give.
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>
#include <vector>

#include "evenkeel/layers/group_norm.hpp"
#include "evenkeel/layers/instance_norm.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::GroupNorm;
using evenkeel::InstanceNorm;
using evenkeel::NormStatistics;

template <class X>
using Matrix = Eigen::Matrix<X, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A layer of 12 channels gives what group_norm with so many groups gives.
template <class Norm>
void expect_like_op(Norm norm, evenkeel::Index groups) {
  using X = typename Norm::Scalar;
  using P = typename Norm::ParameterScalar;
  for (std::size_t c = 0; c < 12; ++c) {
    norm.gamma().mutable_values()[c] = P(0.5f + 0.25f * static_cast<float>(c % 5));
    norm.beta().mutable_values()[c] = P(0.125f * static_cast<float>(c % 3));
  }
  const Matrix<X> x = Matrix<X>::Random(4, 12), dy = Matrix<X>::Random(4, 12);
  typename Norm::Saved saved;
  std::vector<std::byte> workspace(norm.workspace_bytes(evenkeel::Shape{4, 12}));
  const evenkeel::Context context{.workspace = workspace};
  Matrix<X> y(4, 12), dx(4, 12);
  norm.forward_into(x, y, saved, context);
  norm.backward_into(dy, saved, dx, context);
  EXPECT_EQ(y, norm.forward(x));

  NormStatistics<X> statistics;
  const auto gamma = norm.gamma().values(), beta = norm.beta().values();
  EXPECT_EQ(y, evenkeel::group_norm(x, statistics, {.gamma = gamma, .beta = beta, .groups = groups}));
  Matrix<X> expected_dx(4, 12);
  std::vector<P> dgamma(12), dbeta(12);
  evenkeel::group_norm_backward(dy, x, statistics, {.gamma = gamma, .groups = groups},
                                {.dx = expected_dx, .dgamma = dgamma, .dbeta = dbeta});
  EXPECT_EQ(dx, expected_dx);
  for (std::size_t c = 0; c < 12; ++c) {
    EXPECT_EQ(static_cast<float>(norm.gamma().gradient()[c]), static_cast<float>(dgamma[c]));
    EXPECT_EQ(static_cast<float>(norm.beta().gradient()[c]), static_cast<float>(dbeta[c]));
  }
  EXPECT_EQ(static_cast<float>(norm.fresh().gamma().values()[2]), 1);
}

TEST(GroupNormLayer16, IsThatOfTheOperations) {
  static_assert(std::is_same_v<GroupNorm<Eigen::half>::ParameterScalar, Eigen::half>);
  expect_like_op(GroupNorm<Eigen::bfloat16>(3, 12), 3);
  expect_like_op(GroupNorm<Eigen::bfloat16, float>(3, 12), 3);
  expect_like_op(GroupNorm<Eigen::half>(12, 12), 12);
  expect_like_op(GroupNorm<Eigen::half, float>(1, 12), 1);
}

TEST(InstanceNormLayer16, IsThatOfTheOperations) {
  static_assert(std::is_same_v<InstanceNorm<Eigen::half, float>::ParameterScalar, float>);
  expect_like_op(InstanceNorm<Eigen::bfloat16>(12), 12);
  expect_like_op(InstanceNorm<Eigen::bfloat16, float>(12), 12);
  expect_like_op(InstanceNorm<Eigen::half>(12), 12);
  expect_like_op(InstanceNorm<Eigen::half, float>(12), 12);
}

}  // namespace
}  // namespace evenkeel_test
