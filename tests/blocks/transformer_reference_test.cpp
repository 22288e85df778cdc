// Checks transformer layers against PyTorch's autograd: every encoder_* case of tests/data/torch.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "evenkeel/blocks/post_norm.hpp"
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/blocks/transformer_stack.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "support/reference_case.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Index;
using evenkeel::Parameter;
using evenkeel::Shape;
using evenkeel::TensorView;
template <class T>
using Layer = evenkeel::TransformerLayer<evenkeel::LayerNorm<T>>;
template <class T>
using Stack = evenkeel::TransformerStack<evenkeel::LayerNorm<T>>;

/// A parameter of torch's: its name, and where ours starts in it. Query, key and value are rows of one matrix there.
struct TorchPlace {
  std::string name;
  std::size_t first;
};

TorchPlace torch_place(const std::string& path, std::size_t size) {
  const std::map<std::string, std::string> names = {{"attention.sublayer.out.", "self_attn.out_proj."},
                                                    {"feed_forward.sublayer.up.", "linear1."},
                                                    {"feed_forward.sublayer.down.", "linear2."},
                                                    {"attention.norm_in.", "norm1."},
                                                    {"attention.norm_trunk.", "norm1."},
                                                    {"feed_forward.norm_in.", "norm2."},
                                                    {"feed_forward.norm_trunk.", "norm2."}};
  const auto dot = path.rfind('.') + 1;
  const std::string kind = path.substr(dot);
  std::size_t third = 0;
  for (const char* projection : {"query.", "key.", "value."}) {
    if (path.substr(0, dot) == std::string("attention.sublayer.") + projection) {
      return {"self_attn.in_proj_" + kind, third * size};
    }
    ++third;
  }
  const std::string torch_kind = kind == "gamma" ? "weight" : kind == "beta" ? "bias" : kind;
  return {names.at(path.substr(0, dot)) + torch_kind, 0};
}

/// The part of a tensor of torch's that is a parameter of ours.
std::vector<double> part(const Tensor& tensor, const TorchPlace& place, Index size) {
  const auto first = tensor.data.begin() + static_cast<std::ptrdiff_t>(place.first);
  return {first, first + size};
}

template <class T>
Layer<T> layer_of(const ReferenceCase& reference, const std::string& prefix) {
  const auto number = [&](const char* name) { return reference.attributes.at(name).get<Index>(); };
  const Index d_model = number("d_model");
  const bool is_pre = reference.attributes.at("norm_first").get<bool>();
  const evenkeel::LayerNorm<T> norm(d_model, {.eps = reference.eps()});
  const auto place = [&](auto f) -> evenkeel::TransformerBlock<evenkeel::LayerNorm<T>> {
    if (is_pre) return evenkeel::PreNorm(norm, std::move(f));
    return evenkeel::PostNorm(norm, std::move(f));
  };
  const bool is_causal = reference.attributes.at("mask") == "causal";
  Layer<T> layer(evenkeel::SelfAttention<T>(d_model, {.num_heads = number("nhead"), .causal = is_causal}),
                 evenkeel::FeedForward<T>(d_model, number("dim_feedforward")), place);
  for_each_parameter(layer, [&](const std::string& path, Parameter<T>& parameter) {
    const TorchPlace from = torch_place(path, static_cast<std::size_t>(parameter.size()));
    const auto values = part(reference.inputs.at(prefix + from.name), from, parameter.size());
    parameter.load(std::vector<T>(values.begin(), values.end()).data(), parameter.size());
  });
  return layer;
}

/// The keys that torch may look at: 1 in its mask means that it may not.
std::vector<std::uint8_t> keys_of(const ReferenceCase& reference) {
  std::vector<std::uint8_t> keys;
  if (!reference.has_input("key_padding_mask")) return keys;
  for (const double hidden : reference.inputs.at("key_padding_mask").data) keys.push_back(hidden == 0);
  return keys;
}

Shape shape_of(const Tensor& tensor) {
  Shape shape;
  for (const std::size_t extent : tensor.shape) shape.append(static_cast<Index>(extent));
  return shape;
}

template <class T, class Got>
testing::AssertionResult matches(const Got& got, const Tensor& expected) {
  return within(got, expected.data, torch_tolerance<T>(expected, 64));
}

template <class T>
class TransformerReference : public testing::Test {
 protected:
  template <class Model>
  void run(Model& model, const ReferenceCase& reference, typename Model::Saved& saved) {
    const auto keys = keys_of(reference);
    evenkeel::Context context;
    if (!keys.empty()) context.key_mask = keys;
    x = reference.inputs.at("x").as<T>();
    const auto dy = reference.grad_output.as<T>();
    const Shape shape = shape_of(reference.inputs.at("x"));
    std::vector<T> y(x.size()), inference(x.size()), dx(x.size());
    const TensorView<const T> input(x.data(), shape), upstream(dy.data(), shape);
    std::as_const(model).forward_into(input, TensorView<T>(inference.data(), shape), context);
    model.forward_into(input, TensorView<T>(y.data(), shape), saved, context);
    model.backward_into(upstream, saved, TensorView<T>(dx.data(), shape), context, GradientProbe{{}, block_gradients});
    EXPECT_TRUE(matches<T>(inference, reference.outputs.at("y")));
    EXPECT_TRUE(matches<T>(y, reference.outputs.at("y")));
    EXPECT_TRUE(matches<T>(dx, reference.grads.at("x")));
  }

  /// Keeps the gradient at the input of each block.
  struct GradientProbe : evenkeel::NoObserver {
    void on_gradient(std::size_t block, const TensorView<const T>& gradient, const auto&) {
      to[block].assign(gradient.data(), gradient.data() + gradient.size());
    }
    std::map<std::size_t, std::vector<T>>& to;
  };

  std::vector<T> x;
  std::map<std::size_t, std::vector<T>> block_gradients;
};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(TransformerReference, Scalars);

TYPED_TEST(TransformerReference, LayersGivePyTorchsResultAndEveryGradient) {
  using T = TypeParam;
  const auto cases = read_cases("torch", "encoder_layer_");
  EXPECT_EQ(cases.size(), 6u);
  for (const ReferenceCase& reference : cases) {
    SCOPED_TRACE(reference.name);
    Layer<T> layer = layer_of<T>(reference, "");
    typename Layer<T>::Saved saved;
    this->run(layer, reference, saved);
    std::size_t numbers = 0, expected_numbers = 0;
    for_each_parameter(layer, [&](const std::string& path, const Parameter<T>& parameter) {
      const TorchPlace from = torch_place(path, static_cast<std::size_t>(parameter.size()));
      const Tensor& whole = reference.grads.at(from.name);
      EXPECT_TRUE(within(parameter.gradient(), part(whole, from, parameter.size()), torch_tolerance<T>(whole, 64)))
          << path;
      numbers += parameter.gradient().size();
    });
    for (const auto& [name, gradient] : reference.grads) {
      if (name != "x") expected_numbers += gradient.data.size();
    }
    EXPECT_EQ(numbers, expected_numbers);
  }
}

TYPED_TEST(TransformerReference, StacksGivePyTorchsStreamsAndTheirGradients) {
  using T = TypeParam;
  const auto cases = read_cases("torch", "encoder_stack");
  EXPECT_EQ(cases.size(), 2u);
  for (const ReferenceCase& reference : cases) {
    SCOPED_TRACE(reference.name);
    std::vector<Layer<T>> layers;
    for (int i = 0; i < 4; ++i) layers.push_back(layer_of<T>(reference, "layers." + std::to_string(i) + "."));
    Stack<T> stack(std::move(layers), std::nullopt);
    typename Stack<T>::Saved saved;
    this->run(stack, reference, saved);
    for (std::size_t i = 1; i < 4; ++i) {
      const std::string name = "layer_input_" + std::to_string(i);
      const TensorView<const T> stream = saved.stream(2 * i - 1);
      EXPECT_TRUE(matches<T>(std::vector<T>(stream.data(), stream.data() + stream.size()), reference.outputs.at(name)));
      EXPECT_TRUE(matches<T>(this->block_gradients[2 * i], reference.grads.at(name)));
    }
  }
}

}  // namespace
}  // namespace evenkeel_test
