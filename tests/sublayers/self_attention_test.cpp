// Tests of sublayers/self_attention.hpp: values and gradients against the definition, masks, memory, decoding.
#include "evenkeel/sublayers/self_attention.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "evenkeel/core/eigen_tensor.hpp"
#include "sublayers/attention_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::KeyValueCache;
using evenkeel::Rotary;
using evenkeel::SelfAttentionSettings;
using Attention = evenkeel::SelfAttention<double>;
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowTensor = Eigen::Tensor<double, 3, Eigen::RowMajor>;
using Flags = std::vector<std::uint8_t>;

constexpr Index batch = 2, seq = 4, d_model = 6;
constexpr std::size_t size = batch * seq * d_model;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct Kind {
  const char* name;
  SelfAttentionSettings settings;
};
const std::vector<Kind> kinds = {
    {"heads", {.num_heads = 3}},
    {"causal, no biases", {.num_heads = 2, .causal = true, .with_qkv_bias = false, .with_out_bias = false}},
    {"grouped", {.num_heads = 4, .num_kv_heads = 2, .head_dim = 2, .with_out_bias = false}},
    {"rotary", {.num_heads = 1, .causal = true, .rotary = Rotary{.base = 100}}},
    {"rotary, interleaved", {.num_heads = 2, .head_dim = 4, .rotary = Rotary{.base = 50, .interleaved = true}}},
    {"norm, rotary", {.num_heads = 2, .head_dim = 2, .query_key_norm = {{.eps = 1e-3}}, .rotary = Rotary{}}},
    {"capped, scaled", {.num_heads = 3, .causal = true, .scale = 0.9, .soft_cap = 1.5}},
    {"window", {.num_heads = 2, .causal = true, .window = 2}}};

oracle::AttentionOptions options_of(const SelfAttentionSettings& s) {
  const auto unsigned_of = [](Index value) { return static_cast<std::size_t>(value); };
  oracle::AttentionOptions o{.batch = batch,
                             .seq = seq,
                             .d_model = d_model,
                             .heads = unsigned_of(s.num_heads),
                             .kv_heads = unsigned_of(s.num_kv_heads),
                             .head_dim = unsigned_of(s.head_dim),
                             .causal = s.causal,
                             .window = unsigned_of(s.window),
                             .scale = s.scale ? *s.scale : 1 / std::sqrt(static_cast<long double>(s.head_dim)),
                             .soft_cap = s.soft_cap};
  if (s.rotary) o.rotary = {.base = s.rotary->base, .interleaved = s.rotary->interleaved};
  if (s.query_key_norm) o.norm_eps = s.query_key_norm->eps;
  return o;
}

/// Everything against the definition.
template <class T>
void expect_definition(const Kind& kind, const Context& context, oracle::AttentionOptions change = {}) {
  SCOPED_TRACE(kind.name);
  auto attention = randomized(evenkeel::SelfAttention<T>(d_model, kind.settings));
  oracle::AttentionOptions o = options_of(attention.settings());
  o.position = change.position, o.is_valid_key = change.is_valid_key, o.is_valid_row = change.is_valid_row;
  const auto x = normal_vector<T>(size, 1), dy = normal_vector<T>(size, 2);
  const NamedInputs inputs = named_inputs(x, attention);
  const auto formula = [&](const auto& in) { return oracle::attention(in[0], o, inputs.lookup(in)); };
  expect_formula(attention, Shape{batch, seq, d_model}, x, dy, context, inputs, formula, 32, 64);
}

template <class T>
class SelfAttentionOf : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(SelfAttentionOf, Scalars);

TYPED_TEST(SelfAttentionOf, ValuesAndGradientsMatchTheDefinition) {
  for (const Kind& kind : kinds) expect_definition<TypeParam>(kind, {});
}

TYPED_TEST(SelfAttentionOf, APositionTurnsQueriesAndKeys) {
  expect_definition<TypeParam>(kinds[3], {.position = 7}, {.position = 7});
}

TYPED_TEST(SelfAttentionOf, AKeyMaskHidesKeysAndComputesEveryRow) {
  const bool keys[batch][seq] = {{true, false, true, false}, {false, true, true, true}};
  const Flags flags = {1, 0, 1, 0, 0, 1, 1, 1};
  const oracle::AttentionOptions change{.is_valid_key = {flags.begin(), flags.end()}};
  for (const std::size_t kind : {0u, 1u, 2u, 6u}) {  // with causal order the first row of the second text sees nothing
    expect_definition<TypeParam>(kinds[kind], {.key_mask = {&keys[0][0], batch * seq}}, change);
  }
}

TYPED_TEST(SelfAttentionOf, AMaskOfRowsMakesThemZeroToo) {
  const Flags flags = {1, 1, 0, 0, 0, 0, 1, 1};
  const oracle::AttentionOptions change{.is_valid_row = {flags.begin(), flags.end()}};
  for (const std::size_t kind : {0u, 3u, 5u}) expect_definition<TypeParam>(kinds[kind], {.mask = flags}, change);
}

RowMatrix random_matrix(Index rows, std::uint64_t seed, Index columns = d_model) {
  const auto values = normal_vector<double>(static_cast<std::size_t>(rows * columns), seed);
  return Eigen::Map<const RowMatrix>(values.data(), rows, columns);
}

/// 32 unit roundoffs of the largest |expected|.
testing::AssertionResult equals(const RowMatrix& got, const RowMatrix& expected) {
  return within_ulp(std::vector<double>(got.data(), got.data() + got.size()),
                    std::vector<double>(expected.data(), expected.data() + expected.size()), 16,
                    {std::max<long double>(expected.cwiseAbs().maxCoeff(), 1e-300L)});
}

TEST(SelfAttention, PaddingMayBeNaN) {
  Attention attention = randomized(Attention(d_model, kinds[5].settings)), other = attention;
  const Flags flags = {1, 0, 1, 0};
  const Context context{.mask = flags};
  const RowMatrix x = random_matrix(seq, 1), dy = random_matrix(seq, 2);
  RowMatrix nan_x = x, nan_dy = dy;
  for (const Index row : {1, 3}) nan_x.row(row).setConstant(nan), nan_dy.row(row).setConstant(nan);
  Attention::Saved saved, nan_saved;
  const RowMatrix y = attention.forward(x, saved, context), nan_y = other.forward(nan_x, nan_saved, context);
  const RowMatrix dx = attention.backward(dy, saved), nan_dx = other.backward(nan_dy, nan_saved);
  EXPECT_EQ(nan_y, y);
  EXPECT_EQ(other.forward(nan_x, context), attention.forward(x, context));
  EXPECT_EQ(nan_dx, dx);
  EXPECT_TRUE((y.row(1).array() == 0).all() && (dx.row(3).array() == 0).all());
  std::vector<double> gradients, nan_gradients;
  const auto collect = [](auto& model, std::vector<double>& to) {
    for_each_parameter(model, [&](const std::string&, const auto& p) {
      to.insert(to.end(), p.gradient().begin(), p.gradient().end());
    });
  };
  collect(attention, gradients), collect(other, nan_gradients);
  EXPECT_EQ(nan_gradients, gradients);
}

TEST(SelfAttention, ARowWithEveryKeyMaskedAttendsToZero) {
  Attention attention = randomized(Attention(d_model, {.num_heads = 2, .causal = true}));
  const Flags keys = {0, 0, 1, 1};
  Attention::Saved saved;
  const RowMatrix x = random_matrix(seq, 1), y = attention.forward(x, saved, {.key_mask = keys});
  const auto bias = attention.out().bias().values();
  for (const Index row : {0, 1}) {
    for (Index j = 0; j < d_model; ++j) EXPECT_EQ(y(row, j), bias[static_cast<std::size_t>(j)]);
  }
  EXPECT_TRUE(attention.backward(random_matrix(seq, 2), saved).allFinite());
  Attention no_bias = randomized(Attention(d_model, {.num_heads = 2, .causal = true, .with_out_bias = false}));
  EXPECT_TRUE((no_bias.forward(x, {.key_mask = keys}).topRows(2).array() == 0).all());
}

TEST(SelfAttention, GroupedHeadsEqualHeadsWithRepeatedKeysAndValues) {
  Attention grouped = randomized(Attention(8, {.num_heads = 4, .num_kv_heads = 2}));
  Attention full(8, {.num_heads = 4});
  full.query() = grouped.query(), full.out() = grouped.out();
  const auto repeat = [](const evenkeel::Linear<double>& from, evenkeel::Linear<double>& to) {
    const Eigen::Map<const RowMatrix> weight(from.weight().data(), 4, 8);
    const Eigen::Map<const Eigen::VectorXd> bias(from.bias().data(), 4);
    RowMatrix repeated(8, 8);
    repeated << weight.topRows(2), weight.topRows(2), weight.bottomRows(2), weight.bottomRows(2);
    Eigen::VectorXd repeated_bias(8);
    repeated_bias << bias.head(2), bias.head(2), bias.tail(2), bias.tail(2);
    to.weight().load(repeated.data(), 64), to.bias().load(repeated_bias.data(), 8);
  };
  repeat(grouped.key(), full.key()), repeat(grouped.value(), full.value());
  const RowMatrix x = random_matrix(5, 1, 8);
  EXPECT_TRUE(equals(grouped.forward(x), full.forward(x)));
}

TEST(SelfAttention, LargeScoresDoNotOverflow) {
  Attention attention = randomized(Attention(d_model, {.num_heads = 2}));
  Attention::Saved saved;
  const RowMatrix x = 1e4 * random_matrix(seq, 1);
  EXPECT_TRUE(attention.forward(x, saved).allFinite());
  EXPECT_TRUE(attention.backward(random_matrix(seq, 2), saved).allFinite());
  for (const double p : saved.probabilities()) EXPECT_TRUE(p >= 0 && p <= 1);
}

TEST(SelfAttention, RowsOfAMatrixAreATextAndManyRowsAreTakenInTiles) {
  Attention attention = randomized(Attention(d_model, {.num_heads = 2, .causal = true}));
  const Index long_seq = 77;  // two tiles and a part
  const RowMatrix x = random_matrix(2 * long_seq, 1);
  const Eigen::TensorMap<const RowTensor> x3(x.data(), 2, long_seq, d_model);
  const RowTensor y3 = attention.forward(x3);
  Attention::Saved saved;
  const RowTensor training = attention.forward(x3, saved);
  for (const Index text : {0, 1}) {
    const RowMatrix rows = x.middleRows(text * long_seq, long_seq);
    const Eigen::Map<const RowMatrix> y(y3.data() + text * rows.size(), long_seq, d_model);
    const Eigen::Map<const RowMatrix> z(training.data() + text * rows.size(), long_seq, d_model);
    EXPECT_TRUE(equals(attention.forward(rows), y));
    EXPECT_TRUE(equals(z, y));
  }
}

TEST(SelfAttention, TakesBlocksOfWiderMatrices) {
  Attention attention = randomized(Attention(d_model, kinds[2].settings));
  Attention::Saved saved;
  const RowMatrix x = random_matrix(seq, 1), dy = random_matrix(seq, 2);
  const RowMatrix y = attention.forward(x, saved), dx = attention.backward(dy, saved);
  RowMatrix wide_x = RowMatrix::Constant(seq, 9, nan), wide_y = RowMatrix::Constant(seq, 9, 7), wide_dx = wide_y;
  wide_x.middleCols(2, d_model) = x;
  attention.forward_into(wide_x.middleCols(2, d_model), wide_y.leftCols(d_model), saved);
  attention.backward_into(dy, saved, wide_dx.rightCols(d_model));
  EXPECT_TRUE(equals(wide_y.leftCols(d_model), y));
  EXPECT_TRUE(equals(wide_dx.rightCols(d_model), dx));
  EXPECT_TRUE((wide_y.rightCols(3).array() == 7).all() && (wide_dx.leftCols(3).array() == 7).all());
}

TEST(SelfAttention, AddsToDxAndWorksInAWorkspaceOfTheSizeItNames) {
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    Attention attention = randomized(Attention(d_model, kind.settings));
    const Flags flags = {1, 1, 1, 0};
    std::vector<std::byte> memory(attention.workspace_bytes(Shape{seq, d_model}));
    const Context context{.workspace = memory, .mask = flags}, without{.mask = flags};
    Attention::Saved saved;
    const RowMatrix x = random_matrix(seq, 1), dy = random_matrix(seq, 2);
    EXPECT_TRUE(equals(attention.forward(x, context), attention.forward(x, without)));
    attention.forward(x, saved, context);
    const RowMatrix dx = attention.backward(dy, saved, context);
    RowMatrix added = x;
    attention.backward_into(dy, saved, evenkeel::add_to(added), without);
    EXPECT_TRUE(equals(added, x + dx));
  }
}

TEST(SelfAttention, DecodingWithACacheEqualsTheFullPass) {
  const Index tokens = 40;
  for (const Kind& kind : kinds) {
    SelfAttentionSettings settings = kind.settings;
    settings.causal = true;
    SCOPED_TRACE(kind.name);
    const Attention attention = randomized(Attention(d_model, settings));
    const RowMatrix x = random_matrix(tokens, 1), expected = attention.forward(x);
    KeyValueCache<double> cache(attention.cache_settings(tokens));
    RowMatrix y(tokens, d_model);
    y.topRows(35) = attention.forward(RowMatrix(x.topRows(35)), {.cache = &cache});
    for (Index t = 35; t < tokens; ++t) {
      EXPECT_EQ(cache.length(), t);
      y.row(t) = attention.forward(RowMatrix(x.row(t)), {.cache = &cache});
    }
    EXPECT_TRUE(equals(y, expected));
  }
}

TEST(SelfAttention, DecodingABatchKeepsItsMasks) {
  const Attention attention = randomized(Attention(d_model, {.num_heads = 3, .causal = true, .rotary = Rotary{}}));
  const Flags flags = {0, 1, 1, 1, 1, 1, 0, 1};
  const RowMatrix x = random_matrix(batch * seq, 1);
  const Eigen::TensorMap<const RowTensor> x3(x.data(), batch, seq, d_model);
  const RowTensor expected = attention.forward(x3, {.mask = flags});
  KeyValueCache<double> cache(attention.cache_settings(10, batch));
  for (Index t = 0; t < seq; ++t) {
    RowTensor token(batch, 1, d_model);
    Flags valid;
    for (Index text = 0; text < batch; ++text) {
      valid.push_back(flags[static_cast<std::size_t>(text * seq + t)]);
      for (Index j = 0; j < d_model; ++j) token(text, 0, j) = x3(text, t, j);
    }
    const RowTensor y = attention.forward(token, {.mask = valid, .cache = &cache});
    for (Index text = 0; text < batch; ++text) {
      for (Index j = 0; j < d_model; ++j) EXPECT_NEAR(y(text, 0, j), expected(text, t, j), 1e-14);
    }
  }
}

TEST(SelfAttention, APositionInsideTheCacheWritesOverWhatWasBehindIt) {
  const Attention attention = randomized(Attention(d_model, {.num_heads = 2, .causal = true}));
  const RowMatrix x = random_matrix(seq, 1), other = random_matrix(2, 3);
  KeyValueCache<double> cache(attention.cache_settings(seq));
  attention.forward(x, {.cache = &cache});
  RowMatrix mixed = x;
  mixed.middleRows(1, 2) = other;
  EXPECT_TRUE(
      equals(attention.forward(other, {.cache = &cache, .position = 1}), attention.forward(mixed).middleRows(1, 2)));
  EXPECT_EQ(cache.length(), 3);
  cache.truncate(1);
  EXPECT_TRUE(equals(attention.forward(other, {.cache = &cache}), attention.forward(mixed).middleRows(1, 2)));
  cache.clear();
  EXPECT_TRUE(equals(attention.forward(x, {.cache = &cache}), attention.forward(x)));
}

TEST(SelfAttention, LoadsAFusedProjection) {
  const RowMatrix weight = random_matrix(10, 1);  // 3 heads of queries, 1 of keys, 1 of values, of 2 features each
  const auto bias = normal_vector<double>(10, 2);
  Attention attention(d_model, {.num_heads = 3, .num_kv_heads = 1, .head_dim = 2});
  attention.load_fused({weight.data(), 60}, {bias.data(), 10});
  EXPECT_EQ(attention.query().weight().values()[35], weight(5, 5));
  EXPECT_EQ(attention.key().weight().values()[0], weight(6, 0));
  EXPECT_EQ(attention.value().weight().values()[11], weight(9, 5));
  EXPECT_EQ(attention.value().bias().values()[1], bias[9]);
}

TEST(SelfAttention, ASavedServesOneShapeAfterAnotherAndNoTokens) {
  Attention attention = randomized(Attention(d_model, kinds[5].settings));
  Attention::Saved saved;
  for (const Index rows : {5, 2, 0, 7}) {
    Attention::Saved fresh;
    const RowMatrix x = random_matrix(rows, 1), dy = random_matrix(rows, 2);
    EXPECT_EQ(attention.forward(x, saved), attention.forward(x, fresh)) << rows;
    EXPECT_EQ(attention.backward(dy, saved), attention.backward(dy, fresh)) << rows;
    EXPECT_EQ(attention.forward(x).rows(), rows);
  }
}

}  // namespace
}  // namespace evenkeel_test
