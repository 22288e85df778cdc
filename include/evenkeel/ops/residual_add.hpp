#pragma once

#include <cstddef>
#include <utility>

#include "evenkeel/detail/row_norm_op.hpp"
#include "evenkeel/kernels/residual_add.hpp"

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

/// The terms of a sum alpha * x + lambda * (h + bias), as they are handed on.
template <class Scalar>
struct Addition {
  double alpha;
  TensorView<const Scalar> x;
  BranchFactor<kernels::Compute<Scalar>> lambda;
  TensorView<const Scalar> h;
};

/// Where the gradients of s = alpha * x + lambda * d go: dx, and dd = lambda * ds, which may have no memory.
template <class Scalar>
struct AdditionGradients {
  double alpha = 1, lambda = 1;
  TensorGradient<Scalar> dx = {}, dd = {};
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

/// s = alpha * x + lambda * (d + bias); what has no memory of x and d is left out. Slices are summed one after another.
template <class Scalar>
void residual_add(const char* where, const Executor& executor, double alpha, const TensorView<const Scalar>& x,
                  const BranchFactor<kernels::Compute<Scalar>>& lambda, const TensorView<const Scalar>& d,
                  const TensorView<Scalar>& s) {
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
                                                         .has_one_bias = lambda.has_one_bias},
                        InBlocks(executor));
}

}  // namespace detail

/// The factors of a residual sum alpha * x + lambda * (d + bias).
template <class Scalar>
struct ResidualSumOptions {
  double alpha = 1;                    ///< of the skip path
  double lambda = 1;                   ///< of the branch
  ParameterView<Scalar> lambdas = {};  ///< [last axis]: each in the place of lambda
  ParameterView<Scalar> bias = {};     ///< [last axis]; absent: 0
};

namespace detail {

/// Throws unless the parameters of a sum are one number for each index of x's last axis.
template <class Scalar>
void require_sum_options(const char* where, const ResidualSumOptions<Scalar>& options,
                         const TensorView<const Scalar>& x) {
  require_finite(where, "alpha", options.alpha);
  require_finite(where, "lambda", options.lambda);
  for (const auto& [name, given] : {std::pair{"lambdas", &options.lambdas}, std::pair{"bias", &options.bias}}) {
    require_plain(where, name, *given);
    if (given->is_given()) require_parameters(where, name, given->template as<const Scalar>(), x, -1);
  }
}

/// The parameters of a sum as kernels take them: where they are of 16 bits, copies.
template <class Scalar>
class SumParameters {
 public:
  using T = kernels::Compute<Scalar>;

  SumParameters(const char* where, const TensorView<const Scalar>& x) : last_axis_(where, x, -1) {}

  std::size_t workspace_bytes(const ResidualSumOptions<Scalar>& options) const noexcept {
    return bytes(options.lambdas) + bytes(options.bias);
  }
  BranchFactor<T> factor(const ResidualSumOptions<Scalar>& options, Scratch& scratch) const {
    BranchFactor<T> factor(T(static_cast<T>(options.lambda)), values(options.lambdas, scratch));
    factor.bias = values(options.bias, scratch);
    return factor;
  }

 private:
  std::size_t bytes(const ParameterView<Scalar>& given) const noexcept {
    return given.is_wide() ? last_axis_.workspace_bytes(given.template as<const T>())
                           : last_axis_.workspace_bytes(given.template as<const Scalar>());
  }
  const T* values(const ParameterView<Scalar>& given, Scratch& scratch) const {
    return given.is_wide() ? last_axis_.values(given.template as<const T>(), scratch)
                           : last_axis_.values(given.template as<const Scalar>(), scratch);
  }

  KernelParameters<T> last_axis_;
};

/// Throws unless d and s are like x, and s is one of them or has memory of its own.
template <class Scalar>
void require_sum(const char* where, const TensorView<const Scalar>& x, const char* d_name,
                 const TensorView<const Scalar>& d, const char* s_name, const TensorView<Scalar>& s) {
  require_same_shape(where, d_name, d.shape(), "x", x.shape());
  require_same_shape(where, s_name, s.shape(), "x", x.shape());
  require_same_order(where, d_name, d, "x", x);
  require_same_order(where, s_name, s, "x", x);
  require_in_place_or_no_overlap(where, s_name, s, "x", x);
  require_in_place_or_no_overlap(where, s_name, s, d_name, d);
}

}  // namespace detail

/// The sum of a residual connection: s = alpha * x + lambda * (d + bias).
///
/// Shapes    x, d, s alike, in the same storage order; lambdas, bias [last axis].
/// Aliasing  s may be x or d, the identical view; any other overlap is an error.
/// Errors    throws std::invalid_argument, before anything is written, if shapes or storage orders do not match or
///           memory overlaps.
template <Tensor X, Tensor D, Tensor Y>
void residual_add_into(const X& x, const D& d, Y&& s, const ResidualSumOptions<ScalarOf<X>>& options = {},
                       const Context& context = {}) {
  const char* where = "residual_add_into";
  const auto xv = const_view(x), dv = const_view(d);
  const auto sv = tensor_view(s);
  detail::require_sum<ScalarOf<X>>(where, xv, "d", dv, "s", sv);
  detail::require_sum_options(where, options, xv);
  const detail::SumParameters<ScalarOf<X>> parameters(where, xv);
  Scratch scratch(where, context, parameters.workspace_bytes(options));
  detail::residual_add<ScalarOf<X>>(where, context.executor, options.alpha, xv, parameters.factor(options, scratch), dv,
                                    sv);
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
