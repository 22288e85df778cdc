// Norms of numbers of 16 bits: their data and calls.
#pragma once

#include <cmath>

#include "ops/op_test.hpp"
#include "support/reference_case.hpp"
#include "support/rounded_once.hpp"

// What holds the kernels of Eigen's types is compiled once, in the file of each norm and type.
#define EVENKEEL_TEST_NORMS_16(prefix, S)     \
  EVENKEEL_TEST_NORM(prefix, LayerNormRow, S) \
  EVENKEEL_TEST_NORM(prefix, RMSNormRow, S)
EVENKEEL_TEST_NORMS_16(extern, Eigen::half)
EVENKEEL_TEST_NORMS_16(extern, Eigen::bfloat16)

namespace evenkeel_test {

template <class OpType, class P>
struct Config16 {
  using Op = OpType;
  using Scalar = typename OpType::Scalar;
  using Parameter = P;
};
/// An op with parameters of its type and of float. Each norm and type is compiled in a file of its own.
template <class Op>
using Configs16 = testing::Types<Config16<Op, typename Op::Scalar>, Config16<Op, float>>;
struct Name16 {
  template <class C>
  static std::string GetName(int) {
    return std::string(C::Op::name) + (std::is_same_v<typename C::Parameter, float> ? "_float" : "_same");
  }
};

/// Numbers of a call, in the types that they are stored in.
template <class X, class P>
struct Data16 {
  Index rows = 0, features = 0;
  std::vector<X> x = {}, dy = {};
  std::vector<P> gamma = {}, beta = {};  // empty: absent
  double eps = 1e-5;
};

template <class X, class P>
Data16<X, P> random_16(Index rows, Index features, double mean, double std, bool with_gamma, bool with_beta) {
  const auto size = static_cast<std::size_t>(rows * features), parameters = static_cast<std::size_t>(features);
  const auto numbers = [](std::size_t count, std::uint64_t seed, double mean_of, double std_of) {
    return normal_vector<float>(count, seed, mean_of, std_of);
  };
  Data16<X, P> d{.rows = rows, .features = features};
  d.x = rounded<X>(numbers(size, 1, mean, std));
  d.dy = rounded<X>(numbers(size, 2, 0, 1));
  if (with_gamma) d.gamma = rounded<P>(numbers(parameters, 3, 0, 1));
  if (with_beta) d.beta = rounded<P>(numbers(parameters, 4, 0, 1));
  return d;
}

/// Rows of `stride` elements, of which the first are data and the others NaN.
template <class X>
class Strided {
 public:
  static constexpr Index gap = 3;
  Strided(const std::vector<X>& values, Index rows, Index features)
      : rows_(rows), features_(features), memory_(static_cast<std::size_t>(rows * (features + gap)), nan()) {
    for (Index i = 0; i < rows && !values.empty(); ++i)
      std::copy_n(values.begin() + i * features, features, memory_.begin() + i * (features + gap));
  }
  TensorView<X> view() { return {memory_.data(), rows_, features_, features_ + gap}; }
  std::vector<X> values() const {
    std::vector<X> all;
    for (Index i = 0; i < rows_; ++i) all.insert(all.end(), row(i), row(i) + features_);
    return all;
  }
  bool is_intact_around() const {
    bool intact = true;
    const X expected = nan();
    for (Index i = 0; i < rows_; ++i)
      for (Index j = features_; j < features_ + gap; ++j) intact &= std::memcmp(row(i) + j, &expected, sizeof(X)) == 0;
    return intact;
  }

 private:
  static X nan() { return X(std::numeric_limits<float>::quiet_NaN()); }
  const X* row(Index i) const { return memory_.data() + i * (features_ + gap); }
  Index rows_, features_;
  std::vector<X> memory_;
};

template <class X, class P>
struct Result16 {
  std::vector<X> y = {}, dx = {};
  std::vector<P> dgamma = {}, dbeta = {};
  NormStatistics<X> saved = {};
};

template <class C, class X = typename C::Scalar, class P = typename C::Parameter>
Result16<X, P> run_16(const Data16<X, P>& d) {
  using Op = typename C::Op;
  OpOptions<X> options{.eps = d.eps};
  if (!d.gamma.empty()) options.gamma = d.gamma;
  if (!d.beta.empty()) options.beta = d.beta;
  Strided<X> x(d.x, d.rows, d.features), y({}, d.rows, d.features);
  Strided<X> dy(d.dy, d.rows, d.features), dx({}, d.rows, d.features);
  Result16<X, P> result;
  Op::into(x.view(), y.view(), result.saved, options);
  const P nan(std::numeric_limits<float>::quiet_NaN());
  result.dgamma.assign(d.gamma.size(), nan), result.dbeta.assign(is_centred<Op> ? d.beta.size() : 0, nan);
  OpGradients<X> to{.dx = dx.view()};
  if (!d.gamma.empty()) to.dgamma = result.dgamma;
  if (!result.dbeta.empty()) to.dbeta = result.dbeta;
  Op::backward(dy.view(), x.view(), result.saved, options, to);
  for (const auto* array : {&x, &y, &dy, &dx}) EXPECT_TRUE(array->is_intact_around());
  result.y = y.values(), result.dx = dx.values();
  return result;
}

/// y, dx, dgamma and dbeta are what long double gives, rounded once.
template <class C, class X = typename C::Scalar, class P = typename C::Parameter>
void expect_rounded_once(const Data16<X, P>& d) {
  using Op = typename C::Op;
  using Norm = typename Op::Kernel::Norm;
  const auto got = run_16<C>(d);
  const Reals x = widened(d.x), gamma = widened(d.gamma), beta = widened(d.beta);
  const auto rows = static_cast<std::size_t>(d.rows), features = static_cast<std::size_t>(d.features);
  const Reals x_hat = Norm::y(x, rows, features, Reals(), Reals(), d.eps);
  Reals scale = output_scale(x_hat);
  for (std::size_t i = 0; i < scale.size(); ++i) {
    if (!gamma.empty()) scale[i] *= std::abs(gamma[i % features]);
    if (!beta.empty()) scale[i] += std::abs(beta[i % features]);
  }
  EXPECT_TRUE(rounded_once(got.y, Norm::y(x, rows, features, gamma, beta, d.eps), contract_ulps, scale));
  const auto expected = Norm::gradients(widened(d.dy), x, rows, features, gamma, d.eps);
  EXPECT_TRUE(rounded_once(got.dx, expected.dx, contract_ulps, expected.dx_scale));
  const long double column_ulps = contract_ulps * std::sqrt(static_cast<long double>(d.rows));
  EXPECT_TRUE(d.gamma.empty() || rounded_once(got.dgamma, expected.dgamma, column_ulps, expected.dgamma_scale));
  EXPECT_TRUE(got.dbeta.empty() || rounded_once(got.dbeta, expected.dbeta, column_ulps, expected.dbeta_scale));
}

}  // namespace evenkeel_test
