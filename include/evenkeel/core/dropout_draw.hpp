#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "evenkeel/core/random.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// The draws of a DropoutMask: which positions are kept. What the mask is to kernels.
///
/// Errors    none: `threshold` is at most 2^32.
class DropoutDraw {
 public:
  DropoutDraw() = default;
  DropoutDraw(RandomKey key, std::uint64_t step, std::uint64_t threshold) noexcept
      : key_(key), step_(step), threshold_(threshold) {}

  RandomKey key() const noexcept { return key_; }
  std::uint64_t step() const noexcept { return step_; }

  bool keeps(std::uint64_t position) const noexcept {
    if (is_constant()) return threshold_ == 0;
    return philox(key_, position / 4, step_)[position % 4] >= threshold_;
  }

  /// kept[i] = 1 if position first + i is kept, else 0.
  void keeps_run(std::uint64_t first, std::ptrdiff_t count, std::uint8_t* kept) const noexcept {
    if (is_constant()) {
      std::memset(kept, threshold_ == 0 ? 1 : 0, static_cast<std::size_t>(count));
      return;
    }
    while (count > 0) {
      std::uint8_t block[block_size];
      keeps_block(first / 4, block);
      const auto skipped = static_cast<std::ptrdiff_t>(first % 4);
      const std::ptrdiff_t taken = std::min(count, block_size - skipped);
      std::memcpy(kept, block + skipped, static_cast<std::size_t>(taken));
      first += static_cast<std::uint64_t>(taken);
      kept += taken;
      count -= taken;
    }
  }

 private:
  /// Counters side by side, so that compilers make vectors of them at -O2 too: a call of philox for each takes 5 times
  /// as long there.
  static constexpr std::ptrdiff_t lanes = 32, block_size = 4 * lanes;

  /// Whether no draw is needed: p is 0 or 1, or nearer to one of them than 2^-33.
  bool is_constant() const noexcept { return threshold_ == 0 || threshold_ == std::uint64_t{1} << 32; }

  void keeps_block(std::uint64_t counter, std::uint8_t* kept) const noexcept {
    std::uint32_t c0[lanes], c1[lanes], c2[lanes], c3[lanes];
    for (std::ptrdiff_t i = 0; i < lanes; ++i) {
      const std::uint64_t low = counter + static_cast<std::uint64_t>(i);
      c0[i] = static_cast<std::uint32_t>(low), c1[i] = static_cast<std::uint32_t>(low >> 32);
      c2[i] = static_cast<std::uint32_t>(step_), c3[i] = static_cast<std::uint32_t>(step_ >> 32);
    }
    detail::PhiloxKey key(key_);
    for (int round = 0; round < detail::philox_rounds; ++round, key.next()) {
      for (std::ptrdiff_t i = 0; i < lanes; ++i) detail::philox_round(key, c0[i], c1[i], c2[i], c3[i]);
    }
    const auto last_dropped = static_cast<std::uint32_t>(threshold_ - 1);  // 32 bits compare in vectors
    const auto is_kept = [&](std::uint32_t word) { return static_cast<std::uint8_t>(word > last_dropped); };
    for (std::ptrdiff_t i = 0; i < lanes; ++i) {
      kept[4 * i] = is_kept(c0[i]), kept[4 * i + 1] = is_kept(c1[i]);
      kept[4 * i + 2] = is_kept(c2[i]), kept[4 * i + 3] = is_kept(c3[i]);
    }
  }

  RandomKey key_;
  std::uint64_t step_ = 0;
  std::uint64_t threshold_ = 0;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
