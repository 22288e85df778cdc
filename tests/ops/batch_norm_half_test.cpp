// BatchNorm of Eigen::half.
#include "ops/batch_norm_16_bit.hpp"

namespace evenkeel_test {

/// Their sum of squares, 400000, is beyond the largest half (pytorch/pytorch PR 126525).
TEST(BatchNormOfHalf, MeasuresWhatAHalfCannotSum) {
  using Half = Eigen::half;
  const Index rows = 1000;
  std::vector<Half> x(rows), y(rows);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = Half(i % 2 ? -20.0f : 20.0f);
  std::vector<float> mean(1, 0.0f), var(1, 1.0f);
  BatchNormStatistics<Half> saved;
  evenkeel::batch_norm_into(TensorView<const Half>(x.data(), {rows, 1}), TensorView<Half>(y.data(), {rows, 1}), saved,
                            BatchNormOptions<Half>{}, {.mean = mean, .var = var, .average = UpdateRate(0.1)});
  EXPECT_EQ(saved.mean[0], 0.0f);
  EXPECT_EQ(saved.var_biased[0], 400.0f);
  EXPECT_EQ(mean[0], 0.0f);
  EXPECT_NEAR(var[0], 0.9 + 0.1 * 400 * 1000 / 999, 4e-6);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(static_cast<float>(y[i]), i % 2 ? -1.0f : 1.0f);
}

INSTANTIATE_TYPED_TEST_SUITE_P(half, BatchNorm16, ChannelNorm16Configs<Eigen::half>, ChannelNorm16Name);

}  // namespace evenkeel_test
