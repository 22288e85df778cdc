// Tests of blocks/mix_ln.hpp: which blocks are Post-Norm.
#include "evenkeel/blocks/mix_ln.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/blocks/stack.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/sublayers/linear.hpp"

namespace evenkeel_test {
namespace {

using LayerNorm = evenkeel::LayerNorm<double>;
using Linear = evenkeel::Linear<double>;
using evenkeel::mix_ln_blocks;
using evenkeel::MixLNOptions;

/// "PPpppp": P for N(x + F(x)), p for x + F(N(x)).
std::string placements(std::size_t blocks, const MixLNOptions& options = {}) {
  std::string text;
  for (const auto& block : mix_ln_blocks(LayerNorm(4), std::vector(blocks, Linear(4, 4)), options)) {
    const auto& n = block.norms();
    const bool is_post = n.trunk && !n.in, is_pre = n.in && !n.trunk;
    text += n.branch || n.skip ? '?' : is_post ? 'P' : is_pre ? 'p' : '?';
  }
  return text;
}

TEST(MixLN, IsPostNormInTheFirstQuarterAndPreNormInTheRest) {
  EXPECT_EQ(placements(0), "");
  EXPECT_EQ(placements(1), "p");
  EXPECT_EQ(placements(4), "Pppp");
  EXPECT_EQ(placements(7), "Ppppppp");
  EXPECT_EQ(placements(8), "PPpppppp");
  EXPECT_EQ(placements(4, {.post_fraction = 0}), "pppp");
  EXPECT_EQ(placements(4, {.post_fraction = 1}), "PPPP");
  EXPECT_EQ(placements(6, {.post_fraction = 0.5}), "PPPppp");
}

TEST(MixLN, CountsLayersOfSeveralBlocks) {
  EXPECT_EQ(placements(8, {.layer_blocks = 2}), "PPpppppp");
  EXPECT_EQ(placements(12, {.layer_blocks = 2}), "PPpppppppppp") << "a quarter of 6 layers is 1";
}

TEST(MixLN, HasNormsAsTheyStartAndAFinalNorm) {
  LayerNorm trained(4, {.eps = 0.25});
  trained.gamma().mutable_values()[0] = 7;
  const evenkeel::Stack stack(mix_ln_blocks(trained, std::vector(4, Linear(4, 4))));
  EXPECT_EQ(stack.blocks()[0].norms().trunk->gamma().values()[0], 1);
  EXPECT_EQ(stack.blocks()[3].norms().in->gamma().values()[0], 1);
  EXPECT_EQ(stack.blocks()[3].norms().in->eps(), 0.25);
  EXPECT_TRUE(stack.final_norm().has_value());
}

TEST(MixLN, RefusesFractionsAndLayersThatAreNone) {
  const auto error_with = [](const MixLNOptions& options) {
    return error_text<std::invalid_argument>([&] { placements(4, options); });
  };
  const std::string name = "evenkeel::mix_ln_blocks: ";
  EXPECT_EQ(error_with({.post_fraction = 1.25}), name + "post_fraction is 1.250000, expected a number from 0 to 1");
  EXPECT_EQ(error_with({.post_fraction = -1}), name + "post_fraction is -1.000000, expected a number from 0 to 1");
  EXPECT_EQ(error_with({.post_fraction = std::numeric_limits<double>::quiet_NaN()}),
            name + "post_fraction is nan, expected a number from 0 to 1");
  EXPECT_EQ(error_with({.layer_blocks = 0}), name + "4 sublayers in layers of 0, expected whole layers");
  EXPECT_EQ(error_with({.layer_blocks = 3}), name + "4 sublayers in layers of 3, expected whole layers");
}

}  // namespace
}  // namespace evenkeel_test
