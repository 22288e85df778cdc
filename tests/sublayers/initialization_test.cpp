// Initialization: entries to the bit, moments, rows of fused projections, and errors.
#include "evenkeel/sublayers/initialization.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/sublayers/feed_forward.hpp"
#include "evenkeel/sublayers/transformer_initialization.hpp"
#include "support/random.hpp"

namespace evenkeel_test {
namespace {

using namespace evenkeel;

template <class T>
std::vector<T> values(const Parameter<T>& parameter) {
  return {parameter.values().begin(), parameter.values().end()};
}

/// A weight of [3, 5] after init(weight, key).
template <class T, class Init>
std::vector<T> initialized(const Init& init) {
  Parameter<T> weight(Shape{3, 5}, T(99));
  init(weight, random_key(42, "blocks.0.up.weight"));
  return values(weight);
}

const auto xavier_uniform = [](auto& weight, RandomKey key) { init_xavier_uniform(weight, key); };
const auto standard_normal = [](auto& weight, RandomKey key) { init_normal(weight, key, 1); };

// Expected: of a program in another language, from the definitions of key, Philox and formula. 6 / (5 + 3).
TEST(Initialization, UniformEntriesHaveTheSameBitsEverywhere) {
  EXPECT_EQ(random_key(42, "blocks.0.up.weight").bits, 0x2665e5ed2a1a26d4u);
  const auto wide = initialized<double>(xavier_uniform);
  const std::vector<double> expected = {0x1.e633ec522c26fp-2, 0x1.a4d14765b6afep-2, -0x1.3fa16d0765cf9p-1,
                                        0x1.1b974704ed63bp-2, 0x1.3236c3b567f07p-3, -0x1.77223c8def0ffp-1,
                                        0x1.1ba101e6fa5afp-1, 0x1.27200c1c3534fp-2};
  EXPECT_EQ(std::vector<double>(wide.begin(), wide.begin() + 8), expected);
  const auto narrow = initialized<float>(xavier_uniform);
  EXPECT_EQ(narrow, std::vector<float>(wide.begin(), wide.end())) << "rounded once";
  EXPECT_EQ(narrow[0], 0x1.e633ecp-2f);
  const auto half = initialized<Eigen::half>(xavier_uniform);
  EXPECT_EQ(half[0], Eigen::half(narrow[0]));
}

// log, sin and cos may differ by some ulp of double.
TEST(Initialization, NormalEntriesAreTheSameEverywhereTo1Ulp) {
  const std::vector<double> expected = {-0x1.1a626dcb66336p-3, -0x1.b82f44cdcb76cp+0, -0x1.2d2bb23f979a9p-2,
                                        -0x1.d9dec263077efp-2, 0x1.2d1d8af7eb50fp+0,  0x1.3c6007f3f66cap-1,
                                        -0x1.db59be4e57687p-1, -0x1.9a0f5b109d953p+0};
  const auto wide = initialized<double>(standard_normal);
  const auto narrow = initialized<float>(standard_normal);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(wide[i], expected[i], 8 * 0x1p-52 * std::abs(expected[i])) << i;
    EXPECT_NEAR(narrow[i], static_cast<float>(expected[i]), 0x1p-23 * std::abs(expected[i])) << i;
  }
}

/// Of 10^6 entries: the mean, the root of the mean square, and the largest.
struct Moments {
  double mean = 0, rms = 0, largest = 0;
};
template <class Init>
Moments moments(const Shape& shape, const Init& init) {
  Parameter<float> weight(shape);
  init(weight, random_key(7, "weight"));
  Moments m;
  for (const double value : weight.values()) {
    m.mean += value / static_cast<double>(shape.size());
    m.rms += value * value / static_cast<double>(shape.size());
    m.largest = std::max(m.largest, std::abs(value));
  }
  m.rms = std::sqrt(m.rms);
  return m;
}

/// The mean of n entries has the deviation std / sqrt(n), their rms std / sqrt(2n) or less: 4 of them, one seed in
/// 10,000 outside.
void expect_std(const Moments& m, double std) {
  EXPECT_NEAR(m.mean, 0, 4 * std / 1000);
  EXPECT_NEAR(m.rms, std, 4 * std / 1414);
}

// Formulas as torch.nn.init documents them, written out; weight [500, 2000], a gain of 3.
TEST(Initialization, HasTheDeviationsOfItsFormulas) {
  const Shape shape = {500, 2000};
  const auto uniform_std = [](double bound) { return bound / std::sqrt(3.0); };
  expect_std(moments(shape, [](auto& w, RandomKey key) { init_normal(w, key, 0.02); }), 0.02);
  expect_std(moments(shape, [](auto& w, RandomKey key) { init_uniform(w, key, 0.02); }), uniform_std(0.02));
  expect_std(moments(shape, [](auto& w, RandomKey key) { init_xavier_normal(w, key); }), std::sqrt(2.0 / 2500));
  expect_std(moments(shape, [](auto& w, RandomKey key) { init_xavier_normal(w, key, 3); }), 3 * std::sqrt(2.0 / 2500));
  expect_std(moments(shape, [](auto& w, RandomKey key) { init_kaiming_normal(w, key); }), std::sqrt(2.0 / 2000));
  expect_std(moments(shape, [](auto& w, RandomKey key) { init_kaiming_normal(w, key, 3, Fan::out); }),
             3 / std::sqrt(500.0));
  const auto check_bound = [&](const Moments& m, double bound) {
    expect_std(m, uniform_std(bound));
    EXPECT_LE(m.largest, bound);
    EXPECT_GT(m.largest, bound * (1 - 1e-4));  // none of 10^6 beyond: e^-100
  };
  check_bound(moments(shape, [](auto& w, RandomKey key) { init_xavier_uniform(w, key, 3); }),
              3 * std::sqrt(6.0 / 2500));
  check_bound(moments(shape, [](auto& w, RandomKey key) { init_kaiming_uniform(w, key); }), std::sqrt(6.0 / 2000));
  check_bound(moments(shape, [](auto& w, RandomKey key) { init_kaiming_uniform(w, key, std::sqrt(1.0 / 3)); }),
              1 / std::sqrt(2000.0));
}

// A convolution [out, in, 3, 3]: 9 times as many of both.
TEST(Initialization, CountsTheWindowOfAConvolutionInBothFans) {
  Parameter<double> weight(Shape{4, 7, 3, 3});
  const auto rows = weight_rows(weight);
  EXPECT_EQ(rows.fan_in, 63);
  EXPECT_EQ(rows.fan_out, 36);
}

TEST(Initialization, DependsOnKeyAndIndexAlone) {
  Parameter<double> whole(Shape{5, 3}), part(Shape{5, 3}, 99.0), other(Shape{5, 3});
  init_normal(whole, {1}, 2);
  init_normal(other, {2}, 2);
  EXPECT_NE(values(whole), values(other));
  init_normal(weight_rows(part, 1, 3), {1}, 2);
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(part.data()[i], i < 3 || i >= 12 ? 99.0 : whole.data()[i]) << i;
}

TEST(Initialization, OfALinearLeavesItsBias) {
  Linear<double> linear(3, 5);
  linear.bias().load(std::vector<double>(5, 7).data(), 5);
  Parameter<double> weight(Shape{5, 3});
  init_xavier_normal(linear, {1});
  init_xavier_normal(weight, {1});
  EXPECT_EQ(values(linear.weight()), values(weight));
  EXPECT_EQ(values(linear.bias()), std::vector<double>(5, 7));
}

TEST(Initialization, ByPathGivesEveryParameterAKeyOfItsOwn) {
  FeedForward<float> feed_forward(4, 4);
  for_each_parameter(feed_forward, [](const std::string& path, auto& parameter) {
    if (parameter.shape().rank() == 2) init_normal(parameter, random_key(3, path), 0.02);
  });
  EXPECT_NE(values(feed_forward.up().weight()), values(feed_forward.down().weight()));
}

TEST(Initialization, WithAZeroLastProjectionABlockStartsAsTheIdentity) {
  FeedForward<float> feed_forward(8, 16);
  init_xavier_normal(feed_forward.up(), {1});
  init_xavier_normal(feed_forward.down(), {2});
  init_zero(feed_forward.down());
  PreNorm block(LayerNorm<float>(8), feed_forward);
  const auto numbers = normal_vector<float>(40, 1);
  const Eigen::MatrixXf x = Eigen::Map<const Eigen::Matrix<float, 5, 8, Eigen::RowMajor>>(numbers.data());
  using Row = Eigen::Matrix<float, 5, 8, Eigen::RowMajor>;
  EXPECT_EQ(block.forward(Row(x)), Row(x));
}

/// The projections of attention, or of a gated feed-forward network, under the names of the library's.
struct Attention {
  Linear<double> query_{6, 8}, key_{6, 4}, value_{6, 4}, out_{8, 6};
  Linear<double>& query() { return query_; }
  Linear<double>& key() { return key_; }
  Linear<double>& value() { return value_; }
  Linear<double>& out() { return out_; }
};
struct Gated {
  Linear<double> gate_{6, 10}, up_{6, 10}, down_{10, 6};
  Linear<double>& gate() { return gate_; }
  Linear<double>& up() { return up_; }
  Linear<double>& down() { return down_; }
};

/// Whether the weight is N(0, std^2) with the key of this path.
testing::AssertionResult is_normal(const Linear<double>& linear, const std::string& path, double std) {
  Parameter<double> expected(linear.weight().shape());
  init_normal(expected, random_key(5, path), std);
  for (Index i = 0; i < expected.size(); ++i) {
    const double off = std::abs(linear.weight().data()[i] - expected.data()[i]);
    if (!(off <= 1e-15)) return testing::AssertionFailure() << path << "[" << i << "] is off by " << off;
  }
  return testing::AssertionSuccess();
}

TEST(TransformerInitialization, OfGpt2MakesTheLastProjectionSmaller) {
  EXPECT_EQ(residual_projection_std(8, 0.02), 0.005);
  FeedForward<double> feed_forward(6, 10);
  init_gpt2(feed_forward, 5, "blocks.1.", 8);
  EXPECT_TRUE(is_normal(feed_forward.up(), "blocks.1.up.weight", 0.02));
  EXPECT_TRUE(is_normal(feed_forward.down(), "blocks.1.down.weight", 0.005));
  Attention attention;
  init_gpt2(attention, 5, "a.", 2, 0.04);
  EXPECT_TRUE(is_normal(attention.query(), "a.query.weight", 0.04));
  EXPECT_TRUE(is_normal(attention.key(), "a.key.weight", 0.04));
  EXPECT_TRUE(is_normal(attention.value(), "a.value.weight", 0.04));
  EXPECT_TRUE(is_normal(attention.out(), "a.out.weight", 0.02));
  EXPECT_EQ(error_text<std::invalid_argument>([] { residual_projection_std(0); }),
            "evenkeel::residual_projection_std: layers is 0, expected at least 1");
}

// B94.
TEST(TransformerInitialization, OfDeepNormScalesAllButQueriesAndKeys) {
  FeedForward<double> feed_forward(6, 10);
  init_deepnorm(feed_forward, 5, "f.", 0.25);
  EXPECT_TRUE(is_normal(feed_forward.up(), "f.up.weight", 0.25 * std::sqrt(2.0 / 16)));
  EXPECT_TRUE(is_normal(feed_forward.down(), "f.down.weight", 0.25 * std::sqrt(2.0 / 16)));
  Gated gated;
  init_deepnorm(gated, 5, "g.", 0.25);
  EXPECT_TRUE(is_normal(gated.gate(), "g.gate.weight", 0.25 * std::sqrt(2.0 / 16)));
  EXPECT_TRUE(is_normal(gated.up(), "g.up.weight", 0.25 * std::sqrt(2.0 / 16)));
  EXPECT_TRUE(is_normal(gated.down(), "g.down.weight", 0.25 * std::sqrt(2.0 / 16)));
  Attention attention;
  init_deepnorm(attention, 5, "a.", 0.25);
  EXPECT_TRUE(is_normal(attention.query(), "a.query.weight", std::sqrt(2.0 / 14)));
  EXPECT_TRUE(is_normal(attention.key(), "a.key.weight", std::sqrt(2.0 / 10)));
  EXPECT_TRUE(is_normal(attention.value(), "a.value.weight", 0.25 * std::sqrt(2.0 / 10)));
  EXPECT_TRUE(is_normal(attention.out(), "a.out.weight", 0.25 * std::sqrt(2.0 / 14)));
}

// B94. 8 rows of queries and 4 of keys and of values each, as of grouped heads: every part with its own fan_out.
TEST(TransformerInitialization, OfDeepNormScalesTheValueRowsOfAFusedProjectionAlone) {
  Linear<double> qkv(6, 16);
  init_deepnorm_qkv(qkv, {9}, 8, 4, 0.25);
  Parameter<double> standard(Shape{16, 6});
  init_normal(standard, {9}, 1);
  for (std::size_t i = 0; i < 16 * 6; ++i) {
    const double std = i < 8 * 6    ? std::sqrt(2.0 / (6 + 8))
                       : i < 12 * 6 ? std::sqrt(2.0 / (6 + 4))
                                    : 0.25 * std::sqrt(2.0 / (6 + 4));
    EXPECT_DOUBLE_EQ(qkv.weight().data()[i], std * standard.data()[i]) << i;
  }
  EXPECT_EQ(
      error_text<std::invalid_argument>([&] { init_deepnorm_qkv(qkv, {9}, 4, 4, 1); }),
      "evenkeel::init_deepnorm_qkv: weight has 16 rows, expected 12: those of queries, keys and values (it has shape "
      "[16, 6])");
}

template <class Call>
std::string text(const Call& call) {
  return error_text<std::invalid_argument>(call);
}

TEST(Initialization, SaysWhatDoesNotFit) {
  Parameter<float> gamma(Shape{6}), weight(Shape{4, 6}, 99.0f);
  EXPECT_EQ(text([&] { init_xavier_normal(gamma, {1}); }),
            "evenkeel::weight_rows: weight has shape [6], expected at least 2 axes");
  EXPECT_EQ(text([&] { weight_rows(weight, 2, 3); }),
            "evenkeel::weight_rows: rows 2 to 5, expected rows of 0 to 4 (the weight has shape [4, 6])");
  EXPECT_EQ(text([&] { weight_rows(weight, -1, 3); }),
            "evenkeel::weight_rows: rows -1 to 2, expected rows of 0 to 4 (the weight has shape [4, 6])");
  EXPECT_EQ(text([&] { init_normal(weight, {1}, -1); }),
            "evenkeel::init_normal: std is -1.000000, expected a finite number of at least 0");
  EXPECT_EQ(text([&] { init_uniform(weight, {1}, std::numeric_limits<double>::infinity()); }),
            "evenkeel::init_uniform: bound is inf, expected a finite number of at least 0");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string expected = "nan, expected a finite number of at least 0";
  EXPECT_EQ(text([&] { init_xavier_normal(weight, {1}, nan); }), "evenkeel::init_xavier_normal: gain is " + expected);
  EXPECT_EQ(text([&] { init_xavier_uniform(weight, {1}, nan); }), "evenkeel::init_xavier_uniform: gain is " + expected);
  EXPECT_EQ(text([&] { init_kaiming_normal(weight, {1}, nan); }), "evenkeel::init_kaiming_normal: gain is " + expected);
  EXPECT_EQ(text([&] { init_kaiming_uniform(weight, {1}, nan); }),
            "evenkeel::init_kaiming_uniform: gain is " + expected);
  EXPECT_EQ(values(weight), std::vector<float>(24, 99));
  Attention attention;
  EXPECT_EQ(text([&] { init_deepnorm(attention, 1, "", nan); }), "evenkeel::init_deepnorm: init_gain is " + expected);
  EXPECT_EQ(values(attention.query().weight()), std::vector<double>(48, 0));
  const float fixed[4] = {};
  auto mapped = Parameter<float>::map(&fixed[0], Shape{2, 2});
  EXPECT_EQ(error_text<std::logic_error>([&] { init_zero(mapped); }),
            "evenkeel::Parameter: value is mapped from const memory, expected writable memory");
}

}  // namespace
}  // namespace evenkeel_test
