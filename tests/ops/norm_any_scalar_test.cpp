// LayerNorm and RMSNorm of types without SIMD: long double, and dual numbers, whose derivatives are those of the
// backward.
#include <Eigen/Core>
#include <unsupported/Eigen/AutoDiff>

#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/ops/residual_add.hpp"
#include "ops/op_test.hpp"
#include "support/dual.hpp"

namespace evenkeel_test {
namespace {

constexpr Index rows = 3, features = 19;
constexpr double eps = 1e-5;

Reals numbers(std::uint64_t seed, std::size_t size = rows * features) {
  return oracle::widen(normal_vector<double>(size, seed));
}
/// An absolute number, for results below 10: measured below 4 of these units.
constexpr long double tolerance = 8 * std::numeric_limits<long double>::epsilon();

template <class T>
TensorView<T> view(std::vector<T>& values) {
  return {values.data(), {rows, features}};
}

template <class Op>
class AnyScalar : public testing::Test {};
using LongDoubleOps = testing::Types<LayerNormOp<long double>, RMSNormOp<long double>>;
TYPED_TEST_SUITE(AnyScalar, LongDoubleOps);

TYPED_TEST(AnyScalar, LongDoubleIsExactToItsOwnRounding) {
  using Norm = typename TypeParam::Kernel::Norm;
  Reals x = numbers(1), dy = numbers(2), gamma = numbers(3, features), beta = numbers(4, features);
  for (long double& value : x) value += 1e4L;
  Reals y(x.size()), dx(x.size(), 1), dgamma(features), dbeta(features);
  NormStatistics<long double> saved;
  OpOptions<long double> options{.gamma = gamma, .beta = beta, .eps = eps};
  TypeParam::into(view(x), view(y), saved, options);
  EXPECT_TRUE(within(y, Norm::y(x, rows, features, gamma, beta, static_cast<long double>(eps)), tolerance));
  OpGradients<long double> to{.dx = evenkeel::add_to(view(dx)), .dgamma = dgamma, .dbeta = dbeta};
  TypeParam::backward(view(dy), view(x), saved, options, to);
  auto expected = Norm::gradients(dy, x, rows, features, gamma, static_cast<long double>(eps));
  for (long double& value : expected.dx) value += 1;
  EXPECT_TRUE(within(dx, expected.dx, tolerance));
  EXPECT_TRUE(within(dgamma, expected.dgamma, tolerance));
  EXPECT_TRUE(!is_centred<TypeParam> || within(dbeta, expected.dbeta, tolerance));
  // In place, and without parameters.
  TypeParam::backward(view(dy), view(x), saved, {}, {.dx = view(dy)});
  TypeParam::into(view(x), view(x), {});
  EXPECT_LT(std::abs(x[0]), 10);
}

TEST(OpsOfAnyScalar, ConstantRowsOfLongDoubleAreExactlyBeta) {
  Reals x(rows * features, 1234.567L), beta = numbers(4, features), y(x.size());
  for (const double any_eps : {1e-5, 0.0}) {
    evenkeel::layer_norm_into(view(x), view(y), {.beta = beta, .eps = any_eps});
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], beta[i % features]);
  }
}

/// The derivative of sum(dy * y) that forward-mode numbers carry through the op is the op's dx.
template <class D, class Make, class DerivativeOf>
void expect_derivatives(const Make& make, const DerivativeOf& derivative_of) {
  const Reals x = numbers(1), dy = numbers(2), gamma = numbers(3, features);
  const Reals expected = LayerNorm::gradients(dy, x, rows, features, gamma, static_cast<long double>(eps)).dx;
  std::vector<D> x_dual, y(x.size(), make(0, 0)), gamma_dual;
  for (const long double value : x) x_dual.push_back(make(static_cast<double>(value), 0));
  for (const long double value : gamma) gamma_dual.push_back(make(static_cast<double>(value), 0));
  for (const std::size_t index : {std::size_t{0}, std::size_t{25}, x.size() - 1}) {
    x_dual[index] = make(static_cast<double>(x[index]), 1);
    evenkeel::layer_norm_into(view(x_dual), view(y), {.gamma = gamma_dual, .eps = eps});
    x_dual[index] = make(static_cast<double>(x[index]), 0);
    long double derivative = 0;
    for (std::size_t i = 0; i < y.size(); ++i) derivative += dy[i] * derivative_of(y[i]);
    EXPECT_NEAR(static_cast<double>(derivative), static_cast<double>(expected[index]), 1e-13);
  }
}

TEST(OpsOfAnyScalar, DualNumbersCarryTheirDerivatives) {
  expect_derivatives<Dual<double>>([](double value, double derivative) { return Dual<double>(value, derivative); },
                                   [](const Dual<double>& d) { return d.derivative; });
}

TEST(OpsOfAnyScalar, EigensDualNumbersCarryTheirDerivatives) {
  using Fixed = Eigen::AutoDiffScalar<Eigen::Matrix<double, 1, 1>>;
  expect_derivatives<Fixed>(
      [](double value, double derivative) { return Fixed(value, Eigen::Matrix<double, 1, 1>::Constant(derivative)); },
      [](const Fixed& d) { return d.derivatives()[0]; });
  using Dynamic = Eigen::AutoDiffScalar<Eigen::VectorXd>;
  expect_derivatives<Dynamic>(
      [](double value, double derivative) { return Dynamic(value, Eigen::VectorXd::Constant(1, derivative)); },
      [](const Dynamic& d) { return d.derivatives()[0]; });
}

TEST(OpsOfAnyScalar, BackwardAndLayersTakeEigensDualNumbers) {
  using D = Eigen::AutoDiffScalar<Eigen::VectorXd>;
  using Matrix = Eigen::Matrix<D, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Matrix x(2, 5), dy(2, 5);
  for (int i = 0; i < 10; ++i) {
    x(i / 5, i % 5) = D(std::sin(static_cast<double>(i)), 10, i);
    dy(i / 5, i % 5) = D(std::cos(static_cast<double>(i)), Eigen::VectorXd::Zero(10));
  }
  evenkeel::LayerNorm<D> norm(5);
  evenkeel::LayerNorm<D>::Saved saved;
  const Matrix y = norm.forward(x, saved), dx = norm.backward(dy, saved);
  // dx by hand: sum(dy * dy/dx) from the derivatives that y carries.
  for (Index i = 0; i < 10; ++i) {
    double derivative = 0;
    for (Index k = 0; k < 10; ++k) derivative += dy(k / 5, k % 5).value() * y(k / 5, k % 5).derivatives()[i];
    EXPECT_NEAR(dx(i / 5, i % 5).value(), derivative, 1e-14);
  }
}

TEST(OpsOfAnyScalar, ResidualSums) {
  Reals x = numbers(1), d = numbers(2), s(x.size());
  evenkeel::residual_add_into(view(x), view(d), view(s), {.alpha = 2, .lambda = 0.5});
  for (std::size_t i = 0; i < s.size(); ++i) EXPECT_EQ(s[i], 2 * x[i] + d[i] / 2);
}

/// The features of a row lie `rows` apart.
template <class T>
void expect_strided_like_dense(const std::vector<T>& x, const std::vector<T>& gamma) {
  std::vector<T> turned(x), y(x), y_turned(x);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < features; ++j) {
      turned[static_cast<std::size_t>(j * rows + i)] = x[static_cast<std::size_t>(i * features + j)];
    }
  }
  std::vector<T> dense(x);
  evenkeel::layer_norm_into(view(dense), view(y), {.gamma = gamma});
  evenkeel::layer_norm_into(TensorView<T>(turned.data(), {features, rows}),
                            TensorView<T>(y_turned.data(), {features, rows}), {.gamma = gamma, .axis = 0});
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < features; ++j) {
      EXPECT_EQ(y_turned[static_cast<std::size_t>(j * rows + i)], y[static_cast<std::size_t>(i * features + j)]);
    }
  }
}

TEST(OpsOfAnyScalar, StridedRowsAreNormalizedAsDenseOnes) {
  expect_strided_like_dense(numbers(1), numbers(3, features));
  using Fixed = Eigen::AutoDiffScalar<Eigen::Matrix<double, 1, 1>>;
  std::vector<Fixed> x, gamma;
  for (const long double value : numbers(1)) x.emplace_back(static_cast<double>(value));
  for (const long double value : numbers(3, features)) gamma.emplace_back(static_cast<double>(value));
  expect_strided_like_dense(x, gamma);
}

}  // namespace
}  // namespace evenkeel_test
