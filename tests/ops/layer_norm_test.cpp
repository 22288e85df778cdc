// layer_norm as it is called, and its rows of CASES.md.
#include "evenkeel/ops/layer_norm.hpp"

#include "ops/op_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;
using evenkeel::layer_norm;
using evenkeel::layer_norm_backward;
using evenkeel::layer_norm_into;

using Matrix = RowMatrix<float>;

/// The results of a forward and a backward of one row. CASES.md gives seven decimals.
template <class S>
struct RowResult {
  std::vector<S> y, dx, dgamma, dbeta;
};
template <class S>
RowResult<S> normalize_row(const std::vector<S>& x, const std::vector<S>& gamma, const std::vector<S>& beta,
                           const std::vector<S>& dy, double eps) {
  const auto n = static_cast<Index>(x.size());
  RowResult<S> r{x, x, x, x};
  NormStatistics<S> saved;
  layer_norm_into(TensorView<const S>(x.data(), {1, n}), TensorView<S>(r.y.data(), {1, n}), saved,
                  {.gamma = gamma, .beta = beta, .eps = eps});
  layer_norm_backward(TensorView<const S>(dy.data(), {1, n}), TensorView<const S>(x.data(), {1, n}), saved,
                      {.gamma = gamma, .eps = eps},
                      {.dx = TensorView<S>(r.dx.data(), {1, n}), .dgamma = r.dgamma, .dbeta = r.dbeta});
  return r;
}

constexpr long double seven_decimals = 4e-7L;

// ---------------------------------------------------------------- as it is called

TEST(LayerNormOp, NormalizesRowsOfAMatrix) {
  Matrix x(2, 4);
  x << 1, 2, 3, 4, 10, 20, 30, 40;
  const Matrix y = layer_norm(x);
  const Reals expected = {-1.3416354L, -0.4472118L, 0.4472118L, 1.3416354L,
                          -1.3416407L, -0.4472136L, 0.4472136L, 1.3416407L};
  EXPECT_TRUE(within(values_of(y), expected, seven_decimals));
}

TEST(LayerNormOp, TakesOptionsByName) {
  Matrix x(2, 4);
  x << 1, 2, 3, 4, 10, 20, 30, 40;
  const Eigen::Vector4f gamma(1, 2, 3, 4), beta(5, 6, 7, 8);
  const std::vector<float> gamma_vector = {1, 2, 3, 4};
  const Matrix plain = layer_norm(x, {.eps = 0.1});
  std::vector<float> expected;
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 4; ++j) expected.push_back(plain(i, j) * gamma(j) + beta(j));
  EXPECT_TRUE(
      within_ulp(values_of(layer_norm(x, {.gamma = gamma, .beta = beta, .eps = 0.1, .axis = -1})), expected, 1));
  EXPECT_TRUE(
      within_ulp(values_of(layer_norm(x, {.gamma = gamma_vector, .beta = {beta.data(), 4}, .eps = 0.1})), expected, 1));
  EXPECT_FALSE(within(values_of(layer_norm(x)), values_of(plain), 1e-3L));
}

TEST(LayerNormOp, WorksOnPlainPointers) {
  const float x[] = {1, 2, 3, 4};
  float y[4], dx[4], dgamma[4], dbeta[4];
  const float gamma[] = {1, 1, 1, 1}, dy[] = {1, 0, 0, 0};
  NormStatistics<float> saved;
  layer_norm_into(TensorView<const float>(x, {1, 4}), TensorView<float>(y, {1, 4}), saved, {.gamma = {gamma, 4}});
  layer_norm_backward(TensorView<const float>(dy, {1, 4}), TensorView<const float>(x, {1, 4}), saved,
                      {.gamma = {gamma, 4}},
                      {.dx = TensorView<float>(dx, {1, 4}), .dgamma = {dgamma, 4}, .dbeta = {dbeta, 4}});
  EXPECT_NEAR(y[0], -1.3416354, 4e-7);
  EXPECT_EQ(dgamma[0], y[0]);
  EXPECT_EQ(dbeta[0], 1);
}

// B56, B41
TEST(LayerNormOp, GradientsAreAskedForByName) {
  Matrix x = Matrix::Random(3, 4), dy = Matrix::Random(3, 4), dx(3, 4);
  Eigen::VectorXf dgamma(4), dbeta(4);
  NormStatistics<float> saved;
  layer_norm(x, saved);
  layer_norm_backward(dy, x, saved, {}, {.dx = dx});
  layer_norm_backward(dy, x, saved, {}, {.dgamma = dgamma});
  layer_norm_backward(dy, x, saved, {}, {.dbeta = dbeta});
  const Eigen::VectorXf once = dbeta;
  layer_norm_backward(dy, x, saved, {}, {.dx = dx, .dgamma = dgamma, .dbeta = add_to(dbeta)});
  for (Index j = 0; j < 4; ++j) EXPECT_EQ(dbeta(j), 2 * once(j));
  layer_norm_backward(dy, x, saved, {}, {});
}

TEST(LayerNormOp, SavesTheMeanInTwoParts) {
  Matrix x(1, 3);
  x << 1e7f, 1e7f + 1, 1e7f + 1;
  NormStatistics<float> saved;
  layer_norm(x, saved);
  const double mean = static_cast<double>(saved.mean[0]) + static_cast<double>(saved.mean_rest[0]);
  EXPECT_NEAR(mean, 1e7 + 2.0 / 3, 1e-6);
  EXPECT_NEAR(saved.rstd[0], 1 / std::sqrt(2.0 / 9 + 1e-5), 1e-6);
}

TEST(LayerNormOp, WritesNothingAroundParameterGradients) {  // B45
  const Matrix x = Matrix::Random(3, 4), dy = Matrix::Random(3, 4);
  NormStatistics<float> saved;
  layer_norm(x, saved);
  std::vector<float> canaries(20, -7);
  layer_norm_backward(dy, x, saved, {}, {.dgamma = {canaries.data() + 4, 4}, .dbeta = {canaries.data() + 12, 4}});
  for (const std::size_t i : {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19}) EXPECT_EQ(canaries[i], -7);
}

TEST(LayerNormOp, DefaultEpsIsPyTorchs) { EXPECT_EQ(evenkeel::LayerNormOptions<float>().eps, 1e-5); }

// ---------------------------------------------------------------- CASES.md

template <class S>
class LayerNormCase : public testing::Test {};
using Scalars = testing::Types<float, double>;
struct ScalarName {
  template <class S>
  static std::string GetName(int) {
    return std::is_same_v<S, float> ? "float" : "double";
  }
};
TYPED_TEST_SUITE(LayerNormCase, Scalars, ScalarName);

// B08: the mean is subtracted before anything is multiplied.
TYPED_TEST(LayerNormCase, OneElementGivesBetaWhateverGammaIs) {
  using S = TypeParam;
  for (const double x : {-3.7, 0.0, 1e6, 1e-30}) {
    const auto r = normalize_row<S>({static_cast<S>(x)}, {S(1e12)}, {S(-1)}, {S(1)}, 0.1);
    EXPECT_EQ(r.y, std::vector<S>{-1}) << "x is " << x;
    EXPECT_EQ(r.dx, std::vector<S>{0}) << "x is " << x;
  }
}

// B09, B10
TYPED_TEST(LayerNormCase, OneElementHasNoGradientButThatOfBeta) {
  using S = TypeParam;
  const auto r = normalize_row<S>({S(1e6)}, {S(2)}, {S(3)}, {S(1)}, 1e-5);
  EXPECT_EQ(r.y, std::vector<S>{3});
  EXPECT_EQ(r.dx, std::vector<S>{0});
  EXPECT_EQ(r.dgamma, std::vector<S>{0});
  EXPECT_EQ(r.dbeta, std::vector<S>{1});
}

// B13
TYPED_TEST(LayerNormCase, AConstantRowGivesBetaThoughEpsIsZero) {
  using S = TypeParam;
  const std::vector<S> beta = {5, 6, 7, 8};
  const auto r = normalize_row<S>({2, 2, 2, 2}, {1, 2, 3, 4}, beta, {S(0.5), -1, 2, 3}, 0);
  EXPECT_EQ(r.y, beta);
  EXPECT_EQ(r.dx, std::vector<S>(4));
  EXPECT_EQ(r.dgamma, std::vector<S>(4));
  EXPECT_EQ(r.dbeta, (std::vector<S>{S(0.5), -1, 2, 3}));
}

// B13
TYPED_TEST(LayerNormCase, ARowThatIsNotConstantWorksWithEpsZero) {
  using S = TypeParam;
  const auto r = normalize_row<S>({1, 3}, {1, 1}, {0, 0}, {1, 0}, 0);
  EXPECT_EQ(r.y, (std::vector<S>{-1, 1}));
}

// B42, B51: the reference box.
TYPED_TEST(LayerNormCase, BackwardHasEveryTerm) {
  using S = TypeParam;
  const auto r = normalize_row<S>({1, 2, 4, 9}, {S(0.5), 1, 2, -1}, {0, 0, 0, 0}, {1, 0, -2, 3}, 1e-5);
  EXPECT_TRUE(within(r.y, Reals{-0.4866640L, -0.6488853L, 0, -1.6222134L}, seven_decimals));
  EXPECT_TRUE(within(r.dx, Reals{0.2668119L, 0.2454668L, -0.7705513L, 0.2582727L}, seven_decimals));
  EXPECT_TRUE(within(r.dgamma, Reals{-0.9733280L, 0, 0, 4.8666401L}, seven_decimals));
  EXPECT_EQ(r.dbeta, (std::vector<S>{1, 0, -2, 3}));
  EXPECT_NEAR(static_cast<double>(r.dx[0] + r.dx[1] + r.dx[2] + r.dx[3]), 0, 4e-7);
}

// B52: x_hat is not rebuilt from y, so a gamma of zero loses nothing.
TYPED_TEST(LayerNormCase, AGammaOfZeroLosesNothing) {
  using S = TypeParam;
  const auto r = normalize_row<S>({1, 2, 4, 9}, {1, 0, 2, -1}, {1, 1, 1, 1}, {1, 2, -2, 3}, 1e-5);
  const auto expected = oracle::layer_norm_backward({1, 2, -2, 3}, {1, 2, 4, 9}, 1, 4, {1, 0, 2, -1}, 1e-5L);
  EXPECT_TRUE(within_ulp(r.dx, expected.dx, 4, expected.dx_scale));
  EXPECT_TRUE(within_ulp(r.dgamma, expected.dgamma, 4, expected.dgamma_scale));
}

}  // namespace
}  // namespace evenkeel_test
