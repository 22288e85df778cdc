#pragma once

#include <cstddef>

#include "evenkeel/core/context.hpp"
#include "evenkeel/core/dropout_mask.hpp"
#include "evenkeel/detail/dropout_op.hpp"
#include "evenkeel/detail/in_blocks.hpp"
#include "evenkeel/detail/row_norm_checks.hpp"
#include "evenkeel/kernels/residual_add.hpp"

/// The residual sum s = alpha * x + lambda * drop(h + bias) between tensors and kernels.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// What the branch of a sum is multiplied by: one number, or one for each index of the last axis; and what is added to
/// it before.
template <class T>
struct BranchFactor {
  BranchFactor(double number)
      : one(static_cast<T>(number)) {}  // NOLINT(google-explicit-constructor): a factor is a number
  BranchFactor(const T& number, const T* numbers) : one(number), each(numbers) {}

  T one;
  const T* each = nullptr;  // null: `one` for all
  const T* bias = nullptr;  // [last axis], or one number if has_one_bias; null: none
  bool has_one_bias = false;

  /// Whether it is not the same for every index of the last axis.
  bool has_vectors() const noexcept { return each || (bias && !has_one_bias); }
  /// What it is for one index of the last axis.
  BranchFactor at(Index k) const {
    BranchFactor factor(each ? each[k] : one, nullptr);
    factor.bias = bias && !has_one_bias ? bias + k : bias;
    factor.has_one_bias = bias;
    return factor;
  }
};

/// The terms of a sum alpha * x + lambda * drop(h + bias), as they are handed on.
template <class Scalar>
struct Addition {
  double alpha;
  TensorView<const Scalar> x;
  BranchFactor<kernels::Compute<Scalar>> lambda;
  TensorView<const Scalar> h;
  DropoutMask drop = {};
};

/// Where the gradients of s = alpha * x + lambda * drop(d) go: dx, and dd = drop(lambda * ds), which may have no
/// memory.
template <class Scalar>
struct AdditionGradients {
  double alpha = 1, lambda = 1;
  TensorGradient<Scalar> dx = {}, dd = {};
  DropoutMask drop = {};
};

/// The elements whose last index is k; a view without memory stays one.
template <class Scalar>
TensorView<Scalar> last_slice(const TensorView<Scalar>& view, Index k) {
  Shape shape;
  for (int axis = 0; axis + 1 < view.rank(); ++axis) shape.append(view.shape()[axis]);
  shape.append(1);
  return {view.data() ? view.data() + k * view.stride(view.rank() - 1) : nullptr, shape, view.strides(), view.order()};
}

/// Whether neighbours in memory have the same last index.
template <class Scalar>
bool runs_across_the_last_axis(const TensorView<Scalar>& view) noexcept {
  return view.rank() > 1 && view.order() == StorageOrder::column_major;
}

/// Whether a pass over rows can drop: positions of the mask follow one another along them.
template <class Scalar>
bool drops_along_rows(const DropoutMask& drop, const TensorView<Scalar>& rows) noexcept {
  return drop.keeps_all() || (drop.kind() == DropoutKind::per_element && !runs_across_the_last_axis(rows));
}

template <class Scalar>
kernels::BranchDrop<Scalar> branch_drop(const DropoutMask& mask) noexcept {
  if (mask.keeps_all()) return {};
  return {&mask.draw(), static_cast<kernels::Compute<Scalar>>(mask.scale())};
}

/// s = alpha * x + lambda * drop(d + bias); what has no memory of x and d is left out. Slices are summed one after
/// another. `drop` drops along rows.
template <class Scalar>
void residual_add(const char* where, const Executor& executor, double alpha, const TensorView<const Scalar>& x,
                  const BranchFactor<kernels::Compute<Scalar>>& lambda, const TensorView<const Scalar>& d,
                  const TensorView<Scalar>& s, const DropoutMask& drop = {}) {
  require_supported_scalar<Scalar>();
  if (lambda.has_vectors() && runs_across_the_last_axis(s)) {
    for (Index k = 0; k < s.shape()[s.rank() - 1]; ++k) {
      residual_add<Scalar>(where, {}, alpha, last_slice(x, k), lambda.at(k), last_slice(d, k), last_slice(s, k));
    }
    return;
  }
  // All three along the axis that runs fastest in s.
  const Axes axis(s.order() == StorageOrder::row_major ? s.rank() - 1 : 0);
  const TensorView<const Scalar> sum = s;
  const Rows skip = x.data() ? contiguous_rows(where, "x", x, axis) : Rows{};
  const Rows out = contiguous_rows(where, "s", sum, axis);
  const Rows branch = d.data() ? contiguous_rows(where, "d", d, axis) : Rows{};
  kernels::residual_add(kernels::ResidualAddArgs<Scalar>{.x = x.data(),
                                                         .d = d.data(),
                                                         .s = s.data(),
                                                         .alpha = static_cast<kernels::Compute<Scalar>>(alpha),
                                                         .lambda = lambda.one,
                                                         .rows = out.rows,
                                                         .features = out.features,
                                                         .x_stride = skip.stride,
                                                         .d_stride = branch.stride,
                                                         .s_stride = out.stride,
                                                         .lambdas = lambda.each,
                                                         .bias = lambda.bias,
                                                         .has_one_bias = lambda.has_one_bias,
                                                         .drop = branch_drop<Scalar>(drop)},
                        InBlocks(executor));
}

/// d = drop(h + bias), where h, as d, may be some rows of a tensor, from a position on.
template <class Scalar>
void drop_branch(const char* where, const Executor& executor, const DropoutMask& drop, TensorView<const Scalar> h,
                 const BranchFactor<kernels::Compute<Scalar>>& lambda, const TensorView<Scalar>& d,
                 Index first_position = 0) {
  if (lambda.bias) {
    BranchFactor<kernels::Compute<Scalar>> bias(1);
    bias.bias = lambda.bias, bias.has_one_bias = lambda.has_one_bias;
    residual_add<Scalar>(where, executor, 0, {}, bias, h, d);
    h = d;
  }
  dropout<Scalar>(executor, drop, h, d, false, first_position);
}

/// A sum whose branch is dropped before it is added, in a pass of its own, where that cannot be done along rows: in s,
/// or in a temporary where s is x. The terms and s stay the caller's.
template <class Scalar>
class DroppedSum {
 public:
  DroppedSum(const Addition<Scalar>& sum, const TensorView<Scalar>& s)
      : sum_(sum), s_(s), drops_before_(!drops_along_rows(sum.drop, s)) {}

  std::size_t workspace_bytes() const noexcept { return has_temporary() ? Scratch::bytes<Scalar>(s_.size()) : 0; }
  void take(Scratch& scratch) {
    if (has_temporary()) temporary_ = scratch.take<Scalar>(s_.size());
  }

  const Addition<Scalar>& terms() const noexcept { return sum_; }
  /// Whether there is such a pass: terms are added by `add` alone then, else by any kernel.
  bool drops_before() const noexcept { return drops_before_; }

  void add(const char* where, const Executor& executor) const {
    if (!drops_before_) {
      return residual_add<Scalar>(where, executor, sum_.alpha, sum_.x, sum_.lambda, sum_.h, s_, sum_.drop);
    }
    const TensorView<Scalar> d = has_temporary() ? TensorView<Scalar>(temporary_, s_.shape(), s_.order()) : s_;
    drop_branch<Scalar>(where, executor, sum_.drop, sum_.h, sum_.lambda, d);
    residual_add<Scalar>(where, executor, sum_.alpha, sum_.x, {sum_.lambda.one, sum_.lambda.each}, d, s_);
  }

 private:
  bool has_temporary() const noexcept { return drops_before_ && s_.data() == sum_.x.data(); }

  const Addition<Scalar>& sum_;
  const TensorView<Scalar>& s_;
  bool drops_before_;
  Scalar* temporary_ = nullptr;
};

/// s = alpha * x + lambda * drop(h + bias).
template <class Scalar>
void residual_add(const char* where, const Addition<Scalar>& terms, const TensorView<Scalar>& s,
                  const Context& context) {
  DroppedSum<Scalar> sum(terms, s);
  Scratch scratch(where, context, sum.workspace_bytes());
  sum.take(scratch);
  sum.add(where, context.executor);
}

/// What is left of a workspace for a call inside, which allocates for itself where there was none.
inline Context rest_of(const Scratch& scratch, const Context& context) {
  return context.workspace.empty() ? context : scratch.rest(context);
}

}  // namespace detail

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
