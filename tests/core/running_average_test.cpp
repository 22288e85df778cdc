// Running averages: the two meanings of momentum, and the plain average.
#include "evenkeel/core/running_average.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace evenkeel_test {
namespace {

using evenkeel::CumulativeAverage;
using evenkeel::Decay;
using evenkeel::RunningAverage;
using evenkeel::UpdateRate;

double after(const RunningAverage& average, double running, double batch, std::int64_t batches_before = 0) {
  return RunningAverage::updated(average.weights(batches_before), running, batch);
}

TEST(RunningAverage, UpdateRateWeighsTheNewValueAndDecayTheOld) {  // B62
  EXPECT_DOUBLE_EQ(after(UpdateRate(0.1), 10, 20), 11);
  EXPECT_DOUBLE_EQ(after(Decay(0.9), 10, 20), 11);
  EXPECT_DOUBLE_EQ(after(UpdateRate(0.9), 10, 20), 19);
  EXPECT_DOUBLE_EQ(after(Decay(0.1), 10, 20), 19);
}

TEST(RunningAverage, CumulativeAverageWeighsAllBatchesAlike) {
  double running = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t k = 0; k < 10; ++k) running = after(CumulativeAverage(), running, static_cast<double>(k), k);
  EXPECT_DOUBLE_EQ(running, 4.5);
  EXPECT_TRUE(RunningAverage(CumulativeAverage()).is_cumulative());
  EXPECT_FALSE(RunningAverage(Decay(0.9)).is_cumulative());
}

TEST(RunningAverage, WhatHasNoWeightDoesNotCount) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(after(UpdateRate(0), 10, nan), 10);
  EXPECT_EQ(after(Decay(1), 10, nan), 10);
  EXPECT_EQ(after(UpdateRate(1), nan, 20), 20);
  EXPECT_EQ(after(Decay(0), nan, 20), 20);
}

}  // namespace
}  // namespace evenkeel_test
