#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "evenkeel/core/context.hpp"
#include "evenkeel/detail/residual_sum.hpp"
#include "evenkeel/kernels/product_sums.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

template <class Scalar>
kernels::ProductSumArgs<Scalar> product_sum_args(const char* where, const TensorView<const Scalar>& ds,
                                                 const TensorView<const Scalar>& d) {
  const Axes axis(ds.order() == StorageOrder::row_major ? ds.rank() - 1 : 0);
  const Rows a = contiguous_rows(where, "ds", ds, axis), b = contiguous_rows(where, "d", d, axis);
  return {ds.data(), d.data(), a.rows, a.features, a.stride, b.stride};
}

template <class Scalar>
kernels::Compute<Scalar> product_sum(const char* where, const TensorView<const Scalar>& ds,
                                     const TensorView<const Scalar>& d) {
  kernels::ProductTotal<Scalar> total{};
  kernels::add_product_sum(product_sum_args(where, ds, d), total);
  return kernels::total_value<Scalar>(total);
}

/// Bytes of workspace for add_branch_factor_gradient.
template <class Scalar>
std::size_t branch_factor_workspace_bytes(Index factors) noexcept {
  return Scratch::bytes<kernels::ProductTotal<Scalar>>(factors);
}

/// The gradient of what the branch d of a sum is multiplied by, from that of the sum: dlambda += sum(ds * d), over all
/// elements for one factor, else over those of each index of the last axis.
template <class Scalar>
void add_branch_factor_gradient(const char* where, const TensorView<const Scalar>& ds,
                                const TensorView<const Scalar>& d, bool is_one,
                                std::span<kernels::Compute<Scalar>> dlambda, const Context& context) {
  if (is_one) {
    dlambda[0] += product_sum(where, ds, d);
  } else if (runs_across_the_last_axis(ds)) {
    for (std::size_t k = 0; k < dlambda.size(); ++k) {
      const auto index = static_cast<Index>(k);
      dlambda[k] += product_sum(where, last_slice(ds, index), last_slice(d, index));
    }
  } else {
    const auto factors = static_cast<Index>(dlambda.size());
    Scratch scratch(where, context, branch_factor_workspace_bytes<Scalar>(factors));
    auto* totals = scratch.take<kernels::ProductTotal<Scalar>>(factors);
    std::fill_n(totals, factors, kernels::ProductTotal<Scalar>{});
    kernels::add_column_product_sums(product_sum_args(where, ds, d), totals, InBlocks(context.executor));
    for (std::size_t k = 0; k < dlambda.size(); ++k) dlambda[k] += kernels::total_value<Scalar>(totals[k]);
  }
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
