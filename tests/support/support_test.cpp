// Tests of the test support: what judges the library is itself checked against known results.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "support/dual.hpp"
#include "support/gradient_check.hpp"
#include "support/oracle.hpp"
#include "support/random.hpp"
#include "support/reference_case.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {
namespace {

// Some tens of roundings of a long double with 64 bits; generous where long double is double.
constexpr long double kExact = 64 * std::numeric_limits<long double>::epsilon();

/// The derivative of `function` at x.
template <class Function>
long double derivative(const Function& function, long double x) {
  return Dual<>(function(Dual<>(x, 1))).derivative;
}

/// EXPECT_NEAR compares as double; this compares as long double.
testing::AssertionResult near(long double got, long double expected, long double tolerance = kExact) {
  return within(Reals{got}, Reals{expected}, tolerance);
}

// ---------------------------------------------------------------- Dual

TEST(Dual, ArithmeticFollowsTheChainRule) {
  const long double x = 1.7L;
  EXPECT_TRUE(near(derivative([](auto v) { return v * v * v; }, x), 3 * x * x));
  EXPECT_TRUE(near(derivative([](auto v) { return (v + 1.0) / (v - 3); }, x), -4 / ((x - 3) * (x - 3)), 4 * kExact));
  EXPECT_TRUE(near(derivative([](auto v) { return 2 / v; }, x), -2 / (x * x)));
  EXPECT_TRUE(near(derivative([](auto v) { return 5 - -v; }, x), 1));
}

TEST(Dual, CompoundAssignmentEqualsTheOperator) {
  const Dual<> a(1.25L, 3), b(-0.5L, 7);
  Dual<> sum = a, difference = a, product = a, quotient = a;
  sum += b, difference -= b, product *= b, quotient /= b;
  EXPECT_EQ(sum.derivative, (a + b).derivative);
  EXPECT_EQ(difference.derivative, (a - b).derivative);
  EXPECT_EQ(product.derivative, (a * b).derivative);
  EXPECT_EQ(quotient.derivative, (a / b).derivative);
}

TEST(Dual, FunctionsHaveTheirDerivatives) {
  for (const long double x : {0.1L, 0.5L, 1.7L, 3.0L}) {
    EXPECT_TRUE(near(derivative([](auto v) { return sqrt(v); }, x), 0.5L / std::sqrt(x)));
    EXPECT_TRUE(near(derivative([](auto v) { return exp(2 * v); }, x), 2 * std::exp(2 * x), 1000 * kExact));
    EXPECT_TRUE(near(derivative([](auto v) { return tanh(v); }, x), 1 / (std::cosh(x) * std::cosh(x))));
    EXPECT_TRUE(near(derivative([](auto v) { return erf(v); }, x),
                     2 / std::sqrt(std::numbers::pi_v<long double>) * std::exp(-x * x)));
  }
  EXPECT_TRUE(near(sqrt(Dual<>(2.0)).value, std::sqrt(2.0L)));
  EXPECT_TRUE(near(erf(Dual<>(2.0)).value, std::erf(2.0L)));
}

TEST(Dual, MaxAndAbsTakeTheSideOfTheValue) {
  const Dual<> low(-2, 3), high(1, 5);
  EXPECT_EQ(max(low, high).derivative, 5);
  EXPECT_EQ(max(high, low).derivative, 5);
  EXPECT_EQ(abs(low).value, 2);
  EXPECT_EQ(abs(low).derivative, -3);
  EXPECT_EQ(abs(high).derivative, 5);
  EXPECT_EQ(abs(Dual<>(0, 5)).derivative, 0);
}

TEST(Dual, ComparesByValue) {
  const Dual<> a(1, 9), b(2, 3);
  EXPECT_TRUE(a < b && b > 1.5 && a <= 1 && b != a && a == Dual<>(1));
}

// ---------------------------------------------------------------- Random

TEST(Random, IsSplitMix64) {
  Random random(1234567);  // the values that the generator's authors publish for this seed
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
  EXPECT_EQ(random.next(), 9817491932198370423u);
}

TEST(Random, NormalHasMeanZeroAndVarianceOne) {
  const std::vector<double> values = normal_vector<double>(100000, 1);
  long double sum = 0, square_sum = 0;
  for (const double value : values) sum += value, square_sum += value * value;
  EXPECT_TRUE(near(sum / 100000, 0, 0.01));  // 3 standard errors
  EXPECT_TRUE(near(square_sum / 100000, 1, 0.02));
}

TEST(Random, NormalIsTheSameOnEveryPlatform) {
  const std::vector<double> values = normal_vector<double>(3, 42, 5, 0.5);
  EXPECT_EQ(values, (std::vector<double>{0x1.23634242e72f3p+2, 0x1.3112259e2a679p+2, 0x1.72f61582b41f4p+2}));
}

TEST(Random, EveryFamilyFillsFiniteRowsOfAnyLength) {
  for (const auto& family : input_families<float>())
    for (const std::size_t features : {1u, 2u, 17u})
      for (const float value : family_rows(family, 2, features, 1)) EXPECT_TRUE(std::isfinite(value)) << family.name;
  for (const auto& family : input_families<double>())
    for (const double value : family_rows(family, 2, 5, 1)) EXPECT_TRUE(std::isfinite(value)) << family.name;
}

// ---------------------------------------------------------------- tolerance

TEST(Tolerance, OneUlpIsTheSpacingAtOne) {
  const std::vector<float> got = {1, std::nextafter(1.0f, 2.0f), 0.5f};
  const Reals expected = {1, 1, 0.5L};
  EXPECT_EQ(max_error_in_ulp(got, expected), 1);
  EXPECT_TRUE(within_ulp(got, expected, 1));
  EXPECT_FALSE(within_ulp(got, expected, 0.99L));
  EXPECT_FALSE(within(got, expected, 1e-7L));
  EXPECT_TRUE(within(got, expected, 1.2e-7L));
}

TEST(Tolerance, ScaleIsForEachElementForEachRowOrForAll) {
  const std::vector<double> got = {1, 1, 1, 2};
  const Reals expected = {1, 1, 1, 1};
  EXPECT_EQ(worst_element(got, expected, {4}).error, 0.25L);
  EXPECT_EQ(worst_element(got, expected, {1, 8}).error, 0.125L);
  EXPECT_EQ(worst_element(got, expected, {1, 1, 1, 2}).error, 0.5L);
  EXPECT_EQ(worst_element(got, expected, {1, 1, 1, 2}).index, 3u);
}

TEST(Tolerance, ZeroScaleAsksForEquality) {
  EXPECT_TRUE(within(std::vector<double>{1.5}, Reals{1.5L}, 0));
  EXPECT_FALSE(within(std::vector<double>{1e-300}, Reals{0}, 0));
}

TEST(Tolerance, NaNAndInfinityAndOtherSizesNeverPass) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(within_ulp(std::vector<float>{0, nan, 0}, Reals{0, 0, 0}, 1e30L));
  EXPECT_FALSE(within_ulp(std::vector<float>{nan}, Reals{nan}, 1e30L));
  EXPECT_FALSE(within_ulp(std::vector<float>{inf}, Reals{0}, 1e30L));
  EXPECT_FALSE(within_ulp(std::vector<float>{0, 0}, Reals{0}, 1));
}

TEST(Tolerance, FailureNamesTheWorstElement) {
  const testing::AssertionResult result = within_ulp(std::vector<double>{0, 1, 3, 1}, Reals{0, 1, 2, 1}, 4);
  EXPECT_STREQ(result.message(), "element 2 of 4: got 3, expected 2, error 2.252e+15 ulp of 2, allowed 4");
}

// ---------------------------------------------------------------- the oracle on its own

TEST(Oracle, LayerNormHoldsItsDigitsNextToALargeMean) {
  // Multiples of 2^-20, so that adding 1e8 is exact in double and changes nothing in the result.
  Reals x = oracle::widen(normal_vector<double>(768, 2));
  for (long double& value : x) value = std::ldexp(std::round(std::ldexp(value, 20)), -20);
  Reals shifted = x;
  for (long double& value : shifted) value = static_cast<double>(value + 1e8L);
  const Reals expected = oracle::layer_norm(x, 1, 768, {}, {}, 1e-5L);
  EXPECT_TRUE(within(oracle::layer_norm(shifted, 1, 768, {}, {}, 1e-5L), expected, kExact));  // measured 1.4e-20
}

TEST(Oracle, RowsWithoutSpreadNormalizeToZero) {
  for (const std::size_t features : {1u, 3u, 768u}) {
    const Reals constant(features, 1234.567), zero(features, 0), beta(features, 0.25L);
    EXPECT_EQ(oracle::layer_norm(constant, 1, features, {}, beta, 1e-5L), beta);
    EXPECT_EQ(oracle::layer_norm(constant, 1, features, {}, beta, 0), beta);
    EXPECT_EQ(oracle::rms_norm(zero, 1, features, {}, 0), zero);
    EXPECT_EQ(oracle::layer_norm_backward(constant, constant, 1, features, {}, 0).dx, zero);
  }
}

TEST(Oracle, LayerNormDoesNotDependOnTheMagnitudeWithoutEps) {
  for (const long double magnitude : {1e300L, 1e30L, 1e-30L, 1e-300L}) {
    const Reals x = {magnitude, -magnitude, 2 * magnitude, -2 * magnitude};
    const long double rms = std::sqrt(2.5L);
    const Reals expected = {1 / rms, -1 / rms, 2 / rms, -2 / rms};
    EXPECT_TRUE(within(oracle::layer_norm(x, 1, 4, {}, {}, 0), expected, kExact));
    EXPECT_TRUE(within(oracle::rms_norm(x, 1, 4, {}, 0), expected, kExact));
  }
}

TEST(Oracle, ActivationsHaveKnownValues) {
  EXPECT_TRUE(near(oracle::gelu(1.0L), 0.841344746068542948585L));  // Phi(1)
  EXPECT_TRUE(near(oracle::gelu_tanh(1.0L), 0.841191990608276704782L));
  EXPECT_EQ(oracle::relu(-2.0L), 0);
  EXPECT_EQ(oracle::relu(2.0L), 2);
  EXPECT_EQ(oracle::relu(Dual<>(0, 1)).derivative, 0);
}

TEST(Oracle, ResidualHasFourNormsAndTwoScales) {
  // F and the norms are told apart by what they do: plain arithmetic that no other order or slot reproduces.
  const auto add = [](long double term) {
    return [=](Reals v) {
      for (long double& value : v) value += term;
      return v;
    };
  };
  const auto triple = [](Reals v) {
    for (long double& value : v) value *= 3;
    return v;
  };
  const oracle::Residual<long double> residual{.sublayer = triple,
                                               .norm_in = add(1),
                                               .norm_branch = add(10),
                                               .norm_skip = add(100),
                                               .norm_trunk = add(1000),
                                               .alpha = 2,
                                               .lambda = {5, 6},
                                               .in_scale = 0.5L,
                                               .drop = {3, 0}};
  EXPECT_EQ(residual({7, 9}), (Reals{1000 + 2 * (100 + 7) + 5 * 3 * (10 + 3 * (1 + 7) / 2), 1000 + 2 * (100 + 9)}));
}

// ---------------------------------------------------------------- gradients: duals against closed formulas

TEST(Gradient, ClosedFormulasOfLayerNormEqualDualNumbers) {
  const std::size_t rows = 3, features = 9;
  const Reals x = oracle::widen(normal_vector<double>(rows * features, 3, 5, 2));
  const Reals dy = oracle::widen(normal_vector<double>(rows * features, 4));
  const Reals gamma = oracle::widen(normal_vector<double>(features, 5, 1, 0.5)), beta(features, 0.5L);
  for (const long double eps : {1e-5L, 0.1L, 0.0L}) {
    for (const Reals& scale : {gamma, Reals{}}) {
      const auto norm = [&](const auto& in) { return oracle::layer_norm(in[0], rows, features, in[1], in[2], eps); };
      const auto closed = oracle::layer_norm_backward(dy, x, rows, features, scale, eps);
      EXPECT_TRUE(within(closed.dx, gradient({x, scale, beta}, 0, norm, dy), kExact));
      EXPECT_TRUE(within(closed.dbeta, gradient({x, scale, beta}, 2, norm, dy), kExact));
      if (scale.empty()) continue;
      EXPECT_TRUE(within(closed.dgamma, gradient({x, scale, beta}, 1, norm, dy), kExact));
    }
  }
}

TEST(Gradient, ClosedFormulasOfRmsNormEqualDualNumbers) {
  const std::size_t rows = 3, features = 9;
  const Reals x = oracle::widen(normal_vector<double>(rows * features, 6, 5, 2));
  const Reals dy = oracle::widen(normal_vector<double>(rows * features, 7));
  const Reals gamma = oracle::widen(normal_vector<double>(features, 8, 0, 0.5));
  for (const long double offset : {0.0L, 1.0L}) {
    for (const Reals& scale : {gamma, Reals{}}) {
      const auto norm = [&](const auto& in) { return oracle::rms_norm(in[0], rows, features, in[1], 1e-5L, offset); };
      const auto closed = oracle::rms_norm_backward(dy, x, rows, features, scale, 1e-5L, offset);
      EXPECT_TRUE(within(closed.dx, gradient({x, scale}, 0, norm, dy), kExact));
      if (scale.empty()) continue;
      EXPECT_TRUE(within(closed.dgamma, gradient({x, scale}, 1, norm, dy), kExact));
    }
  }
}

TEST(Gradient, ScalesAreThoseOfTheContract) {
  // x_hat of {1, 2, 4, 9} is {-3, -2, 0, 5} / sqrt(9.5); g = {0.5, 0, -4, -3}, so sum(g * x_hat) = -16.5 / sqrt(9.5).
  const auto gradients = oracle::layer_norm_backward({1, 0, -2, 3}, {1, 2, 4, 9}, 1, 4, {0.5L, 1, 2, -1}, 0);
  const long double deviation = std::sqrt(9.5L);
  EXPECT_TRUE(near(gradients.dx_scale[0], (4 + 5 / deviation * 16.5L / 4 / deviation) / deviation));
  EXPECT_TRUE(near(gradients.dgamma_scale[0], 3 * 5 / deviation));
  EXPECT_EQ(gradients.dbeta_scale[0], 3);
}

// ---------------------------------------------------------------- the oracle against the reference files

/// Checks the outputs that are in `got` against the file.
void expect_output(const ReferenceCase& reference, const std::string& name, const Reals& got) {
  const Tensor& expected = reference.outputs.at(name);
  EXPECT_TRUE(within(got, expected.data, torch_tolerance<double>(expected))) << name;
}

/// Checks the gradient of every input of the file; `function` takes the inputs in the order of `names`.
template <class Function>
void expect_gradients(const ReferenceCase& reference, const std::vector<std::string>& names, const Function& function) {
  std::vector<Reals> inputs;
  for (const std::string& name : names)
    inputs.push_back(reference.has_input(name) ? reference.inputs.at(name).as<long double>() : Reals{});
  const Reals dy = reference.grad_output.as<long double>();
  std::size_t checked = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (inputs[i].empty()) continue;
    const Tensor& expected = reference.grads.at(names[i]);
    EXPECT_TRUE(within(gradient(inputs, i, function, dy), expected.data, torch_tolerance<double>(expected)))
        << "gradient of " << names[i];
    ++checked;
  }
  EXPECT_EQ(checked, reference.grads.size());
}

/// rows and features of a torch LayerNorm or RMSNorm case, its inputs and its parameters.
struct NormCase {
  explicit NormCase(const ReferenceCase& reference)
      : x(reference.inputs.at("x").as<long double>()), dy(reference.grad_output.as<long double>()) {
    const auto axes = static_cast<std::ptrdiff_t>(reference.attributes.at("normalized_shape").size());
    features = reference.inputs.at("x").features(-axes);
    rows = x.size() / features;
    if (reference.has_input("gamma")) gamma = reference.inputs.at("gamma").as<long double>();
    if (reference.has_input("beta")) beta = reference.inputs.at("beta").as<long double>();
  }
  Reals x, dy, gamma, beta;
  std::size_t rows = 0, features = 0;
};

void expect_closed_gradients(const ReferenceCase& reference, const oracle::NormGradients& closed) {
  for (const auto& [name, expected] : reference.grads) {
    const Reals& got = name == "x" ? closed.dx : name == "gamma" ? closed.dgamma : closed.dbeta;
    EXPECT_TRUE(within(got, expected.data, torch_tolerance<double>(expected))) << "closed gradient of " << name;
  }
}

TEST(Oracle, LayerNormAgreesWithTorch) {
  for (const ReferenceCase& reference : read_cases("torch", "layernorm_")) {
    SCOPED_TRACE(reference.name);
    const NormCase c(reference);
    const auto norm = [&](const auto& in) {
      return oracle::layer_norm(in[0], c.rows, c.features, in[1], in[2], reference.eps());
    };
    const auto statistics = oracle::layer_norm_statistics(c.x, c.rows, c.features, reference.eps());
    expect_output(reference, "y", norm(std::vector{c.x, c.gamma, c.beta}));
    expect_output(reference, "mean", statistics.mean);
    expect_output(reference, "rstd", statistics.rstd);
    expect_gradients(reference, {"x", "gamma", "beta"}, norm);
    expect_closed_gradients(reference,
                            oracle::layer_norm_backward(c.dy, c.x, c.rows, c.features, c.gamma, reference.eps()));
  }
}

TEST(Oracle, RmsNormAgreesWithTorch) {
  for (const ReferenceCase& reference : read_cases("torch", "rmsnorm_")) {
    SCOPED_TRACE(reference.name);
    const NormCase c(reference);
    const double gamma_offset = reference.attributes.at("gamma_offset");
    const auto norm = [&](const auto& in) {
      return oracle::rms_norm(in[0], c.rows, c.features, in[1], reference.eps(), gamma_offset);
    };
    expect_output(reference, "y", norm(std::vector{c.x, c.gamma}));
    expect_output(reference, "rstd", oracle::rms_norm_statistics(c.x, c.rows, c.features, reference.eps()).rstd);
    expect_gradients(reference, {"x", "gamma"}, norm);
    expect_closed_gradients(
        reference, oracle::rms_norm_backward(c.dy, c.x, c.rows, c.features, c.gamma, reference.eps(), gamma_offset));
  }
}

TEST(Oracle, NormsAgreeWithOnnx) {
  for (const std::string prefix : {"layer_normalization_", "rms_normalization_"}) {
    for (const ReferenceCase& reference : read_cases("onnx", prefix)) {
      SCOPED_TRACE(reference.name);
      const Tensor& x = reference.inputs.at("X");
      const Reals data = x.as<long double>(), gamma = reference.inputs.at("W").as<long double>();
      const std::size_t features = x.features(reference.attributes.at("axis"));
      const std::size_t rows = data.size() / features;
      const Tensor& y = reference.outputs.at("Y");
      if (reference.op == "RMSNormalization") {
        EXPECT_TRUE(within(oracle::rms_norm(data, rows, features, gamma, reference.eps()), y.data, onnx_tolerance(y)));
        continue;
      }
      const Reals beta = reference.inputs.at("B").as<long double>();
      const Tensor& mean = reference.outputs.at("Mean");
      const Tensor& rstd = reference.outputs.at("InvStdDev");
      const auto statistics = oracle::layer_norm_statistics(data, rows, features, reference.eps());
      EXPECT_TRUE(
          within(oracle::layer_norm(data, rows, features, gamma, beta, reference.eps()), y.data, onnx_tolerance(y)));
      EXPECT_TRUE(within(statistics.mean, mean.data, onnx_tolerance(mean)));
      EXPECT_TRUE(within(statistics.rstd, rstd.data, onnx_tolerance(rstd)));
    }
  }
}

/// The block of a file as a function of its inputs, in the order x, w1, b1, w2, b2, gamma and beta of the first norm,
/// gamma and beta of the second.
template <class T>
oracle::Residual<T> block(const ReferenceCase& reference, const std::vector<std::vector<T>>& in) {
  using Values = std::vector<T>;
  const std::size_t features = reference.inputs.at("x").features(-1), rows = in[0].size() / features;
  const std::size_t d_ff = reference.inputs.at("b1").data.size();
  const auto norm = [&, rows, features](std::size_t gamma) {
    const bool is_layer_norm = reference.attributes.at("norm") == "LayerNorm";
    return [=, &in, eps = reference.eps()](const Values& v) {
      return is_layer_norm ? oracle::layer_norm(v, rows, features, in[gamma], in[gamma + 1], eps)
                           : oracle::rms_norm(v, rows, features, in[gamma], eps);
    };
  };
  oracle::Residual<T> residual{.sublayer = [=, &in](const Values& v) {
    return oracle::feed_forward(v, rows, features, d_ff, in[1], in[2], in[3], in[4]);
  }};
  const std::string placement = reference.attributes.at("placement");
  residual.alpha = reference.attributes.at("alpha").get<double>();
  if (placement == "pre") residual.norm_in = norm(5);
  if (placement == "post" || placement == "deepnorm") residual.norm_trunk = norm(5);
  if (placement == "res_post") residual.norm_branch = norm(5);
  if (placement == "skip_norm") residual.norm_skip = norm(5);
  if (placement == "sandwich") residual.norm_in = norm(5), residual.norm_trunk = norm(7);
  if (placement == "branch_sandwich") residual.norm_in = norm(5), residual.norm_branch = norm(7);
  return residual;
}

TEST(Oracle, ResidualBlocksAgreeWithTorch) {
  for (const ReferenceCase& reference : read_cases("torch", "block_")) {
    SCOPED_TRACE(reference.name);
    const bool has_two_norms = reference.has_input("norm_in.gamma");
    const std::string first = has_two_norms ? "norm_in" : "norm";
    const std::vector<std::string> names = {
        "x", "w1", "b1", "w2", "b2", first + ".gamma", first + ".beta", "norm_out.gamma", "norm_out.beta"};
    std::vector<Reals> inputs;
    for (const std::string& name : names)
      inputs.push_back(reference.has_input(name) ? reference.inputs.at(name).as<long double>() : Reals{});

    const oracle::Residual<long double> residual = block(reference, inputs);
    const Reals sublayer_input = residual.apply(residual.norm_in, inputs[0]);
    expect_output(reference, "sublayer_input", sublayer_input);
    expect_output(reference, "sublayer_output", residual.sublayer(sublayer_input));
    expect_output(reference, "y", residual(inputs[0]));
    expect_gradients(reference, names, [&](const auto& in) { return block(reference, in)(in[0]); });
  }
}

TEST(ReferenceCase, ReadsTheStringsForNaNAndInfinity) {
  const Tensor tensor = tensor_from_json(
      nlohmann::json::parse(R"({"dtype": "float64", "shape": [4], "data": ["nan", "inf", "-inf", -2.5]})"));
  EXPECT_TRUE(std::isnan(tensor.data[0]));
  EXPECT_EQ(tensor.data[1], std::numeric_limits<double>::infinity());
  EXPECT_EQ(tensor.data[2], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(tensor.scale, 2.5);
}

TEST(ReferenceCase, InputsOfTorchCasesAreExactInFloat) {
  for (const ReferenceCase& reference : read_cases("torch", ""))
    for (const auto& [name, input] : reference.inputs)
      for (const double value : input.data) ASSERT_EQ(static_cast<float>(value), value) << reference.name;
}

TEST(ReferenceCase, NoCaseOfThatNameIsAnError) { EXPECT_THROW(read_cases("torch", "layernrom_"), std::runtime_error); }

}  // namespace
}  // namespace evenkeel_test
