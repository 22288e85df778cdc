#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "evenkeel/core/random.hpp"
#include "evenkeel/core/shape.hpp"
#include "evenkeel/core/value_check.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// What dropout drops together.
enum class DropoutKind {
  per_element,  ///< each number by itself
  per_sample,   ///< all that has one index of axis 0: stochastic depth, "DropPath"
};

/// Which numbers dropout keeps: a function of key, step, p and a number's position alone, whatever the storage order,
/// instruction set or thread.
///
/// Position `i` has the word i % 4 of philox(key, i / 4, step), and is dropped if that is below p * 2^32, rounded. Per
/// element the position is the row-major index in the logical shape, per sample it is the index of axis 0. The default
/// keeps everything.
///
/// Cost      measured on an AMD EPYC (AVX-512): 0.8 ns for each position with -O3 -march=native, 1.3 with -O2.
/// Errors    throws std::invalid_argument if p is not in [0, 1].
/// Source    Srivastava et al. 2014, JMLR 15; per sample: Huang et al. 2016, arXiv:1603.09382.
class DropoutMask {
 public:
  DropoutMask() = default;
  DropoutMask(double p, RandomKey key, std::uint64_t step, DropoutKind kind = DropoutKind::per_element)
      : key_(key), step_(step), kind_(kind), p_(p) {
    require_share("Dropout", "p", p);
    threshold_ = static_cast<std::uint64_t>(p * 0x1p32 + 0.5);
  }

  /// Whether p is 0: nothing is drawn, and nothing scaled.
  bool keeps_all() const noexcept { return p_ == 0; }
  /// By what a kept number is multiplied, so that the mean stays: 1 / (1 - p); 0 where p is 1.
  double scale() const noexcept { return p_ < 1 ? 1 / (1 - p_) : 0; }
  double p() const noexcept { return p_; }
  RandomKey key() const noexcept { return key_; }
  std::uint64_t step() const noexcept { return step_; }
  DropoutKind kind() const noexcept { return kind_; }

  bool keeps(std::uint64_t position) const noexcept {
    if (is_constant()) return threshold_ == 0;
    return philox(key_, position / 4, step_)[position % 4] >= threshold_;
  }

  /// kept[i] = 1 if position first + i is kept, else 0.
  void keeps_run(std::uint64_t first, Index count, std::uint8_t* kept) const noexcept {
    if (is_constant()) {
      std::memset(kept, threshold_ == 0 ? 1 : 0, static_cast<std::size_t>(count));
      return;
    }
    while (count > 0) {
      std::uint8_t block[block_size];
      keeps_block(first / 4, block);
      const auto skipped = static_cast<Index>(first % 4);
      const Index taken = std::min(count, block_size - skipped);
      std::memcpy(kept, block + skipped, static_cast<std::size_t>(taken));
      first += static_cast<std::uint64_t>(taken);
      kept += taken;
      count -= taken;
    }
  }

 private:
  /// Counters side by side, so that compilers make vectors of them at -O2 too: a call of philox for each takes 5 times
  /// as long there.
  static constexpr Index lanes = 32, block_size = 4 * lanes;

  /// Whether no draw is needed: p is 0 or 1, or nearer to one of them than 2^-33.
  bool is_constant() const noexcept { return threshold_ == 0 || threshold_ == std::uint64_t{1} << 32; }

  void keeps_block(std::uint64_t counter, std::uint8_t* kept) const noexcept {
    std::uint32_t c0[lanes], c1[lanes], c2[lanes], c3[lanes];
    for (Index i = 0; i < lanes; ++i) {
      const std::uint64_t low = counter + static_cast<std::uint64_t>(i);
      c0[i] = static_cast<std::uint32_t>(low), c1[i] = static_cast<std::uint32_t>(low >> 32);
      c2[i] = static_cast<std::uint32_t>(step_), c3[i] = static_cast<std::uint32_t>(step_ >> 32);
    }
    detail::PhiloxKey key(key_);
    for (int round = 0; round < detail::philox_rounds; ++round, key.next()) {
      for (Index i = 0; i < lanes; ++i) detail::philox_round(key, c0[i], c1[i], c2[i], c3[i]);
    }
    const auto last_dropped = static_cast<std::uint32_t>(threshold_ - 1);  // 32 bits compare in vectors
    const auto is_kept = [&](std::uint32_t word) { return static_cast<std::uint8_t>(word > last_dropped); };
    for (Index i = 0; i < lanes; ++i) {
      kept[4 * i] = is_kept(c0[i]), kept[4 * i + 1] = is_kept(c1[i]);
      kept[4 * i + 2] = is_kept(c2[i]), kept[4 * i + 3] = is_kept(c3[i]);
    }
  }

  RandomKey key_;
  std::uint64_t step_ = 0;
  DropoutKind kind_ = DropoutKind::per_element;
  double p_ = 0;
  std::uint64_t threshold_ = 0;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
