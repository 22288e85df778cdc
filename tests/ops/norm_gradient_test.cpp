// Results and gradients of LayerNorm and RMSNorm against the oracle and dual numbers, and which gradients are written.
#include "ops/op_test.hpp"
#include "support/gradient_check.hpp"

namespace evenkeel_test {
namespace {

template <class Op>
class NormGradient : public testing::Test {};
TYPED_TEST_SUITE(NormGradient, Ops, OpName);

/// What there is of gamma and beta: all four combinations (B41).
template <class S>
std::vector<Data<S>> with_and_without_parameters(const Data<S>& d) {
  std::vector<Data<S>> all(4, d);
  all[1].beta.clear();
  all[2].gamma.clear();
  all[3].gamma.clear(), all[3].beta.clear();
  return all;
}

template <class S>
TensorView<const S> view_of(const Data<S>& d, const std::vector<S>& values) {
  return {values.data(), {d.rows, d.features}};
}
template <class S>
TensorView<S> view_of(const Data<S>& d, std::vector<S>& values) {
  return {values.data(), {d.rows, d.features}};
}

template <class Op, class S = typename Op::Scalar>
std::vector<S> forward_of(const Data<S>& d, NormStatistics<S>& saved) {
  std::vector<S> y(d.x.size(), poison<S>);
  Op::into(view_of(d, d.x), view_of(d, y), saved, options_of(d));
  return y;
}

template <class S>
std::size_t parameters_of(const Data<S>& d) {
  return static_cast<std::size_t>(d.features);
}

/// The gradients that are wanted: assigned over NaN, or added to what `add_to` holds. Those of parameters may be had
/// without the parameters: they are then those of gamma = 1 and beta = 0.
template <class Op, class S = typename Op::Scalar>
Gradients<S> gradients_of(const Data<S>& d, const Wanted& wanted = {}, const Gradients<S>& add_to = {}) {
  NormStatistics<S> saved;
  forward_of<Op>(d, saved);
  const auto start = [](bool is_wanted, const std::vector<S>& before, std::size_t size) {
    if (!is_wanted) return std::vector<S>();
    return before.empty() ? std::vector<S>(size, poison<S>) : before;
  };
  Gradients<S> result{.dx = start(wanted.dx, add_to.dx, d.x.size()),
                      .dgamma = start(wanted.dgamma, add_to.dgamma, parameters_of(d)),
                      .dbeta = start(wanted.dbeta && is_centred<Op>, add_to.dbeta, parameters_of(d))};
  OpGradients<S> to;
  if (wanted.dx) to.dx = view_of(d, result.dx);
  if (wanted.dx && !add_to.dx.empty()) to.dx = evenkeel::add_to(view_of(d, result.dx));
  if (wanted.dgamma) to.dgamma = result.dgamma;
  if (wanted.dgamma && !add_to.dgamma.empty()) to.dgamma = evenkeel::add_to(result.dgamma);
  if (wanted.dbeta) to.dbeta = result.dbeta;
  if (wanted.dbeta && !add_to.dbeta.empty()) to.dbeta = evenkeel::add_to(result.dbeta);
  Op::backward(view_of(d, d.dy), view_of(d, d.x), saved, options_of(d), to);
  return result;
}

/// The gradient with respect to one of x, gamma and beta, by dual numbers through the oracle.
template <class Op, class S = typename Op::Scalar>
Reals dual_gradient(Data<S> d, std::size_t input) {
  if (d.gamma.empty()) d.gamma.assign(parameters_of(d), S(1));
  if (d.beta.empty()) d.beta.assign(parameters_of(d), S(0));
  const auto norm = [&](const auto& in) {
    return Op::Kernel::Norm::y(in[0], static_cast<std::size_t>(d.rows), static_cast<std::size_t>(d.features), in[1],
                               in[2], static_cast<long double>(d.eps));
  };
  return gradient({oracle::widen(d.x), oracle::widen(d.gamma), oracle::widen(d.beta)}, input, norm,
                  oracle::widen(d.dy));
}

template <class S>
std::vector<Data<S>> small_data() {
  std::vector<Data<S>> all;
  for (const auto& [rows, features] : {std::pair{1, 1}, {1, 2}, {5, 1}, {3, 7}, {4, 17}, {2, 33}}) {
    for (const double mean : {0.0, 5.0}) all.push_back(random_data<S>(rows, features, 101, mean));
  }
  return all;
}

// B41, B44. The contract: kernels/layer_norm.hpp.
TYPED_TEST(NormGradient, OutputMatchesTheOracle) {
  using S = typename TypeParam::Scalar;
  for (const auto& data : small_data<S>()) {
    for (const auto& d : with_and_without_parameters(data)) {
      NormStatistics<S> saved;
      const auto y = forward_of<TypeParam>(d, saved);
      EXPECT_TRUE(within_ulp(y, expected_y<typename TypeParam::Kernel>(d), 4, y_scale<typename TypeParam::Kernel>(d)));
    }
  }
}

TYPED_TEST(NormGradient, InputGradientMatchesDualNumbers) {
  using S = typename TypeParam::Scalar;
  for (const auto& data : small_data<S>()) {
    for (const auto& d : with_and_without_parameters(data)) {
      const auto scale = expected_gradients<typename TypeParam::Kernel>(d).dx_scale;
      EXPECT_TRUE(within_ulp(gradients_of<TypeParam>(d).dx, dual_gradient<TypeParam>(d, 0), 4, scale));
    }
  }
}

TYPED_TEST(NormGradient, ParameterGradientsMatchDualNumbers) {
  using S = typename TypeParam::Scalar;
  for (const auto& data : small_data<S>()) {
    for (const auto& d : with_and_without_parameters(data)) {
      const auto got = gradients_of<TypeParam>(d);
      const auto scales = expected_gradients<typename TypeParam::Kernel>(d);
      const long double ulps = 4 * std::sqrt(static_cast<long double>(d.rows));
      EXPECT_TRUE(within_ulp(got.dgamma, dual_gradient<TypeParam>(d, 1), ulps, scales.dgamma_scale));
      if (is_centred<TypeParam>) {
        EXPECT_TRUE(within_ulp(got.dbeta, dual_gradient<TypeParam>(d, 2), ulps, scales.dbeta_scale));
      }
    }
  }
}

// B45: rank 3 with two normalized axes, and the dual numbers along the rows that this makes.
TYPED_TEST(NormGradient, GradientsOverSeveralAxesMatchDualNumbers) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(2, 12, 103);
  const TensorView<const S> x(d.x.data(), {2, 3, 4}), dy(d.dy.data(), {2, 3, 4});
  std::vector<S> y(24), dx(24), dgamma(12), dbeta(12);
  NormStatistics<S> saved;
  const auto options = options_of(d, Axes::last(2));
  TypeParam::into(x, TensorView<S>(y.data(), {2, 3, 4}), saved, options);
  TypeParam::backward(dy, x, saved, options,
                      {.dx = TensorView<S>(dx.data(), {2, 3, 4}), .dgamma = dgamma, .dbeta = dbeta});
  const auto scales = expected_gradients<typename TypeParam::Kernel>(d);
  EXPECT_TRUE(within_ulp(dx, dual_gradient<TypeParam>(d, 0), 4, scales.dx_scale));
  EXPECT_TRUE(within_ulp(dgamma, dual_gradient<TypeParam>(d, 1), 6, scales.dgamma_scale));
  EXPECT_TRUE(!is_centred<TypeParam> || within_ulp(dbeta, dual_gradient<TypeParam>(d, 2), 6, scales.dbeta_scale));
}

TYPED_TEST(NormGradient, OnlyWhatIsWantedIsWrittenAndItIsTheSame) {
  using S = typename TypeParam::Scalar;
  for (const auto& d : {random_data<S>(5, 9, 107), random_data<S>(300, 3, 107)}) {
    const auto all = gradients_of<TypeParam>(d);
    for (int subset = 0; subset < 8; ++subset) {
      const Wanted wanted{.dx = (subset & 1) != 0, .dgamma = (subset & 2) != 0, .dbeta = (subset & 4) != 0};
      const auto got = gradients_of<TypeParam>(d, wanted);
      EXPECT_TRUE(!wanted.dx || same_bits(got.dx, all.dx)) << "subset " << subset;
      EXPECT_TRUE(!wanted.dgamma || same_bits(got.dgamma, all.dgamma)) << "subset " << subset;
      EXPECT_TRUE(!wanted.dbeta || same_bits(got.dbeta, all.dbeta)) << "subset " << subset;
    }
  }
}

/// `before` + `gradient`, each rounded to S as it is stored.
template <class S>
std::vector<S> sum_of(const std::vector<S>& before, const std::vector<S>& gradient) {
  std::vector<S> sum = before;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
  return sum;
}

// B57
TYPED_TEST(NormGradient, EachIsAssignedOrAddedToByChoice) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(5, 9, 109);
  const Gradients<S> before{
      .dx = normal_vector<S>(45, 1), .dgamma = normal_vector<S>(9, 2), .dbeta = normal_vector<S>(9, 3)};
  const auto assigned = gradients_of<TypeParam>(d);
  for (int subset = 0; subset < 8; ++subset) {
    Gradients<S> add_to;
    if (subset & 1) add_to.dx = before.dx;
    if (subset & 2) add_to.dgamma = before.dgamma;
    if (subset & 4) add_to.dbeta = before.dbeta;
    const auto got = gradients_of<TypeParam>(d, {}, add_to);
    const auto expect = [&](const std::vector<S>& result, const std::vector<S>& start, const std::vector<S>& alone) {
      // One more rounding: that of the sum.
      EXPECT_TRUE(start.empty() ? same_bits(result, alone) : within_ulp(result, sum_of(start, alone), 1))
          << "subset " << subset;
    };
    expect(got.dx, add_to.dx, assigned.dx);
    expect(got.dgamma, add_to.dgamma, assigned.dgamma);
    if (is_centred<TypeParam>) expect(got.dbeta, add_to.dbeta, assigned.dbeta);
  }
}

TYPED_TEST(NormGradient, TwoBackwardsAddUpAndAnAssignedOneStartsAnew) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(5, 9, 113);
  const auto once = gradients_of<TypeParam>(d);
  const auto twice = gradients_of<TypeParam>(d, {}, {.dx = once.dx, .dgamma = once.dgamma, .dbeta = once.dbeta});
  EXPECT_TRUE(within_ulp(twice.dx, sum_of(once.dx, once.dx), 1));
  EXPECT_TRUE(within_ulp(twice.dgamma, sum_of(once.dgamma, once.dgamma), 1));
  EXPECT_TRUE(!is_centred<TypeParam> || within_ulp(twice.dbeta, sum_of(once.dbeta, once.dbeta), 1));
}

}  // namespace
}  // namespace evenkeel_test
