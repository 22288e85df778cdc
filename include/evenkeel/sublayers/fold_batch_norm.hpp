#pragma once

#include "evenkeel/layers/batch_norm.hpp"
#include "evenkeel/ops/fold_batch_norm.hpp"
#include "evenkeel/sublayers/linear.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

namespace detail {
/// A copy with a bias of its own, zero if there was none.
template <class Scalar>
Linear<Scalar> with_bias(const Linear<Scalar>& linear) {
  Linear<Scalar> copy(linear.in_features(), linear.out_features());
  copy.weight().load(linear.weight().data(), linear.weight().size());
  if (!linear.bias().is_absent()) copy.bias().load(linear.bias().data(), linear.bias().size());
  return copy;
}

/// Weight and bias of a Linear, as folding writes them.
template <class Scalar>
TensorView<Scalar> weight_of(Linear<Scalar>& linear) {
  return {linear.weight().mutable_values().data(), linear.weight().shape()};
}
}  // namespace detail

/// One Linear that does what norm(linear(x)) does in inference, for a norm of the last axis.
///
/// Errors    throws std::invalid_argument as fold_into_preceding_linear does; std::logic_error if the norm has no
///           running statistics.
template <class Scalar>
Linear<Scalar> folded(const Linear<Scalar>& linear, const BatchNorm<Scalar>& norm) {
  Linear<Scalar> result = detail::with_bias(linear);
  fold_into_preceding_linear(norm.running_statistics(), norm.options(), detail::weight_of(result),
                             result.bias().mutable_values());
  return result;
}

/// One Linear that does what linear(norm(x)) does in inference, for a norm of the last axis.
///
/// Errors    throws std::invalid_argument as fold_into_following_linear does; std::logic_error if the norm has no
///           running statistics.
template <class Scalar>
Linear<Scalar> folded(const BatchNorm<Scalar>& norm, const Linear<Scalar>& linear) {
  Linear<Scalar> result = detail::with_bias(linear);
  fold_into_following_linear(norm.running_statistics(), norm.options(), detail::weight_of(result),
                             result.bias().mutable_values());
  return result;
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
