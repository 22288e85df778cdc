// Tests of sublayers/key_value_cache.hpp; what attention does with one is in self_attention_test.cpp.
#include "evenkeel/sublayers/key_value_cache.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "core/error_text.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::KeyValueCache;
using evenkeel::KeyValueCacheSettings;

TEST(KeyValueCache, KnowsItsScalarAndForgets) {
  KeyValueCache<float> cache({.layers = 2, .batch = 3, .capacity = 5, .num_kv_heads = 2, .head_dim = 4});
  EXPECT_TRUE(cache.holds<float>());
  EXPECT_FALSE(cache.holds<double>());
  EXPECT_EQ(cache.batch_stride(), 40);
  EXPECT_EQ(cache.keys(1) - cache.keys(0), 120);
  EXPECT_EQ(cache.is_valid(1) - cache.is_valid(0), 15);
  cache.set_length(0, 4), cache.set_length(1, 3);
  cache.truncate(9);
  EXPECT_EQ(cache.length(0), 4);
  cache.truncate(2);
  EXPECT_EQ(cache.length(1), 2);
  cache.clear();
  EXPECT_EQ(cache.length(), 0);
}

TEST(KeyValueCache, RefusesSizesBelowOneByName) {
  const KeyValueCacheSettings good{.layers = 1, .batch = 1, .capacity = 1, .num_kv_heads = 1, .head_dim = 1};
  const auto error_with = [&](auto change) {
    KeyValueCacheSettings settings = good;
    change(settings);
    return error_text<std::invalid_argument>([&] { KeyValueCache<double> cache(settings); });
  };
  const std::string tail = ", expected at least 1", head = "evenkeel::KeyValueCache: ";
  EXPECT_EQ(error_with([](auto& s) { s.layers = 0; }), head + "layers is 0" + tail);
  EXPECT_EQ(error_with([](auto& s) { s.batch = -1; }), head + "batch is -1" + tail);
  EXPECT_EQ(error_with([](auto& s) { s.capacity = 0; }), head + "capacity is 0" + tail);
  EXPECT_EQ(error_with([](auto& s) { s.num_kv_heads = 0; }), head + "num_kv_heads is 0" + tail);
  EXPECT_EQ(error_with([](auto& s) { s.head_dim = 0; }), head + "head_dim is 0" + tail);
}

}  // namespace
}  // namespace evenkeel_test
