#pragma once

#include "evenkeel/kernels/simd.hpp"

/// dgamma and dbeta of rows in the making.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Rows whose parameter gradients are summed in the type of computation before they are added up in double.
inline constexpr Index chunk_rows = 128;

/// The sums of one chunk of rows: [features] each.
template <class T>
struct ChunkSums {
  T *dgamma = nullptr, *dbeta = nullptr;

  ChunkSums from(Index feature) const noexcept { return {dgamma + feature, dbeta + feature}; }
};

/// Parameter gradients in the making: the sums of some chunks at a time, each in a slot of its own, and the totals to
/// which they are added in the order of chunks, so that bits depend neither on the number of slots nor on who fills
/// them.
template <class T>
class ParameterSums {
 public:
  static std::size_t workspace_bytes(Index rows, Index features, Index slots) noexcept {
    const auto per_array = static_cast<std::size_t>(stride_of(features)) * static_cast<std::size_t>(slots) * sizeof(T);
    const std::size_t per_total = rows > chunk_rows ? static_cast<std::size_t>(features) * sizeof(Wide<T>) : 0;
    return 4 * alignment + 2 * (per_array + per_total);
  }

  ParameterSums(void* workspace, Index rows, Index features, Index slots) noexcept
      : features_(features), stride_(stride_of(features)) {
    Carver carve{static_cast<char*>(workspace)};
    for (Sum* sum : {&gamma_, &beta_}) {
      sum->chunks = carve.template row<T>(slots * stride_);
      if (rows > chunk_rows) sum->total = carve.template row<Wide<T>>(features);
    }
  }

  /// The sums of a slot, which are 0 now.
  ChunkSums<T> begin(Index slot) const noexcept {
    const ChunkSums<T> sums = at(slot);
    clear(sums, 0, features_);
    return sums;
  }
  ChunkSums<T> at(Index slot) const noexcept { return {gamma_.chunks + slot * stride_, beta_.chunks + slot * stride_}; }
  /// Sets the sums of features [first, last) to 0.
  static void clear(const ChunkSums<T>& sums, Index first, Index last) noexcept {
    for (T* sum : {sums.dgamma, sums.dbeta}) std::fill(sum + first, sum + last, T(0));
  }
  /// Adds the first `count` slots to the totals of features [first, last).
  void merge(Index count, bool is_first, Index first, Index last) const noexcept {
    for (const Sum* sum : {&gamma_, &beta_}) {
      for (Index slot = 0; sum->total && slot < count; ++slot) {
        const T* chunk = sum->chunks + slot * stride_;
        const bool starts = is_first && slot == 0;
        for (Index j = first; j < last; ++j) sum->total[j] = (starts ? 0 : sum->total[j]) + chunk[j];
      }
    }
  }
  /// Writes those of features [first, last).
  template <class P>
  void write(P* dgamma, bool add_dgamma, P* dbeta, bool add_dbeta, Index first, Index last) const noexcept {
    write(gamma_, dgamma, add_dgamma, first, last);
    write(beta_, dbeta, add_dbeta, first, last);
  }

 private:
  static constexpr std::size_t alignment = 64;
  struct Sum {
    T* chunks = nullptr;
    Wide<T>* total = nullptr;  ///< null where one chunk is all
  };
  struct Carver {
    char* next;
    template <class U>
    U* row(Index count) noexcept {
      const auto address = reinterpret_cast<std::uintptr_t>(next);
      char* aligned = next + (alignment - address % alignment) % alignment;
      next = aligned + static_cast<std::size_t>(count) * sizeof(U);
      return reinterpret_cast<U*>(aligned);
    }
  };

  /// Slots have cache lines of their own.
  static Index stride_of(Index features) noexcept {
    constexpr Index line = static_cast<Index>(alignment / sizeof(T));
    return (features + line - 1) / line * line;
  }

  template <class P>
  static void write(const Sum& sum, P* out, bool add, Index first, Index last) noexcept {
    if (!out) return;
    sum.total ? write(sum.total, out, add, first, last) : write(sum.chunks, out, add, first, last);
  }
  template <class U, class P>
  static void write(const U* sums, P* out, bool add, Index first, Index last) noexcept {
    for (Index j = first; j < last; ++j) {
      const Wide<T> value = sums[j];
      out[j] = from_compute<P>(static_cast<T>(add ? to_compute(out[j]) + value : value));
    }
  }

  Index features_, stride_;
  Sum gamma_, beta_;
};

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
