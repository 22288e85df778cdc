#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "evenkeel/core/shape_check.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// The sizes of a KeyValueCache.
struct KeyValueCacheSettings {
  Index layers = 1;        ///< attention layers that share the cache, each with a place of its own
  Index batch = 1;         ///< texts side by side
  Index capacity = 0;      ///< the most tokens of a text
  Index num_kv_heads = 1;  ///< as the attention has them
  Index head_dim = 0;      ///< the same
};

namespace detail {
/// Its address stands for a scalar type.
template <class Scalar>
inline constexpr char scalar_tag = 0;
}  // namespace detail

/// What a KeyValueCache is, whatever its scalar: how a Context carries it.
class AnyKeyValueCache {
 public:
  const KeyValueCacheSettings& settings() const noexcept { return settings_; }
  /// The tokens that a layer's place holds.
  Index length(Index layer = 0) const { return lengths_.at(static_cast<std::size_t>(layer)); }
  /// Forgets all tokens from `length` on, of every layer.
  void truncate(Index length) noexcept {
    for (Index& held : lengths_) held = std::min(held, std::max<Index>(length, 0));
  }
  void clear() noexcept { truncate(0); }

  template <class Scalar>
  bool holds() const noexcept {
    return scalar_ == &detail::scalar_tag<Scalar>;
  }

 protected:
  AnyKeyValueCache(const void* scalar, const KeyValueCacheSettings& settings) : scalar_(scalar), settings_(settings) {
    require_at_least("KeyValueCache", "layers", settings.layers, 1);
    require_at_least("KeyValueCache", "batch", settings.batch, 1);
    require_at_least("KeyValueCache", "capacity", settings.capacity, 1);
    require_at_least("KeyValueCache", "num_kv_heads", settings.num_kv_heads, 1);
    require_at_least("KeyValueCache", "head_dim", settings.head_dim, 1);
    lengths_.resize(static_cast<std::size_t>(settings.layers));
  }
  ~AnyKeyValueCache() = default;

  std::vector<Index> lengths_;

 private:
  const void* scalar_;
  KeyValueCacheSettings settings_;
};

/// Keys and values of the tokens that a model has read, so that the next token costs one row: decoding token by token.
/// @code
///   KeyValueCache<float> cache({.layers = 12, .capacity = 1024, .num_kv_heads = 12, .head_dim = 64});
///   auto y = stack.forward(prompt, {.cache = &cache});     // [tokens, d_model]
///   auto next = stack.forward(token, {.cache = &cache});   // [1, d_model], behind the prompt
/// @endcode
///
/// Memory is taken once: 2 * layers * batch * capacity * num_kv_heads * head_dim numbers, 32 * capacity for scores, and
/// a byte for each token. One call at a time may use a cache.
///
/// Errors    throws std::invalid_argument for a size below 1. Attention throws if x has more tokens than fit.
template <class Scalar>
class KeyValueCache : public AnyKeyValueCache {
 public:
  explicit KeyValueCache(const KeyValueCacheSettings& settings)
      : AnyKeyValueCache(&detail::scalar_tag<Scalar>, settings),
        keys_(static_cast<std::size_t>(settings.layers * settings.batch * batch_stride())),
        values_(keys_.size()),
        is_valid_(static_cast<std::size_t>(settings.layers * settings.batch * settings.capacity)),
        scores_(static_cast<std::size_t>(rows_of_scores * settings.capacity)) {}

  /// How many rows of scores attention computes at a time.
  static constexpr Index rows_of_scores = 32;

  // For attention: a layer's place, [batch, capacity, num_kv_heads, head_dim], and [batch, capacity].
  Scalar* keys(Index layer) noexcept { return keys_.data() + layer * settings().batch * batch_stride(); }
  Scalar* values(Index layer) noexcept { return values_.data() + layer * settings().batch * batch_stride(); }
  std::uint8_t* is_valid(Index layer) noexcept {
    return is_valid_.data() + layer * settings().batch * settings().capacity;
  }
  Scalar* scores() noexcept { return scores_.data(); }
  void set_length(Index layer, Index length) noexcept { lengths_[static_cast<std::size_t>(layer)] = length; }
  /// From one text to the next.
  Index batch_stride() const noexcept { return settings().capacity * settings().num_kv_heads * settings().head_dim; }

 private:
  std::vector<Scalar> keys_, values_;
  std::vector<std::uint8_t> is_valid_;
  std::vector<Scalar> scores_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
