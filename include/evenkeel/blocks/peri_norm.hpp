#pragma once

#include <utility>

#include "evenkeel/residual/residual.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// y = x + N_out(F(N_in(x))): Peri-LN (Kim et al. 2025, arXiv:2502.02732), Gemma 2; CogView's Sandwich-LN (Ding et al.
/// 2021, arXiv:2105.13290). The branch adds as much as gamma of N_out lets it, whatever F returns.
/// @code
///   PeriNorm block(RMSNorm<float>(256), RMSNorm<float>(256), FeedForward<float>(256, 1024));
/// @endcode
template <Norm N, class F>
class PeriNorm : public Residual<N, F> {
 public:
  PeriNorm(N norm_in, N norm_out, F sublayer)
      : Residual<N, F>(std::move(sublayer), {.in = std::move(norm_in), .branch = std::move(norm_out)}) {}
};

template <class N, class F>
PeriNorm(N, N, F) -> PeriNorm<N, F>;

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
