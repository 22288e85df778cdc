#pragma once

#include <utility>
#include <vector>

#include "evenkeel/ops/fold_batch_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Folds gamma and beta of a LayerNorm or RMSNorm into the linear map behind it: weight * (x_hat * gamma + beta) + bias
/// becomes weight' * x_hat + bias', and the norm does without parameters from then on.
///
/// gamma may be `around_zero`.
///
/// Shapes    weight, a matrix, has the features, which are its inputs, on in_axis: 1 for [out, in] (PyTorch), 0 for
///           [in, out] (Keras); gamma, beta [in], each absent or given; bias [out], zeros for a layer without one.
/// Writes    weight and bias, in place.
/// Numerics  in double, rounded once.
/// Errors    throws std::invalid_argument, before anything is written, if sizes differ, weight is not a matrix, memory
///           overlaps.
template <class W, class Scalar = ScalarOf<W>>
void fold_parameters_into_following_linear(const ParameterView<ScalarOf<W>>& gamma,
                                           const ParameterView<ScalarOf<W>>& beta, W&& weight,
                                           const ChannelView<ScalarOf<W>>& bias, int in_axis = 1) {
  std::vector<Scalar> scale(gamma.data(), gamma.data() + (gamma.form().is_around_zero ? gamma.view().size() : 0));
  for (Scalar& value : scale) value += 1;
  // A BatchNorm that subtracts 0 and divides by 1.
  const BatchNormOptions<Scalar> options{
      .gamma = gamma.form().is_around_zero ? ParameterView<Scalar>(scale) : gamma, .beta = beta, .eps = 0};
  fold_into_following_linear(RunningStatistics<Scalar>{}, options, std::forward<W>(weight), bias, in_axis);
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
