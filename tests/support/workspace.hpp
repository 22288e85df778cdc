// A workspace as a caller may give it, which shows whether it was written beyond.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "evenkeel/core/context.hpp"

namespace evenkeel_test {

/// `bytes` at an address that is `offset` behind the start of its memory, with a fence behind.
class Workspace {
 public:
  Workspace(std::size_t bytes, std::size_t offset)
      : memory_(offset + bytes + fence, std::byte{0x5A}), offset_(offset) {}
  evenkeel::Context context() {
    return {.workspace = std::span(memory_).subspan(offset_, memory_.size() - offset_ - fence)};
  }
  bool is_fence_intact() const {
    return std::all_of(memory_.end() - fence, memory_.end(), [](std::byte b) { return b == std::byte{0x5A}; });
  }

 private:
  static constexpr std::size_t fence = 256;
  std::vector<std::byte> memory_;
  std::size_t offset_;
};

}  // namespace evenkeel_test
