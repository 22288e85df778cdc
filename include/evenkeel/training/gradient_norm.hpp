#pragma once

#include <limits>
#include <string>
#include <type_traits>

#include "evenkeel/core/parameter.hpp"
#include "evenkeel/detail/euclidean_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// The Euclidean norm of all gradients of a model together: sqrt(sum of squares). 0 where there is no gradient yet.
///
/// The model is anything that for_each_parameter visits.
///
/// Numerics  summed in double; gradients of any magnitude, squares beyond the range of double too. NaN if a gradient
///           has a NaN, else infinite if one is infinite.
/// Cost      gradients read once; no allocation.
template <class Model>
double gradient_norm(Model& model) {
  return detail::euclidean_norm([&](const auto& visit) {
    for_each_parameter(model, [&](const std::string&, const auto& parameter) { visit(parameter.gradient()); });
  });
}

/// Scales all gradients of a model by one factor, min(1, max_norm / (norm + 1e-6)), so that their norm is at most
/// max_norm. Returns the norm before.
///
/// If that is NaN or infinite there is no such factor: gradients stay as they are, and the caller decides, for instance
/// to leave out this update.
/// @code
///   const double norm = clip_gradient_norm(model, 1.0);
///   if (std::isfinite(norm)) optimizer.step(model);
/// @endcode
///
/// Units     max_norm is in units of gradients.
/// Errors    throws std::invalid_argument, before anything is written, if max_norm is negative or NaN.
/// Source    Pascanu, Mikolov, Bengio 2013, arXiv:1211.5063; agrees with torch.nn.utils.clip_grad_norm_ for finite
///           norms.
template <class Model>
double clip_gradient_norm(Model& model, double max_norm) {
  if (!(max_norm >= 0)) {
    raise_invalid_argument("clip_gradient_norm",
                           "max_norm is " + std::to_string(max_norm) + ", expected a number of at least 0");
  }
  const double norm = gradient_norm(model);
  const double factor = max_norm / (norm + 1e-6);
  if (!(norm <= std::numeric_limits<double>::max()) || factor >= 1) return norm;
  for_each_parameter(model, [&](const std::string&, auto& parameter) {
    for (auto& g : parameter.mutable_gradient()) {
      using Number = std::remove_reference_t<decltype(g)>;
      g = kernels::from_compute<Number>(
          static_cast<kernels::Compute<Number>>(factor * static_cast<double>(kernels::to_compute(g))));
    }
  });
  return norm;
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
