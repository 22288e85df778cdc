#include <gtest/gtest.h>

#include "evenkeel/ops/add_norm.hpp"
#include "support/compiled_norms.hpp"
#include "threads/threads_test.hpp"

/// Rows so long, and so few, that threads share the columns of each.
namespace evenkeel_test {
namespace {

using evenkeel::add_to;
using evenkeel::NormStatistics;
namespace kernels = evenkeel::kernels;

template <class S>
class LongRows : public testing::Test {
 protected:
  static constexpr Index rows = 3, features = 300007;

  const std::vector<S> gamma = numbers(1), beta = numbers(2), lambdas = numbers(3);

  static std::vector<S> numbers(std::uint64_t seed) {
    std::vector<S> numbers;
    for (const float number : normal_vector<float>(features, seed)) numbers.push_back(static_cast<S>(number));
    return numbers;
  }
  /// Apart from one another; random numbers have mean 1, to which that of their row is added.
  static OwnTensor<S> tensor(std::size_t offset, std::uint64_t seed = 0, const std::array<float, rows>& means = {}) {
    OwnTensor<S> tensor({rows, features}, StorageOrder::row_major, 5, offset, seed);
    for (Index i = 0; i < rows; ++i) {
      S* row = tensor.view().data() + i * (features + 5);
      for (Index j = 0; seed != 0 && j < features; ++j) {
        row[j] = static_cast<S>(static_cast<float>(row[j]) + means[static_cast<std::size_t>(i)]);
      }
    }
    return tensor;
  }
  Bits layer_norm(const OwnTensor<S>& x, const Context& context, const evenkeel::MaskView& mask = {}) const {
    const auto y = tensor(2);
    NormStatistics<S> saved;
    evenkeel::layer_norm_into(x.view(), y.view(), saved, {.gamma = gamma, .beta = beta, .mask = mask}, context);
    return Bits(y.memory(), saved.mean, saved.mean_rest, saved.rstd);
  }
};
using Scalars = testing::Types<float, Eigen::bfloat16>;
TYPED_TEST_SUITE(LongRows, Scalars);

TYPED_TEST(LongRows, ForwardHasTheBitsOfOneThreadWhateverTheMean) {
  const auto near = this->tensor(1, 1, {-1, -1, -1}), far = this->tensor(1, 1, {0, 100, 1e4f});
  const auto forward = [&](const Context& context) { return this->layer_norm(near, context); };
  const auto forward_far = [&](const Context& context) { return this->layer_norm(far, context); };
  expect_parallel(forward);
  expect_parallel(forward_far);
  EXPECT_GT(steps_of(forward_far), steps_of(forward)) << "passes around the mean ran on the caller's thread";
}

TYPED_TEST(LongRows, BackwardHasTheBitsOfOneThread) {
  using S = TypeParam;
  const auto x = this->tensor(1, 1, {0, 100, 1e4f}), dy = this->tensor(3, 2), y = this->tensor(2);
  NormStatistics<S> saved;
  evenkeel::layer_norm_into(x.view(), y.view(), saved);
  expect_parallel([&](const Context& context) {
    const auto dx = this->tensor(2);
    auto dgamma = this->beta, dbeta = this->gamma;
    evenkeel::layer_norm_backward(dy.view(), x.view(), saved, {.gamma = this->gamma},
                                  {.dx = dx.view(), .dgamma = add_to(dgamma), .dbeta = dbeta}, context);
    return Bits(dx.memory(), dgamma, dbeta);
  });
}

TYPED_TEST(LongRows, MaskedRowsHaveTheBitsOfOneThread) {
  const std::vector<std::uint8_t> mask = {1, 0, 1};
  const auto x = this->tensor(1, 1);
  expect_parallel([&](const Context& context) { return this->layer_norm(x, context, mask); });
}

TYPED_TEST(LongRows, SumOfOneRowHasTheBitsOfOneThread) {
  using S = TypeParam;
  const Shape shape{1, this->features};
  const TensorView<const S> x(this->gamma.data(), shape), h(this->beta.data(), shape);
  expect_parallel([&](const Context& context) {
    std::vector<S> s(this->gamma.size());
    evenkeel::residual_add_into(x, h, TensorView<S>(s.data(), shape),
                                {.alpha = 0.7, .lambdas = this->lambdas, .bias = this->gamma}, context);
    return Bits(s);
  });
}

TYPED_TEST(LongRows, SumAndNormHaveTheBitsOfOneThread) {
  using S = TypeParam;
  const auto x = this->tensor(1, 11, {0, 100, 1e4f}), h = this->tensor(3, 12);
  expect_parallel([&](const Context& context) {
    const auto s = this->tensor(2), y = this->tensor(1);
    NormStatistics<S> saved;
    evenkeel::add_layer_norm_into(
        x.view(), h.view(), s.view(), y.view(), saved,
        {.sum = {.alpha = 0.7, .lambdas = this->lambdas}, .norm = {.gamma = this->gamma, .beta = this->beta}}, context);
    return Bits(s.memory(), y.memory(), saved.mean, saved.mean_rest, saved.rstd);
  });
}

TYPED_TEST(LongRows, SumAndNormOfOneRowWithADropHaveTheBitsOfOneThread) {
  using S = TypeParam;
  const Shape shape{1, this->features};
  const TensorView<const S> x(this->gamma.data(), shape), h(this->beta.data(), shape);
  evenkeel::ResidualSumOptions<S> sum;
  sum.bias = this->lambdas, sum.drop = evenkeel::DropoutMask(0.3, {4}, 1);
  expect_parallel([&](const Context& context) {
    std::vector<S> alone(this->gamma.size()), s = alone, y = alone, dx = alone, dh = alone;
    const auto out = [&](std::vector<S>& memory) { return TensorView<S>(memory.data(), shape); };
    NormStatistics<S> saved;
    evenkeel::residual_add_into(x, h, out(alone), sum, context);
    evenkeel::add_layer_norm_into(x, h, out(s), out(y), saved, {.sum = sum}, context);
    evenkeel::add_layer_norm_backward<S>({.dy = x, .s = out(s)}, saved, {.sum = sum}, {.dx = out(dx), .dh = out(dh)},
                                         context);
    return Bits(alone, s, y, saved.mean, saved.rstd, dx, dh);
  });
}

TYPED_TEST(LongRows, BackwardOfSumAndNormHasTheBitsOfOneThread) {
  using S = TypeParam;
  const auto s = this->tensor(1, 11), dy = this->tensor(2, 13), ds = this->tensor(1, 14), y = this->tensor(1);
  NormStatistics<S> saved;
  evenkeel::layer_norm_into(s.view(), y.view(), saved);
  expect_parallel([&](const Context& context) {
    const auto dx = this->tensor(2), dh = this->tensor(3);
    std::vector<S> dgamma(this->gamma.size()), dbeta(this->gamma.size());
    evenkeel::add_layer_norm_backward<S>({.dy = dy.view(), .s = s.view(), .ds = ds.view()}, saved,
                                         {.sum = {.alpha = 0.7, .lambda = 1.3}, .norm = {.gamma = this->gamma}},
                                         {.dx = dx.view(), .dh = dh.view(), .dgamma = dgamma, .dbeta = dbeta}, context);
    return Bits(dx.memory(), dh.memory(), dgamma, dbeta);
  });
}

TEST(LongRows, ThatMakeLittleWorkNeverLeaveTheCallersThread) {
  const std::vector<float> x = normal_vector<float>(60000, 1);
  expect_serial([&](const Context& context) {
    std::vector<float> y(x.size()), dx(x.size()), dgamma(x.size());
    NormStatistics<float> saved;
    const Shape shape{1, 60000};
    const TensorView<const float> in(x.data(), shape);
    evenkeel::rms_norm_into(in, TensorView<float>(y.data(), shape), saved, {}, context);
    evenkeel::rms_norm_backward(in, in, saved, {}, {.dx = TensorView<float>(dx.data(), shape), .dgamma = dgamma},
                                context);
    return Bits(y, dx, dgamma);
  });
}

}  // namespace
}  // namespace evenkeel_test
