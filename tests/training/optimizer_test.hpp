// What the tests of optimizers share: some steps of a model with one parameter.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "support/oracle.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"
#include "training/parameters.hpp"

namespace evenkeel_test {

/// Ten steps with random gradients, at a rate that rises first, are those of an Oracle to `ulps`.
template <class Oracle, class Scalar, class Optimizer>
void expect_ten_steps_of(Optimizer optimizer, double ulps) {
  const std::size_t size = 21;
  const auto start = normal_vector<Scalar>(size, 1);
  Oracle expected(optimizer.settings(), Reals(start.begin(), start.end()));
  Parameters<Scalar> model;
  model.add("w", start);
  for (int step = 1; step <= 10; ++step) {
    const auto gradient = normal_vector<Scalar>(size, 100 + static_cast<std::uint64_t>(step), 0.3);
    const double factor = step < 5 ? step / 5.0 : 1;
    model.set_gradient(0, gradient);
    optimizer.step(model, factor);
    expected.step(gradient, factor);
    EXPECT_EQ(model.gradient(0), gradient) << "is kept";
  }
  EXPECT_TRUE(within_ulp(model.values(0), expected.w, ulps));
}

/// What three steps with given gradients make of {1, -2, 0.5}.
template <class Optimizer>
std::vector<double> after_three_steps(Optimizer optimizer) {
  Parameters<double> model;
  model.add("w", {1, -2, 0.5});
  for (const std::vector<double>& gradient :
       {std::vector{0.1, -0.2, 3.0}, std::vector{-0.4, 0.5, 0.0}, std::vector{0.25, 1.0, -1e-3}}) {
    model.set_gradient(0, gradient);
    optimizer.step(model);
  }
  return model.values(0);
}

}  // namespace evenkeel_test
