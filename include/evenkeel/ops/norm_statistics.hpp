#pragma once

#include <vector>

#include "evenkeel/core/number_types.hpp"
#include "evenkeel/core/shape.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// The default of every norm's eps, for every type: PyTorch's for LayerNorm, and within the root as there.
inline constexpr double default_eps = 1e-5;

/// What a training forward of LayerNorm or RMSNorm keeps of each row for its backward.
///
/// Used again for a tensor of the same shape it allocates nothing.
///
/// Units     numbers are of the type that x is computed in: float where Scalar has 16 bits.
template <class Scalar>
struct NormStatistics {
  using Number = kernels::Compute<Scalar>;
  Shape shape;                    ///< of x; rank 0 before the first forward
  std::vector<Number> mean;       ///< [rows]; empty for RMSNorm, as mean_rest
  std::vector<Number> mean_rest;  ///< [rows]: mean + mean_rest is the mean with twice Number's digits
  std::vector<Number> rstd;       ///< [rows]: 1 / sqrt(var + eps), or 1 / sqrt(mean square + eps)
  int first_axis = 0, axes = 0;   ///< that were normalized together; 0 axes: not known, and not checked

  bool is_empty() const noexcept { return shape.rank() == 0; }
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
