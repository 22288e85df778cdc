#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/blocks/stack.hpp"
#include "evenkeel/sublayers/transformer_sublayer.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// A block of a transformer, of any placement.
template <Norm N>
using TransformerBlock = Residual<N, TransformerSublayer<typename N::Scalar>>;

/// A transformer layer: an attention block, then a feed-forward block, each a residual sublayer of any placement.
/// @code
///   TransformerLayer<LayerNorm<float>> layer(
///       SelfAttention<float>(256, {.num_heads = 8, .causal = true}), FeedForward<float>(256, 1024),
///       [](auto f) { return PreNorm(LayerNorm<float>(256), std::move(f)); });
/// @endcode
///
/// Shapes    x, y [batch, seq, d_model] or [seq, d_model].
/// Source    Vaswani et al. 2017, arXiv:1706.03762, section 3.1; agrees with torch.nn.TransformerEncoderLayer.
template <Norm N>
class TransformerLayer : public Stack<N, TransformerSublayer<typename N::Scalar>> {
  using Base = Stack<N, TransformerSublayer<typename N::Scalar>>;

 public:
  using Sublayer = TransformerSublayer<typename N::Scalar>;
  using Block = TransformerBlock<N>;

  TransformerLayer(Block attention, Block feed_forward)
      : Base({std::move(attention), std::move(feed_forward)}, std::nullopt) {}
  /// Both sublayers under one placement: place(f) makes a block of a sublayer.
  template <class Place>
  TransformerLayer(Sublayer attention, Sublayer feed_forward, const Place& place)
      : TransformerLayer(Block(place(std::move(attention))), Block(place(std::move(feed_forward)))) {}

  Block& attention() noexcept { return this->blocks()[0]; }
  Block& feed_forward() noexcept { return this->blocks()[1]; }
  const Block& attention() const noexcept { return this->blocks()[0]; }
  const Block& feed_forward() const noexcept { return this->blocks()[1]; }

  /// See for_each_parameter: "attention.norm_in.gamma", "feed_forward.sublayer.up.weight".
  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& prefix) {
    for_each_parameter(self.attention(), visit, prefix + "attention.");
    for_each_parameter(self.feed_forward(), visit, prefix + "feed_forward.");
  }
};

/// `count` layers with the parameters of one, each with a copy of them.
///
/// Errors    throws std::invalid_argument for a count below 1.
template <Norm N>
std::vector<TransformerLayer<N>> repeated(const TransformerLayer<N>& layer, Index count) {
  if (count < 1) raise_invalid_argument("repeated", std::to_string(count) + " layers, expected at least 1");
  return std::vector<TransformerLayer<N>>(static_cast<std::size_t>(count), layer);
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
