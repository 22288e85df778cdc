#include <gtest/gtest.h>

#include "evenkeel/sublayers/dropout.hpp"
#include "evenkeel/sublayers/feed_forward.hpp"
#include "evenkeel/sublayers/gated_feed_forward.hpp"
#include "evenkeel/sublayers/initialization.hpp"
#include "evenkeel/sublayers/linear.hpp"
#include "evenkeel/sublayers/self_attention.hpp"
#include "support/compiled_norms.hpp"
#include "threads/layer_run.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;
using evenkeel::Dropout;
using evenkeel::FeedForward;
using evenkeel::GatedFeedForward;
using evenkeel::Linear;
using evenkeel::SelfAttention;
using evenkeel::SelfAttentionSettings;

constexpr StorageOrder row_major = StorageOrder::row_major, column_major = StorageOrder::column_major;

TEST(LinearThreads, HasTheBitsOfOneThread) {
  LayerRun(Linear<float>(70, 90), {2, 550, 70}, {2, 550, 90}).expect_all_parallel();
}
TEST(LinearThreads, CutsColumnsWhereThereAreFewRows) {
  LayerRun(Linear<float>(700, 3100, false), {1, 700}, {1, 3100}).expect_all_parallel();
}
TEST(LinearThreads, SmallProductsNeverLeaveTheCallersThread) {
  LayerRun(Linear<float>(64, 100), {32, 64}, {32, 100}).expect_all_serial();
}

TEST(FeedForwardThreads, HasTheBitsOfOneThread) {
  LayerRun(FeedForward<float>(64, 150), {1100, 64}, {1100, 64}).expect_all_parallel();
}
TEST(GatedFeedForwardThreads, HasTheBitsOfOneThread) {
  LayerRun(GatedFeedForward<float>(64, 150), {1100, 64}, {1100, 64}).expect_all_parallel();
}

SelfAttentionSettings attention_settings() { return {.num_heads = 6, .num_kv_heads = 3, .causal = true}; }

TEST(SelfAttentionThreads, HasTheBitsOfOneThread) {
  LayerRun(SelfAttention<float>(96, attention_settings()), {2, 90, 96}, {2, 90, 96}).expect_all_parallel();
}
TEST(SelfAttentionThreads, CappedScoresHaveTheBitsOfOneThread) {
  auto settings = attention_settings();
  settings.soft_cap = 20;
  settings.query_key_norm = evenkeel::RMSNormSettings();
  LayerRun(SelfAttention<float>(96, settings), {2, 90, 96}, {2, 90, 96}).expect_all_parallel();
}
TEST(SelfAttentionThreads, OneWorkspaceServesEveryExecutor) {
  LayerRun run(SelfAttention<float>(96, attention_settings()), {2, 90, 96}, {2, 90, 96});
  std::vector<std::byte> memory(run.workspace_bytes());
  expect_same_bits_on_all_executors([&](Context context) {
    context.workspace = memory;
    run.infer(context);
    return run.differentiate(context);
  });
}
TEST(SelfAttentionThreads, DecodingHasTheBitsOfOneThread) {
  const auto attention = with_weights(SelfAttention<float>(1024, {.num_heads = 16, .causal = true}));
  const OwnTensor<float> prompt({200, 1024}, row_major, 0, 16, 1), token({1, 1024}, row_major, 0, 16, 2);
  const OwnTensor<float> y({200, 1024}, row_major, 0, 16), next({1, 1024}, row_major, 0, 16);
  evenkeel::KeyValueCache<float> cache(attention.cache_settings(256));
  const auto decode = [&](Context context) {
    context.cache = &cache;
    cache.clear();
    attention.forward_into(prompt.view(), y.view(), context);
    attention.forward_into(token.view(), next.view(), context);
    return Bits(y.memory(), next.memory());
  };
  expect_parallel(decode);
}

template <class S>
class DropoutThreads : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(DropoutThreads, Scalars);

TYPED_TEST(DropoutThreads, HasTheBitsOfOneThread) {
  for (const auto kind : {evenkeel::DropoutKind::per_element, evenkeel::DropoutKind::per_sample}) {
    for (const StorageOrder order : {row_major, column_major}) {
      for (const Shape& shape : {Shape{700, 130}, Shape{90000}, Shape{5, 31, 700}}) {
        const OwnTensor<TypeParam> x(shape, order, 3, 1, 1), dy(shape, order, 3, 3, 2);
        expect_parallel([&](const Context& context) {
          Dropout<TypeParam> dropout(0.3, 42, "drop", kind);
          typename Dropout<TypeParam>::Saved saved;
          const OwnTensor<TypeParam> y(shape, order, 3, 2), dx(dy);
          dropout.forward_into(x.view(), y.view(), saved, context);
          dropout.backward_into(dy.view(), saved, add_to(dx.view()), context);
          return Bits(y.memory(), dx.memory());
        });
      }
    }
  }
}

}  // namespace
}  // namespace evenkeel_test
