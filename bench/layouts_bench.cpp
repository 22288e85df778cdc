#include "layouts.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "baselines.hpp"
#include "evenkeel/ops/batch_norm.hpp"
#include "evenkeel/ops/group_norm.hpp"
#include "evenkeel/ops/instance_norm.hpp"
#include "evenkeel/ops/layer_norm.hpp"
#include "evenkeel/ops/rms_norm.hpp"
#include "problems.hpp"

/// Norms over strided axes, of channels, and of 16 bits, each beside a streaming copy of the same bytes.
namespace bench {
namespace {

using evenkeel::Shape;
using evenkeel::StorageOrder;
using evenkeel::TensorView;
using evenkeel::kernels::bf16;
using evenkeel::kernels::f16;

constexpr Index largest = 4096 * 4096, parameters = 65536;

/// x, dy, y and dx of the largest case, and parameters: allocated once.
template <class T>
struct Arrays {
  Buffer<float> gamma{parameters}, beta{parameters};
  std::vector<T> x, dy, y, dx;
  std::vector<float> dgamma, dbeta;
  std::vector<std::byte> workspace;

  static Arrays& get() {
    static Arrays arrays;
    return arrays;
  }

 private:
  Arrays() : y(largest), dx(largest), dgamma(parameters), dbeta(parameters), workspace(1 << 22) {
    const Buffer<float> numbers(largest);
    for (auto* values : {&x, &dy}) {
      values->resize(largest);
      for (Index i = 0; i < largest; ++i) {
        (*values)[static_cast<std::size_t>(i)] = evenkeel::kernels::from_compute<T>(*numbers.at(i));
      }
    }
  }
};

/// Where the elements are: [outer][length][inner], reduced over length (or over outer and inner, for channels).
struct Extents {
  Index outer, length, inner;
  Index size() const { return outer * length * inner; }
  Shape shape() const { return {outer, length, inner}; }
};

/// Registers a case and its copy: y = a * x, or dx = a * x + b * dy.
LayoutCase add_case(const std::string& name, Index size, bool is_backward) {
  const LayoutCase c{name, static_cast<double>((is_backward ? 3 : 2) * size) * sizeof(float),
                     is_backward ? "sum" : "copy"};
  LayoutCase::all().push_back(c);
  add(c, "copy", [=] {
    auto& a = Arrays<float>::get();
    if (is_backward) {
      streaming_sum(a.x.data(), a.dy.data(), a.dx.data(), 1.5f, 0.5f, size);
    } else {
      streaming_copy(a.x.data(), a.y.data(), 1.5f, size);
    }
  });
  return c;
}

TensorView<const float> view(const std::vector<float>& values, const Shape& shape) { return {values.data(), shape}; }
TensorView<float> view(std::vector<float>& values, const Shape& shape) { return {values.data(), shape}; }

/// What is written by hand: one row after another, along the stride.
void naive_layer_norm(const Extents& e) {
  auto& a = Arrays<float>::get();
  for (Index o = 0; o < e.outer; ++o) {
    for (Index i = 0; i < e.inner; ++i) {
      const float* x = a.x.data() + o * e.length * e.inner + i;
      float* y = a.y.data() + o * e.length * e.inner + i;
      float mean = 0, var = 0;
      for (Index l = 0; l < e.length; ++l) mean += x[l * e.inner];
      mean /= static_cast<float>(e.length);
      for (Index l = 0; l < e.length; ++l) var += (x[l * e.inner] - mean) * (x[l * e.inner] - mean);
      const float rstd = 1 / std::sqrt(var / static_cast<float>(e.length) + 1e-5f);
      for (Index l = 0; l < e.length; ++l) {
        y[l * e.inner] = (x[l * e.inner] - mean) * rstd * *a.gamma.at(l) + *a.beta.at(l);
      }
    }
  }
}

void add_strided(const char* where, const Extents& e) {
  const std::string name = std::string("over ") + where;
  const auto forward = add_case("LayerNorm forward " + name, e.size(), false);
  const auto options = [=] {
    auto& a = Arrays<float>::get();
    return evenkeel::LayerNormOptions<float>{
        .gamma = {a.gamma.at(0), e.length}, .beta = {a.beta.at(0), e.length}, .axis = 1};
  };
  add(forward, "evenkeel", [=] {
    auto& a = Arrays<float>::get();
    evenkeel::layer_norm_into(view(std::as_const(a.x), e.shape()), view(a.y, e.shape()), options());
  });
  add(forward, "naive", [=] { naive_layer_norm(e); });
  const auto rms = add_case("RMSNorm forward " + name, e.size(), false);
  add(rms, "evenkeel", [=] {
    auto& a = Arrays<float>::get();
    evenkeel::rms_norm_into(view(std::as_const(a.x), e.shape()), view(a.y, e.shape()),
                            {.gamma = {a.gamma.at(0), e.length}, .axis = 1});
  });
  const auto backward = add_case("LayerNorm backward " + name, e.size(), true);
  add(backward, "evenkeel", [=, saved = evenkeel::NormStatistics<float>()]() mutable {
    auto& a = Arrays<float>::get();
    const auto x = view(std::as_const(a.x), e.shape());
    if (saved.is_empty()) evenkeel::layer_norm_into(x, view(a.y, e.shape()), saved, options());
    evenkeel::layer_norm_backward(
        view(std::as_const(a.dy), e.shape()), x, saved, options(),
        {.dx = view(a.dx, e.shape()), .dgamma = {a.dgamma.data(), e.length}, .dbeta = {a.dbeta.data(), e.length}},
        {.workspace = a.workspace});
  });
}

/// Channels in the middle: [outer][channels][inner]; channels last if inner is 1.
void add_channels(const char* what, const Extents& e) {
  const std::string name = std::string(" of ") + what;
  const auto options = [=] {
    auto& a = Arrays<float>::get();
    return evenkeel::BatchNormOptions<float>{.gamma = {a.gamma.at(0), e.length}, .beta = {a.beta.at(0), e.length}};
  };
  const auto training = add_case("BatchNorm training" + name, e.size(), false);
  add(training, "evenkeel", [=, saved = evenkeel::BatchNormStatistics<float>()]() mutable {
    auto& a = Arrays<float>::get();
    evenkeel::batch_norm_into(view(std::as_const(a.x), e.shape()), view(a.y, e.shape()), saved, options());
  });
  const auto inference = add_case("BatchNorm inference" + name, e.size(), false);
  add(inference, "evenkeel", [=, var = std::vector<float>(static_cast<std::size_t>(e.length), 0.9f)] {
    auto& a = Arrays<float>::get();
    const evenkeel::RunningStatistics<float> running{.mean = {a.beta.at(0), e.length}, .var = var};
    evenkeel::batch_norm_into(view(std::as_const(a.x), e.shape()), view(a.y, e.shape()), running, options());
  });
}

void add_groups(const char* what, const Extents& e) {
  const auto group = add_case(std::string("GroupNorm (32 groups) of ") + what, e.size(), false);
  const auto parameter = [=](const Buffer<float>& values) {
    return evenkeel::ParameterView<float>(values.at(0), e.length);
  };
  add(group, "evenkeel", [=] {
    auto& a = Arrays<float>::get();
    evenkeel::group_norm_into(view(std::as_const(a.x), e.shape()), view(a.y, e.shape()),
                              {.gamma = parameter(a.gamma), .beta = parameter(a.beta), .groups = 32});
  });
  const auto instance = add_case(std::string("InstanceNorm of ") + what, e.size(), false);
  add(instance, "evenkeel", [=] {
    auto& a = Arrays<float>::get();
    evenkeel::instance_norm_into(view(std::as_const(a.x), e.shape()), view(a.y, e.shape()),
                                 {.gamma = parameter(a.gamma), .beta = parameter(a.beta)});
  });
}

/// 16 bits against float: the "copy" of these lines is the norm of as many floats.
template <class T>
void add_16_bits(const char* type, Index rows, Index features) {
  const Shape shape{rows, features};
  const std::string size = " " + std::to_string(rows) + "x" + std::to_string(features);
  const auto line = [&](const char* norm) {
    const LayoutCase c{std::string(norm) + " forward " + type + size, static_cast<double>(2 * rows * features) * 2,
                       "float"};
    LayoutCase::all().push_back(c);
    return c;
  };
  const auto parameter = [=](const Buffer<float>& values) { return std::pair(values.at(0), features); };
  const auto layer_norm = [=]<class U>(Arrays<U>& a) {
    const auto [gamma, n] = parameter(a.gamma);
    evenkeel::layer_norm_into(TensorView<const U>(a.x.data(), shape), TensorView<U>(a.y.data(), shape),
                              {.gamma = {gamma, n}, .beta = {a.beta.at(0), n}});
  };
  const auto rms_norm = [=]<class U>(Arrays<U>& a) {
    const auto [gamma, n] = parameter(a.gamma);
    evenkeel::rms_norm_into(TensorView<const U>(a.x.data(), shape), TensorView<U>(a.y.data(), shape),
                            {.gamma = {gamma, n}});
  };
  const auto layer = line("LayerNorm"), rms = line("RMSNorm");
  add(layer, "copy", [=] { layer_norm(Arrays<float>::get()); });
  add(layer, "evenkeel", [=] { layer_norm(Arrays<T>::get()); });
  add(rms, "copy", [=] { rms_norm(Arrays<float>::get()); });
  add(rms, "evenkeel", [=] { rms_norm(Arrays<T>::get()); });
}

[[maybe_unused]] const bool registered = [] {
  add_strided("768, 4096 tokens side by side", {1, 768, 4096});
  add_strided("4096, 512 tokens side by side", {1, 4096, 512});
  add_strided("the channels of (8, 64, 56, 56)", {8, 64, 56 * 56});
  add_channels("32x768", {32, 768, 1});
  add_channels("4096x768", {4096, 768, 1});
  add_channels("65536x64", {65536, 64, 1});
  add_channels("4096x4096", {4096, 4096, 1});
  add_channels("(32, 64, 56, 56)", {32, 64, 56 * 56});
  add_groups("(32, 64, 56, 56)", {32, 64, 56 * 56});
  for (const auto& [rows, features] : {std::pair{256, 768}, {4096, 768}, {4096, 4096}}) {
    add_16_bits<f16>("half", rows, features);
    add_16_bits<bf16>("bfloat16", rows, features);
  }
  return true;
}();

}  // namespace
}  // namespace bench
