#pragma once

#include <cstddef>
#include <utility>

#include "evenkeel/detail/kernel_parameters.hpp"
#include "evenkeel/detail/residual_sum.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// The factors of a residual sum alpha * x + lambda * drop(d + bias).
///
/// drop is a mask of the shape of d, as Dropout has it: the same mask gives the backward. Of numbers of 16 bits d +
/// bias and what is left of it are rounded to their type where there is a drop, as if they were stored.
template <class Scalar>
struct ResidualSumOptions {
  double alpha = 1;                    ///< of the skip path
  double lambda = 1;                   ///< of the branch
  ParameterView<Scalar> lambdas = {};  ///< [last axis]: each in the place of lambda
  ParameterView<Scalar> bias = {};     ///< [last axis]; absent: 0
  DropoutMask drop = {};               ///< of the branch; by default nothing is dropped
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

/// The sum of a residual connection: s = alpha * x + lambda * drop(d + bias).
///
/// Shapes    x, d, s alike, in the same storage order; lambdas, bias [last axis].
/// Aliasing  s may be x or d, the identical view; any other overlap is an error.
/// Errors    throws std::invalid_argument, before anything is written, if shapes or storage orders do not match or
///           memory overlaps.
/// Cost      x and d read once, s written once. Where the last axis is strided, or whole samples are dropped, s is
///           written first by the drop, and read again; a temporary tensor where s is x.
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
  detail::residual_add<ScalarOf<X>>(where, {options.alpha, xv, parameters.factor(options, scratch), dv, options.drop},
                                    sv, detail::rest_of(scratch, context));
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
