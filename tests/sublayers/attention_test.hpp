// What the tests of attention, gated feed-forward and transformers share: models with random parameters, the oracle's
// inputs by name, and gradients by name.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "evenkeel/core/parameter.hpp"
#include "evenkeel/core/tensor.hpp"
#include "support/attention_oracle.hpp"
#include "support/gradient_check.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {

using evenkeel::Context;
using evenkeel::Index;
using evenkeel::Parameter;
using evenkeel::Shape;
using evenkeel::TensorView;

/// The same model with every parameter drawn anew.
template <class Model>
Model randomized(Model model, double std = 0.7, std::uint64_t seed = 100) {
  for_each_parameter(model, [&](const std::string&, auto& parameter) {
    using T = std::remove_cvref_t<decltype(parameter.values()[0])>;
    const auto values = normal_vector<T>(static_cast<std::size_t>(parameter.size()), seed++, 0, std);
    parameter.load(values.data(), parameter.size());
  });
  return model;
}

/// x and every parameter, with the places that they have in `values`.
struct NamedInputs {
  std::vector<Reals> values;
  std::map<std::string, std::size_t> index;

  /// at(name) of the given inputs; empty for an absent parameter.
  template <class T>
  auto lookup(const std::vector<std::vector<T>>& in, const std::string& prefix = "") const {
    return [&in, this, prefix](const std::string& name) {
      const auto place = index.find(prefix + name);
      return place == index.end() ? std::vector<T>() : in[place->second];
    };
  }
};

template <class T, class Model>
NamedInputs named_inputs(const std::vector<T>& x, const Model& model) {
  NamedInputs inputs{.values = {oracle::widen(x)}, .index = {{"x", 0}}};
  for_each_parameter(model, [&](const std::string& path, const auto& parameter) {
    inputs.index[path] = inputs.values.size();
    inputs.values.push_back(oracle::widen(parameter.values()));
  });
  return inputs;
}

/// Errors are measured by the largest entry of what is expected, or by 1 where that is less than 1.
template <class Got, class Expected>
testing::AssertionResult near(const Got& got, const Expected& expected, double ulps) {
  const Reals wide = oracle::widen(expected);
  return within_ulp(got, wide, ulps, {std::max(oracle::largest_magnitude(wide), 1.0L)});
}

/// Checks y in inference and training, and the gradient of x and of every parameter, against formula(inputs).
template <class T, class Model, class Formula>
void expect_formula(Model& model, const Shape& shape, const std::vector<T>& x, const std::vector<T>& dy,
                    const Context& context, const NamedInputs& inputs, const Formula& formula, double ulps,
                    double gradient_ulps) {
  const TensorView<const T> x_view(x.data(), shape), dy_view(dy.data(), shape);
  std::vector<T> y(x.size()), inference(x.size()), dx(x.size());
  typename Model::Saved saved;
  std::as_const(model).forward_into(x_view, TensorView<T>(inference.data(), shape), context);
  model.forward_into(x_view, TensorView<T>(y.data(), shape), saved, context);
  model.backward_into(dy_view, saved, TensorView<T>(dx.data(), shape), context);
  const Reals expected = formula(inputs.values);
  EXPECT_TRUE(near(inference, expected, ulps)) << "inference";
  EXPECT_TRUE(near(y, expected, ulps)) << "training";
  EXPECT_TRUE(near(dx, gradient(inputs.values, 0, formula, oracle::widen(dy)), gradient_ulps)) << "dx";
  for_each_parameter(model, [&](const std::string& path, const auto& parameter) {
    const Reals wanted = gradient(inputs.values, inputs.index.at(path), formula, oracle::widen(dy));
    EXPECT_TRUE(near(parameter.gradient(), wanted, gradient_ulps)) << path;
  });
}

}  // namespace evenkeel_test
