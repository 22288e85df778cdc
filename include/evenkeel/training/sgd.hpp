#pragma once

#include <cstddef>
#include <span>

#include "evenkeel/detail/optimizer.hpp"

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
class SGD : public detail::Optimizer<SGD<Scalar>, Scalar, SGDSettings> {
  using Base = detail::Optimizer<SGD, Scalar, SGDSettings>;

 public:
  explicit SGD(const SGDSettings& settings = {}) : Base(settings, settings.momentum == 0 ? 0 : 1) {
    require_not_negative("SGD", "learning_rate", settings.learning_rate);
    detail::require_share_of_past("SGD", "momentum", settings.momentum);
    require_not_negative("SGD", "weight_decay", settings.weight_decay);
    if (settings.nesterov && settings.momentum == 0) {
      raise_invalid_argument("SGD", "momentum is 0, expected more with nesterov");
    }
  }

 private:
  friend Base;
  using typename Base::Entry;
  static constexpr const char* step_name = "SGD::step";

  void update(double rate, std::span<Scalar> values, std::span<const Scalar> gradient, Entry& entry) const {
    const auto [learning_rate, momentum, weight_decay, nesterov] = this->settings();
    Scalar* velocity = entry.arrays.empty() ? nullptr : entry.arrays[0].data();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double w = static_cast<double>(values[i]);
      const double d = static_cast<double>(gradient[i]) + weight_decay * w;
      double change = d;
      if (velocity) {
        const double sum = momentum * static_cast<double>(velocity[i]) + d;
        velocity[i] = static_cast<Scalar>(sum);
        change = nesterov ? d + momentum * sum : sum;
      }
      values[i] = static_cast<Scalar>(w - rate * change);
    }
  }
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
