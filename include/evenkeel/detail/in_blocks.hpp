#pragma once

#include <algorithm>

#include "evenkeel/core/executor.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// Cuts the items of a step (rows, groups of lanes, elements) into blocks, and has an executor run them. Blocks come
/// from sizes alone: at most 64, and at least 128 KiB of data each, which take as long as it takes to wake a thread (5
/// to 10 us); so small steps stay on the caller's thread.
class InBlocks {
 public:
  static constexpr Index most_blocks = 64, least_bytes = Index{128} << 10;

  explicit InBlocks(const Executor& executor) noexcept : executor_(executor) {}

  /// body(first item, last item), for ranges that are all of [0, items) together.
  template <class Body>
  void operator()(Index items, Index item_bytes, const Body& body) const {
    if (executor_.is_serial()) return items > 0 ? body(Index(0), items) : void();
    const Index per_block = std::max(least_items(item_bytes), divided_up(items, most_blocks));
    executor_.run(divided_up(items, per_block),
                  [&](Index first, Index last) { body(first * per_block, std::min(last * per_block, items)); });
  }

  /// The same for numbers that follow one another; `element_bytes` are more where one takes longer than to copy. Bounds
  /// between ranges are multiples of whatever compilers make vectors of, so that no number is computed by the rest of a
  /// loop in one case, and not in the other.
  template <class Body>
  void elements(Index count, Index element_bytes, const Body& body) const {
    constexpr Index together = 1024;
    (*this)(divided_up(count, together), together * element_bytes,
            [&](Index first, Index last) { body(first * together, std::min(last * together, count)); });
  }

  /// Whether items are so few that threads could be idle, and so large that each is better cut itself, which takes two
  /// steps where one would do.
  bool cuts(Index items, Index item_bytes) const noexcept {
    return !executor_.is_serial() && items < 16 && item_bytes >= 4 * least_bytes;
  }

  /// As many items as make the most blocks of the least size.
  static Index most_items(Index item_bytes) noexcept { return most_blocks * least_items(item_bytes); }

 private:
  static Index divided_up(Index a, Index b) noexcept { return (a + b - 1) / b; }
  static Index least_items(Index item_bytes) noexcept {
    return divided_up(least_bytes, std::max<Index>(item_bytes, 1));
  }

  Executor executor_;
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
