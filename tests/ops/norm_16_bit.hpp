// Norms of numbers of 16 bits: what is tested for each type, with parameters of its type and of float.
#pragma once

#include "ops/norm_16_bit_data.hpp"

namespace evenkeel_test {

template <class C>
class Norm16 : public testing::Test {};
TYPED_TEST_SUITE_P(Norm16);

TYPED_TEST_P(Norm16, EveryCombinationOfParametersIsRoundedOnce) {
  using X = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  for (const Index features : {1, 7, 16, 17, 33, 768, 1001}) {
    for (const int given : {0, 1, 2, 3}) {
      SCOPED_TRACE(std::to_string(features) + (given & 1 ? " gamma" : "") + (given & 2 ? " beta" : ""));
      expect_rounded_once<TypeParam>(random_16<X, P>(5, features, 0, 1, given & 1, given & 2));
    }
  }
}

TYPED_TEST_P(Norm16, RowsOfAnyMeanAndSpreadAreRoundedOnce) {
  using X = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  for (const double mean : {0.0, 5.0, 1000.0}) {
    for (const double std : {1e-3, 1.0, 1e3}) {
      SCOPED_TRACE(std::to_string(mean) + " +- " + std::to_string(std));
      expect_rounded_once<TypeParam>(random_16<X, P>(3, 129, mean, std, true, true));
    }
  }
}

TYPED_TEST_P(Norm16, LongRowsAndManyRowsAreRoundedOnce) {
  using X = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  for (const Index features : {2047, 2048, 2049, 5000})
    expect_rounded_once<TypeParam>(random_16<X, P>(11, features, 0, 1, true, true));
  expect_rounded_once<TypeParam>(random_16<X, P>(300, 20, 0, 1, true, true));
}

/// Sums of parameter gradients in 16 bits would stop at 256 or 2048.
TYPED_TEST_P(Norm16, ParameterGradientsAreSummedInFloatOrWider) {
  using X = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  auto d = random_16<X, P>(4096, 8, 0, 1, true, true);
  for (std::size_t i = 0; i < d.x.size(); ++i) d.x[i] = d.dy[i] = X(i % 2 ? 1.0f : -1.0f);
  const auto got = run_16<TypeParam>(d);
  for (const P& dgamma : got.dgamma) EXPECT_NEAR(static_cast<float>(dgamma), 4096, 0.1);
  if (!is_centred<typename TypeParam::Op>) return;
  for (auto& value : d.dy) value = X(1.0f);
  for (const P& dbeta : run_16<TypeParam>(d).dbeta) EXPECT_EQ(static_cast<float>(dbeta), 4096);
}

TYPED_TEST_P(Norm16, GradientsAreAddedToWhatIsThere) {
  using X = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  using Op = typename TypeParam::Op;
  const auto d = random_16<X, P>(4, 33, 0, 1, true, false);
  const auto alone = run_16<TypeParam>(d);
  std::vector<X> dx(d.x.size(), X(2.0f));
  std::vector<P> dgamma(d.gamma.size(), P(3.0f));
  const Shape shape{4, 33};
  OpOptions<X> options{.gamma = d.gamma, .eps = d.eps};
  Op::backward(TensorView<const X>(d.dy.data(), shape), TensorView<const X>(d.x.data(), shape), alone.saved, options,
               {.dx = evenkeel::add_to(TensorView<X>(dx.data(), shape)), .dgamma = evenkeel::add_to(dgamma)});
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const float sum = static_cast<float>(alone.dx[i]) + 2;
    EXPECT_NEAR(static_cast<float>(dx[i]), sum, static_cast<double>(unit_at<X>(8)));
  }
  for (std::size_t j = 0; j < dgamma.size(); ++j) {
    const float sum = static_cast<float>(alone.dgamma[j]) + 3;
    EXPECT_NEAR(static_cast<float>(dgamma[j]), sum, static_cast<double>(unit_at<P>(8)));
  }
}

TYPED_TEST_P(Norm16, NaNAndInfinityStayInTheirRow) {
  using X = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  auto d = random_16<X, P>(5, 40, 0, 1, true, true);
  const auto clean = run_16<TypeParam>(d);
  d.x[1 * 40 + 17] = X(std::numeric_limits<float>::quiet_NaN());
  d.x[3 * 40 + 39] = X(std::numeric_limits<float>::infinity());
  const auto got = run_16<TypeParam>(d);
  for (Index i = 0; i < 5; ++i) {
    for (Index j = 0; j < 40; ++j) {
      const auto at = static_cast<std::size_t>(i * 40 + j);
      const bool is_finite_row = i != 1 && i != 3;
      EXPECT_TRUE(!is_finite_row || std::memcmp(&got.y[at], &clean.y[at], sizeof(X)) == 0);
      EXPECT_TRUE(i != 1 || std::isnan(static_cast<float>(got.y[at])));
    }
  }
}

/// x of 60000 in half: its square overflows there; sums of them in bfloat16 lose everything.
TYPED_TEST_P(Norm16, LargeAndTinyRows) {
  using X = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  auto d = random_16<X, P>(3, 64, 0, 1, false, false);
  for (std::size_t i = 0; i < d.x.size(); ++i) d.x[i] = X(i % 2 ? 60000.0f : -60000.0f);
  expect_rounded_once<TypeParam>(d);
  d.eps = 1e-12;
  for (std::size_t i = 0; i < d.x.size(); ++i) d.x[i] = X(std::ldexp(static_cast<float>(i % 4 + 1), -24));
  expect_rounded_once<TypeParam>(d);
  for (auto& value : d.x) value = X(0.0f);
  for (const X& y : run_16<TypeParam>(d).y) EXPECT_EQ(static_cast<float>(y), 0);
}

/// The grids of the reference files are exact in both types.
TYPED_TEST_P(Norm16, AgreesWithPyTorch) {
  using X = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  const bool centred = is_centred<typename TypeParam::Op>;
  int cases = 0;
  for (const ReferenceCase& reference : read_cases("torch", centred ? "layernorm_" : "rmsnorm_")) {
    if (!reference.name.ends_with("_grid") || reference.name.starts_with("rmsnorm_gemma")) continue;
    SCOPED_TRACE(reference.name);
    ++cases;
    const Tensor& x = reference.inputs.at("x");
    Data16<X, P> d{.rows = static_cast<Index>(x.data.size() / x.shape.back()),
                   .features = static_cast<Index>(x.shape.back()),
                   .x = rounded<X>(x.data),
                   .dy = rounded<X>(reference.grad_output.data),
                   .gamma = rounded<P>(reference.inputs.at("gamma").data),
                   .eps = reference.eps()};
    if (centred) d.beta = rounded<P>(reference.inputs.at("beta").data);
    const auto got = run_16<TypeParam>(d);
    const auto expect = [](const auto& values, const Tensor& expected) {
      EXPECT_TRUE(rounded_once(values, Reals(expected.data.begin(), expected.data.end()), 4, {expected.scale}));
    };
    expect(got.y, reference.outputs.at("y"));
    expect(got.dx, reference.grads.at("x"));
    expect(got.dgamma, reference.grads.at("gamma"));
    if (centred) expect(got.dbeta, reference.grads.at("beta"));
  }
  EXPECT_EQ(cases, 2);
}

/// y of a forward in dense memory.
template <class C, class X = typename C::Scalar, class P = typename C::Parameter>
std::vector<X> forward_16(const Data16<X, P>& d, const OpOptions<X>& options, StorageOrder order, Index step = 1) {
  std::vector<X> x(d.x.size() * static_cast<std::size_t>(step)), y(x.size());
  const Shape shape{d.rows, d.features};
  auto strides = TensorView<X>(nullptr, shape, order).strides();
  for (Index& stride : strides) stride *= step;
  const auto offset = [&](std::size_t i) {
    const auto at = static_cast<Index>(i);
    return static_cast<std::size_t>(at / d.features * strides[0] + at % d.features * strides[1]);
  };
  for (std::size_t i = 0; i < d.x.size(); ++i) x[offset(i)] = d.x[i];
  C::Op::into(TensorView<const X>(x.data(), shape, strides, order), TensorView<X>(y.data(), shape, strides, order),
              options);
  std::vector<X> values;
  for (std::size_t i = 0; i < d.x.size(); ++i) values.push_back(y[offset(i)]);
  return values;
}

/// Llama's order, bit for bit: x_hat as it is stored, times gamma, plus beta, rounded again. In rows, lanes, rows that
/// are gathered, and beside masked rows.
TYPED_TEST_P(Norm16, RoundedBeforeGammaIsRoundedTwice) {
  using X = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  for (const int given : {0, 1, 2, 3}) {
    const auto d = random_16<X, P>(5, 77, 0.5, 2, given & 1, given & 2);
    const std::vector<std::uint8_t> mask = {1, 1, 0, 1, 0};
    for (const auto& [order, step] :
         {std::pair{StorageOrder::row_major, 1}, {StorageOrder::column_major, 1}, {StorageOrder::row_major, 2}}) {
      OpOptions<X> options{.eps = d.eps, .mask = mask};
      const auto x_hat = forward_16<TypeParam>(d, options, order, step);
      if (given & 1) options.gamma = d.gamma;
      if ((given & 2) && is_centred<typename TypeParam::Op>) options.beta = d.beta;
      options.rounding = evenkeel::Rounding::before_gamma;
      const auto y = forward_16<TypeParam>(d, options, order, step);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double gamma = (given & 1) ? static_cast<float>(d.gamma[i % 77]) : 1;
        const double beta = options.beta.is_given() ? static_cast<float>(d.beta[i % 77]) : 0;
        const X expected(mask[i / 77] ? static_cast<float>(static_cast<float>(x_hat[i]) * gamma + beta) : 0.f);
        EXPECT_EQ(static_cast<float>(y[i]), static_cast<float>(expected)) << given << ", element " << i;
      }
    }
  }
}

/// Each valid row is a call of the kernel: sums in between are not rounded to 16 bits, where they would stop growing.
TYPED_TEST_P(Norm16, ParameterGradientsOfManyRunsAreRoundedOnce) {
  using X = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  using Op = typename TypeParam::Op;
  const Index rows = 4096;
  std::vector<X> x(static_cast<std::size_t>(rows * 4)), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = X(i % 2 ? 1.0f : -1.0f);
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < mask.size(); i += 2) mask[i] = 1;
  const auto expect_count = [&](const TensorView<const X>& view, const evenkeel::MaskView& flags, float count) {
    NormStatistics<X> saved;
    Op::into(view, TensorView<X>(y.data(), view.shape(), view.strides(), view.order()), saved, {.mask = flags});
    std::vector<P> dgamma(static_cast<std::size_t>(view.shape()[1]));
    Op::backward(view, view, saved, {.mask = flags}, {.dgamma = dgamma});
    for (const P& value : dgamma) EXPECT_NEAR(static_cast<float>(value), count, 0.1);
  };
  expect_count(TensorView<const X>(x.data(), {rows, 4}), mask, 2048);
  expect_count(TensorView<const X>(x.data(), {rows, 2}, {4, 3}, StorageOrder::row_major), {}, 4096);  // gathered
  expect_count(TensorView<const X>(x.data(), {rows, 2}, {4, 3}, StorageOrder::row_major), mask, 2048);
}

REGISTER_TYPED_TEST_SUITE_P(Norm16, EveryCombinationOfParametersIsRoundedOnce, RowsOfAnyMeanAndSpreadAreRoundedOnce,
                            LongRowsAndManyRowsAreRoundedOnce, ParameterGradientsAreSummedInFloatOrWider,
                            GradientsAreAddedToWhatIsThere, NaNAndInfinityStayInTheirRow, LargeAndTinyRows,
                            AgreesWithPyTorch, RoundedBeforeGammaIsRoundedTwice,
                            ParameterGradientsOfManyRunsAreRoundedOnce);

}  // namespace evenkeel_test
