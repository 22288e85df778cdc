#pragma once

#include <memory>

#include "evenkeel/kernels/simd.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// dgamma and dbeta in the making: totals over all that have a parameter in common.
template <class T>
class ParameterTotals {
 public:
  static std::size_t workspace_bytes(Index parameters) noexcept {
    return 2 * static_cast<std::size_t>(parameters) * sizeof(Total) + alignment - 1;
  }
  /// The workspace has workspace_bytes, at any address; null if nothing is going to be added.
  ParameterTotals(void* workspace, Index parameters) noexcept : parameters_(parameters) {
    if (!workspace) return;
    const auto address = reinterpret_cast<std::uintptr_t>(workspace);
    gamma_ = reinterpret_cast<Total*>((address + alignment - 1) / alignment * alignment);
    beta_ = gamma_ + parameters;
    std::uninitialized_fill_n(gamma_, 2 * parameters, Total());
  }
  /// The totals from a parameter on.
  ParameterTotals from(Index first) const noexcept {
    ParameterTotals some = *this;
    some.gamma_ += first, some.beta_ += first, some.parameters_ -= first;
    return some;
  }
  void add(Index parameter, Wide<T> dgamma, Wide<T> dbeta) const noexcept {
    gamma_[parameter].add(dgamma);
    beta_[parameter].add(dbeta);
  }
  /// P is T, or a type of 16 bits: rounded once.
  template <class P>
  void write(P* dgamma, bool add_dgamma, P* dbeta, bool add_dbeta) const noexcept {
    write(gamma_, dgamma, add_dgamma);
    write(beta_, dbeta, add_dbeta);
  }

 private:
  using Total = WideSum<Wide<T>>;
  static constexpr std::uintptr_t alignment = alignof(Total);

  template <class P>
  void write(const Total* totals, P* out, bool add) const noexcept {
    if (!out) return;
    for (Index i = 0; i < parameters_; ++i) {
      const Wide<T> total = totals[i].value();
      out[i] = from_compute<P>(static_cast<T>(add ? to_compute(out[i]) + total : total));
    }
  }

  Index parameters_;
  Total *gamma_ = nullptr, *beta_ = nullptr;
};

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
