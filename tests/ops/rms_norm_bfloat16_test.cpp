// RMSNorm of Eigen::bfloat16.
#include "ops/norm_16_bit.hpp"

EVENKEEL_TEST_NORM(, RMSNormRow, Eigen::bfloat16)

namespace evenkeel_test {

INSTANTIATE_TYPED_TEST_SUITE_P(bfloat16, Norm16, Configs16<RMSNormOp<Eigen::bfloat16>>, Name16);

TEST(RMSNormBfloat16, LlamasOrderRoundsTwice) {
  std::vector<Eigen::bfloat16> x, gamma(4, Eigen::bfloat16(1.296875f)), y(4);
  for (const float value : {1.f, 2.f, 3.f, 5.f}) x.push_back(Eigen::bfloat16(value));
  const auto normalized = [&](evenkeel::Rounding rounding) {
    evenkeel::rms_norm_into(TensorView<const Eigen::bfloat16>(x.data(), {4}),
                            TensorView<Eigen::bfloat16>(y.data(), {4}),
                            {.gamma = gamma, .eps = 1e-6, .rounding = rounding});
    return widened(y);
  };
  EXPECT_EQ(normalized(evenkeel::Rounding::once), (Reals{0.416015625L, 0.83203125L, 1.2421875L, 2.078125L}));
  EXPECT_EQ(normalized(evenkeel::Rounding::before_gamma)[2], 1.25L);
}

}  // namespace evenkeel_test
