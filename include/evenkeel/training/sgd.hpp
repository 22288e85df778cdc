#pragma once

#include <span>
#include <type_traits>

#include "evenkeel/detail/optimizer_state.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Rates of SGD; the defaults are those of torch.optim.SGD.
struct SGDSettings {
  double learning_rate = 1e-3;
  double momentum = 0;      ///< share of the past in the velocity; 0: none is kept
  double weight_decay = 0;  ///< added to the gradient, times the value
  bool nesterov = false;    ///< looks ahead along the velocity
};

/// Stochastic gradient descent with momentum. A step of a parameter w with gradient g:
///
///   d = g + weight_decay * w;   velocity = momentum * velocity + d
///   w = w - rate * velocity, or with nesterov w - rate * (d + momentum * velocity)
///
/// The velocity starts at 0 and is kept as Scalars, the rest is computed in double. One optimizer is for one model,
/// anything that for_each_parameter visits. Parameters without a gradient are left out.
///
/// Errors    as AdamW; throws std::invalid_argument for nesterov without momentum too.
/// Source    Sutskever et al. 2013, "On the importance of initialization and momentum in deep learning"; agrees with
///           torch.optim.SGD without dampening.
template <class Scalar>
class SGD {
  static_assert(std::is_floating_point_v<Scalar>, "evenkeel: an optimizer is of float or double parameters");

 public:
  explicit SGD(const SGDSettings& settings = {}) : settings_(settings), state_(settings.momentum == 0 ? 0 : 1) {
    detail::require_not_negative("SGD", "learning_rate", settings.learning_rate);
    detail::require_share_of_past("SGD", "momentum", settings.momentum);
    detail::require_not_negative("SGD", "weight_decay", settings.weight_decay);
    if (settings.nesterov && settings.momentum == 0) {
      raise_invalid_argument("SGD", "momentum is 0, expected more with nesterov");
    }
  }

  /// One update of every parameter that has a gradient, at learning_rate * rate_factor. Gradients stay as they are.
  template <class Model>
  void step(Model& model, double rate_factor = 1) {
    detail::require_not_negative("SGD::step", "rate_factor", rate_factor);
    const double rate = settings_.learning_rate * rate_factor;
    state_.update_each("SGD::step", model,
                       [&](std::span<Scalar> values, std::span<const Scalar> gradient, Entry& entry) {
                         update(rate, values, gradient, entry);
                       });
  }

  const SGDSettings& settings() const noexcept { return settings_; }

 private:
  using State = detail::OptimizerState<Scalar>;
  using Entry = typename State::Entry;

  void update(double rate, std::span<Scalar> values, std::span<const Scalar> gradient, Entry& entry) const {
    Scalar* velocity = entry.arrays.empty() ? nullptr : entry.arrays[0].data();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double w = static_cast<double>(values[i]);
      const double d = static_cast<double>(gradient[i]) + settings_.weight_decay * w;
      values[i] = static_cast<Scalar>(w - rate * (velocity ? accelerated(velocity[i], d) : d));
    }
  }
  double accelerated(Scalar& velocity, double d) const {
    const double sum = settings_.momentum * static_cast<double>(velocity) + d;
    velocity = static_cast<Scalar>(sum);
    return settings_.nesterov ? d + settings_.momentum * sum : sum;
  }

  SGDSettings settings_;
  State state_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
