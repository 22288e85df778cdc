#pragma once

#include "evenkeel/detail/row_norm_op.hpp"
#include "evenkeel/kernels/residual_add.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

namespace detail {

/// s = alpha * x + lambda * d, or alpha * x where d has no memory.
template <class Scalar>
void residual_add(const char* where, double alpha, const TensorView<const Scalar>& x, double lambda,
                  const TensorView<const Scalar>& d, const TensorView<Scalar>& s) {
  require_supported_scalar<Scalar>();
  // All three along the axis that runs fastest in x.
  const Axes axis(x.order() == StorageOrder::row_major ? x.rank() - 1 : 0);
  const TensorView<const Scalar> sum = s;
  const Rows in = contiguous_rows(where, "x", x, axis), out = contiguous_rows(where, "s", sum, axis);
  const Rows branch = d.data() ? contiguous_rows(where, "d", d, axis) : Rows{};
  kernels::residual_add(kernels::ResidualAddArgs<Scalar>{.x = x.data(),
                                                         .d = d.data(),
                                                         .s = s.data(),
                                                         .alpha = static_cast<kernels::Compute<Scalar>>(alpha),
                                                         .lambda = static_cast<kernels::Compute<Scalar>>(lambda),
                                                         .rows = in.rows,
                                                         .features = in.features,
                                                         .x_stride = in.stride,
                                                         .d_stride = branch.stride,
                                                         .s_stride = out.stride});
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
