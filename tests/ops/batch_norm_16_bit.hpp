// BatchNorm of numbers of 16 bits: what is tested for each type, with parameters of its type and of float.
#pragma once

#include "evenkeel/ops/channel_moments.hpp"
#include "ops/batch_norm_16_bit_data.hpp"

namespace evenkeel_test {

template <class C>
class BatchNorm16 : public testing::Test {};
TYPED_TEST_SUITE_P(BatchNorm16);

TYPED_TEST_P(BatchNorm16, TrainingIsRoundedOnce) {
  for_each_batch_16<TypeParam>([](const auto& d, const Storage& storage) {
    const auto s = d.channels();
    const auto r = train(d, storage);
    const Reals x = widened(d.x), gamma = widened(d.gamma), beta = widened(d.beta);
    const Reals x_hat = oracle::batch_norm(x, s, {}, {}, d.eps);
    EXPECT_TRUE(rounded_once(r.y, oracle::batch_norm(x, s, gamma, beta, d.eps), 4, batch_y_scale(d, x_hat)));
    expect_rounded_once(r, oracle::batch_norm_backward(widened(d.dy), x, s, gamma, d.eps), s.values());
    const auto statistics = oracle::channel_statistics(x, s);
    EXPECT_TRUE(within_ulp(r.saved.mean, statistics.mean, 3));
    EXPECT_TRUE(within_ulp(r.saved.var_biased, statistics.var, 6));
  });
}

TYPED_TEST_P(BatchNorm16, FrozenStatisticsAndInferenceAreRoundedOnce) {
  for_each_batch_16<TypeParam>([](const auto& d, const Storage& storage) {
    const auto s = d.channels();
    const Reals x = widened(d.x), gamma = widened(d.gamma), beta = widened(d.beta);
    const Reals mean = widened(d.running_mean), var = widened(d.running_var);
    const auto r = run_with_mask(d, storage, {}, Batch16Mode::frozen, false);
    const Reals x_hat = oracle::batch_norm_with(x, s, mean, var, {}, {}, d.eps);
    Reals expected = oracle::batch_norm_with(x, s, mean, var, gamma, beta, d.eps);
    EXPECT_TRUE(rounded_once(r.y, expected, 4, batch_y_scale(d, x_hat)));
    expect_rounded_once(r, oracle::batch_norm_with_backward(widened(d.dy), x, s, mean, var, gamma, d.eps), s.values());
    EXPECT_EQ(r.saved.mean, d.running_mean);
    for (long double& value : expected) value = std::max(value, 0.0L);
    const auto relu = run_with_mask(d, storage, {}, Batch16Mode::inference, false);
    EXPECT_TRUE(rounded_once(relu.y, expected, 4, batch_y_scale(d, x_hat)));
  });
}

/// Masks (of nothing too), gradients that are added to, running statistics that move by little: as for floats, which
/// have tests of their own. Within the workspace that is asked for.
TYPED_TEST_P(BatchNorm16, GivesWhatFloatsGive) {
  for_each_batch_16<TypeParam>([](const auto& d, const Storage& storage) {
    std::vector<std::uint8_t> some(d.channels().values());
    for (std::size_t i = 0; i < some.size(); ++i) some[i] = i % 4 != 1 || i < 3;
    const std::vector<std::uint8_t> none(some.size());
    const auto wide = in_float(d);
    for (const auto& mask : {std::vector<std::uint8_t>(), some, none}) {
      for (const auto mode : {Batch16Mode::training, Batch16Mode::frozen, Batch16Mode::inference}) {
        for (const bool adds : {false, true}) {
          if (std::count(mask.begin(), mask.end(), 1) == 1 && mode == Batch16Mode::training) continue;
          const auto r = run_with_mask(d, storage, mask, mode, adds);
          const auto expected = run_with_mask(wide, storage, mask, mode, adds);
          EXPECT_TRUE(is_rounded(r.y, expected.y));
          EXPECT_TRUE(is_rounded(r.dx, expected.dx));
          EXPECT_TRUE(is_rounded(r.dgamma, expected.dgamma));
          EXPECT_TRUE(is_rounded(r.dbeta, expected.dbeta));
          EXPECT_TRUE(same_bits(r.running_mean, expected.running_mean));
          EXPECT_TRUE(same_bits(r.running_var, expected.running_var));
          EXPECT_TRUE(same_bits(r.saved.mean_rest, expected.saved.mean_rest));
          EXPECT_TRUE(same_bits(r.saved.rstd, expected.saved.rstd));
        }
      }
    }
  });
}

/// Sums of parameter gradients in 16 bits would stop at 256 or 2048.
TYPED_TEST_P(BatchNorm16, ParameterGradientsAreSummedInFloatOrWider) {
  using X = typename TypeParam::Scalar;
  for (const auto& [shape, axis] : {std::pair{Shape{4096, 40}, 1}, {Shape{2, 3, 2048}, 1}, {Shape{4096, 2}, 1}}) {
    auto d = random_batch<X, typename TypeParam::Parameter>(shape, axis, 5);
    for (std::size_t i = 0; i < d.x.size(); ++i) d.x[i] = X(i / static_cast<std::size_t>(shape[shape.rank() - 1]) % 2);
    if (shape.rank() == 3)
      for (std::size_t i = 0; i < d.x.size(); ++i) d.x[i] = X(static_cast<float>(i % 2));
    for (X& dy : d.dy) dy = X(1.0f);
    for (const auto& dbeta : train(d, storages()[0]).dbeta) EXPECT_EQ(static_cast<float>(dbeta), 4096);
    for (std::size_t i = 0; i < d.x.size(); ++i) d.dy[i] = X(2 * static_cast<float>(d.x[i]) - 1);
    for (const auto& dgamma : train(d, storages()[0]).dgamma) EXPECT_NEAR(static_cast<float>(dgamma), 4096, 0.2);
  }
}

TYPED_TEST_P(BatchNorm16, EigenMatricesOfEitherOrder) {
  using X = typename TypeParam::Scalar;
  using Column = Eigen::Matrix<X, Eigen::Dynamic, Eigen::Dynamic>;
  using Row = Eigen::Matrix<X, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto d = random_batch<X, typename TypeParam::Parameter>({37, 19}, 1, 9);
  const auto expected = train(d, storages()[0]);
  const Row row = Eigen::Map<const Row>(d.x.data(), 37, 19);
  BatchNormStatistics<X> saved;
  const Row y = evenkeel::batch_norm(row, saved, d.options());
  EXPECT_TRUE(same_bits(std::vector<X>(y.data(), y.data() + y.size()), expected.y));
  const Column column = row;
  const Row of_column = evenkeel::batch_norm(column, saved, d.options());
  const auto in_columns = train(d, storages()[3]);
  EXPECT_TRUE(same_bits(std::vector<X>(of_column.data(), of_column.data() + y.size()), in_columns.y));
}

/// One in x's type, one in float; and the gradients the other way round.
TYPED_TEST_P(BatchNorm16, EachParameterHasATypeOfItsOwn) {
  using X = typename TypeParam::Scalar;
  auto d = random_batch<X, X>({6, 5, 3}, 1, 13);
  const auto expected = train(d, storages()[0]);
  const auto wide = in_float(d);
  auto options = d.options();
  options.gamma = wide.gamma;
  std::vector<X> y(d.x.size()), dx(d.x.size()), dgamma(5);
  std::vector<float> dbeta(5);
  const TensorView<const X> x(d.x.data(), d.shape), dy(d.dy.data(), d.shape);
  BatchNormStatistics<X> saved;
  evenkeel::batch_norm_into(x, TensorView<X>(y.data(), d.shape), saved, options);
  evenkeel::batch_norm_backward(dy, x, saved, options,
                                {.dx = TensorView<X>(dx.data(), d.shape), .dgamma = dgamma, .dbeta = dbeta});
  EXPECT_TRUE(same_bits(y, expected.y));
  EXPECT_TRUE(same_bits(dx, expected.dx));
  EXPECT_TRUE(same_bits(dgamma, expected.dgamma));
  EXPECT_TRUE(is_rounded(expected.dbeta, dbeta));
}

/// Of float parameters beside 16 bits all bytes count.
TYPED_TEST_P(BatchNorm16, AnOverlapWithTheLastParametersIsAnError) {
  using X = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  std::vector<P> memory(64, P(1.0f));
  std::vector<X> values(32, X(1.0f)), free(32);
  const Shape shape{2, 16};
  const TensorView<const X> x(values.data(), shape);
  const auto at = [&](P* p) { return TensorView<X>(reinterpret_cast<X*>(p), shape); };
  P *const last = memory.data() + 15, *const dgamma = memory.data() + 32;
  BatchNormStatistics<X> saved;
  const BatchNormOptions<X> gamma{.gamma = {memory.data(), 16}}, beta{.beta = {memory.data(), 16}};
  const auto text = [](const auto& call) { return error_text<std::invalid_argument>(call); };
  EXPECT_EQ(text([&] { evenkeel::batch_norm_into(x, at(last), saved, gamma); }),
            "evenkeel::batch_norm_into: y overlaps gamma in memory, expected memory of its own");
  EXPECT_EQ(text([&] { evenkeel::batch_norm_into(x, at(last), RunningStatistics<X>{}, beta); }),
            "evenkeel::batch_norm_into: y overlaps beta in memory, expected memory of its own");
  evenkeel::batch_norm_into(x, TensorView<X>(free.data(), shape), saved, gamma);
  const auto backward_text = [&](const BatchNormGradients<X>& to) {
    return text([&] { evenkeel::batch_norm_backward(x, x, saved, gamma, to); });
  };
  EXPECT_EQ(backward_text({.dx = at(last)}),
            "evenkeel::batch_norm_backward: dx overlaps gamma in memory, expected memory of its own");
  EXPECT_EQ(backward_text({.dx = at(dgamma + 15), .dgamma = {dgamma, 16}}),
            "evenkeel::batch_norm_backward: dx overlaps dgamma in memory, expected memory of its own");
  EXPECT_EQ(backward_text({.dgamma = {dgamma, 16}, .dbeta = {dgamma + 15, 16}}),
            "evenkeel::batch_norm_backward: dgamma overlaps dbeta in memory, expected memory of its own");
}

TYPED_TEST_P(BatchNorm16, ChannelsAreScaledShiftedAndMeasuredAsFloatsAre) {
  using X = typename TypeParam::Scalar;
  const auto d = random_batch<X, typename TypeParam::Parameter>({5, 4, 7}, 1, 21);
  const auto wide = in_float(d);
  std::vector<X> y(d.x.size());
  std::vector<float> wide_y(d.x.size());
  const TensorView<const X> x(d.x.data(), d.shape);
  const TensorView<const float> wide_x(wide.x.data(), d.shape);
  evenkeel::channel_affine_into(x, TensorView<X>(y.data(), d.shape),
                                {.center = d.running_mean, .scale = d.gamma, .shift = d.beta});
  evenkeel::channel_affine_into(wide_x, TensorView<float>(wide_y.data(), d.shape),
                                {.center = wide.running_mean, .scale = wide.gamma, .shift = wide.beta});
  EXPECT_TRUE(is_rounded(y, wide_y));
  const auto moments = evenkeel::channel_moments(x), expected = evenkeel::channel_moments(wide_x);
  for (std::size_t c = 0; c < 4; ++c) {
    EXPECT_EQ(moments[c].count, 35);
    EXPECT_EQ(moments[c].mean, expected[c].mean);
    EXPECT_EQ(moments[c].m2, expected[c].m2);
  }
}

REGISTER_TYPED_TEST_SUITE_P(BatchNorm16, TrainingIsRoundedOnce, FrozenStatisticsAndInferenceAreRoundedOnce,
                            GivesWhatFloatsGive, ParameterGradientsAreSummedInFloatOrWider, EigenMatricesOfEitherOrder,
                            EachParameterHasATypeOfItsOwn, AnOverlapWithTheLastParametersIsAnError,
                            ChannelsAreScaledShiftedAndMeasuredAsFloatsAre);

}  // namespace evenkeel_test
