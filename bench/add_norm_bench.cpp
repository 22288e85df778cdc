#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "baselines.hpp"
#include "evenkeel/ops/add_norm.hpp"
#include "layouts.hpp"
#include "problems.hpp"

/// The norm of a residual sum in one pass, beside streaming kernels over the same arrays and the two operations one
/// after the other.
namespace bench {
namespace {

using evenkeel::Shape;
using evenkeel::TensorView;
using View = TensorView<const float>;

constexpr Index largest = 4096 * 4096, longest = 4096;

/// Everything of the largest case, allocated once.
struct SumArrays {
  Buffer<float> x{largest}, h{largest}, s{largest}, y{largest}, dy{largest}, ds{largest}, dx{largest}, dh{largest};
  Buffer<float> gamma{longest}, beta{longest}, dgamma{longest}, dbeta{longest};
  std::vector<std::byte> workspace = std::vector<std::byte>(std::size_t{1} << 20);

  static SumArrays& get() {
    static SumArrays arrays;
    return arrays;
  }
};

/// s = a * x + h, y = b * s: the bytes of a forward.
void stream_forward(const SumArrays& a, Index count) {
  using S = evenkeel::kernels::Simd<evenkeel::native, float>;
  const auto one = S::broadcast(1.5f), other = S::broadcast(0.5f);
  evenkeel::kernels::for_each_vector<evenkeel::native, float, 4>(count, [&](auto, Index j, auto lanes) {
    const auto s = S::fma(lanes.load(a.x.at(j)), one, lanes.load(a.h.at(j)));
    lanes.store(a.s.at(j), s);
    lanes.store(a.y.at(j), s * other);
  });
}

/// dx = a * dy + s + ds, dh = b * dx: the bytes of a backward.
void stream_backward(const SumArrays& a, Index count) {
  using S = evenkeel::kernels::Simd<evenkeel::native, float>;
  const auto one = S::broadcast(1.5f), other = S::broadcast(0.5f);
  evenkeel::kernels::for_each_vector<evenkeel::native, float, 4>(count, [&](auto, Index j, auto lanes) {
    const auto dx = S::fma(lanes.load(a.dy.at(j)), one, lanes.load(a.s.at(j))) + lanes.load(a.ds.at(j));
    lanes.store(a.dx.at(j), dx);
    lanes.store(a.dh.at(j), dx * other);
  });
}

/// A line of the table. "naive" is the composition of the operations.
LayoutCase line(const std::string& what, Index rows, Index features, int arrays) {
  const LayoutCase c{what + " " + std::to_string(rows) + "x" + std::to_string(features),
                     static_cast<double>(arrays * rows * features) * sizeof(float), "stream"};
  LayoutCase::all().push_back(c);
  return c;
}

void add_forward(Index rows, Index features) {
  const Shape shape{rows, features};
  const auto view = [=](const Buffer<float>& b) { return TensorView<float>(b.at(0), shape); };
  const auto stream = [=] { stream_forward(SumArrays::get(), rows * features); };
  const auto layer = line("sum and LayerNorm forward", rows, features, 4);
  add(layer, "copy", stream);
  add(layer, "evenkeel", [=] {
    auto& a = SumArrays::get();
    evenkeel::AddLayerNormOptions<float> options;
    options.norm.gamma = {a.gamma.at(0), features}, options.norm.beta = {a.beta.at(0), features};
    evenkeel::add_layer_norm_into(view(a.x), view(a.h), view(a.s), view(a.y), options);
  });
  add(layer, "naive", [=] {
    auto& a = SumArrays::get();
    evenkeel::residual_add_into(view(a.x), view(a.h), view(a.s));
    evenkeel::layer_norm_into(view(a.s), view(a.y),
                              {.gamma = {a.gamma.at(0), features}, .beta = {a.beta.at(0), features}});
  });
  const auto rms = line("sum and RMSNorm forward", rows, features, 4);
  add(rms, "copy", stream);
  add(rms, "evenkeel", [=] {
    auto& a = SumArrays::get();
    evenkeel::AddRMSNormOptions<float> options;
    options.norm.gamma = {a.gamma.at(0), features};
    evenkeel::add_rms_norm_into(view(a.x), view(a.h), view(a.s), view(a.y), options);
  });
  add(rms, "naive", [=] {
    auto& a = SumArrays::get();
    evenkeel::residual_add_into(view(a.x), view(a.h), view(a.s));
    evenkeel::rms_norm_into(view(a.s), view(a.y), {.gamma = {a.gamma.at(0), features}});
  });
}

/// Unfused, the gradient at s takes a copy of ds, and its two products are operations of their own.
void add_backward(Index rows, Index features) {
  const Shape shape{rows, features};
  const auto view = [=](const Buffer<float>& b) { return TensorView<float>(b.at(0), shape); };
  const auto backward = line("sum and LayerNorm backward", rows, features, 5);
  const auto saved = std::make_shared<evenkeel::NormStatistics<float>>();
  const auto measured = [=]() -> const evenkeel::NormStatistics<float>& {
    auto& a = SumArrays::get();
    if (saved->is_empty()) evenkeel::layer_norm_into(view(a.s), view(a.y), *saved);
    return *saved;
  };
  add(backward, "copy", [=] { stream_backward(SumArrays::get(), rows * features); });
  add(backward, "evenkeel", [=] {
    auto& a = SumArrays::get();
    evenkeel::AddLayerNormOptions<float> options;
    options.norm.gamma = {a.gamma.at(0), features};
    evenkeel::add_layer_norm_backward<float>(
        {.dy = view(a.dy), .s = view(a.s), .ds = view(a.ds)}, measured(), options,
        {.dx = view(a.dx), .dh = view(a.dh), .dgamma = {a.dgamma.at(0), features}, .dbeta = {a.dbeta.at(0), features}},
        {.workspace = a.workspace});
  });
  add(backward, "naive", [=] {
    auto& a = SumArrays::get();
    const auto copy = [&](const Buffer<float>& from, const Buffer<float>& to) {
      streaming_copy(from.at(0), to.at(0), 1.f, rows * features);
    };
    copy(a.ds, a.dx);
    evenkeel::layer_norm_backward(
        view(a.dy), view(a.s), measured(), {.gamma = {a.gamma.at(0), features}},
        {.dx = evenkeel::add_to(view(a.dx)), .dgamma = {a.dgamma.at(0), features}, .dbeta = {a.dbeta.at(0), features}},
        {.workspace = a.workspace});
    copy(a.dx, a.dh);
  });
}

[[maybe_unused]] const bool registered = [] {
  for (const auto& [rows, features] : {std::pair{32, 768}, {256, 768}, {4096, 768}, {512, 4096}, {4096, 4096}}) {
    add_forward(rows, features);
    add_backward(rows, features);
  }
  return true;
}();

}  // namespace
}  // namespace bench
