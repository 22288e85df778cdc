#pragma once

#include <algorithm>

#include "evenkeel/kernels/in_one_piece.hpp"
#include "evenkeel/kernels/row_norm_any.hpp"

/// What the gradient of a factor is: sums of products, of all elements or of each feature's.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Data is of type X: float, double, one of 16 bits, which is computed in float, or any other type of numbers.
template <class X>
struct ProductSumArgs {
  const X* a;  ///< [rows, features], rows a_stride apart
  const X* b;  ///< [rows, features], rows b_stride apart
  Index rows, features, a_stride, b_stride;
};

/// A total in the making: in double, or wider.
template <class X>
using ProductTotal = std::conditional_t<is_vectorized<X>, WideSum<double>, X>;

/// The sum of a * b over `n` contiguous elements, added to a total.
template <class Arch, class X>
inline void add_products(const X* a, const X* b, Index n, ProductTotal<X>& total) noexcept {
  if constexpr (is_vectorized<X>) {
    using T = Compute<X>;
    using S = Simd<Arch, T>;
    constexpr Index block = block_columns<Arch, T>;
    for (Index first = 0; first < n; first += block) {
      typename S::Batch sums[accumulators];
      for (auto& sum : sums) sum = S::broadcast(T(0));
      for_each_vector<Arch, T, accumulators>(std::min(block, n - first), [&](auto k, Index j, auto lanes) {
        sums[k] = S::fma(lanes.load(a + first + j), lanes.load(b + first + j), sums[k]);
      });
      for (const auto& sum : sums) total.add(S::sum(sum));
    }
  } else {
    for (Index j = 0; j < n; ++j) total += X(a[j] * b[j]);
  }
}

/// The sum of a * b over all elements.
///
/// Numerics  products are added in chains of 32 at most, and these in double (of doubles: with the rounding errors
///           carried along).
/// Cost      a and b read once; no allocation.
/// Errors    none: sizes are the caller's duty.
template <class Arch = native, class X>
[[gnu::flatten]] inline void add_product_sum(const ProductSumArgs<X>& args, ProductTotal<X>& total) noexcept {
  for (Index i = 0; i < args.rows; ++i) {
    add_products<Arch>(args.a + i * args.a_stride, args.b + i * args.b_stride, args.features, total);
  }
}

/// Rows whose products are added up before the sums are merged in double.
inline constexpr Index product_rows = 32;

/// The sums of a few rows, added to the totals of their columns.
template <class Arch, class X>
inline void add_row_products(const ProductSumArgs<X>& args, Index first, Index last, ProductTotal<X>* totals) noexcept {
  using T = Compute<X>;
  using S = Simd<Arch, T>;
  for_each_vector<Arch, T, 1>(args.features, [&](auto, Index j, auto lanes) {
    auto sum = S::broadcast(T(0));
    for (Index i = first; i < last; ++i) {
      sum = S::fma(lanes.load(args.a + i * args.a_stride + j), lanes.load(args.b + i * args.b_stride + j), sum);
    }
    T sums[S::width];
    S::store(sums, sum);
    for (Index k = 0; k < std::min(S::width, args.features - j); ++k) totals[j + k].add(sums[k]);
  });
}

/// add_column_product_sums, of all columns.
template <class Arch, class X>
[[gnu::flatten]] inline void add_columns(const ProductSumArgs<X>& args, ProductTotal<X>* totals) noexcept {
  if constexpr (is_vectorized<X>) {
    for (Index first = 0; first < args.rows; first += product_rows) {
      add_row_products<Arch>(args, first, std::min(first + product_rows, args.rows), totals);
    }
  } else {
    for (Index i = 0; i < args.rows; ++i) {
      for (Index j = 0; j < args.features; ++j) {
        totals[j] += X(args.a[i * args.a_stride + j] * args.b[i * args.b_stride + j]);
      }
    }
  }
}

/// The sums of a * b over the rows, for each feature: totals [features], added to. Columns are summed by `run`, see
/// InOnePiece.
///
/// Numerics, cost and errors as add_product_sum.
template <class Arch = native, class X, class Run = InOnePiece>
inline void add_column_product_sums(const ProductSumArgs<X>& args, ProductTotal<X>* totals,
                                    const Run& run = {}) noexcept {
  constexpr Index line = std::max<Index>(1, 64 / static_cast<Index>(sizeof(X)));  // columns of one cache line
  run((args.features + line - 1) / line, args.rows * line * static_cast<Index>(sizeof(X)),
      [&](Index first, Index last) {
        const Index start = first * line;
        auto columns = args;
        columns.a += start, columns.b += start;
        columns.features = std::min(last * line, args.features) - start;
        add_columns<Arch>(columns, totals + start);
      });
}

/// A total as a number.
template <class X>
inline Compute<X> total_value(const ProductTotal<X>& total) noexcept {
  if constexpr (is_vectorized<X>) {
    return static_cast<Compute<X>>(total.value());
  } else {
    return total;
  }
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
