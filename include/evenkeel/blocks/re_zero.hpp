#pragma once

#include <utility>

#include "evenkeel/residual/residual.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// y = x + lambda * F(x), lambda a learned number that starts from 0 (Bachlechner et al. 2020, arXiv:2003.04887).
///
/// The block starts as the identity; in the first step only lambda learns. No norm; N is that of the stack it can be
/// part of.
/// @code
///   ReZero<LayerNorm<float>, FeedForward<float>> block(FeedForward<float>(256, 1024));
/// @endcode
template <Norm N, class F>
class ReZero : public Residual<N, F> {
 public:
  explicit ReZero(F sublayer)
      : Residual<N, F>(std::move(sublayer), {}, {.lambda = Lambda<typename N::Scalar>::learned_scalar(0)}) {}
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
