// What the tests of attention, gated feed-forward and transformers share: models with random parameters, the oracle's
// inputs by name, and gradients by name.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "evenkeel/core/parameter.hpp"
#include "evenkeel/core/tensor.hpp"
#include "support/attention_oracle.hpp"
#include "support/gradient_check.hpp"
#include "support/model_inputs.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {

using evenkeel::Context;
using evenkeel::Index;
using evenkeel::Parameter;
using evenkeel::Shape;
using evenkeel::TensorView;

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
