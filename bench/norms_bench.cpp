#include <benchmark/benchmark.h>

#include <string>

#include "baselines.hpp"
#include "evenkeel/kernels/layer_norm.hpp"
#include "evenkeel/kernels/rms_norm.hpp"
#include "problems.hpp"
#include "table.hpp"

/// LayerNorm and RMSNorm, forward and backward, beside the streaming copy of the same bytes, a plain loop and plain
/// Eigen.
namespace bench {
namespace {

namespace kernels = evenkeel::kernels;

template <class T>
kernels::RowNormForward<T> forward_args(const Problem<T>& p) {
  return {.x = p.x,
          .gamma = p.gamma,
          .beta = p.beta,
          .y = p.y,
          .mean = p.mean,
          .mean_rest = p.mean_rest,
          .rstd = p.rstd,
          .rows = p.rows,
          .features = p.features,
          .x_stride = p.features,
          .y_stride = p.features,
          .eps = p.eps};
}

template <class T>
kernels::RowNormBackward<T> backward_args(const Problem<T>& p) {
  return {.dy = p.dy,
          .x = p.x,
          .gamma = p.gamma,
          .mean = p.mean,
          .mean_rest = p.mean_rest,
          .rstd = p.rstd,
          .dx = p.dx,
          .dgamma = p.dgamma,
          .dbeta = p.dbeta,
          .add_dx = false,
          .add_dgamma = false,
          .add_dbeta = false,
          .rows = p.rows,
          .features = p.features,
          .dy_stride = p.features,
          .x_stride = p.features,
          .dx_stride = p.features,
          .workspace = Data<T>::workspace(p.rows, p.features)};
}

/// Times `run` on a shape; `arrays` of [rows, features] are the bytes that have to be moved.
template <class T, class Run>
void add(const Entry& entry, int arrays, Run run) {
  benchmark::RegisterBenchmark(
      entry.name().c_str(),
      [=](benchmark::State& state) {
        const Problem<T> p = Data<T>::problem(entry.shape);
        kernels::layer_norm_forward(forward_args(p));  // statistics for the backwards
        run(p);
        for (auto _ : state) {
          run(p);
          benchmark::ClobberMemory();
        }
        state.SetBytesProcessed(state.iterations() * arrays * p.rows * p.features * static_cast<Index>(sizeof(T)));
        state.SetItemsProcessed(state.iterations() * p.rows);
      })
      ->Unit(benchmark::kNanosecond)
      ->UseRealTime();
  Entry::all().push_back(entry);
}

template <class T>
void add_our_forward(const Shape& shape, const char* type) {
  const auto entry = [&](const char* norm) { return Entry{norm, "forward", type, "evenkeel", shape}; };
  add<T>(entry("layer_norm"), 2, [](const Problem<T>& p) { kernels::layer_norm_forward(forward_args(p)); });
  add<T>(entry("rms_norm"), 2, [](const Problem<T>& p) {
    auto args = forward_args(p);
    args.beta = nullptr;
    args.mean = args.mean_rest = nullptr;
    kernels::rms_norm_forward(args);
  });
}

template <class T>
void add_forward(const Shape& shape, const char* type) {
  const auto entry = [&](const char* norm, const char* by) { return Entry{norm, "forward", type, by, shape}; };
  add<T>(entry("copy", "copy"), 2, [](const Problem<T>& p) { streaming_copy(p.x, p.y, T(1.5), p.rows * p.features); });
  add_our_forward<T>(shape, type);
  add<T>(entry("layer_norm", "naive"), 2, naive::layer_norm_forward<T>);
  add<T>(entry("layer_norm", "eigen"), 2, eigen::layer_norm_forward<T>);
  add<T>(entry("rms_norm", "naive"), 2, naive::rms_norm_forward<T>);
  add<T>(entry("rms_norm", "eigen"), 2, eigen::rms_norm_forward<T>);
}

template <class T>
void add_backward(const Shape& shape, const char* type) {
  const auto entry = [&](const char* norm, const char* by) { return Entry{norm, "backward", type, by, shape}; };
  add<T>(entry("copy", "copy"), 3,
         [](const Problem<T>& p) { streaming_sum(p.x, p.dy, p.dx, T(1.5), T(0.5), p.rows * p.features); });
  add<T>(entry("layer_norm", "evenkeel"), 3,
         [](const Problem<T>& p) { kernels::layer_norm_backward(backward_args(p)); });
  add<T>(entry("layer_norm", "naive"), 3, naive::layer_norm_backward<T>);
  add<T>(entry("layer_norm", "eigen"), 3, eigen::layer_norm_backward<T>);
  add<T>(entry("rms_norm", "evenkeel"), 3, [](const Problem<T>& p) {
    auto args = backward_args(p);
    args.dbeta = nullptr;
    kernels::rms_norm_backward(args);
  });
  add<T>(entry("rms_norm", "naive"), 3, naive::rms_norm_backward<T>);
  add<T>(entry("rms_norm", "eigen"), 3, eigen::rms_norm_backward<T>);
}

[[maybe_unused]] const bool registered = [] {
  for (const Shape& shape : shapes()) {
    add_forward<float>(shape, "f32");
    add_forward<double>(shape, "f64");
    add_backward<float>(shape, "f32");
    add_backward<double>(shape, "f64");
  }
  for (const Shape& shape : shapes_of_16_bits()) {
    add_our_forward<kernels::bf16>(shape, "bf16");
    add_our_forward<kernels::f16>(shape, "f16");
  }
  return true;
}();

}  // namespace
}  // namespace bench
