#pragma once

#include <optional>
#include <utility>

#include "evenkeel/blocks/deep_norm.hpp"
#include "evenkeel/blocks/transformer_stack.hpp"
#include "evenkeel/layers/layer_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// By default 100 layers of the width of Transformer-base (Vaswani et al. 2017).
struct DeepnetSettings {
  Index layers = 100;
  Index d_model = 512;
  Index num_heads = 8;
  Index d_ff = 2048;
  bool causal = false;                       ///< true: decoder-only; false: encoder-only
  Activation activation = Activation::gelu;  ///< as microsoft/torchscale has it by default
};

/// The layers of DeepNet, encoder-only or decoder-only: DeepNorm, N(alpha * x + F(x)), with LayerNorm of eps 1e-5 and
/// alpha = (2 * layers)^(1/4), biases everywhere, no final norm: each block ends in one.
///
/// The paper's initialization goes with it: see deepnorm_scales.
///
/// Source    Wang et al. 2022, arXiv:2203.00555.
template <class Scalar>
TransformerStack<LayerNorm<Scalar>> deepnet(const DeepnetSettings& s = {}) {
  const auto count = static_cast<int>(s.layers);
  const DeepNormScales scales = s.causal ? deepnorm_scales::decoder_only(count) : deepnorm_scales::encoder_only(count);
  const LayerNorm<Scalar> norm(s.d_model, {.eps = 1e-5});
  const auto place = [&](auto f) { return DeepNorm(norm, std::move(f), scales); };
  const TransformerLayer<LayerNorm<Scalar>> layer(
      SelfAttention<Scalar>(s.d_model, {.num_heads = s.num_heads, .causal = s.causal}),
      FeedForward<Scalar>(s.d_model, s.d_ff, {.activation = s.activation}), place);
  return TransformerStack(repeated(layer, s.layers), std::nullopt);
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
