#pragma once

#include "evenkeel/kernels/parameter_totals.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// What blocks that are summed at the same time would add to totals: for each block (a slot) the sums of its pieces,
/// kept until they can be added in the order of blocks and pieces.
template <class T>
class PieceSums {
 public:
  static std::size_t workspace_bytes(Index parameters, Index pieces, Index slots) noexcept {
    return 2 * static_cast<std::size_t>(parameters * pieces * slots) * sizeof(T) + alignof(T) - 1;
  }
  PieceSums(void* workspace, Index parameters, Index pieces) noexcept : parameters_(parameters), pieces_(pieces) {
    const auto address = reinterpret_cast<std::uintptr_t>(workspace);
    sums_ = reinterpret_cast<T*>((address + alignof(T) - 1) / alignof(T) * alignof(T));
  }

  /// A piece that is not put adds 0.
  void begin(Index slot) const noexcept { std::fill_n(at(slot, 0), 2 * pieces_ * parameters_, T(0)); }
  void put(Index slot, Index piece, Index parameter, T dgamma, T dbeta) const noexcept {
    T* sums = at(slot, piece) + parameter;
    sums[0] = dgamma;
    sums[parameters_] = dbeta;
  }
  /// Adds those of the first `slots` slots for parameters [first, last).
  void add_to(const ParameterTotals<T>& totals, Index slots, Index first, Index last) const noexcept {
    for (Index piece = 0; piece < slots * pieces_; ++piece) {
      const T* sums = at(0, piece);
      for (Index i = first; i < last; ++i) totals.add(i, sums[i], sums[parameters_ + i]);
    }
  }

 private:
  T* at(Index slot, Index piece) const noexcept { return sums_ + 2 * (slot * pieces_ + piece) * parameters_; }

  T* sums_;
  Index parameters_, pieces_;
};

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
