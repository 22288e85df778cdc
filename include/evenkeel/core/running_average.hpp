#pragma once

#include <cstdint>

#include "evenkeel/core/value_check.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// The weight of the new value in a running average: running = (1 - rate) * running + rate * batch.
///
/// What PyTorch calls momentum, 0.1 there. A type, so that it is never taken for what ONNX, Keras and Flax call so.
///
/// Errors    throws std::invalid_argument unless it is from 0 to 1.
class UpdateRate {
 public:
  explicit UpdateRate(double rate) : rate_(rate) { require_share("UpdateRate", "rate", rate); }
  double value() const noexcept { return rate_; }

 private:
  double rate_;
};

/// The weight of the old value in a running average: running = decay * running + (1 - decay) * batch.
///
/// What ONNX and Flax call momentum, 0.9 and 0.99 there, and Keras, 0.99.
///
/// Errors    throws std::invalid_argument unless it is from 0 to 1.
class Decay {
 public:
  explicit Decay(double decay) : decay_(decay) { require_share("Decay", "decay", decay); }
  double value() const noexcept { return decay_; }

 private:
  double decay_;
};

/// The plain average over all batches so far, each with the same weight.
struct CumulativeAverage {};

/// How the statistics of a batch enter the running ones: an UpdateRate, a Decay, or a CumulativeAverage.
class RunningAverage {
 public:
  struct Weights {
    double running, batch;
  };

  // NOLINTBEGIN(google-explicit-constructor): each of the three is a running average
  RunningAverage(UpdateRate rate) noexcept : weights_{1 - rate.value(), rate.value()} {}
  RunningAverage(Decay decay) noexcept : weights_{decay.value(), 1 - decay.value()} {}
  RunningAverage(CumulativeAverage) noexcept : weights_{0, 1}, is_cumulative_(true) {}
  // NOLINTEND(google-explicit-constructor)

  bool is_cumulative() const noexcept { return is_cumulative_; }

  /// The weights for a batch that comes after `batches_before` others.
  Weights weights(std::int64_t batches_before) const noexcept {
    if (!is_cumulative_) return weights_;
    const double all = static_cast<double>(batches_before) + 1;
    return {static_cast<double>(batches_before) / all, 1 / all};
  }

  /// The running value after a batch, in double. Without weight the batch changes nothing, whatever its value.
  static double updated(const Weights& weights, double running, double batch) noexcept {
    if (weights.batch == 0) return running;
    if (weights.running == 0) return batch;
    return weights.running * running + weights.batch * batch;
  }

 private:
  Weights weights_;
  bool is_cumulative_ = false;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
