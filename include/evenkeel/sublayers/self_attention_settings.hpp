#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "evenkeel/layers/rms_norm.hpp"
#include "evenkeel/sublayers/rotary.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// What a SelfAttention is like. What is not asked for costs nothing.
struct SelfAttentionSettings {
  Index num_heads = 1;
  Index num_kv_heads = 0;     ///< of keys and values, which heads share in groups; 0: num_heads
  Index head_dim = 0;         ///< 0: d_model / num_heads
  bool causal = false;        ///< a token looks at itself and those before it
  Index window = 0;           ///< of how many tokens, itself among them, it sees the last; 0: of all
  bool with_qkv_bias = true;  ///< of query, key and value
  bool with_out_bias = true;  ///< of out
  std::optional<RMSNormSettings> query_key_norm = {};  ///< of each head of queries and keys, before the rotation
  std::optional<Rotary> rotary = {};
  std::optional<double> scale = {};  ///< of the scores; default 1 / sqrt(head_dim)
  double soft_cap = 0;               ///< c: scores go through c * tanh(score / c); 0: they do not
};

namespace detail {

inline void require_head_count(const char* name, Index value, Index least) {
  if (value >= least) return;
  raise_invalid_argument("SelfAttention", std::string(name) + " is " + std::to_string(value) + ", expected at least " +
                                              std::to_string(least));
}
inline void require_score_setting(const char* name, double value, double least) {
  if (value >= least && value <= std::numeric_limits<double>::max()) return;
  raise_invalid_argument("SelfAttention", std::string(name) + " is " + std::to_string(value) +
                                              ", expected a finite number" + (least == 0 ? " of at least 0" : ""));
}

/// The settings with their defaults filled in.
///
/// Errors    throws std::invalid_argument for what cannot be.
inline SelfAttentionSettings checked(Index d_model, SelfAttentionSettings settings) {
  require_head_count("d_model", d_model, 1);
  require_head_count("num_heads", settings.num_heads, 1);
  require_head_count("num_kv_heads", settings.num_kv_heads, 0);
  require_head_count("head_dim", settings.head_dim, 0);
  require_head_count("window", settings.window, 0);
  if (settings.num_kv_heads == 0) settings.num_kv_heads = settings.num_heads;
  if (settings.num_heads % settings.num_kv_heads != 0) {
    raise_invalid_argument("SelfAttention", "num_kv_heads is " + std::to_string(settings.num_kv_heads) +
                                                ", expected a divisor of num_heads, " +
                                                std::to_string(settings.num_heads));
  }
  if (settings.head_dim == 0 && d_model % settings.num_heads != 0) {
    raise_invalid_argument("SelfAttention", "num_heads is " + std::to_string(settings.num_heads) +
                                                ", expected a divisor of d_model, " + std::to_string(d_model) +
                                                ", or a head_dim");
  }
  if (settings.head_dim == 0) settings.head_dim = d_model / settings.num_heads;
  if (settings.window > 0 && !settings.causal) {
    raise_invalid_argument("SelfAttention", "window is " + std::to_string(settings.window) +
                                                " without causal order, expected causal = true");
  }
  if (settings.rotary) require_rotary("SelfAttention", *settings.rotary, settings.head_dim);
  if (settings.scale) require_score_setting("scale", *settings.scale, std::numeric_limits<double>::lowest());
  require_score_setting("soft_cap", settings.soft_cap, 0);
  return settings;
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
