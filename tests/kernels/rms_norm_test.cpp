// RMSNorm on small rows with known results: inputs that broke other libraries.
#include "kernels/kernel_test.hpp"

namespace evenkeel_test {
namespace {

template <class C>
class RMSNormCases : public testing::Test {};
TYPED_TEST_SUITE(RMSNormCases, ConfigsOf<RMSNorm>, ConfigName);

// B34
TYPED_TEST(RMSNormCases, EpsIsTheCallersAndInsideTheRoot) {
  using T = typename TypeParam::Scalar;
  const std::vector<T> x(4, T(0.001));
  EXPECT_TRUE(within(checked_y<TypeParam>(one_row(x, 1e-6)), Reals(4, 0.7071068L), seven_digits));
  EXPECT_TRUE(within(checked_y<TypeParam>(one_row(x, 1e-5)), Reals(4, 0.3015113L), seven_digits));
}

// B37
TYPED_TEST(RMSNormCases, SubtractsNoMean) {
  const auto y = checked_y<TypeParam>(one_row<typename TypeParam::Scalar>({2, 4, 6, 8, 20}, 0));
  EXPECT_TRUE(within(y, Reals{0.1961161L, 0.3922323L, 0.5883484L, 0.7844645L, 1.9611614L}, seven_digits));
}

// B13
TYPED_TEST(RMSNormCases, ZeroRowGivesZerosWithAndWithoutEps) {
  using T = typename TypeParam::Scalar;
  for (const double eps : {0.0, 1e-5}) {
    auto row = one_row(std::vector<T>(7), eps);
    row.gamma = {1, -2, 3, -4, 5, -6, 7};
    EXPECT_EQ(forward<TypeParam>(row).y, row.x);
  }
}

// B13
TYPED_TEST(RMSNormCases, ZeroRowWithoutEpsHasNoGradient) {
  using T = typename TypeParam::Scalar;
  auto row = one_row(std::vector<T>(4), 0);
  row.dy = {1, 0, -2, 3};
  const auto got = gradients<TypeParam>(row);
  EXPECT_EQ(got.dx, std::vector<T>(4));
  EXPECT_EQ(got.dgamma, std::vector<T>(4));
}

TYPED_TEST(RMSNormCases, RowOfOneGivesTheSignOfX) {
  using T = typename TypeParam::Scalar;
  EXPECT_TRUE(within_ulp(forward<TypeParam>(one_row<T>({T(-3.7)}, 0)).y, Reals{-1}, 1));
}

// R, B43
TYPED_TEST(RMSNormCases, ReferenceBoxHasItsGradients) {
  const auto got = gradients<TypeParam>(reference_box<typename TypeParam::Scalar>(1e-6));
  EXPECT_TRUE(within(got.dx, Reals{0.1815270L, 0.1650246L, -0.4620689L, 0.1485221L}, seven_digits));
  EXPECT_TRUE(within(got.dgamma, Reals{0.1980295L, 0, -1.5842360L, 5.3467966L}, 5 * seven_digits));
}

}  // namespace
}  // namespace evenkeel_test
