#pragma once

#include "evenkeel/core/arch.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Where LayerNorm and RMSNorm round to a type of 16 bits. Of float and double the two are the same.
enum class Rounding {
  once,          ///< y alone, at the very end
  before_gamma,  ///< x_hat, then y = x_hat * gamma + beta: as Llama's RMSNorm. The backward is that of `once`
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
