// Tests of blocks/gpt2.hpp, llama.hpp, gemma2.hpp and deepnet.hpp: every preset against its formula, with every
// gradient; decoding; what else transformer layers and stacks are.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/blocks/deepnet.hpp"
#include "evenkeel/blocks/gemma2.hpp"
#include "evenkeel/blocks/gpt2.hpp"
#include "evenkeel/blocks/llama.hpp"
#include "sublayers/attention_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::KeyValueCache;
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index seq = 3, d_model = 4, d_ff = 5;
const Shape shape{seq, d_model};

enum class Placement { pre, peri, deep };

/// A preset by its formula: what its paper says, in the oracle's terms.
struct Formula {
  Placement placement;
  bool is_rms;
  long double eps, gamma_offset = 0, alpha = 1;
  bool is_gated;
  oracle::AttentionOptions attention;
  std::size_t window_of_even_layers = 0;
  bool has_final_norm = true;
};

template <class T>
T activated(const Formula& formula, const T& x) {
  if (!formula.is_gated) return formula.placement == Placement::deep ? oracle::gelu(x) : oracle::gelu_tanh(x);
  return formula.placement == Placement::pre ? oracle::silu(x) : oracle::gelu_tanh(x);
}

/// The model's y from x and its parameters; `inputs` knows where each is in `in`.
template <class T>
std::vector<T> model(const Formula& formula, std::size_t layers, const NamedInputs& inputs,
                     const std::vector<std::vector<T>>& in) {
  using Vector = std::vector<T>;
  const auto norm = [&](const std::string& path, const Vector& v) {
    const auto at = inputs.lookup(in, path);
    if (formula.is_rms) return oracle::rms_norm(v, seq, d_model, at("gamma"), formula.eps, formula.gamma_offset);
    return oracle::layer_norm(v, seq, d_model, at("gamma"), at("beta"), formula.eps);
  };
  const auto block = [&](const std::string& path, const Vector& x, const auto& sublayer) {
    const bool is_deep = formula.placement == Placement::deep;
    Vector branch = sublayer(is_deep ? x : norm(path + "norm_in.", x));
    if (formula.placement == Placement::peri) branch = norm(path + "norm_branch.", branch);
    for (std::size_t i = 0; i < x.size(); ++i) branch[i] += T(formula.alpha) * x[i];
    return is_deep ? norm(path + "norm_trunk.", branch) : branch;
  };
  Vector stream = in[0];
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    oracle::AttentionOptions options = formula.attention;
    options.window = i % 2 == 0 ? formula.window_of_even_layers : 0;
    stream = block(layer + "attention.", stream, [&](const Vector& v) {
      return oracle::attention(v, options, inputs.lookup(in, layer + "attention.sublayer."));
    });
    stream = block(layer + "feed_forward.", stream, [&](const Vector& v) {
      const auto at = inputs.lookup(in, layer + "feed_forward.sublayer.");
      Vector hidden = oracle::linear(v, seq, d_model, d_ff, at(formula.is_gated ? "gate.weight" : "up.weight"),
                                     formula.is_gated ? Vector() : at("up.bias"));
      for (T& value : hidden) value = activated(formula, value);
      if (formula.is_gated) {
        const Vector up = oracle::linear(v, seq, d_model, d_ff, at("up.weight"), Vector());
        for (std::size_t j = 0; j < hidden.size(); ++j) hidden[j] = hidden[j] * up[j];
      }
      return oracle::linear(hidden, seq, d_ff, d_model, at("down.weight"), at("down.bias"));
    });
  }
  return formula.has_final_norm ? norm("final_norm.", stream) : stream;
}

template <class Stack>
void expect_preset(Stack stack, const Formula& formula, std::size_t parameters) {
  stack = randomized(std::move(stack), 0.6);
  const auto x = normal_vector<double>(seq * d_model, 1), dy = normal_vector<double>(seq * d_model, 2);
  const NamedInputs inputs = named_inputs(x, stack);
  EXPECT_EQ(inputs.values.size(), 1 + parameters);
  const auto y = [&](const auto& in) { return model(formula, stack.layers(), inputs, in); };
  expect_formula(stack, shape, x, dy, {}, inputs, y, 64, 512);
}

oracle::AttentionOptions causal(std::size_t heads, std::size_t kv_heads, std::size_t head_dim, long double scale) {
  return {.batch = 1,
          .seq = seq,
          .d_model = d_model,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .causal = true,
          .scale = scale};
}

TEST(Gpt2, IsItsFormulaWithEveryGradient) {
  expect_preset(evenkeel::gpt2<double>({.layers = 2, .d_model = d_model, .num_heads = 2, .d_ff = d_ff}),
                {.placement = Placement::pre,
                 .is_rms = false,
                 .eps = 1e-5L,
                 .is_gated = false,
                 .attention = causal(2, 2, 2, 1 / std::sqrt(2.0L))},
                2 * (2 + 8 + 2 + 4) + 2);
}

TEST(Llama, IsItsFormulaWithEveryGradient) {
  Formula formula{.placement = Placement::pre,
                  .is_rms = true,
                  .eps = 1e-5L,
                  .is_gated = true,
                  .attention = causal(2, 1, 2, 1 / std::sqrt(2.0L))};
  formula.attention.rotary = {.base = 1e4L};
  expect_preset(
      evenkeel::llama<double>({.layers = 2, .d_model = d_model, .num_heads = 2, .num_kv_heads = 1, .d_ff = d_ff}),
      formula, 2 * (1 + 4 + 1 + 3) + 1);
}

TEST(Gemma2, IsItsFormulaWithEveryGradient) {
  Formula formula{.placement = Placement::peri,
                  .is_rms = true,
                  .eps = 1e-6L,
                  .gamma_offset = 1,
                  .is_gated = true,
                  .attention = causal(2, 1, 4, 1 / std::sqrt(3.0L)),
                  .window_of_even_layers = 2};
  formula.attention.soft_cap = 50;
  formula.attention.rotary = {.base = 1e4L};
  expect_preset(evenkeel::gemma2<double>({.layers = 2,
                                          .d_model = d_model,
                                          .num_heads = 2,
                                          .num_kv_heads = 1,
                                          .head_dim = 4,
                                          .d_ff = d_ff,
                                          .window = 2,
                                          .query_scale_of = 3}),
                formula, 2 * (2 + 4 + 2 + 3) + 1);
}

TEST(Deepnet, IsItsFormulaWithEveryGradient) {
  for (const bool is_causal : {false, true}) {
    Formula formula{.placement = Placement::deep,
                    .is_rms = false,
                    .eps = 1e-5L,
                    .alpha = std::sqrt(2.0L),
                    .is_gated = false,
                    .attention = causal(2, 2, 2, 1 / std::sqrt(2.0L)),
                    .has_final_norm = false};
    formula.attention.causal = is_causal;
    expect_preset(
        evenkeel::deepnet<double>({.layers = 2, .d_model = d_model, .num_heads = 2, .d_ff = d_ff, .causal = is_causal}),
        formula, 2 * (2 + 8 + 2 + 4));
  }
}

TEST(Presets, HaveThePublishedSizesByDefault) {
  const evenkeel::Gpt2Settings gpt2;
  const evenkeel::LlamaSettings llama;
  const evenkeel::Gemma2Settings gemma2;
  EXPECT_EQ(gpt2.d_model / gpt2.num_heads, 64);
  EXPECT_EQ(llama.d_model / llama.num_heads, 128);
  EXPECT_EQ(llama.eps, 1e-5);
  EXPECT_EQ(gemma2.head_dim, 256);
  const auto small = evenkeel::gpt2<double>({.layers = 1, .d_model = 4, .num_heads = 1});
  const auto& f = std::get<evenkeel::FeedForward<double>>(small.feed_forward(0).sublayer().held());
  EXPECT_EQ(f.up().out_features(), 16);
}

TEST(TransformerStack, DecodesTokenByTokenWithOneCache) {
  const Index tokens = 6;
  const auto stack = randomized(evenkeel::gemma2<double>(
      {.layers = 3, .d_model = d_model, .num_heads = 2, .num_kv_heads = 1, .head_dim = 4, .d_ff = d_ff, .window = 3}));
  const auto values = normal_vector<double>(tokens * d_model, 1);
  const RowMatrix x = Eigen::Map<const RowMatrix>(values.data(), tokens, d_model), expected = stack.forward(x);
  KeyValueCache<double> cache(stack.cache_settings(tokens));
  EXPECT_EQ(cache.settings().layers, 3);
  for (Index t = 0; t < tokens; ++t) {
    const RowMatrix token = x.row(t), y = stack.forward(token, {.cache = &cache});
    EXPECT_TRUE(near(std::vector<double>(y.data(), y.data() + d_model), RowMatrix(expected.row(t)).reshaped(), 16));
  }
}

TEST(TransformerStack, NamesItsParametersByLayer) {
  const auto stack = evenkeel::gpt2<double>({.layers = 2, .d_model = 4, .num_heads = 1, .d_ff = 5});
  std::vector<std::string> paths;
  for_each_parameter(stack, [&](const std::string& path, const auto&) { paths.push_back(path); });
  EXPECT_EQ(paths.front(), "layers.0.attention.norm_in.gamma");
  EXPECT_EQ(paths.at(16), "layers.1.attention.norm_in.gamma");
  EXPECT_EQ(paths.at(31), "layers.1.feed_forward.sublayer.down.bias");
  EXPECT_EQ(paths.back(), "final_norm.beta");
}

TEST(TransformerStack, RefusesNoLayers) {
  const std::vector<evenkeel::TransformerLayer<evenkeel::LayerNorm<double>>> none;
  EXPECT_EQ(error_text<std::invalid_argument>([&] { evenkeel::TransformerStack<evenkeel::LayerNorm<double>> s(none); }),
            "evenkeel::TransformerStack: 0 layers, expected at least 1");
  EXPECT_EQ(error_text<std::invalid_argument>(
                [&] { evenkeel::gpt2<double>({.layers = 0, .d_model = 4, .num_heads = 1, .d_ff = 5}); }),
            "evenkeel::repeated: 0 layers, expected at least 1");
  EXPECT_EQ(error_text<std::invalid_argument>([&] { evenkeel::deepnet<double>({.layers = 0}); }),
            "evenkeel::deepnorm_scales::encoder_only: layers is 0, expected at least 1");
}

TEST(TransformerSublayer, RefusesTheSavedOfAnotherKind) {
  using Sublayer = evenkeel::TransformerSublayer<double>;
  Sublayer attention = evenkeel::SelfAttention<double>(d_model), f = evenkeel::FeedForward<double>(d_model, d_ff);
  EXPECT_NE(attention.attention(), nullptr);
  EXPECT_EQ(f.attention(), nullptr);
  Sublayer::Saved saved;
  const RowMatrix x = RowMatrix::Random(seq, d_model);
  f.forward(x, saved);
  EXPECT_EQ(error_text<std::logic_error>([&] { attention.backward(x, saved); }),
            "evenkeel::SelfAttention::backward: saved is empty, expected the Saved of a forward(x, saved) call");
  attention.forward(x, saved);
  EXPECT_NO_THROW(attention.backward(x, saved));
}

}  // namespace
}  // namespace evenkeel_test
