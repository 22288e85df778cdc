#pragma once

#include <cmath>

#include "evenkeel/core/value_check.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

namespace detail {

/// As a number that powers are taken of.
inline double layers_of(const char* where, const char* name, int layers) {
  require_at_least(where, name, layers, 1);
  return layers;
}

inline double fourth_root(double v) { return std::pow(v, 1.0 / 4); }

}  // namespace detail

/// What DeepNorm asks for: N(alpha * x + F(x)), and smaller weights.
struct DeepNormScales {
  double alpha = 1;      ///< factor of the skip path
  double init_gain = 1;  ///< the paper's beta: gain of xavier_normal for feed-forward, value and output projections;
                         ///< those of queries and keys keep 1
};

/// Those of both halves of an encoder-decoder.
struct DeepNormEncoderDecoderScales {
  DeepNormScales encoder, decoder;
};

/// The constants of DeepNorm, from the number of transformer layers (of two or, in a decoder that looks at an encoder,
/// three blocks each; not the number of blocks).
///
/// Errors    throw std::invalid_argument for less than one layer.
/// Source    Wang et al. 2022, DeepNet, arXiv:2203.00555, table of alpha and beta.
namespace deepnorm_scales {

/// alpha = (2N)^(1/4), init_gain = (8N)^(-1/4): BERT.
inline DeepNormScales encoder_only(int layers) {
  const double n = detail::layers_of("deepnorm_scales::encoder_only", "layers", layers);
  return {detail::fourth_root(2 * n), 1 / detail::fourth_root(8 * n)};
}

/// alpha = (2M)^(1/4), init_gain = (8M)^(-1/4): GPT.
inline DeepNormScales decoder_only(int layers) {
  const double m = detail::layers_of("deepnorm_scales::decoder_only", "layers", layers);
  return {detail::fourth_root(2 * m), 1 / detail::fourth_root(8 * m)};
}

/// Encoder of N layers: alpha = 0.81 (N^4 M)^(1/16), init_gain = 0.87 (N^4 M)^(-1/16); decoder of M layers:
/// alpha = (3M)^(1/4), init_gain = (12M)^(-1/4).
inline DeepNormEncoderDecoderScales encoder_decoder(int encoder_layers, int decoder_layers) {
  const char* where = "deepnorm_scales::encoder_decoder";
  const double n = detail::layers_of(where, "encoder_layers", encoder_layers);
  const double m = detail::layers_of(where, "decoder_layers", decoder_layers);
  const double root = std::pow(n * n * n * n * m, 1.0 / 16);
  return {.encoder = {0.81 * root, 0.87 / root},
          .decoder = {detail::fourth_root(3 * m), 1 / detail::fourth_root(12 * m)}};
}

}  // namespace deepnorm_scales

/// What LayerScale's lambda starts from in a network of this many layers: 0.1 up to 18, 1e-5 up to 24, then 1e-6.
///
/// Errors    throws std::invalid_argument for less than one layer.
/// Source    Touvron et al. 2021, arXiv:2103.17239.
inline double layer_scale_initial(int layers) {
  const double depth = detail::layers_of("layer_scale_initial", "layers", layers);
  return depth <= 18 ? 0.1 : depth <= 24 ? 1e-5 : 1e-6;
}

/// What LayerNorm Scaling multiplies the norm of layer l by: 1 / sqrt(l). The first layer is 1.
///
/// Errors    throws std::invalid_argument for a layer below 1.
/// Source    Sun et al. 2025, The Curse of Depth, arXiv:2502.05795.
inline double layer_norm_scale(int layer) {
  return 1 / std::sqrt(detail::layers_of("layer_norm_scale", "layer", layer));
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
