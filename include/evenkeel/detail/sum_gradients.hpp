#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "evenkeel/detail/branch_factor_gradient.hpp"

/// The backward of a residual sum s = alpha * x + lambda * drop(h + bias), on all of it or on some rows at a time.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// The gradients of a sum that are asked for.
template <class Scalar>
struct SumGradientsWanted {
  TensorGradient<Scalar> dx, dh;
  ParameterGradient<Scalar> dlambda, dbias;

  bool any_parameter() const noexcept { return dlambda.is_wanted() || dbias.is_wanted(); }
  bool any() const noexcept { return dx.is_wanted() || dh.is_wanted() || any_parameter(); }
};

/// The tensors of a sum's backward, all alike. Those that are not there have no memory.
template <class Scalar>
struct SumTensors {
  TensorView<Scalar> ds;  ///< the gradient of the sum; dx or dh may be the same memory
  TensorView<const Scalar> h;
  TensorView<Scalar> dx, dh;

  /// Where they are matrices: rows [first, first + count).
  SumTensors rows(Index first, Index count) const noexcept {
    return {rows_of(ds, first, count), rows_of(h, first, count), rows_of(dx, first, count), rows_of(dh, first, count)};
  }

 private:
  template <class S>
  static TensorView<S> rows_of(const TensorView<S>& view, Index first, Index count) noexcept {
    if (!view.data()) return {};
    return {view.data() + first * view.stride(0), count, view.shape()[1], view.stride(0)};
  }
};

/// The axis along which elements are contiguous.
template <class Scalar>
int fastest_axis(const TensorView<Scalar>& view) noexcept {
  return view.order() == StorageOrder::row_major ? view.rank() - 1 : 0;
}

/// dx = alpha * ds, dh = lambda * ds, dlambda = sum of ds * (h + bias), dbias = lambda * sum of ds.
///
/// With a drop d = drop(h + bias) and dh = drop(lambda * ds) are made again, block by block, and rounded as if they
/// were stored: dlambda = sum of ds * d, dbias = sum of dh.
template <class Scalar>
class SumGradients {
 public:
  using T = kernels::Compute<Scalar>;
  using Total = kernels::ProductTotal<Scalar>;

  SumGradients(const char* where, double alpha, const BranchFactor<T>& factor, const DropoutMask& drop,
               const SumGradientsWanted<Scalar>& wanted, bool has_one_lambda, const TensorView<const Scalar>& s)
      : where_(where),
        alpha_(alpha),
        factor_(factor),
        drop_(drop),
        wanted_(wanted),
        has_one_lambda_(has_one_lambda),
        last_(s.shape()[s.rank() - 1]),
        fastest_(s.shape()[fastest_axis(s)]),
        size_(s.size()) {}

  std::size_t workspace_bytes() const noexcept {
    return (wanted_.dlambda.is_wanted() ? Scratch::bytes<Total>(has_one_lambda_ ? 1 : last_) : 0) +
           (needs_sums() ? Scratch::bytes<Total>(last_) + Scratch::bytes<Scalar>(fastest_) : 0) +
           (needs_dropped() ? Scratch::bytes<Scalar>(size_) : 0);
  }
  /// Before the first run.
  void begin(Scratch& scratch) {
    if (wanted_.dlambda.is_wanted()) products_ = totals(has_one_lambda_ ? 1 : last_, scratch);
    if (needs_dropped()) dropped_ = scratch.take<Scalar>(size_);
    if (!needs_sums()) return;
    sums_ = totals(last_, scratch);
    ones_ = scratch.take<Scalar>(fastest_);
    std::fill_n(ones_, fastest_, kernels::from_compute<Scalar>(T(1.0)));
  }

  /// Whether any of it needs the columns of a matrix to be the last axis.
  bool has_vectors() const noexcept { return factor_.has_vectors() || wanted_.any_parameter(); }
  /// Whether it can be run on rows alone.
  bool drops_along_rows(const TensorView<Scalar>& ds) const noexcept { return detail::drops_along_rows(drop_, ds); }
  /// Whether runs share sums or memory: then they follow one another, and what is parallel is inside of them.
  bool is_in_order() const noexcept { return needs_sums() || products_ || dropped_; }
  /// Sums of columns are merged after so many rows: where rows come in pieces, these are multiples of them.
  bool sums_columns() const noexcept { return needs_sums() || (products_ && !has_one_lambda_); }

  /// Writes dx and dh, and adds to the sums of parameters. What is written over ds comes last. `t` is all, or some rows
  /// from a position on.
  void run(const SumTensors<Scalar>& t, const Executor& executor, Index first_position = 0) {
    add_products(t, executor, first_position);
    const bool is_dx_last = t.dx.data() == t.ds.data();
    if (!is_dx_last) write_dx(t, executor);
    drop_.keeps_all() ? write_dh(t, executor) : write_dropped_dh(t, executor, first_position);
    if (is_dx_last) write_dx(t, executor);
  }

  /// Writes the gradients of the parameters, after the last run.
  void finish() {
    if (wanted_.dlambda.is_wanted()) {
      for (Index k = 0; sums_bias() && k < last_; ++k) add(products_[has_one_lambda_ ? 0 : k], bias(k), sums_[k]);
      for (Index k = 0; k < (has_one_lambda_ ? 1 : last_); ++k) store(wanted_.dlambda, k, products_[k]);
    }
    for (Index k = 0; wanted_.dbias.is_wanted() && k < last_; ++k) {
      Total total{};
      add(total, !drop_.keeps_all() ? T(1.0) : factor_.each ? factor_.each[k] : factor_.one, sums_[k]);
      store(wanted_.dbias, k, total);
    }
  }

 private:
  using View = TensorView<const Scalar>;

  /// Whether the bias is added to dlambda at the end; with a drop it is part of d.
  bool sums_bias() const noexcept { return factor_.bias && drop_.keeps_all(); }
  bool needs_sums() const noexcept { return wanted_.dbias.is_wanted() || (wanted_.dlambda.is_wanted() && sums_bias()); }
  bool overwrites_dh() const noexcept { return wanted_.dh.is_wanted() && !wanted_.dh.adds(); }
  /// Whether d, or dh, is made in memory of its own.
  bool needs_dropped() const noexcept {
    if (drop_.keeps_all()) return false;
    return wanted_.dlambda.is_wanted() || (!overwrites_dh() && (wanted_.dh.is_wanted() || wanted_.dbias.is_wanted()));
  }
  static Total* totals(Index count, Scratch& scratch) {
    auto* totals = scratch.take<Total>(count);
    std::fill_n(totals, count, Total{});
    return totals;
  }
  const T& bias(Index k) const noexcept { return factor_.bias[factor_.has_one_bias ? 0 : k]; }

  void add_products(const SumTensors<Scalar>& t, const Executor& executor, Index first_position) {
    if (!products_) return;
    View d = t.h;
    if (!drop_.keeps_all()) {
      const TensorView<Scalar> dropped = dropped_like(t.ds);
      drop_branch<Scalar>(where_, executor, drop_, t.h, factor_, dropped, first_position);
      d = dropped;
    }
    if (has_one_lambda_) {
      kernels::add_product_sum(product_sum_args<Scalar>(where_, t.ds, d), products_[0]);
    } else if (runs_across_the_last_axis(t.ds)) {
      for (Index k = 0; k < last_; ++k) {
        kernels::add_product_sum(product_sum_args<Scalar>(where_, last_slice(View(t.ds), k), last_slice(d, k)),
                                 products_[k]);
      }
    } else {
      kernels::add_column_product_sums(product_sum_args<Scalar>(where_, t.ds, d), products_, InBlocks(executor));
    }
  }
  void add_sums(const View& ds, const Executor& executor) {
    if (!sums_) return;
    if (runs_across_the_last_axis(ds)) {
      for (Index k = 0; k < last_; ++k) kernels::add_product_sum(with_ones(last_slice(ds, k)), sums_[k]);
    } else {
      kernels::add_column_product_sums(with_ones(ds), sums_, InBlocks(executor));
    }
  }
  kernels::ProductSumArgs<Scalar> with_ones(const View& ds) const {
    auto args = product_sum_args<Scalar>(where_, ds, ds);
    args.b = ones_;
    args.b_stride = 0;
    return args;
  }

  void write_dx(const SumTensors<Scalar>& t, const Executor& executor) const {
    if (!t.dx.data() || (t.dx.data() == t.ds.data() && alpha_ == 1)) return;
    residual_add<Scalar>(where_, executor, alpha_, t.ds, 1, wanted_.dx.adds() ? View(t.dx) : View(), t.dx);
  }
  void write_dh(const SumTensors<Scalar>& t, const Executor& executor) {
    add_sums(t.ds, executor);
    if (!t.dh.data() || (t.dh.data() == t.ds.data() && !factor_.each && factor_.one == T(1.0))) return;
    residual_add<Scalar>(where_, executor, 1, wanted_.dh.adds() ? View(t.dh) : View(), {factor_.one, factor_.each},
                         t.ds, t.dh);
  }

  void write_dropped_dh(const SumTensors<Scalar>& t, const Executor& executor, Index first_position) {
    if (!t.dh.data() && !sums_) return;
    const TensorView<Scalar> dh = overwrites_dh() ? t.dh : dropped_like(t.ds);
    View scaled = t.ds;
    if (factor_.each || factor_.one != T(1.0)) {
      residual_add<Scalar>(where_, executor, 0, {}, {factor_.one, factor_.each}, t.ds, dh);
      scaled = dh;
    }
    const auto drop_to = [&](const TensorView<Scalar>& out, bool adds) {
      dropout<Scalar>(executor, drop_, scaled, out, adds, first_position);
    };
    if (t.dh.data() && !overwrites_dh()) drop_to(t.dh, true);
    if (overwrites_dh() || sums_) drop_to(dh, false);
    add_sums(dh, executor);
  }
  TensorView<Scalar> dropped_like(const TensorView<Scalar>& t) const noexcept {
    return {dropped_, t.shape(), t.order()};
  }

  static void add(Total& total, const T& factor, const Total& sum) {
    if constexpr (kernels::is_vectorized<Scalar>) {
      total.add(static_cast<double>(factor) * sum.value());
    } else {
      total += T(factor * sum);
    }
  }
  static void store(const ParameterGradient<Scalar>& to, Index k, const Total& total) {
    const T value = kernels::total_value<Scalar>(total);
    const auto put = [&](auto& out) {
      using Out = std::remove_reference_t<decltype(out)>;
      out = kernels::from_compute<Out>(to.adds() ? T(kernels::to_compute(out) + value) : value);
    };
    to.is_wide() ? put(to.template as<T>().data()[k]) : put(to.template as<Scalar>().data()[k]);
  }

  const char* where_;
  double alpha_;
  BranchFactor<T> factor_;
  DropoutMask drop_;
  SumGradientsWanted<Scalar> wanted_;
  bool has_one_lambda_;
  Index last_, fastest_, size_;
  Total *products_ = nullptr, *sums_ = nullptr;
  Scalar *ones_ = nullptr, *dropped_ = nullptr;
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
