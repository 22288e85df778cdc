#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/blocks/post_norm.hpp"
#include "evenkeel/blocks/pre_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Which blocks of a Mix-LN stack are Post-Norm.
struct MixLNOptions {
  double post_fraction = 0.25;   ///< of the layers, the first ones: Post-Norm; rounded down
  std::size_t layer_blocks = 1;  ///< blocks that make a layer: 2 where attention and feed-forward take turns
};

/// The blocks of a Mix-LN stack: N(x + F(x)) in the first quarter of its layers, x + F(N(x)) in the rest.
///
/// Post-Norm keeps the gradients of the last layers large, Pre-Norm those of the first: here each has the layers where
/// it does better. Every block has a norm like `norm`, with parameters as they start.
/// @code
///   Stack stack(mix_ln_blocks(LayerNorm<float>(256), std::vector(24, FeedForward<float>(256, 1024))));
/// @endcode
///
/// Errors    throws std::invalid_argument for a fraction outside [0, 1], no blocks in a layer, or blocks that do not
///           make whole layers.
/// Source    Li et al. 2024, arXiv:2412.13795.
template <Norm N, class F>
std::vector<Residual<N, F>> mix_ln_blocks(const N& norm, std::vector<F> sublayers, const MixLNOptions& options = {}) {
  require_share("mix_ln_blocks", "post_fraction", options.post_fraction);
  if (options.layer_blocks == 0 || sublayers.size() % options.layer_blocks != 0) {
    raise_invalid_argument("mix_ln_blocks", std::to_string(sublayers.size()) + " sublayers in layers of " +
                                                std::to_string(options.layer_blocks) + ", expected whole layers");
  }
  const auto layers = static_cast<double>(sublayers.size() / options.layer_blocks);
  const auto post_blocks = static_cast<std::size_t>(options.post_fraction * layers) * options.layer_blocks;
  std::vector<Residual<N, F>> blocks;
  blocks.reserve(sublayers.size());
  for (F& f : sublayers) {
    if (blocks.size() < post_blocks) {
      blocks.push_back(PostNorm(norm.fresh(), std::move(f)));
    } else {
      blocks.push_back(PreNorm(norm.fresh(), std::move(f)));
    }
  }
  return blocks;
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
