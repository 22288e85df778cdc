#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "evenkeel/core/value_check.hpp"
#include "evenkeel/detail/optimizer_state.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// Throws std::invalid_argument unless a setting can be the share of the past in a running average.
inline void require_share_of_past(const char* where, const char* name, double value) {
  if (!(value >= 0 && value < 1)) raise_value(where, name, value, "at least 0 and below 1");
}

/// What every optimizer is. `Rule` derives from it, has the name of its step for the texts of errors, and says by
/// update(rate, values, gradient, entry) how one parameter changes.
template <class Rule, class Scalar, class Settings>
class Optimizer {
  static_assert(std::is_floating_point_v<Scalar>, "evenkeel: an optimizer is of float or double parameters");

 public:
  /// One update of every parameter that has a gradient, at learning_rate * rate_factor. Gradients stay as they are.
  template <class Model>
  void step(Model& model, double rate_factor = 1) {
    require_not_negative(Rule::step_name, "rate_factor", rate_factor);
    const double rate = settings_.learning_rate * rate_factor;
    state_.update_each(Rule::step_name, model,
                       [&](std::span<Scalar> values, std::span<const Scalar> gradient, Entry& entry) {
                         static_cast<const Rule&>(*this).update(rate, values, gradient, entry);
                       });
  }

  const Settings& settings() const noexcept { return settings_; }

 protected:
  using Entry = typename OptimizerState<Scalar>::Entry;

  /// `arrays` is how many numbers are kept of each one of a parameter.
  Optimizer(const Settings& settings, std::size_t arrays) : settings_(settings), state_(arrays) {}

 private:
  Settings settings_;
  OptimizerState<Scalar> state_;
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
