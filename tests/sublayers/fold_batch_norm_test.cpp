// A folded BatchNorm and the linear map beside it give what the two give one after the other.
#include "evenkeel/sublayers/fold_batch_norm.hpp"

#include "evenkeel/core/eigen_tensor.hpp"
#include "ops/batch_norm_test.hpp"
#include "support/matrix.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::BatchNorm;
using evenkeel::Linear;

template <class S>
using RowMatrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class S, int Order = Eigen::RowMajor>
Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Order> random_matrix(Index rows, Index columns, std::uint64_t seed) {
  return normal_matrix<S>(rows, columns, seed);
}

/// Running statistics, gamma and beta of `channels` channels.
template <class S>
struct Folded {
  explicit Folded(Index channels) {
    const auto n = static_cast<std::size_t>(channels);
    mean = normal_vector<S>(n, 1), gamma = normal_vector<S>(n, 2), beta = normal_vector<S>(n, 3);
    for (const S v : normal_vector<S>(n, 4)) var.push_back(std::abs(v) + S(0.1));
  }
  RunningStatistics<S> running() const { return {mean, var}; }
  BatchNormOptions<S> options() const { return {.gamma = gamma, .beta = beta, .eps = 1e-3}; }
  std::vector<S> mean, var, gamma, beta;
};

template <class S>
class FoldBatchNorm : public testing::Test {
 protected:
  /// 1 ulp for each of some dozens of terms of a size of up to 10.
  static constexpr S tolerance = 200 * std::numeric_limits<S>::epsilon();
};
TYPED_TEST_SUITE(FoldBatchNorm, BatchScalars, ScalarName);

TYPED_TEST(FoldBatchNorm, IntoScaleAndShift) {
  using S = TypeParam;
  const Folded<S> f(5);
  std::vector<S> scale(5), shift(5);
  evenkeel::fold_into_scale_shift(f.running(), f.options(), scale, shift);
  for (std::size_t c = 0; c < 5; ++c) {
    const double expected = f.gamma[c] / std::sqrt(static_cast<double>(f.var[c]) + 1e-3);
    EXPECT_NEAR(scale[c], expected, std::numeric_limits<S>::epsilon() * std::abs(expected));
    EXPECT_NEAR(shift[c], f.beta[c] - f.mean[c] * expected, 4 * std::numeric_limits<S>::epsilon());
  }
  const RowMatrix<S> x = random_matrix<S>(7, 5, 8);
  RowMatrix<S> y(7, 5);
  evenkeel::channel_affine_into(x, y, {.scale = scale, .shift = shift});
  EXPECT_TRUE(y.isApprox(evenkeel::batch_norm(x, f.running(), f.options()), this->tolerance));
}

TYPED_TEST(FoldBatchNorm, IntoScaleAndShiftOfAnyStride) {
  using S = TypeParam;
  const Folded<S> f(5);
  std::vector<S> scale(5), shift(5);
  evenkeel::fold_into_scale_shift(f.running(), f.options(), scale, shift);
  RowMatrix<S> both(5, 2);
  evenkeel::fold_into_scale_shift(f.running(), f.options(), both.col(0), both.col(1));
  for (Index c = 0; c < 5; ++c) {
    EXPECT_EQ(both(c, 0), scale[static_cast<std::size_t>(c)]);
    EXPECT_EQ(both(c, 1), shift[static_cast<std::size_t>(c)]);
  }
}

/// Both orientations and storage orders of the weight, with the norm behind (`is_preceding`) or in front of the map.
template <class S, int Order>
void expect_folded(bool is_preceding, bool out_first, S tolerance) {
  const Index in = 4, out = 6;
  const Folded<S> f(is_preceding ? out : in);
  const RowMatrix<S> x = random_matrix<S>(7, in, 8);
  const auto weight = random_matrix<S, Order>(out_first ? out : in, out_first ? in : out, 9);
  const Eigen::RowVector<S, Eigen::Dynamic> bias = random_matrix<S>(1, out, 10).row(0);
  const auto linear = [&](const RowMatrix<S>& input, const auto& w, const auto& b) {
    return RowMatrix<S>((out_first ? RowMatrix<S>(input * w.transpose()) : RowMatrix<S>(input * w)).rowwise() + b);
  };
  const auto norm = [&](const RowMatrix<S>& v) { return evenkeel::batch_norm(v, f.running(), f.options()); };
  const RowMatrix<S> expected = is_preceding ? norm(linear(x, weight, bias)) : linear(norm(x), weight, bias);
  auto w = weight;
  auto b = bias;
  if (is_preceding) {
    evenkeel::fold_into_preceding_linear(f.running(), f.options(), w, b, out_first ? 0 : -1);
  } else {
    evenkeel::fold_into_following_linear(f.running(), f.options(), w, b, out_first ? 1 : 0);
  }
  EXPECT_TRUE(linear(x, w, b).isApprox(expected, tolerance));
}

TYPED_TEST(FoldBatchNorm, IntoEitherOrientationOfAWeight) {
  for (const bool is_preceding : {true, false}) {
    for (const bool out_first : {true, false}) {
      expect_folded<TypeParam, Eigen::RowMajor>(is_preceding, out_first, this->tolerance);
      expect_folded<TypeParam, Eigen::ColMajor>(is_preceding, out_first, this->tolerance);
    }
  }
}

TYPED_TEST(FoldBatchNorm, IntoTheOutputsOfAConvolution) {
  using S = TypeParam;
  const Folded<S> f(3);
  Eigen::Tensor<S, 4, Eigen::RowMajor> weight(3, 2, 2, 2);
  weight.setRandom();
  const auto before = weight;
  std::vector<S> bias(3), scale(3), shift(3);
  evenkeel::fold_into_preceding_linear(f.running(), f.options(), weight, bias);
  evenkeel::fold_into_scale_shift(f.running(), f.options(), scale, shift);
  for (Index i = 0; i < weight.size(); ++i) {
    EXPECT_NEAR(weight.data()[i], before.data()[i] * scale[static_cast<std::size_t>(i / 8)], this->tolerance);
  }
  for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(bias[c], shift[c], this->tolerance);
}

TYPED_TEST(FoldBatchNorm, OfLayersWithAndWithoutABias) {
  using S = TypeParam;
  for (const bool with_bias : {true, false}) {
    Linear<S> linear(4, 4, with_bias);
    linear.weight().load(random_matrix<S>(4, 4, 5).data(), 16);
    if (with_bias) linear.bias().load(random_matrix<S>(1, 4, 6).data(), 4);
    BatchNorm<S> norm(4);
    const Folded<S> f(4);
    norm.gamma().load(f.gamma.data(), 4), norm.beta().load(f.beta.data(), 4);
    norm.running_mean().load(f.mean.data(), 4), norm.running_var().load(f.var.data(), 4);
    const RowMatrix<S> x = random_matrix<S>(7, 4, 8);
    EXPECT_TRUE(evenkeel::folded(linear, norm).forward(x).isApprox(norm.forward(linear.forward(x)), this->tolerance));
    EXPECT_TRUE(evenkeel::folded(norm, linear).forward(x).isApprox(linear.forward(norm.forward(x)), this->tolerance));
    EXPECT_EQ(linear.bias().is_absent(), !with_bias);
  }
}

}  // namespace
}  // namespace evenkeel_test
