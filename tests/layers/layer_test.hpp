// What the tests of layers share: the two norms as layers, with parameters that are not those they start with.
#pragma once

#include "core/error_text.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/layers/rms_norm.hpp"
#include "ops/op_test.hpp"
#include "support/matrix.hpp"

namespace evenkeel_test {

using evenkeel::Parameter;

using Layers = testing::Types<evenkeel::LayerNorm<float>, evenkeel::LayerNorm<double>, evenkeel::RMSNorm<float>,
                              evenkeel::RMSNorm<double>>;

/// LayerNorm has a beta, RMSNorm does not.
template <class Layer>
inline constexpr bool has_beta = requires(Layer& layer) {
  layer.beta();
};

template <class Layer>
inline constexpr const char* layer_name = has_beta<Layer> ? "LayerNorm" : "RMSNorm";

struct LayerName {
  template <class Layer>
  static std::string GetName(int) {
    return std::string(layer_name<Layer>) + (std::is_same_v<typename Layer::Scalar, float> ? "_float" : "_double");
  }
};

/// The op that a layer is made of.
template <class Layer>
using OpOf =
    std::conditional_t<has_beta<Layer>, LayerNormOp<typename Layer::Scalar>, RMSNormOp<typename Layer::Scalar>>;

template <class S>
std::vector<S> values_of(const Parameter<S>& parameter) {
  return {parameter.values().begin(), parameter.values().end()};
}
template <class S>
std::vector<S> gradient_of(const Parameter<S>& parameter) {
  return {parameter.gradient().begin(), parameter.gradient().end()};
}

/// Calls visit(parameter) for gamma and beta, as far as there are any.
template <class Layer, class Visit>
void for_each_parameter_of(Layer& layer, const Visit& visit) {
  evenkeel::for_each_parameter(layer, [&](const std::string&, auto& parameter) { visit(parameter); });
}

/// Gives every parameter random values.
template <class Layer>
Layer with_random_parameters(Layer layer, std::uint64_t seed = 71) {
  using S = typename Layer::Scalar;
  for_each_parameter_of(layer, [&](Parameter<S>& parameter) {
    const auto values = normal_vector<S>(static_cast<std::size_t>(parameter.size()), seed++);
    parameter.load(values.data(), parameter.size());
  });
  return layer;
}

/// The options with which the op does what the layer does. They view its parameters.
template <class Layer, class S = typename Layer::Scalar>
OpOptions<S> options_of(const Layer& layer, const Axes& axis = -1) {
  OpOptions<S> options{.eps = layer.eps(), .axis = axis};
  if (!layer.gamma().is_absent()) options.gamma = layer.gamma().view();
  if constexpr (has_beta<Layer>) {
    if (!layer.beta().is_absent()) options.beta = layer.beta().view();
  }
  return options;
}

/// A matrix [rows, columns] of N(0,1).
template <class Matrix>
Matrix random_matrix(Index rows, Index columns, std::uint64_t seed) {
  return normal_matrix<typename Matrix::Scalar>(rows, columns, seed);
}

}  // namespace evenkeel_test
