#include "evenkeel/training/warmup.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "core/error_text.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::InverseSquareRootDecay;
using evenkeel::LinearWarmup;

TEST(LinearWarmup, RisesInALineAndStays) {
  const LinearWarmup warmup(4);
  EXPECT_EQ(warmup.steps(), 4);
  EXPECT_EQ(warmup.factor(1), 0.25);
  EXPECT_EQ(warmup.factor(2), 0.5);
  EXPECT_EQ(warmup.factor(3), 0.75);
  EXPECT_EQ(warmup.factor(4), 1);
  EXPECT_EQ(warmup.factor(5), 1);
  EXPECT_EQ(warmup.factor(1'000'000'000'000), 1);
}

TEST(LinearWarmup, OfNoStepsIsNone) {
  EXPECT_EQ(LinearWarmup(0).factor(1), 1);
  EXPECT_EQ(LinearWarmup(1).factor(1), 1);
}

TEST(InverseSquareRootDecay, RisesInALineAndFallsWithTheRoot) {
  const InverseSquareRootDecay schedule(4);
  EXPECT_EQ(schedule.steps(), 4);
  EXPECT_EQ(schedule.factor(1), 0.25);
  EXPECT_EQ(schedule.factor(3), 0.75);
  EXPECT_EQ(schedule.factor(4), 1);
  EXPECT_EQ(schedule.factor(16), 0.5);
  EXPECT_EQ(schedule.factor(400), 0.1);
}

/// d_model^-0.5 * min(step^-0.5, step * warmup^-1.5), Vaswani et al. 2017, equation 3.
TEST(InverseSquareRootDecay, IsThatOfTheTransformer) {
  const double d_model = 512, steps = 4000;
  const InverseSquareRootDecay schedule(4000);
  for (const int step : {1, 100, 3999, 4000, 4001, 100000}) {
    const double expected = std::pow(d_model, -0.5) * std::min(std::pow(step, -0.5), step * std::pow(steps, -1.5));
    EXPECT_NEAR(schedule.factor(step) / std::sqrt(d_model * steps), expected, 1e-15 * expected) << step;
  }
}

TEST(Warmup, RefusesStepsThatAreNone) {
  EXPECT_EQ(error_text<std::invalid_argument>([] { LinearWarmup(-1); }),
            "evenkeel::LinearWarmup: steps is -1, expected at least 0");
  EXPECT_EQ(error_text<std::invalid_argument>([] { LinearWarmup(3).factor(0); }),
            "evenkeel::LinearWarmup::factor: step is 0, expected at least 1");
  EXPECT_EQ(error_text<std::invalid_argument>([] { InverseSquareRootDecay(0); }),
            "evenkeel::InverseSquareRootDecay: steps is 0, expected at least 1");
  EXPECT_EQ(error_text<std::invalid_argument>([] { InverseSquareRootDecay(3).factor(-7); }),
            "evenkeel::InverseSquareRootDecay::factor: step is -7, expected at least 1");
}

}  // namespace
}  // namespace evenkeel_test
