#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "../problems.hpp"
#include "../quantile.hpp"
#include "evenkeel/ops/layer_norm.hpp"
#include "evenkeel/ops/rms_norm.hpp"

namespace bench {

using evenkeel::Executor;

/// The tensors and parameters of one shape, of numbers of type T.
template <class T>
class Case {
 public:
  Case(Index rows, Index features)
      : shape_{rows, features}, x_(shape_.size()), dy_(shape_.size(), 2), y_(shape_.size()), dx_(shape_.size()) {
    for (auto* parameter : {&gamma_, &beta_, &dgamma_, &dbeta_})
      parameter->assign(static_cast<std::size_t>(features), 1);
    memory_.resize(evenkeel::layer_norm_workspace_bytes<T>(shape_));
    layer_norm({});
    rms_norm({});
  }
  std::string name() const { return std::to_string(shape_[0]) + "×" + std::to_string(shape_[1]); }
  Index size() const { return shape_.size(); }

  void copy(const Executor& executor) {
    constexpr Index pieces = 64;
    executor.run(pieces, [&](Index first, Index last) {
      const Index from = first * size() / pieces, to = last * size() / pieces;
      streaming_copy(x_.at(from), y_.at(from), T(1.5), to - from);
    });
  }
  void layer_norm(const Executor& executor) {
    evenkeel::layer_norm_into(in(x_), out(y_), of_layer_norm_, {.gamma = gamma_, .beta = beta_}, context(executor));
  }
  void layer_norm_backward(const Executor& executor) {
    evenkeel::layer_norm_backward(in(dy_), in(x_), of_layer_norm_, {.gamma = gamma_},
                                  {.dx = out(dx_), .dgamma = dgamma_, .dbeta = dbeta_}, context(executor));
  }
  void rms_norm(const Executor& executor) {
    evenkeel::rms_norm_into(in(x_), out(y_), of_rms_norm_, {.gamma = gamma_}, context(executor));
  }
  void rms_norm_backward(const Executor& executor) {
    evenkeel::rms_norm_backward(in(dy_), in(x_), of_rms_norm_, {.gamma = gamma_}, {.dx = out(dx_), .dgamma = dgamma_},
                                context(executor));
  }

 private:
  evenkeel::TensorView<const T> in(const Buffer<T>& buffer) const { return {buffer.at(0), shape_}; }
  evenkeel::TensorView<T> out(const Buffer<T>& buffer) const { return {buffer.at(0), shape_}; }
  evenkeel::Context context(const Executor& executor) { return {.executor = executor, .workspace = memory_}; }

  evenkeel::Shape shape_;
  Buffer<T> x_, dy_, y_, dx_;
  std::vector<evenkeel::kernels::Compute<T>> gamma_, beta_, dgamma_, dbeta_;
  std::vector<std::byte> memory_;
  evenkeel::NormStatistics<T> of_layer_norm_, of_rms_norm_;
};

/// One of the calls of a case.
template <class T>
using Call = void (Case<T>::*)(const Executor&);

/// Forward and backward of LayerNorm, then of RMSNorm.
template <class T>
inline constexpr Call<T> norms[] = {&Case<T>::layer_norm, &Case<T>::layer_norm_backward, &Case<T>::rms_norm,
                                    &Case<T>::rms_norm_backward};

/// Seconds of one call on the caller's thread and on a pool, in turn.
struct Times {
  static constexpr int rounds = 15;
  std::vector<double> alone, shared;

  double gain() const {
    std::vector<double> gains;
    for (std::size_t i = 0; i < alone.size(); ++i) gains.push_back(alone[i] / shared[i]);
    return quantile(gains, 0.5);
  }
};

template <class T>
Times measure(Case<T>& c, const Executor& pool, Call<T> call) {
  const int repetitions = static_cast<int>(std::max<Index>(1, 2000000 / std::max<Index>(c.size(), 1000)));
  const auto seconds = [&](const Executor& executor) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repetitions; ++i) (c.*call)(executor);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / repetitions;
  };
  Times times;
  for (int round = 0; round < Times::rounds; ++round) {
    times.alone.push_back(seconds({}));
    times.shared.push_back(seconds(pool));
  }
  return times;
}

}  // namespace bench
