#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "evenkeel/core/parameter.hpp"
#include "evenkeel/detail/norm_parameters.hpp"
#include "evenkeel/ops/batch_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// How a BatchNorm normalizes, and what it keeps of each batch.
struct BatchNormSettings {
  double eps = default_eps;                  ///< in units of x squared
  RunningAverage average = UpdateRate(0.1);  ///< or Decay(0.9), or CumulativeAverage()
  RunningVariance variance = RunningVariance::unbiased;
  bool with_gamma = true;
  bool with_beta = true;
  int channel_axis = 1;            ///< negative: counted from the end; -1 is channels last
  bool allow_one_value = false;    ///< whether a batch may have one value per channel, which gives beta
  bool track_statistics = true;    ///< false: there are no running statistics, and inference uses the batch's
  bool freeze_statistics = false;  ///< true: training normalizes with the running statistics, and keeps them
};

/// Batch normalization with learned gamma and beta, and running statistics for inference.
///
/// gamma starts at 1, beta at 0, the running mean at 0 and the running variance at 1. The mode is the overload:
/// forward(x) is inference, and uses the running statistics; forward(x, saved) is training, uses the batch's, and
/// updates the running ones once y is computed.
/// @code
///   BatchNorm<float> norm(64);             // x [N, 64], [N, 64, L], [N, 64, H, W], ...
///   BatchNorm<float>::Saved saved;
///   auto y = norm.forward(x, saved);       // running_mean and running_var have changed
///   auto dx = norm.backward(dy, saved);    // adds to the gradients of norm.gamma() and norm.beta()
///   auto z = norm.forward(x);              // with the running statistics
/// @endcode
///
/// Parameters are of x's scalar type by default; beside bfloat16 or half they may be float: `BatchNorm<Eigen::bfloat16,
/// float>`. Running statistics are float there in either case.
///
/// Shapes    x, y with `channels` elements on settings.channel_axis; gamma, beta, running_mean, running_var [channels].
/// Errors    throws std::invalid_argument as batch_norm_into and batch_norm_backward do; std::logic_error for a
///           backward without a forward, and for training with running statistics that are mapped from const memory.
/// Source    Ioffe, Szegedy 2015, arXiv:1502.03167; agrees with torch.nn.BatchNorm1d, 2d and 3d.
template <class S, class P = S>
class BatchNorm : public detail::NormParameters<S, P>, public detail::ReturningForms<BatchNorm<S, P>> {
  static_assert(detail::is_parameter_of<P, S>,
                "evenkeel: parameters have the scalar type of x, or are float where x has 16 bits");

 public:
  using Scalar = S;
  using ParameterScalar = P;
  /// Of running statistics.
  using Number = kernels::Compute<S>;
  using Settings = BatchNormSettings;
  using Saved = detail::NormSaved<BatchNorm, S, BatchNormStatistics<S>>;

  explicit BatchNorm(Index channels, const BatchNormSettings& settings = {})
      : channels_(channels), settings_(settings) {
    require_eps("BatchNorm", settings.eps);
    require_at_least("BatchNorm", "channels", channels, 1);
    if (settings.freeze_statistics && !settings.track_statistics) {
      raise_invalid_argument("BatchNorm", "statistics are frozen but not tracked, expected tracked ones to freeze");
    }
    if (settings.with_gamma) this->gamma_ = Parameter<P>(channels, P(1));
    if (settings.with_beta) this->beta_ = Parameter<P>(channels, P(0));
    if (!settings.track_statistics) return;
    running_mean_ = Parameter<Number>(channels, Number(0));
    running_var_ = Parameter<Number>(channels, Number(1));
  }

  // forward(x), forward(x, saved) and backward(dy, saved) return a tensor; these write to the caller's.

  /// Inference into memory of the caller's; y may be x.
  template <class X, class Y>
  void forward_into(const X& x_tensor, Y&& y_tensor, const Context& context = {}) const {
    const auto x = input_view<Scalar>(x_tensor);
    const auto y = output_view<Scalar>(std::forward<Y>(y_tensor));
    require_channels_of(x.shape());
    if (settings_.track_statistics) {
      detail::batch_norm_inference<Scalar>(forward_name, x, y, running(), options(), kernels::Identity(), context);
    } else {
      detail::batch_norm_untracked<Scalar>(forward_name, x, y, options(), context);
    }
  }

  /// Inference with an activation in the same pass, a function of a SIMD batch: `kernels::Relu{}`, or one's own.
  template <class X, class Y, class Activation>
  requires std::invocable<const Activation&, typename kernels::Simd<native, kernels::Compute<S>>::Batch>
  void forward_into(const X& x_tensor, Y&& y_tensor, const Activation& activation) const {
    const auto x = input_view<Scalar>(x_tensor);
    const auto y = output_view<Scalar>(std::forward<Y>(y_tensor));
    require_channels_of(x.shape());
    require_tracked(forward_name);
    detail::batch_norm_inference<Scalar>(forward_name, x, y, running(), options(), activation, {});
  }

  /// Training into memory of the caller's; y is not x, which backward reads.
  template <class X, class Y>
  void forward_into(const X& x_tensor, Y&& y_tensor, Saved& saved, const Context& context = {}) {
    const auto x = input_view<Scalar>(x_tensor);
    const auto y = output_view<Scalar>(std::forward<Y>(y_tensor));
    require_channels_of(x.shape());
    require_no_overlap(forward_name, "y", y, "x, which backward reads again,", x);
    if (settings_.freeze_statistics) {
      detail::batch_norm_frozen<Scalar>(forward_name, x, y, running(), saved.statistics_, options(), context);
    } else {
      require_writable_statistics();
      detail::batch_norm_training<Scalar>(forward_name, x, y, saved.statistics_, options(), update(), context);
    }
    saved.x_ = x;
  }

  /// The gradient at x, `add_to(dx)` to add; dx may be dy. Adds to the parameters' gradients.
  template <class DY>
  void backward_into(const DY& dy, const Saved& saved, const TensorGradient<Scalar>& dx, const Context& context = {}) {
    const char* where = "BatchNorm::backward";
    if (saved.statistics_.is_empty()) {
      raise_logic_error(where, "saved is empty, expected the Saved of a forward(x, saved) call");
    }
    require_same_shape(where, "dy", tensor_view(dy).shape(), "the x that was saved", saved.x_.shape());
    BatchNormGradients<Scalar> to{dx, {}, {}};
    this->add_to_gradients(to);
    detail::batch_norm_backward<Scalar>(where, input_view<Scalar>(dy), saved.x_, saved.statistics_, options(), to,
                                        context);
    this->commit_gradients();
  }

  /// Bytes of workspace with which forward_into and backward_into allocate nothing for x of this shape.
  std::size_t workspace_bytes(const Shape& x) const {
    return batch_norm_workspace_bytes<Scalar>(x, settings_.channel_axis);
  }

  /// From now on training normalizes with the running statistics, and keeps them (or, with false, no longer).
  ///
  /// Errors    throws std::logic_error if there are none.
  void freeze_statistics(bool frozen = true) {
    if (frozen) require_tracked("BatchNorm::freeze_statistics");
    settings_.freeze_statistics = frozen;
  }

  Index channels() const noexcept { return channels_; }
  double eps() const noexcept { return settings_.eps; }
  const BatchNormSettings& settings() const noexcept { return settings_; }

  Parameter<P>& gamma() noexcept { return this->gamma_; }
  Parameter<P>& beta() noexcept { return this->beta_; }
  const Parameter<P>& gamma() const noexcept { return this->gamma_; }
  const Parameter<P>& beta() const noexcept { return this->beta_; }

  /// Not learned: no gradient, and not among the parameters. Load or map them as parameters are. Absent if not tracked.
  Parameter<Number>& running_mean() noexcept { return running_mean_; }
  Parameter<Number>& running_var() noexcept { return running_var_; }
  const Parameter<Number>& running_mean() const noexcept { return running_mean_; }
  const Parameter<Number>& running_var() const noexcept { return running_var_; }

  /// The batches that have entered the running statistics; empty ones do not count.
  std::int64_t batches() const noexcept { return batches_; }
  /// Sets the count, when the running statistics are loaded.
  ///
  /// Errors    throws std::invalid_argument if it is negative.
  void set_batches(std::int64_t batches) {
    require_at_least("BatchNorm::set_batches", "batches", batches, 0);
    batches_ = batches;
  }

  /// The running statistics, as operations take them.
  ///
  /// Errors    throws std::logic_error if they are not tracked.
  RunningStatistics<Scalar> running_statistics() const {
    require_tracked("BatchNorm::running_statistics");
    return running();
  }
  /// gamma, beta, eps and the channel axis, as operations take them.
  BatchNormOptions<Scalar> options() const {
    return {this->option(this->gamma_), this->option(this->beta_), settings_.eps, settings_.channel_axis,
            settings_.allow_one_value};
  }

  /// A norm with the same settings, and parameters and running statistics as they start.
  BatchNorm fresh() const { return BatchNorm(channels_, settings_); }

  /// See for_each_buffer.
  template <class Self, class Visit>
  static void visit_buffers(Self& self, Visit& visit, const std::string& prefix) {
    if (!self.settings_.track_statistics) return;
    visit(prefix + "running_mean", self.running_mean_);
    visit(prefix + "running_var", self.running_var_);
  }

 private:
  static constexpr const char* forward_name = "BatchNorm::forward";

  RunningStatistics<Scalar> running() const { return {running_mean_.view(), running_var_.view()}; }
  RunningUpdate<Scalar> update() {
    RunningUpdate<Scalar> update{.average = settings_.average, .variance = settings_.variance, .batches = &batches_};
    if (settings_.track_statistics) {
      update.mean = running_mean_.mutable_values();
      update.var = running_var_.mutable_values();
    }
    return update;
  }

  void require_tracked(const char* where) const {
    if (!settings_.track_statistics) raise_logic_error(where, "statistics are not tracked, expected running ones");
  }
  void require_writable_statistics() const {
    for (const auto& [name, buffer] :
         {std::pair{"running mean", &running_mean_}, std::pair{"running var", &running_var_}}) {
      if (buffer->is_writable()) continue;
      raise_logic_error(
          forward_name,
          std::string(name) + " is mapped from const memory, expected writable memory, or frozen statistics");
    }
  }
  void require_channels_of(const Shape& x) const {
    const int axis = detail::resolved_axis(forward_name, settings_.channel_axis, x);
    if (x[axis] == channels_) return;
    raise_invalid_argument(forward_name, "axis " + std::to_string(axis) + " of x has " + std::to_string(x[axis]) +
                                             " channels, expected " + std::to_string(channels_) + " (" +
                                             has_shape("x", x) + ")");
  }

  Index channels_;
  BatchNormSettings settings_;
  Parameter<Number> running_mean_, running_var_;
  std::int64_t batches_ = 0;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
