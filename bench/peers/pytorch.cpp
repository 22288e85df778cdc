#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <malloc.h>
#include <torch/version.h>

#include <array>
#include <memory>
#include <string>
#include <tuple>

#include "library.hpp"

/// PyTorch: the functions behind torch.nn.functional and its autograd, which return new tensors.
namespace bench {
namespace {

using Results = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// The arrays as tensors, and what was computed last.
struct Tensors {
  at::Tensor x, dy, gamma, beta;
  Results statistics, results;
};

at::Tensor over(const float* values, at::IntArrayRef extents) {
  return at::from_blob(const_cast<float*>(values), extents, at::kFloat);
}

std::shared_ptr<Tensors> make_tensors(const Case& c, const Problem<float>& p) {
  std::vector<std::int64_t> extents;
  for (const Index extent : c.extents()) extents.push_back(extent);
  return std::make_shared<Tensors>(Tensors{
      over(p.x, extents), over(p.dy, extents), over(p.gamma, {p.features}), over(p.beta, {p.features}), {}, {}});
}

std::span<float> elements(const at::Tensor& t) { return {t.data_ptr<float>(), static_cast<std::size_t>(t.numel())}; }

/// Runs `compute` into t->results. What the last run has returned is freed first, so that its memory serves again.
template <class Compute>
Contender contender_of(const std::shared_ptr<Tensors>& t, bool is_backward, Compute compute) {
  const auto run = [=] {
    const c10::InferenceMode no_autograd;
    t->results = {};
    t->results = compute();
  };
  const auto outputs = [=]() -> Contender::Outputs {
    const auto& [first, second, third] = t->results;
    if (!is_backward) return {elements(first)};
    return {elements(first), elements(second), elements(third)};
  };
  return {run, outputs};
}

constexpr std::array<bool, 3> all_gradients = {true, true, true};

Contender layer_norm(const Case& c, const Problem<float>& p) {
  const auto t = make_tensors(c, p);
  const std::array<std::int64_t, 1> features = {p.features};
  const auto forward = [=, eps = p.eps] { return at::native_layer_norm(t->x, features, t->gamma, t->beta, eps); };
  if (!c.is_backward) return contender_of(t, false, forward);
  t->statistics = forward();
  return contender_of(t, true, [=] {
    const auto& [y, mean, rstd] = t->statistics;
    return at::native_layer_norm_backward(t->dy, t->x, features, mean, rstd, t->gamma, t->beta, all_gradients);
  });
}

Contender batch_norm(const Case& c, const Problem<float>& p) {
  const auto t = make_tensors(c, p);
  const double eps = p.eps;
  if (c.norm == Norm::batch_inference) {
    const at::Tensor mean = over(p.beta, {p.features}), var = over(running_variances().data(), {p.features});
    return contender_of(t, false,
                        [=] { return at::native_batch_norm(t->x, t->gamma, t->beta, mean, var, false, 0, eps); });
  }
  const auto forward = [=] { return at::native_batch_norm(t->x, t->gamma, t->beta, {}, {}, true, 0, eps); };
  if (!c.is_backward) return contender_of(t, false, forward);
  t->statistics = forward();
  return contender_of(t, true, [=] {
    const auto& [y, mean, rstd] = t->statistics;
    return at::native_batch_norm_backward(t->dy, t->x, t->gamma, {}, {}, mean, rstd, true, eps, all_gradients);
  });
}

Contender make(const Case& c, const Problem<float>& p) {
  switch (c.norm) {
    case Norm::layer:
      return layer_norm(c, p);
    case Norm::rms:
      return {};
    default:
      return batch_norm(c, p);
  }
}

/// "AVX2", of the line "CPU capability usage: AVX2".
std::string instruction_set() {
  const std::string config = at::show_config(), label = "CPU capability usage: ";
  const auto start = config.find(label);
  if (start == std::string::npos) return "instruction set unknown";
  return config.substr(start + label.size(), config.find('\n', start) - start - label.size());
}

}  // namespace

Library pytorch_library() {
  at::set_num_threads(1);
  // New tensors take memory that was freed: fresh pages from the system would cost more than a norm does.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  return {"PyTorch", std::string(TORCH_VERSION) + " (" + instruction_set() + ")", make};
}

}  // namespace bench
