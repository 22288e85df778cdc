// What only numbers of 16 bits have: two types of parameters in one call, output types, errors, Eigen's tensors.
#include <type_traits>

#include "core/error_text.hpp"
#include "evenkeel/core/eigen_tensor.hpp"
#include "evenkeel/ops/layer_norm.hpp"

#include <gtest/gtest.h>

namespace evenkeel_test {
namespace {

using evenkeel::LayerNormOptions;
using evenkeel::NormStatistics;
using B = Eigen::bfloat16;
using Matrix = Eigen::Matrix<B, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

TEST(LayerNorm16, OutputHasTheTypeOfXWhateverTheParameters) {
  const Matrix x = Matrix::Random(2, 4);
  const std::vector<float> gamma(4, 1);
  static_assert(std::is_same_v<decltype(evenkeel::layer_norm(x, {.gamma = gamma})), Matrix>);
  static_assert(std::is_same_v<NormStatistics<B>::Number, float>);
  const Eigen::Tensor<B, 3, Eigen::RowMajor> tensor(2, 3, 4);
  static_assert(
      std::is_same_v<decltype(evenkeel::layer_norm(tensor, {.gamma = gamma})), Eigen::Tensor<B, 3, Eigen::RowMajor>>);
}

TEST(LayerNorm16, ParametersOfTheSameValuesGiveTheSameBits) {
  const Matrix x = Matrix::Random(3, 37);
  const Eigen::Vector<B, Eigen::Dynamic> gamma = Eigen::Vector<B, Eigen::Dynamic>::Random(37);
  const Eigen::VectorXf wide = gamma.cast<float>();
  const Matrix narrow_y = evenkeel::layer_norm(x, {.gamma = gamma, .beta = gamma});
  const Matrix wide_y = evenkeel::layer_norm(x, {.gamma = wide, .beta = {wide.data(), 37}});
  EXPECT_EQ(narrow_y, wide_y);
}

TEST(LayerNorm16, AnEpsOfItsOwnTypeWouldBeTooLarge) {
  const Matrix x = Matrix::Constant(1, 2, B(0)) + Matrix{{B(0.0625f), B(-0.0625f)}};
  EXPECT_EQ(static_cast<float>(evenkeel::layer_norm(x)(0, 0)), 1);
}

TEST(LayerNorm16, ParametersOfTwoTypesAreRefused) {
  const Matrix x = Matrix::Random(2, 4);
  Matrix y(2, 4), dx(2, 4);
  std::vector<float> wide(4, 1);
  std::vector<B> narrow(4, B(1));
  NormStatistics<B> saved;
  evenkeel::layer_norm_into(x, y, saved);
  const Matrix before = y;
  const LayerNormOptions<B> mixed{.gamma = wide, .beta = narrow};
  EXPECT_EQ(error_text<std::invalid_argument>([&] { evenkeel::layer_norm_into(x, y, mixed); }),
            "evenkeel::layer_norm_into: beta has 16-bit elements, expected float ones as gamma has");
  EXPECT_EQ(error_text<std::invalid_argument>(
                [&] { evenkeel::layer_norm_backward(x, x, saved, {.gamma = narrow}, {.dx = dx, .dgamma = wide}); }),
            "evenkeel::layer_norm_backward: dgamma has float elements, expected 16-bit ones as gamma has");
  EXPECT_EQ(y, before);
}

TEST(LayerNorm16, OverlapIsJudgedInTheElementsOfEach) {
  std::vector<float> memory(8);
  auto* const narrow = reinterpret_cast<B*>(memory.data());
  const evenkeel::TensorView<B> y(narrow + 4, {2, 4});  // bytes 8 to 24
  const Matrix input = Matrix::Random(2, 4);
  EXPECT_EQ(error_text<std::invalid_argument>([&] {
              evenkeel::layer_norm_into(input, y, {.gamma = {memory.data(), 4}});
            }),
            "evenkeel::layer_norm_into: y overlaps gamma in memory, expected memory of its own");
  EXPECT_NO_THROW(evenkeel::layer_norm_into(input, y, {.gamma = {narrow, 4}}));
}

}  // namespace
}  // namespace evenkeel_test
