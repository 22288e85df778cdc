#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "evenkeel/core/value_check.hpp"

/// Learning rates at the start of training, as factors of the largest one. Steps are counted from 1: factor(1) is that
/// of the first update.
/// @code
///   const LinearWarmup warmup(1000);
///   for (int step = 1; step <= steps; ++step) { ...; optimizer.step(model, warmup.factor(step)); }
/// @endcode
namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// A learning rate that rises in a line and then stays: factor(step) = min(1, step / steps). With 0 steps it is 1.
///
/// Errors    throws std::invalid_argument for negative steps, and for a step below 1.
/// Source    Goyal et al. 2017, arXiv:1706.02677, section 2.2.
class LinearWarmup {
 public:
  explicit LinearWarmup(std::int64_t steps) : steps_(steps) { require_at_least("LinearWarmup", "steps", steps, 0); }

  double factor(std::int64_t step) const {
    require_at_least("LinearWarmup::factor", "step", step, 1);
    return step >= steps_ ? 1 : static_cast<double>(step) / static_cast<double>(steps_);
  }
  std::int64_t steps() const noexcept { return steps_; }

 private:
  std::int64_t steps_;
};

/// The same rise, and then a fall with the inverse square root: factor(step) = min(step / steps, sqrt(steps / step)).
///
/// Times 1 / sqrt(d_model * steps) it is the learning rate of the 2017 Transformer.
///
/// Errors    throws std::invalid_argument for steps or a step below 1.
/// Source    Vaswani et al. 2017, arXiv:1706.03762, section 5.3.
class InverseSquareRootDecay {
 public:
  explicit InverseSquareRootDecay(std::int64_t steps) : steps_(steps) {
    require_at_least("InverseSquareRootDecay", "steps", steps, 1);
  }

  double factor(std::int64_t step) const {
    require_at_least("InverseSquareRootDecay::factor", "step", step, 1);
    const double progress = static_cast<double>(step) / static_cast<double>(steps_);
    return std::min(progress, 1 / std::sqrt(progress));
  }
  std::int64_t steps() const noexcept { return steps_; }

 private:
  std::int64_t steps_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
