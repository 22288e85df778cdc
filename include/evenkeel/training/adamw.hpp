#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include "evenkeel/detail/optimizer.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Rates and averages of AdamW; the defaults are those of torch.optim.AdamW.
struct AdamWSettings {
  double learning_rate = 1e-3;
  double beta1 = 0.9;          ///< share of the past in the running mean of gradients
  double beta2 = 0.999;        ///< the same of their squares
  double eps = 1e-8;           ///< in units of gradients, outside the root
  double weight_decay = 1e-2;  ///< times the learning rate: the share of a value that one step takes away
};

/// Adam with decoupled weight decay. Step t of a parameter w with gradient g:
///
///   m = beta1 * m + (1 - beta1) * g;   v = beta2 * v + (1 - beta2) * g^2
///   w = (1 - rate * weight_decay) * w - rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
///
/// m and v start at 0 and are kept as Scalars, the rest is computed in double. One optimizer is for one model, anything
/// that for_each_parameter visits. Parameters without a gradient are left out, and their t does not count. To train a
/// part of a model, give that part.
/// @code
///   AdamW<float> optimizer({.learning_rate = 3e-4});
///   for (int step = 1; step <= steps; ++step) {
///     zero_gradients(stack);
///     ...  // forward and backward
///     optimizer.step(stack, warmup.factor(step));
///   }
/// @endcode
///
/// Errors    throws std::invalid_argument if a setting is out of its range; and, before anything is written, if a
///           parameter is mapped from const memory or the model's parameters are not those of the first step.
/// Source    Loshchilov, Hutter 2019, arXiv:1711.05101; agrees with torch.optim.AdamW.
template <class Scalar>
class AdamW : public detail::Optimizer<AdamW<Scalar>, Scalar, AdamWSettings> {
  using Base = detail::Optimizer<AdamW, Scalar, AdamWSettings>;

 public:
  explicit AdamW(const AdamWSettings& settings = {}) : Base(settings, 2) {
    require_not_negative("AdamW", "learning_rate", settings.learning_rate);
    detail::require_share_of_past("AdamW", "beta1", settings.beta1);
    detail::require_share_of_past("AdamW", "beta2", settings.beta2);
    require_not_negative("AdamW", "eps", settings.eps);
    require_not_negative("AdamW", "weight_decay", settings.weight_decay);
  }

 private:
  friend Base;
  using typename Base::Entry;
  static constexpr const char* step_name = "AdamW::step";

  void update(double rate, std::span<Scalar> values, std::span<const Scalar> gradient, Entry& entry) const {
    const auto [learning_rate, beta1, beta2, eps, weight_decay] = this->settings();
    const double t = static_cast<double>(entry.steps);
    const double mean_rate = rate / (1 - std::pow(beta1, t)), rms_factor = 1 / std::sqrt(1 - std::pow(beta2, t));
    const double kept = 1 - rate * weight_decay;
    Scalar *m = entry.arrays[0].data(), *v = entry.arrays[1].data();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double g = static_cast<double>(gradient[i]);
      const double mean = beta1 * static_cast<double>(m[i]) + (1 - beta1) * g;
      const double square = beta2 * static_cast<double>(v[i]) + (1 - beta2) * g * g;
      m[i] = static_cast<Scalar>(mean);
      v[i] = static_cast<Scalar>(square);
      const double change = mean_rate * mean / (std::sqrt(square) * rms_factor + eps);
      values[i] = static_cast<Scalar>(kept * static_cast<double>(values[i]) - change);
    }
  }
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
