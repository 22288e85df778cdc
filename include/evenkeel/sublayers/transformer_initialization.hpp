#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "evenkeel/sublayers/initialization.hpp"

/// How the sublayers of published transformers start. Keys are random_key(seed, path of the parameter), with the paths
/// of for_each_parameter behind the `path` that is given: "blocks.3.sublayer.". Biases stay as they are.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// The standard deviation of a projection that ends a branch, in GPT-2: std / sqrt(2 * layers), for the 2 branches of
/// each layer, whose sum then keeps its size.
///
/// Errors    throws std::invalid_argument for less than one layer.
/// Source    Radford et al. 2019, section 2.3.
inline double residual_projection_std(int layers, double std = 0.02) {
  require_at_least("residual_projection_std", "layers", layers, 1);
  return std / std::sqrt(2.0 * layers);
}

/// A sublayer with the projections of attention: SelfAttention, or a class of yours.
template <class F>
concept AttentionProjections = requires(F& f) {
  f.query().weight(), f.key().weight(), f.value().weight(), f.out().weight();
};
/// A sublayer with the projections of a feed-forward network, and a `gate` beside `up` or none.
template <class F>
concept FeedForwardProjections = requires(F& f) {
  f.up().weight(), f.down().weight();
};
/// Either of the two.
template <class F>
concept TransformerProjections = AttentionProjections<F> || FeedForwardProjections<F>;

namespace detail {

/// What a projection's output meets: the scores of attention, the inside of the branch, or the residual sum.
enum class ProjectionTarget { scores, branch, sum };

/// Calls visit(linear, its name in paths, target) for each projection.
template <TransformerProjections F, class Visit>
void for_each_projection(F& f, const Visit& visit) {
  if constexpr (AttentionProjections<F>) {
    visit(f.query(), "query.", ProjectionTarget::scores);
    visit(f.key(), "key.", ProjectionTarget::scores);
    visit(f.value(), "value.", ProjectionTarget::branch);
    visit(f.out(), "out.", ProjectionTarget::sum);
  } else {
    if constexpr (requires { f.gate().weight(); }) visit(f.gate(), "gate.", ProjectionTarget::branch);
    visit(f.up(), "up.", ProjectionTarget::branch);
    visit(f.down(), "down.", ProjectionTarget::sum);
  }
}

}  // namespace detail

/// As GPT-2: weights N(0, std^2), and N(0, std^2 / (2 * layers)) of the projection that ends the branch.
template <TransformerProjections F>
void init_gpt2(F& sublayer, std::uint64_t seed, const std::string& path, int layers, double std = 0.02) {
  const double last_std = residual_projection_std(layers, std);
  detail::for_each_projection(sublayer, [&](auto& linear, const char* name, detail::ProjectionTarget target) {
    init_normal(linear, random_key(seed, path + name + "weight"),
                target == detail::ProjectionTarget::sum ? last_std : std);
  });
}

/// As DeepNorm asks for: xavier_normal, with `init_gain` (of deepnorm_scales) for the projections of feed-forward
/// networks, of values and of the output of attention, and gain 1 for queries and keys.
///
/// Source    Wang et al. 2022, DeepNet, arXiv:2203.00555, figure 2.
template <TransformerProjections F>
void init_deepnorm(F& sublayer, std::uint64_t seed, const std::string& path, double init_gain) {
  require_not_negative("init_deepnorm", "init_gain", init_gain);
  detail::for_each_projection(sublayer, [&](auto& linear, const char* name, detail::ProjectionTarget target) {
    init_xavier_normal(linear, random_key(seed, path + name + "weight"),
                       target == detail::ProjectionTarget::scores ? 1 : init_gain);
  });
}

/// As DeepNorm asks for, of a projection whose rows are queries, keys and values, in this order: xavier_normal of each
/// of the three as a weight of its own, with gain 1 for queries and keys and `init_gain` for values.
///
/// Shapes    weight [query_rows + 2 * key_rows, d_model]: as many value rows as key rows.
/// Errors    throws std::invalid_argument if the weight has another number of rows.
/// Source    Wang et al. 2022, DeepNet, arXiv:2203.00555, figure 2.
template <class Scalar>
void init_deepnorm_qkv(Parameter<Scalar>& weight, RandomKey key, Index query_rows, Index key_rows, double init_gain) {
  const auto values = weight_rows(weight, query_rows + key_rows, key_rows);
  const Index rows = query_rows + 2 * key_rows;
  if (weight.shape()[0] != rows) {
    raise_invalid_argument("init_deepnorm_qkv", "weight has " + std::to_string(weight.shape()[0]) + " rows, expected " +
                                                    std::to_string(rows) + ": those of queries, " +
                                                    "keys and values (it has shape " + shape_string(weight.shape()) +
                                                    ")");
  }
  init_xavier_normal(values, key, init_gain);
  init_xavier_normal(weight_rows(weight, 0, query_rows), key);
  init_xavier_normal(weight_rows(weight, query_rows, key_rows), key);
}
template <class Scalar>
void init_deepnorm_qkv(Linear<Scalar>& linear, RandomKey key, Index query_rows, Index key_rows, double init_gain) {
  init_deepnorm_qkv(linear.weight(), key, query_rows, key_rows, init_gain);
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
