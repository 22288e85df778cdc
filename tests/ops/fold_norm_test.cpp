// gamma and beta of a norm, folded into the linear map behind it.
#include "evenkeel/ops/fold_norm.hpp"

#include "core/error_text.hpp"
#include "evenkeel/ops/layer_norm.hpp"
#include "support/matrix.hpp"
#include "support/random.hpp"

namespace evenkeel_test {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix random_matrix(Eigen::Index rows, Eigen::Index columns, std::uint64_t seed) {
  return normal_matrix<double>(rows, columns, seed);
}

TEST(FoldNorm, TheLinearMapOfTheNormIsTheFoldedOneOfTheBareNorm) {
  const Matrix x = random_matrix(7, 5, 1);
  const auto gamma = normal_vector<double>(5, 2), beta = normal_vector<double>(5, 3);
  std::vector<double> less_one = gamma;
  for (double& value : less_one) value -= 1;
  for (int presence = 0; presence < 8; ++presence) {
    evenkeel::ParameterView<double> g, b;
    if (presence & 1) g = (presence & 4) ? evenkeel::ParameterView<double>(evenkeel::around_zero(less_one)) : gamma;
    if (presence & 2) b = beta;
    for (const int in_axis : {1, 0}) {
      Matrix weight = in_axis == 1 ? random_matrix(3, 5, 4) : random_matrix(5, 3, 4);
      Eigen::VectorXd bias = random_matrix(3, 1, 5);
      const auto linear = [&](const Matrix& in) -> Matrix {
        return (in_axis == 1 ? Matrix(in * weight.transpose()) : Matrix(in * weight)).rowwise() + bias.transpose();
      };
      const Matrix expected = linear(evenkeel::layer_norm(x, {.gamma = g, .beta = b}));
      evenkeel::fold_parameters_into_following_linear(g, b, weight, bias, in_axis);
      EXPECT_LE((linear(evenkeel::layer_norm(x)) - expected).cwiseAbs().maxCoeff(), 1e-14) << presence << in_axis;
    }
  }
}

TEST(FoldNorm, GammaIsOneNumberForEachInput) {
  Matrix weight = random_matrix(3, 5, 4);
  const Matrix before = weight;
  std::vector<double> bias(3), gamma(4);
  EXPECT_EQ(error_text<std::invalid_argument>(
                [&] { evenkeel::fold_parameters_into_following_linear(gamma, {}, weight, bias); }),
            "evenkeel::fold_into_following_linear: gamma has 4 elements, expected 5 (the inputs of weight)");
  EXPECT_EQ(weight, before);
}

}  // namespace
}  // namespace evenkeel_test
