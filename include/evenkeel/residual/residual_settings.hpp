#pragma once

#include <optional>

#include "evenkeel/residual/lambda.hpp"
#include "evenkeel/sublayers/dropout.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// The four places of a residual sublayer where a norm can stand; where there is none, values pass unchanged.
template <class Norm>
struct ResidualNorms {
  std::optional<Norm> in = {};      ///< of what F receives
  std::optional<Norm> branch = {};  ///< of what F returns
  std::optional<Norm> skip = {};    ///< of the skip path
  std::optional<Norm> trunk = {};   ///< of the sum
};

/// What a residual sublayer has besides its norms. What is not asked for costs nothing.
template <class Scalar>
struct ResidualSettings {
  double alpha = 1;            ///< factor of the skip path
  Lambda<Scalar> lambda = {};  ///< factor of the branch
  double in_scale = 1;         ///< factor behind the norm of what F receives: 1 / sqrt(l) in LayerNorm Scaling
  std::optional<Dropout<Scalar>> drop = {};  ///< of the branch, in training: per element, or per sample (DropPath)
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
