// Tests of sublayers/feed_forward.hpp: values and gradients.
#include "evenkeel/sublayers/feed_forward.hpp"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <vector>

#include "sublayers/activation_oracle.hpp"
#include "support/gradient_check.hpp"
#include "support/oracle.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Activation;
using evenkeel::Index;
using evenkeel::Parameter;
using evenkeel::TensorView;

constexpr Index rows = 4, d_model = 5, d_ff = 7;
constexpr std::size_t size = rows * d_model;

struct Kind {
  const char* name;
  Activation activation;
  bool with_bias;
};
const std::vector<Kind> kinds = {
    {"gelu", Activation::gelu, true},           {"gelu_tanh", Activation::gelu_tanh, true},
    {"relu", Activation::relu, true},           {"silu", Activation::silu, true},
    {"gelu, no bias", Activation::gelu, false}, {"relu, no bias", Activation::relu, false}};

template <class T>
evenkeel::FeedForward<T> random_feed_forward(const Kind& kind) {
  evenkeel::FeedForward<T> f(d_model, d_ff, {.activation = kind.activation, .with_bias = kind.with_bias});
  std::uint64_t seed = 100;
  for_each_parameter(f, [&](const std::string&, Parameter<T>& parameter) {
    const auto values = normal_vector<T>(static_cast<std::size_t>(parameter.size()), seed++);
    parameter.load(values.data(), parameter.size());
  });
  return f;
}

/// x and the parameters in the order of their paths: up.weight, up.bias, down.weight, down.bias.
template <class T>
std::vector<Reals> oracle_inputs(const std::vector<T>& x, const evenkeel::FeedForward<T>& f) {
  std::vector<Reals> inputs = {oracle::widen(x)};
  for_each_parameter(
      f, [&](const std::string&, const auto& parameter) { inputs.push_back(oracle::widen(parameter.values())); });
  return inputs;
}

auto oracle_of(const Kind& kind) {
  return [kind](const auto& in) {
    using Vector = std::remove_cvref_t<decltype(in[0])>;
    const auto activation = oracle::activation_of<typename Vector::value_type>(kind.activation);
    if (kind.with_bias) return oracle::feed_forward(in[0], rows, d_model, d_ff, in[1], in[2], in[3], in[4], activation);
    return oracle::feed_forward(in[0], rows, d_model, d_ff, in[1], Vector(), in[2], Vector(), activation);
  };
}

/// Errors are measured by the largest entry. Not by bits: those of Eigen's products depend on where a matrix lies.
template <class T, class Expected>
testing::AssertionResult near(const std::vector<T>& got, const Expected& expected, double ulps) {
  const Reals wide = oracle::widen(expected);
  return within_ulp(got, wide, ulps, {oracle::largest_magnitude(wide)});
}

/// [rows, d_model] in memory of ours.
template <class T>
TensorView<T> matrix(std::vector<T>& values) {
  return {values.data(), {rows, d_model}};
}
template <class T>
TensorView<const T> matrix(const std::vector<T>& values) {
  return {values.data(), {rows, d_model}};
}

/// A training forward and the gradients of one upstream gradient: first dx, then the parameters'.
template <class T>
std::vector<std::vector<T>> gradients(evenkeel::FeedForward<T>& f, const std::vector<T>& x, const std::vector<T>& dy) {
  typename evenkeel::FeedForward<T>::Saved saved;
  std::vector<T> y(size), dx(size);
  f.forward_into(matrix(x), matrix(y), saved);
  f.backward_into(matrix(dy), saved, matrix(dx));
  std::vector<std::vector<T>> result = {dx};
  for_each_parameter(f, [&](const std::string&, const auto& parameter) {
    result.emplace_back(parameter.gradient().begin(), parameter.gradient().end());
  });
  return result;
}

template <class T>
class FeedForwardOf : public testing::Test {
 protected:
  const std::vector<T> x = normal_vector<T>(size, 1), dy = normal_vector<T>(size, 2);
};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(FeedForwardOf, Scalars);

TYPED_TEST(FeedForwardOf, MatchesTheOracle) {
  for (const Kind& kind : kinds) {
    const auto f = random_feed_forward<TypeParam>(kind);
    std::vector<TypeParam> y(size);
    f.forward_into(matrix(this->x), matrix(y));
    EXPECT_TRUE(near(y, oracle_of(kind)(oracle_inputs(this->x, f)), 8)) << kind.name;  // measured: 1.6
  }
}

TYPED_TEST(FeedForwardOf, GradientsMatchDualNumbers) {
  for (const Kind& kind : kinds) {
    auto f = random_feed_forward<TypeParam>(kind);
    const auto inputs = oracle_inputs(this->x, f);
    const auto got = gradients(f, this->x, this->dy);
    ASSERT_EQ(got.size(), kind.with_bias ? 5u : 3u);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Reals expected = gradient(inputs, i, oracle_of(kind), oracle::widen(this->dy));
      EXPECT_TRUE(near(got[i], expected, 8)) << kind.name << ", input " << i;  // measured: 3.3
    }
  }
}

TYPED_TEST(FeedForwardOf, TrainingGivesWhatInferenceGives) {
  for (const Kind& kind : kinds) {
    const auto f = random_feed_forward<TypeParam>(kind);
    typename evenkeel::FeedForward<TypeParam>::Saved saved;
    std::vector<TypeParam> training(size), inference(size);
    f.forward_into(matrix(this->x), matrix(training), saved);
    f.forward_into(matrix(this->x), matrix(inference));
    EXPECT_TRUE(near(training, inference, 8)) << kind.name;
  }
}

TYPED_TEST(FeedForwardOf, GradientsOfParametersAddOverTwoBackwards) {
  auto f = random_feed_forward<TypeParam>(kinds[0]), once = f;
  gradients(f, this->x, this->dy);
  const auto twice = gradients(f, this->x, this->dy), single = gradients(once, this->x, this->dy);
  EXPECT_TRUE(near(twice[0], single[0], 8));
  for (std::size_t i = 1; i < twice.size(); ++i) {
    std::vector<TypeParam> doubled;
    for (const TypeParam value : single[i]) doubled.push_back(2 * value);
    EXPECT_TRUE(near(twice[i], doubled, 8)) << "parameter " << i;
  }
}

TYPED_TEST(FeedForwardOf, BackwardTwiceOnOneSavedGivesTheSame) {
  auto f = random_feed_forward<TypeParam>(kinds[1]);
  typename evenkeel::FeedForward<TypeParam>::Saved saved;
  std::vector<TypeParam> y(size), first(size), second(size, 9);
  f.forward_into(matrix(this->x), matrix(y), saved);
  f.backward_into(matrix(this->dy), saved, matrix(first));
  f.backward_into(matrix(this->dy), saved, matrix(second));
  EXPECT_TRUE(near(second, first, 8));
}

TYPED_TEST(FeedForwardOf, AddsToDxWhereAsked) {
  auto f = random_feed_forward<TypeParam>(kinds[0]);
  typename evenkeel::FeedForward<TypeParam>::Saved saved;
  const auto before = normal_vector<TypeParam>(size, 3);
  std::vector<TypeParam> y(size), dx(size), added = before;
  f.forward_into(matrix(this->x), matrix(y), saved);
  f.backward_into(matrix(this->dy), saved, matrix(dx));
  f.backward_into(matrix(this->dy), saved, evenkeel::add_to(matrix(added)));
  Reals expected;
  for (std::size_t i = 0; i < size; ++i) expected.push_back(static_cast<long double>(before[i]) + dx[i]);
  EXPECT_TRUE(near(added, expected, 8));
}

TYPED_TEST(FeedForwardOf, ParametersGetTheirGradientsWhereDxIsNotWanted) {
  auto f = random_feed_forward<TypeParam>(kinds[0]), other = f;
  typename evenkeel::FeedForward<TypeParam>::Saved saved;
  std::vector<TypeParam> y(size);
  f.forward_into(matrix(this->x), matrix(y), saved);
  f.backward_into(matrix(this->dy), saved, {});
  const auto expected = gradients(other, this->x, this->dy);
  std::size_t i = 1;
  for_each_parameter(f, [&](const std::string& path, const auto& parameter) {
    EXPECT_TRUE(near(std::vector(parameter.gradient().begin(), parameter.gradient().end()), expected[i++], 8)) << path;
  });
}

TYPED_TEST(FeedForwardOf, ASavedCanBeMovedAndUsedAgain) {
  auto f = random_feed_forward<TypeParam>(kinds[0]), other = f;
  typename evenkeel::FeedForward<TypeParam>::Saved saved;
  const auto other_x = normal_vector<TypeParam>(size, 4);
  std::vector<TypeParam> y(size), dx(size);
  f.forward_into(matrix(other_x), matrix(y), saved);  // overwritten by the next forward
  f.forward_into(matrix(this->x), matrix(y), saved);
  const auto moved = std::move(saved);
  f.backward_into(matrix(this->dy), moved, matrix(dx));
  EXPECT_TRUE(near(dx, gradients(other, this->x, this->dy)[0], 8));
}

TYPED_TEST(FeedForwardOf, NeitherXNorDyChanges) {
  auto f = random_feed_forward<TypeParam>(kinds[0]);
  gradients(f, this->x, this->dy);
  EXPECT_EQ(this->x, normal_vector<TypeParam>(size, 1));
  EXPECT_EQ(this->dy, normal_vector<TypeParam>(size, 2));
}

}  // namespace
}  // namespace evenkeel_test
