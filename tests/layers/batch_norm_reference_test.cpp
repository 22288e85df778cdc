// BatchNorm against PyTorch's and ONNX's results in tests/data, in channels-first and channels-last memory of both
// orders.
#include "evenkeel/layers/batch_norm.hpp"
#include "ops/batch_norm_test.hpp"
#include "support/reference_case.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::BatchNorm;
using evenkeel::BatchNormSettings;

template <class S>
class BatchNormReference : public testing::Test {};
TYPED_TEST_SUITE(BatchNormReference, BatchScalars, ScalarName);

inline Shape shape_of(const Tensor& x) {
  Shape shape;
  for (const std::size_t extent : x.shape) shape.append(static_cast<Index>(extent));
  return shape;
}

/// The layer of a case, with the parameters and running statistics that it starts with.
template <class S>
BatchNorm<S> layer_of(const ReferenceCase& reference, const Shape& x, BatchNormSettings settings,
                      const std::map<std::string, std::string>& names) {
  settings.eps = reference.eps();
  settings.with_gamma = reference.has_input(names.at("gamma"));
  settings.with_beta = reference.has_input(names.at("beta"));
  settings.track_statistics = reference.has_input(names.at("mean"));
  BatchNorm<S> layer(x[1], settings);
  const auto load = [&](evenkeel::Parameter<S>& to, const char* name) {
    if (!to.is_absent()) to.load(reference.inputs.at(names.at(name)).as<S>().data(), x[1]);
  };
  load(layer.gamma(), "gamma"), load(layer.beta(), "beta");
  load(layer.running_mean(), "mean"), load(layer.running_var(), "var");
  return layer;
}

template <class S>
void expect_like(const std::vector<S>& got, const Tensor& expected) {
  EXPECT_TRUE(within(got, expected.data, torch_tolerance<S>(expected)));
}
template <class S>
void expect_like(std::span<const S> got, const Tensor& expected) {
  expect_like(std::vector<S>(got.begin(), got.end()), expected);
}

template <class S>
void expect_gradients_like(const BatchNorm<S>& layer, const std::vector<S>& dx, const char* x_name,
                           const ReferenceCase& reference) {
  expect_like(dx, reference.grads.at(x_name));
  if (!layer.gamma().is_absent()) expect_like(layer.gamma().gradient(), reference.grads.at("gamma"));
  if (!layer.beta().is_absent()) expect_like(layer.beta().gradient(), reference.grads.at("beta"));
}

/// `steps` training steps, of the last of which there are gradients.
template <class S>
void expect_torch_training(const ReferenceCase& reference, const Storage& storage) {
  const Shape shape = shape_of(reference.inputs.at("x_step1"));
  BatchNormSettings settings{.average = CumulativeAverage()};
  const auto& momentum = reference.attributes.at("momentum");
  if (!momentum.is_null()) settings.average = UpdateRate(momentum.get<double>());
  auto layer = layer_of<S>(reference, shape, settings,
                           {{"gamma", "gamma"}, {"beta", "beta"}, {"mean", "running_mean"}, {"var", "running_var"}});
  typename BatchNorm<S>::Saved saved;
  const int steps = reference.attributes.at("steps").get<int>();
  std::string step;
  Stored<S> x(shape, 1, storage), y(shape, 1, storage), dx(shape, 1, storage);
  for (int k = 1; k <= steps; ++k) {
    step = "_step" + std::to_string(k);
    x = Stored<S>(shape, 1, storage, reference.inputs.at("x" + step).as<S>());
    layer.forward_into(x.view(), y.view(), saved);
    expect_like(y.values(), reference.outputs.at("y" + step));
    if (layer.running_mean().is_absent()) continue;
    expect_like(layer.running_mean().values(), reference.outputs.at("running_mean" + step));
    expect_like(layer.running_var().values(), reference.outputs.at("running_var" + step));
  }
  EXPECT_EQ(layer.batches(), steps);
  const Stored<S> dy(shape, 1, storage, reference.grad_output.as<S>());
  layer.backward_into(dy.view(), saved, dx.view());
  expect_gradients_like(layer, dx.values(), ("x" + step).c_str(), reference);
}

template <class S>
void expect_torch_inference(const ReferenceCase& reference, const Storage& storage) {
  const Shape shape = shape_of(reference.inputs.at("x"));
  auto layer = layer_of<S>(reference, shape, {.freeze_statistics = true},
                           {{"gamma", "gamma"}, {"beta", "beta"}, {"mean", "running_mean"}, {"var", "running_var"}});
  const Stored<S> x(shape, 1, storage, reference.inputs.at("x").as<S>());
  const Stored<S> dy(shape, 1, storage, reference.grad_output.as<S>());
  Stored<S> y(shape, 1, storage), frozen(shape, 1, storage), dx(shape, 1, storage);
  layer.forward_into(x.view(), y.view());
  expect_like(y.values(), reference.outputs.at("y"));
  typename BatchNorm<S>::Saved saved;
  layer.forward_into(x.view(), frozen.view(), saved);
  EXPECT_TRUE(same_bits(frozen.values(), y.values()));
  layer.backward_into(dy.view(), saved, dx.view());
  expect_gradients_like(layer, dx.values(), "x", reference);
}

TYPED_TEST(BatchNormReference, AgreesWithPyTorch) {
  int cases = 0;
  for (const ReferenceCase& reference : read_cases("torch", "batchnorm")) {
    SCOPED_TRACE(reference.name);
    for (const Storage& storage : storages()) {
      SCOPED_TRACE(storage.name);
      reference.attributes.at("training").get<bool>() ? expect_torch_training<TypeParam>(reference, storage)
                                                      : expect_torch_inference<TypeParam>(reference, storage);
    }
    ++cases;
  }
  EXPECT_EQ(cases, 27);
}

TYPED_TEST(BatchNormReference, AgreesWithOnnx) {
  using S = TypeParam;
  int cases = 0;
  for (const ReferenceCase& reference : read_cases("onnx", "batchnorm_")) {
    SCOPED_TRACE(reference.name);
    const Shape shape = shape_of(reference.inputs.at("x"));
    for (const Storage& storage : storages()) {
      auto layer = layer_of<S>(
          reference, shape,
          {.average = Decay(reference.attributes.at("momentum").get<double>()), .variance = RunningVariance::biased},
          {{"gamma", "s"}, {"beta", "bias"}, {"mean", "mean"}, {"var", "var"}});
      const Stored<S> x(shape, 1, storage, reference.inputs.at("x").as<S>());
      Stored<S> y(shape, 1, storage);
      typename BatchNorm<S>::Saved saved;
      const auto expect = [&](const auto& got, const char* name) {
        const Tensor& expected = reference.outputs.at(name);
        EXPECT_TRUE(within(got, expected.data, onnx_tolerance(expected)));
      };
      if (reference.attributes.at("training_mode").get<int>() == 0) {
        layer.forward_into(x.view(), y.view());
      } else {
        layer.forward_into(x.view(), y.view(), saved);
        expect(layer.running_mean().values(), "output_mean");
        expect(layer.running_var().values(), "output_var");
      }
      expect(y.values(), "y");
    }
    ++cases;
  }
  EXPECT_EQ(cases, 4);
}

// A channel whose elements are all equal gives beta, exactly.
TYPED_TEST(BatchNormReference, AConstantChannelOfAReferenceCaseGivesBeta) {
  using S = TypeParam;
  const ReferenceCase reference = read_cases("torch", "batchnorm1d_6x4_train_constant_channel").at(0);
  const Shape shape = shape_of(reference.inputs.at("x_step1"));
  auto layer = layer_of<S>(reference, shape, {},
                           {{"gamma", "gamma"}, {"beta", "beta"}, {"mean", "running_mean"}, {"var", "running_var"}});
  const auto x = reference.inputs.at("x_step1").as<S>();
  std::vector<S> y(x.size());
  typename BatchNorm<S>::Saved saved;
  layer.forward_into(TensorView(x.data(), shape), TensorView(y.data(), shape), saved);
  int constant = 0;
  const oracle::ChannelShape s{6, 4, 1};
  for (std::size_t c = 0; c < 4; ++c) {
    const auto values = oracle::channel_of(x, s, c);
    if (values != std::vector<S>(6, values[0])) continue;
    ++constant;
    EXPECT_EQ(oracle::channel_of(y, s, c), std::vector<S>(6, layer.beta().values()[c]));
  }
  EXPECT_GE(constant, 1);
}

}  // namespace
}  // namespace evenkeel_test
