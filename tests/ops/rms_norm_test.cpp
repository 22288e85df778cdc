// rms_norm as it is called, and its rows of CASES.md.
#include "evenkeel/ops/rms_norm.hpp"

#include "ops/op_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;
using evenkeel::rms_norm;
using evenkeel::rms_norm_backward;
using evenkeel::rms_norm_into;

using Matrix = RowMatrix<float>;

/// The results of a forward and a backward of one row. CASES.md gives seven decimals.
template <class S>
struct RowResult {
  std::vector<S> y, dx, dgamma;
};
template <class S>
RowResult<S> normalize_row(const std::vector<S>& x, const std::vector<S>& gamma, const std::vector<S>& dy, double eps) {
  const auto n = static_cast<Index>(x.size());
  RowResult<S> r{x, x, x};
  NormStatistics<S> saved;
  rms_norm_into(TensorView<const S>(x.data(), {1, n}), TensorView<S>(r.y.data(), {1, n}), saved,
                {.gamma = gamma, .eps = eps});
  rms_norm_backward(TensorView<const S>(dy.data(), {1, n}), TensorView<const S>(x.data(), {1, n}), saved,
                    {.gamma = gamma, .eps = eps}, {.dx = TensorView<S>(r.dx.data(), {1, n}), .dgamma = r.dgamma});
  return r;
}

constexpr long double seven_decimals = 4e-7L;

// ---------------------------------------------------------------- as it is called

TEST(RMSNormOp, NormalizesRowsOfAMatrix) {
  Matrix x(2, 4);
  x << 1, 2, 3, 4, 10, 20, 30, 40;
  const Matrix y = rms_norm(x, {.eps = 0});
  const Reals expected = {0.3651484L, 0.7302967L, 1.0954451L, 1.4605935L,
                          0.3651484L, 0.7302967L, 1.0954451L, 1.4605935L};
  EXPECT_TRUE(within(values_of(y), expected, seven_decimals));
}

TEST(RMSNormOp, TakesOptionsByName) {
  Matrix x(2, 4);
  x << 1, 2, 3, 4, 10, 20, 30, 40;
  const Eigen::Vector4f gamma(1, 2, 3, 4);
  const Matrix plain = rms_norm(x, {.eps = 0.1});
  std::vector<float> expected;
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 4; ++j) expected.push_back(plain(i, j) * gamma(j));
  EXPECT_TRUE(within_ulp(values_of(rms_norm(x, {.gamma = gamma, .eps = 0.1, .axis = -1})), expected, 1));
  EXPECT_TRUE(within_ulp(values_of(rms_norm(x, {.gamma = {gamma.data(), 4}, .eps = 0.1})), expected, 1));
  EXPECT_FALSE(within(values_of(rms_norm(x)), values_of(plain), 1e-3L));
}

TEST(RMSNormOp, WorksOnPlainPointers) {
  const float x[] = {1, 2, 3, 4}, gamma[] = {1, 1, 1, 1}, dy[] = {1, 0, 0, 0};
  float y[4], dx[4], dgamma[4];
  NormStatistics<float> saved;
  rms_norm_into(TensorView<const float>(x, {1, 4}), TensorView<float>(y, {1, 4}), saved,
                {.gamma = {gamma, 4}, .eps = 0});
  rms_norm_backward(TensorView<const float>(dy, {1, 4}), TensorView<const float>(x, {1, 4}), saved,
                    {.gamma = {gamma, 4}}, {.dx = TensorView<float>(dx, {1, 4}), .dgamma = {dgamma, 4}});
  EXPECT_NEAR(y[0], 0.3651484, 4e-7);
  EXPECT_EQ(dgamma[0], y[0]);
}

// B56, B41
TEST(RMSNormOp, GradientsAreAskedForByName) {
  Matrix x = Matrix::Random(3, 4), dy = Matrix::Random(3, 4), dx(3, 4);
  Eigen::VectorXf dgamma(4);
  NormStatistics<float> saved;
  rms_norm(x, saved);
  rms_norm_backward(dy, x, saved, {}, {.dx = dx});
  rms_norm_backward(dy, x, saved, {}, {.dgamma = dgamma});
  const Eigen::VectorXf once = dgamma;
  rms_norm_backward(dy, x, saved, {}, {.dx = dx, .dgamma = add_to(dgamma)});
  for (Index j = 0; j < 4; ++j) EXPECT_EQ(dgamma(j), 2 * once(j));
  rms_norm_backward(dy, x, saved, {}, {});
}

TEST(RMSNormOp, SavesNoMean) {
  NormStatistics<float> saved;
  rms_norm(Matrix(Matrix::Ones(3, 4)), saved);
  EXPECT_TRUE(saved.mean.empty() && saved.mean_rest.empty());
  EXPECT_EQ(saved.rstd.size(), 3u);
}

TEST(RMSNormOp, WritesNothingAroundTheParameterGradient) {  // B45
  const Matrix x = Matrix::Random(3, 4), dy = Matrix::Random(3, 4);
  NormStatistics<float> saved;
  rms_norm(x, saved);
  std::vector<float> canaries(12, -7);
  rms_norm_backward(dy, x, saved, {}, {.dgamma = {canaries.data() + 4, 4}});
  for (const std::size_t i : {0, 1, 2, 3, 8, 9, 10, 11}) EXPECT_EQ(canaries[i], -7);
}

TEST(RMSNormOp, DefaultEpsIsThatOfEveryNorm) { EXPECT_EQ(evenkeel::RMSNormOptions<double>().eps, 1e-5); }

// ---------------------------------------------------------------- CASES.md

template <class S>
class RMSNormCase : public testing::Test {};
using Scalars = testing::Types<float, double>;
struct ScalarName {
  template <class S>
  static std::string GetName(int) {
    return std::is_same_v<S, float> ? "float" : "double";
  }
};
TYPED_TEST_SUITE(RMSNormCase, Scalars, ScalarName);

// B13
TYPED_TEST(RMSNormCase, AZeroRowGivesZerosThoughEpsIsZero) {
  using S = TypeParam;
  const auto r = normalize_row<S>({0, 0, 0, 0}, {1, 2, 3, 4}, {1, -1, 2, 3}, 0);
  EXPECT_EQ(r.y, std::vector<S>(4));
  EXPECT_EQ(r.dx, std::vector<S>(4));
  EXPECT_EQ(r.dgamma, std::vector<S>(4));
}

// B34
TYPED_TEST(RMSNormCase, EpsIsTheOneThatIsAskedFor) {
  using S = TypeParam;
  const std::vector<S> x(4, S(0.001)), ones(4, 1);
  EXPECT_NEAR(static_cast<double>(normalize_row<S>(x, ones, ones, 1e-6).y[0]), 0.7071068, 4e-7);
  EXPECT_NEAR(static_cast<double>(normalize_row<S>(x, ones, ones, 1e-5).y[0]), 0.3015113, 4e-7);
}

// B37: nothing is subtracted.
TYPED_TEST(RMSNormCase, IsNotTheStandardDeviation) {
  using S = TypeParam;
  const std::vector<S> ones(5, 1);
  const auto r = normalize_row<S>({2, 4, 6, 8, 20}, ones, ones, 0);
  EXPECT_TRUE(within(r.y, Reals{0.1961161L, 0.3922323L, 0.5883484L, 0.7844645L, 1.9611614L}, seven_decimals));
}

// B43, B51: the reference box.
TYPED_TEST(RMSNormCase, BackwardHasEveryTerm) {
  using S = TypeParam;
  const auto r = normalize_row<S>({1, 2, 4, 9}, {S(0.5), 1, 2, -1}, {1, 0, -2, 3}, 1e-6);
  EXPECT_TRUE(within(r.dx, Reals{0.1815270L, 0.1650246L, -0.4620689L, 0.1485221L}, seven_decimals));
  EXPECT_TRUE(within(r.dgamma, Reals{0.1980295L, 0, -1.5842360L, 5.3467966L}, 8e-7L));
}

// B52
TYPED_TEST(RMSNormCase, AGammaOfZeroLosesNothing) {
  using S = TypeParam;
  const auto r = normalize_row<S>({1, 2, 4, 9}, {1, 0, 2, -1}, {1, 2, -2, 3}, 1e-5);
  const auto expected = oracle::rms_norm_backward({1, 2, -2, 3}, {1, 2, 4, 9}, 1, 4, {1, 0, 2, -1}, 1e-5L);
  EXPECT_TRUE(within_ulp(r.dx, expected.dx, 4, expected.dx_scale));
  EXPECT_TRUE(within_ulp(r.dgamma, expected.dgamma, 4, expected.dgamma_scale));
}

// A row of one element is 1 or -1 but for eps: its sign.
TYPED_TEST(RMSNormCase, OneElementGivesItsSign) {
  using S = TypeParam;
  EXPECT_TRUE(within_ulp(normalize_row<S>({S(-3.7)}, {S(2)}, {S(1)}, 0).y, Reals{-2}, 1));
  EXPECT_NEAR(static_cast<double>(normalize_row<S>({S(5)}, {S(1)}, {S(1)}, 0).dx[0]), 0, 1e-7);
}

}  // namespace
}  // namespace evenkeel_test
