#pragma once

#include <utility>

#include "evenkeel/residual/residual.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// y = x + F(N(x)): GPT-2 (Radford et al. 2019), LLaMA. The skip path is untouched: dx = dy + N'(F'(dy)).
/// @code
///   PreNorm block(LayerNorm<float>(256), FeedForward<float>(256, 1024));
/// @endcode
template <Norm N, class F>
class PreNorm : public Residual<N, F> {
 public:
  PreNorm(N norm, F sublayer) : Residual<N, F>(std::move(sublayer), {.in = std::move(norm)}) {}
};

template <class N, class F>
PreNorm(N, F) -> PreNorm<N, F>;

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
