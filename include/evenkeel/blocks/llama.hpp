#pragma once

#include <utility>

#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/blocks/transformer_stack.hpp"
#include "evenkeel/layers/rms_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// The sizes of LLaMA 2 7B.
struct LlamaSettings {
  Index layers = 32;
  Index d_model = 4096;
  Index num_heads = 32;
  Index num_kv_heads = 0;  ///< 0: num_heads; LLaMA 2 70B and LLaMA 3 have 8
  Index d_ff = 11008;
  double eps = 1e-5;   ///< LLaMA 1: 1e-6
  Rotary rotary = {};  ///< base 1e4; LLaMA 3: 5e5. For weights as Meta stores them: .interleaved = true
};

/// The layers of LLaMA: Pre-Norm with RMSNorm, causal attention with rotary position, SwiGLU, no biases, a final norm.
///
/// Source    Touvron et al. 2023, arXiv:2302.13971 and (grouped heads, eps 1e-5) arXiv:2307.09288.
template <class Scalar>
TransformerStack<RMSNorm<Scalar>> llama(const LlamaSettings& s = {}) {
  const auto place = [&](auto f) { return PreNorm(RMSNorm<Scalar>(s.d_model, {.eps = s.eps}), std::move(f)); };
  const SelfAttention<Scalar> attention(s.d_model, {.num_heads = s.num_heads,
                                                    .num_kv_heads = s.num_kv_heads,
                                                    .causal = true,
                                                    .with_qkv_bias = false,
                                                    .with_out_bias = false,
                                                    .rotary = s.rotary});
  const GatedFeedForward<Scalar> feed_forward(s.d_model, s.d_ff, {.activation = Activation::silu, .with_bias = false});
  return TransformerStack(repeated(TransformerLayer<RMSNorm<Scalar>>(attention, feed_forward, place), s.layers));
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
