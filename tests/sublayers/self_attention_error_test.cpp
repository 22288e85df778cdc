// Tests of sublayers/self_attention.hpp: what is refused, with which message, and that nothing has been written then.
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/core/eigen_tensor.hpp"
#include "evenkeel/sublayers/self_attention.hpp"
#include "sublayers/attention_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::KeyValueCache;
using evenkeel::KeyValueCacheSettings;
using evenkeel::Rotary;
using evenkeel::SelfAttentionSettings;
using Attention = evenkeel::SelfAttention<double>;
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index seq = 3, d_model = 4;
const std::string forward = "evenkeel::SelfAttention::forward: ", backward = "evenkeel::SelfAttention::backward: ";

std::string error_of(const SelfAttentionSettings& settings, Index width = d_model) {
  return error_text<std::invalid_argument>([&] { Attention(width, settings); });
}

TEST(SelfAttentionError, HeadsThatDoNotDivide) {
  const std::string head = "evenkeel::SelfAttention: ";
  EXPECT_EQ(error_of({.num_heads = 3}), head + "num_heads is 3, expected a divisor of d_model, 4, or a head_dim");
  EXPECT_EQ(error_of({.num_heads = 4, .num_kv_heads = 3}),
            head + "num_kv_heads is 3, expected a divisor of num_heads, 4");
  EXPECT_EQ(error_of({.num_heads = 2, .num_kv_heads = 4}),
            head + "num_kv_heads is 4, expected a divisor of num_heads, 2");
  EXPECT_EQ(error_of({.num_heads = 0}), head + "num_heads is 0, expected at least 1");
  EXPECT_EQ(error_of({.num_kv_heads = -1}), head + "num_kv_heads is -1, expected at least 0");
  EXPECT_EQ(error_of({.head_dim = -2}), head + "head_dim is -2, expected at least 0");
  EXPECT_EQ(error_of({}, 0), head + "d_model is 0, expected at least 1");
}

TEST(SelfAttentionError, SettingsThatCannotBe) {
  const std::string head = "evenkeel::SelfAttention: ";
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(error_of({.head_dim = 3, .rotary = Rotary{}}),
            head + "head_dim is 3, expected an even number (rotary position turns pairs of features)");
  EXPECT_EQ(error_of({.rotary = Rotary{.base = 0}}),
            head + "base of rotary position is 0.000000, expected a finite number above 0");
  EXPECT_EQ(error_of({.window = 2}), head + "window is 2 without causal order, expected causal = true");
  EXPECT_EQ(error_of({.causal = true, .window = -1}), head + "window is -1, expected at least 0");
  EXPECT_EQ(error_of({.scale = inf}), head + "scale is inf, expected a finite number");
  EXPECT_EQ(error_of({.soft_cap = -1}), head + "soft_cap is -1.000000, expected a finite number of at least 0");
}

class SelfAttentionErrorOf : public testing::Test {
 protected:
  /// Inference and training refuse it with one message, and write nothing.
  void expect_refused(const RowMatrix& input, RowMatrix& output, const Context& context, const std::string& text) {
    const RowMatrix before = output;
    EXPECT_EQ(error_text<std::invalid_argument>([&] { attention.forward_into(input, output, context); }), text);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { attention.forward_into(input, output, saved, context); }), text);
    EXPECT_EQ(output, before);
  }
  void expect_cache_refused(KeyValueCacheSettings settings, const std::string& text) {
    KeyValueCache<double> cache(settings);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { attention.forward_into(x, y, {.cache = &cache}); }),
              forward + text);
    EXPECT_EQ(cache.length(), 0);
  }
  void expect_no_gradient() const {
    for_each_parameter(attention,
                       [](const std::string& path, const auto& p) { EXPECT_FALSE(p.has_gradient()) << path; });
  }

  Attention attention = randomized(Attention(d_model, {.num_heads = 2, .causal = true}));
  Attention::Saved saved;
  RowMatrix x = RowMatrix::Random(seq, d_model), y = RowMatrix::Constant(seq, d_model, 7);
  const RowMatrix dy = RowMatrix::Random(seq, d_model);
  const KeyValueCacheSettings fits{.layers = 1, .batch = 1, .capacity = 5, .num_kv_heads = 2, .head_dim = 2};
};

TEST_F(SelfAttentionErrorOf, ShapesOfXAndY) {
  RowMatrix wide = RowMatrix::Zero(seq, 5), tall = RowMatrix::Constant(seq + 1, d_model, 7);
  expect_refused(wide, y, {}, forward + "x has shape [3, 5], expected [batch, seq, 4] or [seq, 4]");
  expect_refused(x, tall, {}, forward + "y has shape [4, 4], expected [3, 4] (the shape of x)");
  const Eigen::VectorXd vector(4);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { attention.forward(vector); }),
            forward + "x has shape [4], expected [batch, seq, 4] or [seq, 4]");
  EXPECT_EQ(error_text<std::invalid_argument>([&] { attention.workspace_bytes(Shape{4}); }),
            forward + "x has shape [4], expected [batch, seq, 4] or [seq, 4]")
      << "what a block around it asks for first";
  expect_refused(x, x, {}, forward + "y overlaps x in memory, expected memory of its own");
}

TEST_F(SelfAttentionErrorOf, FeaturesThatAreNotContiguous) {
  const Eigen::MatrixXd columns = x;
  EXPECT_THROW(attention.forward_into(columns, y), std::invalid_argument);
  EXPECT_THROW(attention.forward_into(columns, y, saved), std::invalid_argument);
  EXPECT_TRUE((y.array() == 7).all());
}

TEST_F(SelfAttentionErrorOf, MasksOfAnotherShape) {
  const std::vector<std::uint8_t> four(4, 1);
  const Eigen::Array<bool, 2, 3> matrix = Eigen::Array<bool, 2, 3>::Constant(true);
  const std::string tail = ", expected [3] (one element for each row; x has shape [3, 4])";
  expect_refused(x, y, {.mask = four}, forward + "mask has shape [4]" + tail);
  expect_refused(x, y, {.key_mask = four}, forward + "key_mask has shape [4]" + tail);
  expect_refused(x, y, {.mask = matrix}, forward + "mask has shape [2, 3]" + tail);
}

TEST_F(SelfAttentionErrorOf, ANegativePosition) {
  expect_refused(x, y, {.position = -1}, forward + "position is -1, expected at least 0");
}

TEST_F(SelfAttentionErrorOf, ACacheThatIsFull) {
  KeyValueCache<double> cache(fits);
  attention.forward_into(x, y, {.cache = &cache});
  const std::vector<double> keys(cache.keys(0), cache.keys(0) + cache.batch_stride());
  y.setConstant(7);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { attention.forward_into(x, y, {.cache = &cache}); }),
            forward + "the cache is full: 3 tokens and 3 more, expected at most 5, its capacity");
  EXPECT_TRUE((y.array() == 7).all());
  EXPECT_EQ(cache.length(), 3);
  EXPECT_EQ(std::vector<double>(cache.keys(0), cache.keys(0) + cache.batch_stride()), keys);
  const RowMatrix two = x.topRows(2);
  EXPECT_NO_THROW(attention.forward(two, {.cache = &cache}));
}

TEST_F(SelfAttentionErrorOf, ACacheThatDoesNotFit) {
  KeyValueCacheSettings s = fits;
  s.batch = 2;
  expect_cache_refused(s, "batch of the cache is 2, expected 1");
  s = fits, s.num_kv_heads = 1;
  expect_cache_refused(s, "num_kv_heads of the cache is 1, expected 2");
  s = fits, s.head_dim = 3;
  expect_cache_refused(s, "head_dim of the cache is 3, expected 2");
  attention.set_cache_layer(1);
  expect_cache_refused(fits, "layers of the cache is 1, expected at least 2");
  KeyValueCache<float> floats(fits);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { attention.forward_into(x, y, {.cache = &floats}); }),
            forward + "the cache is of another scalar type, expected that of x");
}

TEST_F(SelfAttentionErrorOf, APositionBehindWhatTheCacheHoldsAndACacheInTraining) {
  KeyValueCache<double> cache(fits);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { attention.forward_into(x, y, {.cache = &cache, .position = 1}); }),
            forward + "position is 1, expected at most 0, the tokens that the cache holds");
  EXPECT_EQ(error_text<std::invalid_argument>([&] { attention.forward_into(x, y, saved, {.cache = &cache}); }),
            forward + "a cache is given in training, expected none");
  EXPECT_EQ(cache.length(), 0);
  EXPECT_TRUE((y.array() == 7).all());
}

TEST_F(SelfAttentionErrorOf, ABackwardWithoutAForwardOrOfAnotherShape) {
  EXPECT_EQ(error_text<std::logic_error>([&] { attention.backward(dy, saved); }),
            backward + "saved is empty, expected the Saved of a forward(x, saved) call");
  attention.forward_into(x, y, saved);
  const RowMatrix two = dy.topRows(2);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { attention.backward(two, saved); }),
            backward + "dy has shape [2, 4], expected [3, 4] (the shape of the x that was saved)");
  RowMatrix wrong(2, 4);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { attention.backward_into(dy, saved, wrong); }),
            backward + "dx has shape [2, 4], expected [3, 4] (the shape of x)");
  expect_no_gradient();
}

TEST_F(SelfAttentionErrorOf, AWorkspaceThatIsTooSmall) {
  std::vector<std::byte> memory(attention.workspace_bytes(Shape{seq, d_model}) - 1);
  const std::string text = "workspace has " + std::to_string(memory.size()) + " bytes, expected at least " +
                           std::to_string(memory.size() + 1);
  expect_refused(x, y, {.workspace = memory}, forward + text);
}

TEST_F(SelfAttentionErrorOf, AFusedProjectionOfAnotherSize) {
  const std::vector<double> numbers(100);
  const std::string head = "evenkeel::SelfAttention::load_fused: ";
  EXPECT_EQ(error_text<std::invalid_argument>([&] {
              attention.load_fused({numbers.data(), 47});
            }),
            head + "weight has 47 numbers, expected 48");
  EXPECT_EQ(error_text<std::invalid_argument>([&] {
              attention.load_fused({numbers.data(), 48});
            }),
            head + "bias has 0 numbers, expected 12");
}

}  // namespace
}  // namespace evenkeel_test
