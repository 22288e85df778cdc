#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "evenkeel/core/executor.hpp"
#include "evenkeel/core/mask_view.hpp"
#include "evenkeel/core/shape.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

class AnyKeyValueCache;

/// What a call carries besides data. Passed on unchanged by everything that calls other operations.
struct Context {
  /// Who runs the blocks of an operation: by default the caller's thread alone. Results are the same to the last bit.
  Executor executor = {};

  /// Memory that calls may use while they run, of any alignment. Empty: they allocate what they need.
  ///
  /// One workspace serves one call at a time; `workspace_bytes` of an operation says how much it takes.
  std::span<std::byte> workspace = {};

  /// Which rows (tokens) of x are valid: x without its last axis, [batch, seq]. In a block the branch of any other row
  /// is exactly 0, and the skip path goes on; in attention nobody looks at it. A padding row may hold anything, NaN
  /// too.
  MaskView mask = {};
  /// Of attention alone: which tokens may be looked at, [batch, seq]; the others are computed as all are. The inverse
  /// of key_padding_mask of torch.nn.
  MaskView key_mask = {};

  /// The keys and values of earlier tokens, of which x is the continuation. The caller's, and all that inference writes
  /// besides y.
  AnyKeyValueCache* cache = nullptr;
  /// The place of x's first token in its text, counted from 0. Default: behind what the cache holds; 0 without one.
  std::optional<Index> position = {};
};

/// Temporary memory of one call: taken from the workspace of a Context, or allocated where that is empty.
///
/// Errors    throws std::invalid_argument if there is a workspace, and it is too small: allocating after all would be
///           what the caller gave a workspace to avoid.
class Scratch {
 public:
  static constexpr std::size_t alignment = 64;

  /// What `take<T>(count)` takes of a workspace.
  template <class T>
  static std::size_t bytes(Index count) noexcept {
    return bytes_of(static_cast<std::size_t>(count) * sizeof(T));
  }
  static std::size_t bytes_of(std::size_t bytes) noexcept { return bytes == 0 ? 0 : bytes + alignment - 1; }

  Scratch(const char* where, const Context& context, std::size_t needed) : left_(context.workspace) {
    if (needed == 0) return;
    if (left_.empty()) {
      owned_ = std::make_unique_for_overwrite<std::byte[]>(needed);
      left_ = {owned_.get(), needed};
    } else if (left_.size() < needed) {
      raise_invalid_argument(where, "workspace has " + std::to_string(left_.size()) + " bytes, expected at least " +
                                        std::to_string(needed));
    }
  }

  /// Elements, to be written before they are read. Numbers that are classes are constructed, and never destroyed.
  template <class T>
  T* take(Index count) {
    auto* elements = static_cast<T*>(take_bytes(static_cast<std::size_t>(count) * sizeof(T)));
    if constexpr (!std::is_trivially_copyable_v<T>) {
      if constexpr (std::is_trivially_destructible_v<T>) {
        std::uninitialized_value_construct_n(elements, count);
      } else {
        raise_invalid_argument("Scratch",
                               "numbers that own memory cannot be copied to a workspace, expected contiguous "
                               "features and parameters in their order");
      }
    }
    return elements;
  }
  void* take_bytes(std::size_t bytes) noexcept {
    if (bytes == 0) return nullptr;
    const auto address = reinterpret_cast<std::uintptr_t>(left_.data());
    const std::size_t padding = (alignment - address % alignment) % alignment;
    void* taken = left_.data() + padding;
    left_ = left_.subspan(padding + bytes);
    return taken;
  }

  /// A context for calls inside this one: what is left is theirs.
  Context rest(const Context& context) const noexcept {
    Context inner = context;
    inner.workspace = left_;
    return inner;
  }

 private:
  std::span<std::byte> left_;
  std::unique_ptr<std::byte[]> owned_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
