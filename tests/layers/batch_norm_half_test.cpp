// The layer BatchNorm of bfloat16 and half, with parameters of their type or float: what the operations give.
#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <vector>

#include "evenkeel/layers/batch_norm.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::BatchNorm;
using evenkeel::BatchNormStatistics;
using evenkeel::Index;

template <class X>
using Matrix = Eigen::Matrix<X, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class ScalarType, class P>
struct LayerConfig {
  using Scalar = ScalarType;
  using Parameter = P;
};
template <class C>
class BatchNormLayer16 : public testing::Test {};
using LayerConfigs = testing::Types<LayerConfig<Eigen::bfloat16, Eigen::bfloat16>, LayerConfig<Eigen::bfloat16, float>,
                                    LayerConfig<Eigen::half, Eigen::half>, LayerConfig<Eigen::half, float>>;
struct LayerName {
  template <class C>
  static std::string GetName(int) {
    return std::string(std::is_same_v<typename C::Scalar, Eigen::half> ? "half" : "bfloat16") +
           (std::is_same_v<typename C::Parameter, float> ? "_float" : "_same");
  }
};
TYPED_TEST_SUITE(BatchNormLayer16, LayerConfigs, LayerName);

template <class X, class P>
void set_parameters(BatchNorm<X, P>& norm) {
  for (Index c = 0; c < norm.channels(); ++c) {
    norm.gamma().mutable_values()[static_cast<std::size_t>(c)] = P(0.5f + 0.25f * static_cast<float>(c % 5));
    norm.beta().mutable_values()[static_cast<std::size_t>(c)] = P(0.125f * static_cast<float>(c % 3));
  }
}

TYPED_TEST(BatchNormLayer16, TrainingIsThatOfTheOperations) {
  using X = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  BatchNorm<X, P> norm(33);
  static_assert(std::is_same_v<decltype(norm.gamma().data()), const P*>);
  static_assert(std::is_same_v<decltype(norm.running_var().data()), const float*>);
  set_parameters(norm);
  const Matrix<X> x = Matrix<X>::Random(8, 33), dy = Matrix<X>::Random(8, 33);
  typename BatchNorm<X, P>::Saved saved;
  const Matrix<X> y = norm.forward(x, saved), dx = norm.backward(dy, saved);

  BatchNormStatistics<X> statistics;
  const auto gamma = norm.gamma().values(), beta = norm.beta().values();
  std::vector<float> mean(33, 0), var(33, 1);
  EXPECT_EQ(y, evenkeel::batch_norm(x, statistics, {.gamma = gamma, .beta = beta}, {.mean = mean, .var = var}));
  Matrix<X> expected_dx(8, 33);
  std::vector<P> dgamma(33), dbeta(33);
  evenkeel::batch_norm_backward(dy, x, statistics, {.gamma = gamma},
                                {.dx = expected_dx, .dgamma = dgamma, .dbeta = dbeta});
  EXPECT_EQ(dx, expected_dx);
  for (std::size_t c = 0; c < 33; ++c) {
    EXPECT_EQ(static_cast<float>(norm.gamma().gradient()[c]), static_cast<float>(dgamma[c]));
    EXPECT_EQ(static_cast<float>(norm.beta().gradient()[c]), static_cast<float>(dbeta[c]));
    EXPECT_EQ(norm.running_mean().values()[c], mean[c]);
    EXPECT_EQ(norm.running_var().values()[c], var[c]);
  }
  EXPECT_EQ(norm.batches(), 1);
  EXPECT_EQ(norm.fresh().running_var().values()[2], 1);
}

TYPED_TEST(BatchNormLayer16, InferenceIsThatOfTheOperationsWithAnActivationToo) {
  using X = typename TypeParam::Scalar;
  BatchNorm<X, typename TypeParam::Parameter> norm(9);
  set_parameters(norm);
  for (float& mean : norm.running_mean().mutable_values()) mean = 0.3f;
  for (float& var : norm.running_var().mutable_values()) var = 0.7f;
  const Matrix<X> x = Matrix<X>::Random(5, 9);
  const auto running = norm.running_statistics();
  const auto options = norm.options();
  EXPECT_EQ(norm.forward(x), evenkeel::batch_norm(x, running, options));
  Matrix<X> y(5, 9);
  norm.forward_into(x, y, evenkeel::kernels::Relu());
  EXPECT_EQ(y, evenkeel::batch_norm(x, running, options, evenkeel::kernels::Relu()));
  std::vector<std::byte> workspace(norm.workspace_bytes(evenkeel::Shape{5, 9}));
  Matrix<X> again(5, 9);
  norm.forward_into(x, again, evenkeel::Context{.workspace = workspace});
  EXPECT_EQ(again, norm.forward(x));
}

TYPED_TEST(BatchNormLayer16, FrozenStatisticsStay) {
  using X = typename TypeParam::Scalar;
  BatchNorm<X, typename TypeParam::Parameter> norm(9, {.freeze_statistics = true});
  set_parameters(norm);
  const Matrix<X> x = Matrix<X>::Random(5, 9);
  typename BatchNorm<X, typename TypeParam::Parameter>::Saved saved;
  EXPECT_EQ(norm.forward(x, saved), norm.forward(x));
  EXPECT_EQ(norm.running_mean().values()[3], 0);
  const Matrix<X> dx = norm.backward(x, saved);
  const float gain = 1.25f / std::sqrt(1 + 1e-5f);  // gamma * rstd
  EXPECT_EQ(dx(2, 3), X(gain * static_cast<float>(x(2, 3))));
}

}  // namespace
}  // namespace evenkeel_test
