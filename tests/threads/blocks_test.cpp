#include <gtest/gtest.h>

#include "evenkeel/blocks/deep_norm.hpp"
#include "evenkeel/blocks/gpt2.hpp"
#include "evenkeel/blocks/layer_norm_scaling.hpp"
#include "evenkeel/blocks/layer_scale.hpp"
#include "evenkeel/blocks/llama.hpp"
#include "evenkeel/blocks/parallel_block.hpp"
#include "evenkeel/blocks/peri_norm.hpp"
#include "evenkeel/blocks/plain_residual.hpp"
#include "evenkeel/blocks/post_norm.hpp"
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/blocks/res_post_norm.hpp"
#include "evenkeel/blocks/sandwich_norm.hpp"
#include "evenkeel/blocks/skip_init.hpp"
#include "evenkeel/blocks/skip_norm.hpp"
#include "evenkeel/layers/batch_norm.hpp"
#include "support/compiled_norms.hpp"
#include "threads/layer_run.hpp"

namespace evenkeel_test {
namespace {

using namespace evenkeel;  // NOLINT: names of all kinds of blocks

using Block = Residual<LayerNorm<float>, FeedForward<float>>;
const Shape shape = {5, 300, 64}, text = {2, 520, 96};

LayerNorm<float> norm() { return LayerNorm<float>(64); }
FeedForward<float> feed_forward() { return FeedForward<float>(64, 100); }

std::vector<std::pair<std::string, Block>> blocks() {
  std::vector<std::pair<std::string, Block>> all;
  all.emplace_back("PreNorm", PreNorm(norm(), feed_forward()));
  all.emplace_back("PostNorm", PostNorm(norm(), feed_forward()));
  all.emplace_back("SandwichNorm", SandwichNorm(norm(), norm(), feed_forward()));
  all.emplace_back("DeepNorm", DeepNorm(norm(), feed_forward(), 1.5));
  all.emplace_back("PeriNorm", PeriNorm(norm(), norm(), feed_forward()));
  all.emplace_back("ResPostNorm", ResPostNorm(norm(), feed_forward()));
  all.emplace_back("SkipNorm", SkipNorm(norm(), feed_forward()));
  all.emplace_back("PlainResidual", PlainResidual<LayerNorm<float>, FeedForward<float>>(feed_forward()));
  all.emplace_back("LayerScale", LayerScale(norm(), feed_forward(), 64, 0.1));
  all.emplace_back("SkipInit", SkipInit<LayerNorm<float>, FeedForward<float>>(feed_forward(), 0.1));
  all.emplace_back("LayerNormScaling", LayerNormScaling(norm(), feed_forward(), 3));
  for (const auto kind : {DropoutKind::per_element, DropoutKind::per_sample}) {
    const ResidualSettings<float> drop{.drop = Dropout<float>(0.2, 7, "drop", kind)};
    all.emplace_back("PreNorm with dropout", Block(feed_forward(), {.in = norm()}, drop));
  }
  return all;
}

TEST(BlockThreads, EveryResidualHasTheBitsOfOneThread) {
  for (auto& [name, block] : blocks()) {
    SCOPED_TRACE(name);
    LayerRun(std::move(block), shape, shape).expect_all_parallel();
  }
}

TEST(BlockThreads, MaskedTokensHaveTheBitsOfOneThread) {
  std::vector<std::uint8_t> mask(1500, 1);
  std::fill(mask.begin() + 280, mask.begin() + 300, std::uint8_t{0});
  std::fill(mask.begin() + 1400, mask.end(), std::uint8_t{0});
  LayerRun(Block(PreNorm(norm(), feed_forward())), shape, shape, mask).expect_all_parallel();
  LayerRun(Block(PostNorm(norm(), feed_forward())), shape, shape, mask).expect_all_parallel();
}

TEST(BlockThreads, BatchNormHasTheBitsOfOneThread) {
  Residual<BatchNorm<float>, Linear<float>> block(Linear<float>(64, 64),
                                                  {.in = BatchNorm<float>(64, {.channel_axis = -1})});
  LayerRun(std::move(block), shape, shape).expect_all_parallel();
}

TEST(BlockThreads, ParallelSublayersHaveTheBitsOfOneThread) {
  LayerRun(ParallelBlock(norm(), feed_forward(), feed_forward()), shape, shape).expect_all_parallel();
}

TEST(StackThreads, MixedBlocksHaveTheBitsOfOneThread) {
  std::vector<Block> mixed;
  mixed.push_back(PreNorm(norm(), feed_forward()));
  mixed.push_back(PostNorm(norm(), feed_forward()));
  mixed.push_back(LayerScale(norm(), feed_forward(), 64, 0.1));
  LayerRun(Stack(std::move(mixed)), shape, shape).expect_all_parallel();
}

TEST(TransformerThreads, Gpt2HasTheBitsOfOneThread) {
  LayerRun(gpt2<float>({.layers = 2, .d_model = 96, .num_heads = 4}), text, text).expect_all_parallel();
}
TEST(TransformerThreads, OneWorkspaceServesEveryExecutor) {
  LayerRun run(gpt2<float>({.layers = 2, .d_model = 96, .num_heads = 4}), text, text);
  std::vector<std::byte> memory(run.workspace_bytes());
  expect_same_bits_on_all_executors([&](Context context) {
    context.workspace = memory;
    run.infer(context);
    run.train(context);
    return run.differentiate(context);
  });
}
TEST(TransformerThreads, LlamaHasTheBitsOfOneThread) {
  LayerRun(llama<float>({.layers = 1, .d_model = 96, .num_heads = 4, .num_kv_heads = 2, .d_ff = 100}), text, text)
      .expect_all_parallel();
}

TEST(BlockThreads, SmallWorkNeverLeavesTheCallersThread) {
  LayerRun(Block(PreNorm(norm(), feed_forward())), {20, 64}, {20, 64}).expect_all_serial();
}

}  // namespace
}  // namespace evenkeel_test
