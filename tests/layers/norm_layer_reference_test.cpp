// The layers LayerNorm and RMSNorm against PyTorch's results in tests/data.
#include "layers/layer_test.hpp"
#include "support/reference_case.hpp"

namespace evenkeel_test {
namespace {

Shape shape_of(const std::vector<std::size_t>& extents) {
  Shape shape;
  for (const std::size_t extent : extents) shape.append(static_cast<Index>(extent));
  return shape;
}

/// The layer that PyTorch had. Gemma's gamma is 1 + what is stored.
template <class Layer, class S = typename Layer::Scalar>
Layer layer_of(const ReferenceCase& reference) {
  typename Layer::Settings settings{.eps = reference.eps(), .with_gamma = reference.has_input("gamma")};
  if constexpr (has_beta<Layer>) settings.with_beta = reference.has_input("beta");
  Layer layer(shape_of(reference.attributes.at("normalized_shape").get<std::vector<std::size_t>>()), settings);
  const auto gamma_offset = static_cast<S>(reference.attributes.value("gamma_offset", 0.0));
  evenkeel::for_each_parameter(layer, [&](const std::string& name, Parameter<S>& parameter) {
    auto values = reference.inputs.at(name).as<S>();
    for (S& value : values) value += name == "gamma" ? gamma_offset : S(0);
    parameter.load(values.data(), static_cast<Index>(values.size()));
  });
  return layer;
}

template <class Layer>
class NormLayerReference : public testing::Test {};
TYPED_TEST_SUITE(NormLayerReference, Layers, LayerName);

TYPED_TEST(NormLayerReference, AgreesWithPyTorch) {
  using S = typename TypeParam::Scalar;
  int cases = 0;
  for (const ReferenceCase& reference : read_cases("torch", has_beta<TypeParam> ? "layernorm_" : "rmsnorm_")) {
    SCOPED_TRACE(reference.name);
    auto layer = layer_of<TypeParam>(reference);
    const Shape shape = shape_of(reference.inputs.at("x").shape);
    const auto x = reference.inputs.at("x").as<S>(), dy = reference.grad_output.as<S>();
    std::vector<S> y(x.size(), poison<S>), dx(x.size(), poison<S>);
    typename TypeParam::Saved saved;
    layer.forward_into(TensorView<const S>(x.data(), shape), TensorView<S>(y.data(), shape), saved);
    layer.backward_into(TensorView<const S>(dy.data(), shape), saved, TensorView<S>(dx.data(), shape));
    const auto expect = [](const std::vector<S>& got, const Tensor& expected) {
      EXPECT_TRUE(within(got, expected.data, torch_tolerance<S>(expected)));
    };
    expect(y, reference.outputs.at("y"));
    expect(saved.statistics().rstd, reference.outputs.at("rstd"));
    expect(dx, reference.grads.at("x"));
    std::size_t parameters = 0;
    evenkeel::for_each_parameter(layer, [&](const std::string& name, const Parameter<S>& parameter) {
      expect(gradient_of(parameter), reference.grads.at(name));
      ++parameters;
    });
    EXPECT_EQ(parameters, reference.grads.size() - 1);
    ++cases;
  }
  EXPECT_EQ(cases, has_beta<TypeParam> ? 22 : 23);
}

}  // namespace
}  // namespace evenkeel_test
