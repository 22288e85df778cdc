#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "evenkeel/blocks/peri_norm.hpp"
#include "evenkeel/blocks/transformer_stack.hpp"
#include "evenkeel/layers/rms_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// The sizes of Gemma 2 2B.
struct Gemma2Settings {
  Index layers = 26;
  Index d_model = 2304;
  Index num_heads = 8;
  Index num_kv_heads = 4;
  Index head_dim = 256;
  Index d_ff = 9216;
  Index window = 4096;        ///< of every second layer, from the first on; the others see all
  double query_scale_of = 0;  ///< scores are divided by its root: 0: head_dim (2B, 9B); 27B: 144
};

/// The layers of Gemma 2: a norm before and one behind every sublayer (PeriNorm), RMSNorm by 1 + gamma of eps 1e-6,
/// causal attention with rotary position of base 1e4 and scores capped at 50, alternating between a window and all,
/// GEGLU with the tanh form of GELU, no biases, a final norm.
///
/// What is in front of the layers and behind them is the caller's: embeddings times sqrt(d_model), logits capped at 30.
///
/// Source    Gemma Team 2024, arXiv:2408.00118.
template <class Scalar>
TransformerStack<RMSNorm<Scalar>> gemma2(const Gemma2Settings& s = {}) {
  using Norm = RMSNorm<Scalar>;
  const Norm norm(s.d_model, {.eps = 1e-6, .gamma_around_zero = true});
  const auto place = [&](auto f) { return PeriNorm(norm, norm, std::move(f)); };
  const double scale = 1 / std::sqrt(s.query_scale_of > 0 ? s.query_scale_of : static_cast<double>(s.head_dim));
  const GatedFeedForward<Scalar> feed_forward(s.d_model, s.d_ff,
                                              {.activation = Activation::gelu_tanh, .with_bias = false});
  std::vector<TransformerLayer<Norm>> layers;
  for (Index i = 0; i < s.layers; ++i) {
    const SelfAttention<Scalar> attention(s.d_model, {.num_heads = s.num_heads,
                                                      .num_kv_heads = s.num_kv_heads,
                                                      .head_dim = s.head_dim,
                                                      .causal = true,
                                                      .window = i % 2 == 0 ? s.window : 0,
                                                      .with_qkv_bias = false,
                                                      .with_out_bias = false,
                                                      .rotary = Rotary{.base = 1e4},
                                                      .scale = scale,
                                                      .soft_cap = 50});
    layers.emplace_back(attention, feed_forward, place);
  }
  return TransformerStack(std::move(layers));
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
