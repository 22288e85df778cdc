#include <gtest/gtest.h>

#include "evenkeel/ops/add_norm.hpp"
#include "support/compiled_norms.hpp"
#include "threads/threads_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;
using evenkeel::NormStatistics;

constexpr StorageOrder row_major = StorageOrder::row_major, column_major = StorageOrder::column_major;

template <class S>
class ResidualSumThreads : public testing::Test {
 protected:
  static constexpr Index rows = 1500, features = 70;

  const std::vector<S> gamma = normal_vector<S>(features, 1), beta = normal_vector<S>(features, 2),
                       lambdas = normal_vector<S>(features, 3), bias = normal_vector<S>(features, 4);

  static OwnTensor<S> tensor(StorageOrder order, std::size_t offset, std::uint64_t seed = 0) {
    return {{rows, features}, order, 5, offset, seed};
  }
};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(ResidualSumThreads, Scalars);

TYPED_TEST(ResidualSumThreads, SumHasTheBitsOfOneThread) {
  for (const StorageOrder order : {row_major, column_major}) {
    const auto x = this->tensor(order, 1, 11), h = this->tensor(order, 3, 12);
    expect_parallel([&](const Context& context) {
      const auto s = this->tensor(order, 2);
      evenkeel::residual_add_into(x.view(), h.view(), s.view(), {.alpha = 0.7, .lambda = 1.3}, context);
      return Bits(s.memory());
    });
  }
}

TYPED_TEST(ResidualSumThreads, SumWithParametersHasTheBitsOfOneThread) {
  const auto x = this->tensor(row_major, 1, 11), h = this->tensor(row_major, 3, 12);
  expect_parallel([&](const Context& context) {
    const auto s = this->tensor(row_major, 2);
    evenkeel::residual_add_into(x.view(), h.view(), s.view(), {.lambdas = this->lambdas, .bias = this->bias}, context);
    return Bits(s.memory());
  });
}

TYPED_TEST(ResidualSumThreads, SumsAcrossTheLastAxisAreLeftToTheCaller) {
  const auto x = this->tensor(column_major, 1, 11), h = this->tensor(column_major, 3, 12);
  expect_serial([&](const Context& context) {
    const auto s = this->tensor(column_major, 2);
    evenkeel::residual_add_into(x.view(), h.view(), s.view(), {.lambdas = this->lambdas, .bias = this->bias}, context);
    return Bits(s.memory());
  });
}

TYPED_TEST(ResidualSumThreads, SumAndNormHaveTheBitsOfOneThread) {
  using S = TypeParam;
  for (const StorageOrder order : {row_major, column_major}) {
    const auto x = this->tensor(order, 1, 11), h = this->tensor(order, 3, 12);
    expect_parallel([&](const Context& context) {
      const auto s = this->tensor(order, 2), y = this->tensor(order, 1);
      NormStatistics<S> saved;
      evenkeel::add_layer_norm_into(x.view(), h.view(), s.view(), y.view(), saved,
                                    {.sum = {.alpha = 0.7}, .norm = {.gamma = this->gamma, .beta = this->beta}},
                                    context);
      return Bits(s.memory(), y.memory(), saved.mean, saved.mean_rest, saved.rstd);
    });
  }
}

TYPED_TEST(ResidualSumThreads, BackwardOfSumAndNormHasTheBitsOfOneThread) {
  using S = TypeParam;
  for (const StorageOrder order : {row_major, column_major}) {
    const auto s = this->tensor(order, 1, 11), h = this->tensor(order, 3, 12), dy = this->tensor(order, 2, 13),
               ds = this->tensor(order, 1, 14), y = this->tensor(order, 1);
    NormStatistics<S> saved;
    evenkeel::layer_norm_into(s.view(), y.view(), saved);
    expect_parallel([&](const Context& context) {
      const auto dx = this->tensor(order, 2), dh = this->tensor(order, 3);
      std::vector<S> dgamma(this->features), dbeta(this->features);
      evenkeel::add_layer_norm_backward<S>({.dy = dy.view(), .s = s.view(), .ds = ds.view()}, saved,
                                           {.sum = {.alpha = 0.7, .lambda = 1.3}, .norm = {.gamma = this->gamma}},
                                           {.dx = dx.view(), .dh = add_to(dh.view()), .dgamma = dgamma, .dbeta = dbeta},
                                           context);
      return Bits(dx.memory(), dh.memory(), dgamma, dbeta);
    });
  }
}

TYPED_TEST(ResidualSumThreads, GradientsOfParametersHaveTheBitsOfOneThread) {
  using S = TypeParam;
  const auto s = this->tensor(row_major, 1, 11), h = this->tensor(row_major, 3, 12),
             dy = this->tensor(row_major, 2, 13), y = this->tensor(row_major, 1);
  NormStatistics<S> saved;
  evenkeel::rms_norm_into(s.view(), y.view(), saved);
  expect_parallel([&](const Context& context) {
    const auto dx = this->tensor(row_major, 2), dh = this->tensor(row_major, 3);
    std::vector<S> dgamma(this->features), dlambda(this->features), dbias(this->features);
    evenkeel::add_rms_norm_backward<S>(
        {.dy = dy.view(), .s = s.view(), .h = h.view()}, saved,
        {.sum = {.lambdas = this->lambdas, .bias = this->bias}, .norm = {.gamma = this->gamma}},
        {.dx = dx.view(), .dh = dh.view(), .dgamma = dgamma, .dlambda = dlambda, .dbias = dbias}, context);
    return Bits(dx.memory(), dh.memory(), dgamma, dlambda, dbias);
  });
}

TYPED_TEST(ResidualSumThreads, WithADropTheyHaveTheBitsOfOneThread) {
  using S = TypeParam;
  for (const StorageOrder order : {row_major, column_major}) {
    for (const auto kind : {evenkeel::DropoutKind::per_element, evenkeel::DropoutKind::per_sample}) {
      const auto x = this->tensor(order, 1, 11), h = this->tensor(order, 3, 12), dy = this->tensor(order, 2, 13);
      evenkeel::ResidualSumOptions<S> sum;
      sum.lambda = 1.3, sum.drop = evenkeel::DropoutMask(0.25, {3}, 5, kind);
      expect_parallel([&](const Context& context) {
        const auto s = this->tensor(order, 2), y = this->tensor(order, 1), alone = this->tensor(order, 2);
        const auto dx = this->tensor(order, 2), dh = this->tensor(order, 3);
        NormStatistics<S> saved;
        std::vector<S> dgamma(this->features);
        evenkeel::residual_add_into(x.view(), h.view(), alone.view(), sum, context);
        evenkeel::add_layer_norm_into(x.view(), h.view(), s.view(), y.view(), saved, {.sum = sum}, context);
        evenkeel::add_layer_norm_backward<S>({.dy = dy.view(), .s = s.view()}, saved, {.sum = sum},
                                             {.dx = dx.view(), .dh = dh.view(), .dgamma = dgamma}, context);
        const auto added = this->tensor(order, 1);
        evenkeel::add_layer_norm_backward<S>({.dy = dy.view(), .s = s.view()}, saved, {.sum = sum},
                                             {.dh = add_to(added.view())}, context);
        return Bits(alone.memory(), s.memory(), y.memory(), dx.memory(), dh.memory(), dgamma, added.memory());
      });
    }
  }
}

TYPED_TEST(ResidualSumThreads, GradientsOfParametersWithADropHaveTheBitsOfOneThread) {
  using S = TypeParam;
  const auto x = this->tensor(row_major, 1, 11), h = this->tensor(row_major, 3, 12),
             dy = this->tensor(row_major, 2, 13);
  evenkeel::ResidualSumOptions<S> sum;
  sum.lambdas = this->lambdas, sum.bias = this->bias, sum.drop = evenkeel::DropoutMask(0.25, {3}, 5);
  expect_parallel([&](const Context& context) {
    const auto s = this->tensor(row_major, 2), y = this->tensor(row_major, 1), dh = this->tensor(row_major, 3);
    NormStatistics<S> saved;
    std::vector<S> dlambda(this->features), dbias(this->features);
    evenkeel::add_rms_norm_into(x.view(), h.view(), s.view(), y.view(), saved, {.sum = sum}, context);
    evenkeel::add_rms_norm_backward<S>({.dy = dy.view(), .s = s.view(), .h = h.view()}, saved, {.sum = sum},
                                       {.dh = add_to(dh.view()), .dlambda = dlambda, .dbias = dbias}, context);
    return Bits(s.memory(), y.memory(), dh.memory(), dlambda, dbias);
  });
}

}  // namespace
}  // namespace evenkeel_test
