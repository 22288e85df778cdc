#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/core/channel_view.hpp"
#include "evenkeel/core/mask_view.hpp"
#include "evenkeel/core/parameter_view.hpp"
#include "evenkeel/core/running_average.hpp"
#include "evenkeel/ops/norm_statistics.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// How to normalize. The backward takes the same options; of them it reads gamma, channel_axis and mask.
template <class Scalar>
struct BatchNormOptions {
  ParameterView<Scalar> gamma = {};  ///< [channels]; absent: 1
  ParameterView<Scalar> beta = {};   ///< [channels]; absent: 0
  double eps = default_eps;          ///< in units of x squared
  int channel_axis = 1;              ///< negative: counted from the end; -1 is channels last
  bool allow_one_value = false;      ///< whether a batch may have one value per channel, which gives beta
  MaskView mask = {};                ///< which positions are valid, of x's shape without the channels; absent: all
};

/// The gradients that are asked for; `add_to(t)` adds to t instead of overwriting it.
template <class Scalar>
struct BatchNormGradients {
  TensorGradient<Scalar> dx = {};         ///< shape of x
  ParameterGradient<Scalar> dgamma = {};  ///< [channels]
  ParameterGradient<Scalar> dbeta = {};   ///< [channels]
};

/// What a forward of BatchNorm keeps of each channel for its backward.
///
/// Used again for as many channels it allocates nothing.
///
/// Units     numbers are of the type that x is computed in: float where Scalar has 16 bits.
template <class Scalar>
struct BatchNormStatistics {
  using Number = kernels::Compute<Scalar>;
  Shape shape;                     ///< of x; rank 0 before the first forward
  int channel_axis = 0;            ///< counted from the first
  bool is_of_batch = true;         ///< false: running statistics, which do not depend on x
  std::vector<Number> mean;        ///< [channels]
  std::vector<Number> mean_rest;   ///< [channels]: mean + mean_rest is the mean with twice Number's digits
  std::vector<Number> rstd;        ///< [channels]: 1 / sqrt(var + eps)
  std::vector<Number> var_biased;  ///< [channels]: what rstd is of; 0 for an empty batch, as all the others

  bool is_empty() const noexcept { return shape.rank() == 0; }
};

/// Statistics that were gathered in training, as inference reads them: float where Scalar has 16 bits.
template <class Scalar>
struct RunningStatistics {
  using Number = kernels::Compute<Scalar>;
  ChannelView<const Number> mean = {};  ///< [channels]; absent: 0
  ChannelView<const Number> var = {};   ///< [channels]; absent: 1
};

/// Which variance of a batch enters the running one. What normalizes the batch is biased in either case.
enum class RunningVariance {
  unbiased,  ///< divided by count - 1, as PyTorch and Keras's fused kernels have it
  biased,    ///< divided by count, as ONNX and Flax have it
};

/// Running statistics, in the caller's memory, that a training forward updates once y is computed: float where Scalar
/// has 16 bits, in which small updates would be lost.
///
/// An empty batch updates nothing and is not counted. One value per channel, where that is allowed, updates the mean
/// alone: it says nothing about the variance.
template <class Scalar>
struct RunningUpdate {
  using Number = kernels::Compute<Scalar>;
  ChannelView<Number> mean = {};             ///< [channels]; absent: not updated
  ChannelView<Number> var = {};              ///< [channels]; absent: not updated
  RunningAverage average = UpdateRate(0.1);  ///< PyTorch's default
  RunningVariance variance = RunningVariance::unbiased;
  std::int64_t* batches = nullptr;  ///< counts batches where given; a CumulativeAverage takes its weight from it
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
