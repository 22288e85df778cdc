// What is LayerNorm's alone. What it shares with RMSNorm: norm_layer_*_test.cpp.
#include "evenkeel/layers/layer_norm.hpp"

#include "layers/layer_test.hpp"

namespace evenkeel_test {
namespace {

using Layer = evenkeel::LayerNorm<float>;
using Matrix = RowMatrix<float>;

TEST(LayerNormLayer, BetaStartsAtZero) {
  const Layer layer(3);
  EXPECT_EQ(values_of(layer.beta()), std::vector<float>(3, 0));
  EXPECT_FALSE(layer.beta().has_gradient());
}

// B41: gamma and beta, each alone and neither.
TEST(LayerNormLayer, GammaAndBetaAreOptionalEachAlone) {
  const auto x = random_matrix<Matrix>(3, 7, 1), dy = random_matrix<Matrix>(3, 7, 2);
  for (const bool with_gamma : {false, true}) {
    for (const bool with_beta : {false, true}) {
      SCOPED_TRACE(std::string(with_gamma ? "gamma " : "") + (with_beta ? "beta" : ""));
      auto layer = with_random_parameters(Layer(7, {.with_gamma = with_gamma, .with_beta = with_beta}));
      EXPECT_EQ(layer.gamma().is_absent(), !with_gamma);
      EXPECT_EQ(layer.beta().is_absent(), !with_beta);
      Layer::Saved saved;
      EXPECT_EQ(values_of(layer.forward(x, saved)), values_of(LayerNormOp<float>::of(x, options_of(layer))));
      layer.backward(dy, saved);
      EXPECT_EQ(layer.gamma().has_gradient(), with_gamma);
      EXPECT_EQ(layer.beta().has_gradient(), with_beta);
      const auto fresh = layer.fresh();
      EXPECT_EQ(fresh.gamma().is_absent(), !with_gamma);
      EXPECT_EQ(fresh.beta().is_absent(), !with_beta);
    }
  }
}

// B51
TEST(LayerNormLayer, GammaAndBetaHaveGradientsOfTheirOwn) {
  Matrix x(1, 4), dy(1, 4);
  x << 1, 2, 4, 9;
  dy << 1, 0, -2, 3;
  Layer layer(4);
  Layer::Saved saved;
  layer.forward(x, saved);
  layer.backward(dy, saved);
  EXPECT_TRUE(within(gradient_of(layer.gamma()), Reals{-0.9733280L, 0, 0, 4.8666401L}, 4e-7L));
  EXPECT_EQ(gradient_of(layer.beta()), (std::vector<float>{1, 0, -2, 3}));
}

TEST(LayerNormLayer, BetaMayBeMapped) {
  const std::vector<float> beta = {1, 2, 3};
  Layer layer(3);
  layer.beta() = Parameter<float>::map(beta.data(), 3);
  EXPECT_EQ(values_of(layer.forward(Matrix(Matrix::Constant(2, 3, 7.0f)))), (std::vector<float>{1, 2, 3, 1, 2, 3}));
}

TEST(LayerNormLayer, BetaThatWasReplacedStillFits) {
  Layer layer(4);
  layer.beta() = Parameter<float>(3);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { layer.forward(Matrix(Matrix::Ones(3, 4))); }),
            "evenkeel::LayerNorm::forward: beta has 3 elements, expected 4 (normalized axes of shape [4]; x has shape "
            "[3, 4], whose axis 0 has 3)");
}

// The example in the class's documentation.
TEST(LayerNormLayer, TrainsAsDocumented) {
  const Matrix x = random_matrix<Matrix>(5, 768, 1), dy = random_matrix<Matrix>(5, 768, 2);
  Layer norm(768);
  Layer::Saved saved;
  auto y = norm.forward(x, saved);
  auto dx = norm.backward(dy, saved);
  EXPECT_EQ(y.cols(), 768);
  EXPECT_EQ(dx.rows(), 5);
  EXPECT_TRUE(norm.gamma().has_gradient() && norm.beta().has_gradient());
}

}  // namespace
}  // namespace evenkeel_test
