#pragma once

#include "evenkeel/kernels/simd.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Runs all items of a step one after another. A kernel that can share its items among threads takes whatever is called
/// like this: run(items, bytes of each, body(first, last)), where body may run on several threads at once, and run
/// returns when all items are done; and run.cuts(items, bytes of each), whether items are so few, and so large, that
/// each is better shared itself.
struct InOnePiece {
  template <class Body>
  void operator()(Index items, Index, const Body& body) const noexcept {
    body(Index(0), items);
  }
  static constexpr bool cuts(Index, Index) noexcept { return false; }
};

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
