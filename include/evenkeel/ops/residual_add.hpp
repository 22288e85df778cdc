#pragma once

#include "evenkeel/detail/row_norm_op.hpp"
#include "evenkeel/kernels/residual_add.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

namespace detail {

/// What the branch of a sum is multiplied by: one number, or one for each index of the last axis.
template <class T>
struct BranchFactor {
  BranchFactor(double number) : one(static_cast<T>(number)) {}  // NOLINT(google-explicit-constructor): a factor is a number
  BranchFactor(const T& number, const T* numbers) : one(number), each(numbers) {}

  T one;
  const T* each = nullptr;  // null: `one` for all
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

/// s = alpha * x + lambda * d; what has no memory of x and d is left out.
template <class Scalar>
void residual_add(const char* where, double alpha, const TensorView<const Scalar>& x,
                  const BranchFactor<kernels::Compute<Scalar>>& lambda, const TensorView<const Scalar>& d,
                  const TensorView<Scalar>& s) {
  require_supported_scalar<Scalar>();
  if (lambda.each && runs_across_the_last_axis(s)) {
    for (Index k = 0; k < s.shape()[s.rank() - 1]; ++k) {
      residual_add<Scalar>(where, alpha, last_slice(x, k), {lambda.each[k], nullptr}, last_slice(d, k),
                           last_slice(s, k));
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
                                                         .lambdas = lambda.each});
}

}  // namespace detail

/// The factors of a residual sum.
struct ResidualScales {
  double alpha = 1;   ///< of the skip path
  double lambda = 1;  ///< of the branch
};

/// The sum of a residual connection: s = alpha * x + lambda * d.
///
/// Shapes    x, d, s alike, in the same storage order.
/// Aliasing  s may be x or d, the identical view; any other overlap is an error.
/// Errors    throws std::invalid_argument, before anything is written, if shapes or storage orders do not match or
///           memory overlaps.
template <Tensor X, Tensor D, Tensor Y>
void residual_add_into(const X& x, const D& d, Y&& s, const ResidualScales& scales = {}) {
  const char* where = "residual_add_into";
  const auto xv = const_view(x), dv = const_view(d);
  const auto sv = tensor_view(s);
  require_same_shape(where, "d", dv.shape(), "x", xv.shape());
  require_same_shape(where, "s", sv.shape(), "x", xv.shape());
  require_same_order(where, "d", dv, "x", xv);
  require_same_order(where, "s", sv, "x", xv);
  require_in_place_or_no_overlap(where, "s", sv, "x", xv);
  require_in_place_or_no_overlap(where, "s", sv, "d", dv);
  detail::residual_add<ScalarOf<X>>(where, scales.alpha, xv, scales.lambda, dv, sv);
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
