// What an Eigen pool gains against one thread, beside what a streaming copy gains: evenkeel_threads [THREADS]
#include <unsupported/Eigen/CXX11/ThreadPool>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "../problems.hpp"
#include "../quantile.hpp"
#include "evenkeel/ops/layer_norm.hpp"
#include "evenkeel/ops/rms_norm.hpp"

namespace {

using evenkeel::Context;
using evenkeel::Executor;
using evenkeel::Index;
using evenkeel::TensorView;

constexpr int rounds = 15;
constexpr Index pieces = 64;  // of a copy

/// The tensors and parameters of one shape.
class Case {
 public:
  Case(Index rows, Index features)
      : shape_{rows, features}, x_(shape_.size()), dy_(shape_.size(), 2), y_(shape_.size()), dx_(shape_.size()) {
    const std::size_t bytes = evenkeel::layer_norm_workspace_bytes<float>(shape_);
    for (auto* parameter : {&gamma_, &beta_, &dgamma_, &dbeta_})
      parameter->assign(static_cast<std::size_t>(features), 1);
    memory_.resize(bytes);
    layer_norm({});
    rms_norm({});
  }
  std::string name() const { return std::to_string(shape_[0]) + "×" + std::to_string(shape_[1]); }
  int repetitions() const { return static_cast<int>(std::max<Index>(1, 2000000 / shape_.size())); }

  void copy(const Executor& executor) {
    executor.run(pieces, [&](Index first, Index last) {
      const Index from = first * shape_.size() / pieces, to = last * shape_.size() / pieces;
      bench::streaming_copy(x_.at(from), y_.at(from), 1.5f, to - from);
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
  TensorView<const float> in(const bench::Buffer<float>& buffer) const { return {buffer.at(0), shape_}; }
  TensorView<float> out(const bench::Buffer<float>& buffer) const { return {buffer.at(0), shape_}; }
  Context context(const Executor& executor) { return {.executor = executor, .workspace = memory_}; }

  evenkeel::Shape shape_;
  bench::Buffer<float> x_, dy_, y_, dx_;
  std::vector<float> gamma_, beta_, dgamma_, dbeta_;
  std::vector<std::byte> memory_;
  evenkeel::NormStatistics<float> of_layer_norm_, of_rms_norm_;
};

/// Median of the rounds of one thread's time divided by the pool's.
template <class Call>
double gain(Case& c, const Executor& pool, const Call& call) {
  const auto seconds = [&](const Executor& executor) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < c.repetitions(); ++i) call(c, executor);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<double> gains;
  for (int round = 0; round < rounds; ++round) {
    const double alone = seconds({});
    gains.push_back(alone / seconds(pool));
  }
  return bench::quantile(gains, 0.5);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  if (threads < 1) return std::fprintf(stderr, "usage: %s [THREADS], at least 1 (default 2)\n", argv[0]), 2;
  Eigen::ThreadPool threads_of_pool(threads);
  const Executor pool(threads_of_pool);
  std::printf("Speed with %d threads as a multiple of one thread's, float, median of %d rounds\n\n", threads, rounds);
  std::printf("| rows × features | copy | LayerNorm forward | backward | RMSNorm forward | backward |\n");
  std::printf("|---|---|---|---|---|---|\n");
  for (const auto& [rows, features] : {std::pair{256, 768}, {4096, 768}, {512, 4096}, {4096, 4096}, {65536, 64}}) {
    Case c(rows, features);
    const double copy = gain(c, pool, [](Case& at, const Executor& e) { at.copy(e); });
    const double layer = gain(c, pool, [](Case& at, const Executor& e) { at.layer_norm(e); });
    const double layer_backward = gain(c, pool, [](Case& at, const Executor& e) { at.layer_norm_backward(e); });
    const double rms = gain(c, pool, [](Case& at, const Executor& e) { at.rms_norm(e); });
    const double rms_backward = gain(c, pool, [](Case& at, const Executor& e) { at.rms_norm_backward(e); });
    std::printf("| %s | %.2f | %.2f | %.2f | %.2f | %.2f |\n", c.name().c_str(), copy, layer, layer_backward, rms,
                rms_backward);
  }
}
