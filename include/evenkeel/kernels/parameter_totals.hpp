#pragma once

#include <memory>

#include "evenkeel/kernels/simd.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// dgamma and dbeta in the making: a sum for each parameter, of numbers that are sums themselves.
template <class T>
class ParameterTotals {
 public:
  static std::size_t workspace_bytes(Index parameters) noexcept {
    return 2 * static_cast<std::size_t>(parameters) * sizeof(Total) + alignment - 1;
  }
  /// `workspace` is null if no parameter has a gradient: then nothing may be added or written.
  ParameterTotals(void* workspace, Index parameters) noexcept : parameters_(parameters) {
    if (!workspace) return;
    const auto address = reinterpret_cast<std::uintptr_t>(workspace);
    totals_ = reinterpret_cast<Total*>((address + alignment - 1) / alignment * alignment);
    std::uninitialized_fill_n(totals_, 2 * parameters, Total());
  }
  void add(Index parameter, Wide<T> dgamma, Wide<T> dbeta) const noexcept {
    totals_[parameter].add(dgamma);
    totals_[parameters_ + parameter].add(dbeta);
  }
  void write(T* dgamma, bool add_dgamma, T* dbeta, bool add_dbeta) const noexcept {
    write(totals_, dgamma, add_dgamma);
    write(totals_ + parameters_, dbeta, add_dbeta);
  }

 private:
  using Total = WideSum<Wide<T>>;
  static constexpr std::uintptr_t alignment = alignof(Total);

  void write(const Total* totals, T* out, bool add) const noexcept {
    if (!out) return;
    for (Index i = 0; i < parameters_; ++i) {
      const Wide<T> total = totals[i].value();
      out[i] = static_cast<T>(add ? out[i] + total : total);
    }
  }

  Total* totals_ = nullptr;
  Index parameters_;
};

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
