#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "evenkeel/blocks/transformer_layer.hpp"
#include "evenkeel/sublayers/key_value_cache.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Transformer layers one after another, and a final norm: a Stack whose blocks are attention, feed-forward, attention,
/// ..., and which numbers its attentions for a cache that they share.
/// @code
///   TransformerStack<RMSNorm<float>> model = llama<float>({.layers = 8, .d_model = 256, .num_heads = 8, .d_ff = 688});
///   KeyValueCache<float> cache(model.cache_settings(512));
///   auto y = model.forward(prompt, {.cache = &cache});
/// @endcode
///
/// The final norm is there by default if the last block is one of Pre-Norm, as in Stack.
///
/// Errors    throws std::invalid_argument for no layers, and as Stack.
template <Norm N>
class TransformerStack : public Stack<N, TransformerSublayer<typename N::Scalar>> {
  using Base = Stack<N, TransformerSublayer<typename N::Scalar>>;

 public:
  using Block = TransformerBlock<N>;

  explicit TransformerStack(std::vector<TransformerLayer<N>> layers) : Base(blocks_of(std::move(layers))) {}
  /// With this final norm, or with none.
  TransformerStack(std::vector<TransformerLayer<N>> layers, std::optional<std::type_identity_t<N>> final_norm)
      : Base(blocks_of(std::move(layers)), std::move(final_norm)) {}

  std::size_t layers() const noexcept { return this->blocks().size() / 2; }
  /// The two blocks of a layer.
  Block& attention(std::size_t layer) { return this->blocks().at(2 * layer); }
  Block& feed_forward(std::size_t layer) { return this->blocks().at(2 * layer + 1); }
  const Block& attention(std::size_t layer) const { return this->blocks().at(2 * layer); }
  const Block& feed_forward(std::size_t layer) const { return this->blocks().at(2 * layer + 1); }

  /// With what a cache for texts of `capacity` tokens is made.
  KeyValueCacheSettings cache_settings(Index capacity, Index batch = 1) const {
    const SelfAttention<typename N::Scalar>* last = attention(layers() - 1).sublayer().attention();
    return last->cache_settings(capacity, batch);
  }

  /// See for_each_parameter: "layers.3.attention.norm_in.gamma".
  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& prefix) {
    for (std::size_t i = 0; i < self.layers(); ++i) {
      const std::string layer = prefix + "layers." + std::to_string(i) + ".";
      for_each_parameter(self.attention(i), visit, layer + "attention.");
      for_each_parameter(self.feed_forward(i), visit, layer + "feed_forward.");
    }
    if (self.final_norm()) for_each_parameter(*self.final_norm(), visit, prefix + "final_norm.");
  }

 private:
  static std::vector<Block> blocks_of(std::vector<TransformerLayer<N>> layers) {
    if (layers.empty()) raise_invalid_argument("TransformerStack", "0 layers, expected at least 1");
    std::vector<Block> blocks;
    for (TransformerLayer<N>& layer : layers) {
      const auto index = static_cast<Index>(blocks.size() / 2);
      if (SelfAttention<typename N::Scalar>* attention = layer.attention().sublayer().attention()) {
        attention->set_cache_layer(index);
      }
      for (Block& block : layer.blocks()) blocks.push_back(std::move(block));
    }
    return blocks;
  }
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
