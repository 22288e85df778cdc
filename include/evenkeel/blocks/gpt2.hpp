#pragma once

#include <utility>

#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/blocks/transformer_stack.hpp"
#include "evenkeel/layers/layer_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// The sizes of GPT-2 small.
struct Gpt2Settings {
  Index layers = 12;
  Index d_model = 768;
  Index num_heads = 12;
  Index d_ff = 0;  ///< 0: 4 * d_model
};

/// The layers of GPT-2: Pre-Norm with LayerNorm of eps 1e-5, causal attention and a feed-forward sublayer with the tanh
/// form of GELU, biases everywhere, a final norm. Positions are learned, and added to x by the caller.
///
/// Source    Radford et al. 2019, and openai/gpt-2 (src/model.py): norm's epsilon, gelu, block.
template <class Scalar>
TransformerStack<LayerNorm<Scalar>> gpt2(const Gpt2Settings& s = {}) {
  const auto place = [&](auto f) { return PreNorm(LayerNorm<Scalar>(s.d_model, {.eps = 1e-5}), std::move(f)); };
  const TransformerLayer<LayerNorm<Scalar>> layer(
      SelfAttention<Scalar>(s.d_model, {.num_heads = s.num_heads, .causal = true}),
      FeedForward<Scalar>(s.d_model, s.d_ff > 0 ? s.d_ff : 4 * s.d_model, {.activation = Activation::gelu_tanh}),
      place);
  return TransformerStack(repeated(layer, s.layers));
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
