#pragma once

#include <string>

#include "evenkeel/core/context.hpp"
#include "evenkeel/core/shape_check.hpp"
#include "evenkeel/detail/valid_rows.hpp"
#include "evenkeel/sublayers/key_value_cache.hpp"

/// What attention refuses, before anything is written.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

inline void require_count(const char* where, const char* name, Index count, Index expected) {
  if (count == expected) return;
  raise_invalid_argument(
      where, std::string(name) + " has " + std::to_string(count) + " numbers, expected " + std::to_string(expected));
}

/// x [batch, seq, d_model] or [seq, d_model].
inline void require_tokens(const char* where, Index d_model, const Shape& x) {
  if (x.rank() >= 2 && x.rank() <= 3 && x[x.rank() - 1] == d_model) return;
  const std::string width = std::to_string(d_model) + "]";
  raise_invalid_argument(where, has_shape("x", x) + ", expected [batch, seq, " + width + " or [seq, " + width);
}

/// The same of x and y, and masks of their rows.
inline void require_attention_shapes(const char* where, Index d_model, const Shape& x, const Shape& y,
                                     const Context& context) {
  require_tokens(where, d_model, x);
  require_same_shape(where, "y", y, "x", x);
  require_row_mask(where, "mask", context.mask, x);
  require_row_mask(where, "key_mask", context.key_mask, x);
  require_at_least(where, "position", context.position.value_or(0), 0);
}

inline void require_cache_size(const char* where, const char* name, Index size, Index expected) {
  if (size == expected) return;
  raise_invalid_argument(
      where, std::string(name) + " of the cache is " + std::to_string(size) + ", expected " + std::to_string(expected));
}

inline void require_layer(const char* where, const AnyKeyValueCache& cache, Index layer) {
  require_at_least(where, "layers of the cache", cache.settings().layers, layer + 1);
}

/// `needed` is the cache that would do: the layer of this attention is its last, and its capacity is full behind the
/// `tokens` of x.
inline void require_room(const char* where, const AnyKeyValueCache& cache, const KeyValueCacheSettings& needed,
                         Index tokens) {
  const KeyValueCacheSettings& has = cache.settings();
  require_cache_size(where, "batch", has.batch, needed.batch);
  require_cache_size(where, "num_kv_heads", has.num_kv_heads, needed.num_kv_heads);
  require_cache_size(where, "head_dim", has.head_dim, needed.head_dim);
  const Index held = cache.length(needed.layers - 1), position = needed.capacity - tokens;
  if (position > held) {
    raise_invalid_argument(where, "position is " + std::to_string(position) + ", expected at most " +
                                      std::to_string(held) + ", the tokens that the cache holds");
  }
  if (needed.capacity > has.capacity) {
    raise_invalid_argument(where, "the cache is full: " + std::to_string(position) + " tokens and " +
                                      std::to_string(tokens) + " more, expected at most " +
                                      std::to_string(has.capacity) + ", its capacity");
  }
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
