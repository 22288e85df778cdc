// Tests of sublayers/linear.hpp.
#include "evenkeel/sublayers/linear.hpp"

#include <gtest/gtest.h>

#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "support/gradient_check.hpp"
#include "support/oracle.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;
using evenkeel::Index;
using evenkeel::Parameter;
using evenkeel::Shape;

template <class T>
using RowMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct Sizes {
  Index rows, in, out;
  bool with_bias = true;
};

template <class T>
evenkeel::Linear<T> random_linear(const Sizes& s, std::uint64_t seed = 100) {
  evenkeel::Linear<T> linear(s.in, s.out, s.with_bias);
  for_each_parameter(linear, [&](const std::string&, Parameter<T>& parameter) {
    const auto values = normal_vector<T>(static_cast<std::size_t>(parameter.size()), seed++);
    parameter.load(values.data(), parameter.size());
  });
  return linear;
}

template <class T>
RowMatrix<T> random_matrix(Index rows, Index columns, std::uint64_t seed) {
  const auto values = normal_vector<T>(static_cast<std::size_t>(rows * columns), seed);
  return Eigen::Map<const RowMatrix<T>>(values.data(), rows, columns);
}

template <class X>
std::vector<typename X::Scalar> flat(const X& x) {
  return {x.data(), x.data() + x.size()};
}
template <class T>
std::vector<T> copy_of(std::span<const T> values) {
  return {values.begin(), values.end()};
}

/// Not to the bit: those of Eigen's products depend on where a matrix lies.
template <class T>
testing::AssertionResult near(std::span<const T> got, std::span<const T> expected) {
  const Reals wide = oracle::widen(expected);
  return within_ulp(got, wide, 8, {oracle::largest_magnitude(wide)});
}

/// x, weight and, if there is one, bias, as the oracle takes them.
template <class T>
std::vector<Reals> oracle_inputs(const RowMatrix<T>& x, const evenkeel::Linear<T>& linear) {
  std::vector<Reals> inputs = {oracle::widen(flat(x)), oracle::widen(linear.weight().values())};
  if (!linear.bias().is_absent()) inputs.push_back(oracle::widen(linear.bias().values()));
  return inputs;
}

auto oracle_of(const Sizes& s) {
  return [s](const auto& in) {
    using Vector = std::remove_cvref_t<decltype(in[0])>;
    return oracle::linear(in[0], s.rows, s.in, s.out, in[1], in.size() > 2 ? in[2] : Vector());
  };
}

const std::vector<Sizes> all_sizes = {{1, 1, 1}, {5, 4, 3}, {5, 4, 3, false}, {3, 20, 17}, {40, 7, 30}, {2, 1, 9}};

template <class T>
class LinearOf : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(LinearOf, Scalars);

TYPED_TEST(LinearOf, MatchesTheOracle) {
  for (const Sizes& s : all_sizes) {
    const auto linear = random_linear<TypeParam>(s);
    const auto x = random_matrix<TypeParam>(s.rows, s.in, 1);
    const auto y = linear.forward(x);
    // A sum of n + 1 terms near 1, in whichever order.
    EXPECT_TRUE(within_ulp(flat(y), oracle_of(s)(oracle_inputs(x, linear)), static_cast<long double>(s.in) + 4));
  }
}

TYPED_TEST(LinearOf, GradientsMatchDualNumbers) {
  for (const Sizes& s : all_sizes) {
    auto linear = random_linear<TypeParam>(s);
    const auto x = random_matrix<TypeParam>(s.rows, s.in, 2), dy = random_matrix<TypeParam>(s.rows, s.out, 3);
    typename evenkeel::Linear<TypeParam>::Saved saved;
    linear.forward(x, saved);
    const auto dx = linear.backward(dy, saved);

    const auto inputs = oracle_inputs(x, linear);
    const Reals upstream = oracle::widen(flat(dy));
    const auto terms = static_cast<long double>(std::max(s.rows, s.out));
    EXPECT_TRUE(within_ulp(flat(dx), gradient(inputs, 0, oracle_of(s), upstream), 4 + terms));
    EXPECT_TRUE(within_ulp(linear.weight().gradient(), gradient(inputs, 1, oracle_of(s), upstream), 4 + terms));
    if (s.with_bias) {
      EXPECT_TRUE(within_ulp(linear.bias().gradient(), gradient(inputs, 2, oracle_of(s), upstream), 4 + terms));
    }
  }
}

TYPED_TEST(LinearOf, TrainingGivesTheBitsOfInference) {
  const Sizes s{5, 4, 3};
  auto linear = random_linear<TypeParam>(s);
  const auto x = random_matrix<TypeParam>(s.rows, s.in, 4);
  typename evenkeel::Linear<TypeParam>::Saved saved;
  EXPECT_EQ(linear.forward(x, saved), linear.forward(x));
}

TYPED_TEST(LinearOf, GradientsAddOverTwoBackwards) {
  const Sizes s{5, 4, 3};
  auto linear = random_linear<TypeParam>(s), once = linear;
  const auto x = random_matrix<TypeParam>(5, 4, 5), dy = random_matrix<TypeParam>(5, 3, 6);
  const RowMatrix<TypeParam> twice_dy = 2 * dy;
  typename evenkeel::Linear<TypeParam>::Saved saved;
  linear.forward(x, saved);
  const auto dx = linear.backward(dy, saved);
  EXPECT_EQ(linear.backward(twice_dy, saved), 2 * dx);  // dx does not add, and the Saved serves twice
  once.forward(x, saved);
  once.backward(dy, saved);
  for (const auto& [added, single] : {std::pair{linear.weight().gradient(), once.weight().gradient()},
                                      std::pair{linear.bias().gradient(), once.bias().gradient()}}) {
    Reals expected;
    for (const TypeParam value : single) expected.push_back(3 * static_cast<long double>(value));
    EXPECT_TRUE(within_ulp(added, expected, 2));
  }
}

TYPED_TEST(LinearOf, AddsToDxWhereAsked) {
  auto linear = random_linear<TypeParam>({5, 4, 3});
  const auto x = random_matrix<TypeParam>(5, 4, 7), dy = random_matrix<TypeParam>(5, 3, 8);
  typename evenkeel::Linear<TypeParam>::Saved saved;
  linear.forward(x, saved);
  RowMatrix<TypeParam> added = random_matrix<TypeParam>(5, 4, 9), overwritten = added;
  const RowMatrix<TypeParam> before = added, dx = linear.backward(dy, saved);
  linear.backward_into(dy, saved, add_to(added));
  linear.backward_into(dy, saved, overwritten);
  EXPECT_TRUE(within_ulp(flat(added), oracle::widen(flat(RowMatrix<TypeParam>(before + dx))), 4));
  EXPECT_EQ(overwritten, dx);
}

TYPED_TEST(LinearOf, ParametersGetTheirGradientsWhereDxIsNotWanted) {
  auto linear = random_linear<TypeParam>({5, 4, 3}), other = linear;
  const auto x = random_matrix<TypeParam>(5, 4, 10), dy = random_matrix<TypeParam>(5, 3, 11);
  typename evenkeel::Linear<TypeParam>::Saved saved;
  linear.forward(x, saved);
  linear.backward_into(dy, saved, {});
  other.backward(dy, saved);
  EXPECT_TRUE(near(linear.weight().gradient(), other.weight().gradient()));
  EXPECT_TRUE(near(linear.bias().gradient(), other.bias().gradient()));
}

TYPED_TEST(LinearOf, WeightsCanBeMappedFromConstMemory) {
  using T = TypeParam;
  const auto weight = normal_vector<T>(12, 16), bias = normal_vector<T>(3, 17);
  evenkeel::Linear<T> linear(4, 3), loaded(4, 3);
  linear.weight() = Parameter<T>::map(weight.data(), Shape{3, 4});
  linear.bias() = Parameter<T>::map(bias.data(), Shape{3});
  loaded.weight().load(weight.data(), 12), loaded.bias().load(bias.data(), 3);
  const auto x = random_matrix<T>(5, 4, 18), dy = random_matrix<T>(5, 3, 19);
  typename evenkeel::Linear<T>::Saved saved, loaded_saved;
  EXPECT_EQ(linear.forward(x, saved), loaded.forward(x, loaded_saved));
  EXPECT_EQ(linear.backward(dy, saved), loaded.backward(dy, loaded_saved));
  EXPECT_TRUE(near(linear.weight().gradient(), loaded.weight().gradient()));
  EXPECT_EQ(weight, normal_vector<T>(12, 16));
  EXPECT_FALSE(linear.weight().is_writable());
}

TYPED_TEST(LinearOf, AMappedWeightFollowsItsMemory) {
  std::vector<TypeParam> weight = {2};
  evenkeel::Linear<TypeParam> linear(1, 1, false);
  linear.weight() = Parameter<TypeParam>::map(weight.data(), Shape{1, 1});
  const RowMatrix<TypeParam> x = RowMatrix<TypeParam>::Constant(1, 1, 3);
  EXPECT_EQ(linear.forward(x)(0, 0), 6);
  weight[0] = 5;
  EXPECT_EQ(linear.forward(x)(0, 0), 15);
}

TYPED_TEST(LinearOf, ASavedServesOneShapeAfterAnother) {
  using T = TypeParam;
  auto linear = random_linear<T>({5, 4, 3});
  typename evenkeel::Linear<T>::Saved saved;
  for (const Index rows : {5, 2, 9}) {
    const auto x = random_matrix<T>(rows, 4, 20), dy = random_matrix<T>(rows, 3, 21);
    linear.forward(x, saved);
    auto fresh = random_linear<T>({5, 4, 3});
    typename evenkeel::Linear<T>::Saved fresh_saved;
    fresh.forward(x, fresh_saved);
    zero_gradients(linear);
    EXPECT_EQ(linear.backward(dy, saved), fresh.backward(dy, fresh_saved));
    EXPECT_TRUE(near(linear.weight().gradient(), fresh.weight().gradient()));
  }
}

TYPED_TEST(LinearOf, WorksWithoutRowsOrFeatures) {
  using T = TypeParam;
  typename evenkeel::Linear<T>::Saved saved;
  auto linear = random_linear<T>({5, 4, 3});
  const RowMatrix<T> no_rows(0, 4), dy_of_no_rows(0, 3);
  EXPECT_EQ(linear.forward(no_rows, saved).rows(), 0);
  EXPECT_EQ(linear.backward(dy_of_no_rows, saved).cols(), 4);
  EXPECT_EQ(copy_of(linear.weight().gradient()), std::vector<T>(12, 0));
  EXPECT_EQ(copy_of(linear.bias().gradient()), std::vector<T>(3, 0));

  auto constant = random_linear<T>({2, 0, 3});
  const RowMatrix<T> no_features(2, 0);
  const RowMatrix<T> y = constant.forward(no_features, saved);
  for (const Index row : {0, 1}) EXPECT_EQ(flat(RowMatrix<T>(y.row(row))), copy_of(constant.bias().values()));
}

TEST(Linear, StartsAtZeroAndNamesItsParameters) {
  evenkeel::Linear<float> linear(4, 3);
  std::map<std::string, Shape> parameters;
  for_each_parameter(std::as_const(linear), [&](const std::string& path, const Parameter<float>& parameter) {
    parameters[path] = parameter.shape();
    EXPECT_EQ(copy_of(parameter.values()), std::vector<float>(static_cast<std::size_t>(parameter.size()), 0));
    EXPECT_FALSE(parameter.has_gradient());
  });
  EXPECT_EQ(parameters, (std::map<std::string, Shape>{{"weight", {3, 4}}, {"bias", {3}}}));
}

TEST(Linear, WithoutBiasHasNoneInItsParametersAndGradients) {
  auto linear = random_linear<float>({5, 4, 3, false});
  std::vector<std::string> paths;
  const auto x = random_matrix<float>(5, 4, 1), dy = random_matrix<float>(5, 3, 2);
  evenkeel::Linear<float>::Saved saved;
  linear.forward(x, saved);
  linear.backward(dy, saved);
  for_each_parameter(
      linear, [&](const std::string& path, const auto&) { paths.push_back(path); }, "f.");
  EXPECT_EQ(paths, std::vector<std::string>{"f.weight"});
  EXPECT_TRUE(linear.bias().is_absent());
  EXPECT_FALSE(linear.bias().has_gradient());
}

TEST(Linear, ACopyHasParametersAndGradientsOfItsOwn) {
  auto linear = random_linear<float>({5, 4, 3});
  auto copy = linear;
  const auto x = random_matrix<float>(5, 4, 1), dy = random_matrix<float>(5, 3, 2);
  evenkeel::Linear<float>::Saved saved;
  copy.weight().mutable_values()[0] += 1;
  copy.forward(x, saved);
  copy.backward(dy, saved);
  EXPECT_FALSE(linear.weight().has_gradient());
  EXPECT_NE(linear.forward(x), copy.forward(x));
}

}  // namespace
}  // namespace evenkeel_test
