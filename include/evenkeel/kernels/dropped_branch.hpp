#pragma once

#include <algorithm>
#include <cstdint>

#include "evenkeel/core/dropout_draw.hpp"
#include "evenkeel/kernels/simd.hpp"

/// Dropout of the branch of a residual sum, while the sum is taken: the mask is drawn as rows go by, and never stored.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// What is dropped of the branch of a sum, X being the type of its data.
template <class X>
struct BranchDrop {
  const DropoutDraw* draw = nullptr;  ///< null: nothing is dropped
  Compute<X> scale = Compute<X>(1);   ///< of what is kept
  std::uint64_t position = 0;         ///< of the first element; each row goes on where the one before has ended
};

/// Which positions are kept: 1, else 0. Drawn 128 at a time, and each of them once if they are asked for in order;
/// at most `Most` at a time.
template <class T, Index Most>
class KeptPositions {
 public:
  /// `count` from `position` on; good until the next call.
  const T* from(const DropoutDraw& draw, std::uint64_t position, Index count) noexcept {
    if (position < first_ || position > end_) first_ = end_ = position / 4 * 4;  // a draw starts at a multiple of 4
    const std::uint64_t end = position + static_cast<std::uint64_t>(count);
    if (end > end_) {
      const std::uint64_t from = position / 4 * 4;
      std::copy(kept_ + (from - first_), kept_ + (end_ - first_), kept_);
      first_ = from;
    }
    for (; end_ < end; end_ += at_once) {
      std::uint8_t kept[at_once];
      draw.keeps_run(end_, at_once, kept);
      T* to = kept_ + (end_ - first_);
      for (Index k = 0; k < at_once; ++k) to[k] = static_cast<T>(kept[k]);
    }
    return kept_ + (position - first_);
  }

 private:
  static constexpr Index at_once = 128;

  std::uint64_t first_ = 0, end_ = 0;  // what is drawn, from a multiple of 4 on
  T kept_[Most + at_once + 4];
};

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
