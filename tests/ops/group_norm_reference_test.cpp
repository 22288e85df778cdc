// GroupNorm and InstanceNorm against PyTorch's and ONNX's results in tests/data, in every layout of images.
#include "ops/group_op_test.hpp"
#include "support/reference_case.hpp"

namespace evenkeel_test {
namespace {

/// x, and the parameters of the names they have in the file. InstanceNorm has a group for each channel.
template <class S>
ImageData<S> data_of(const ReferenceCase& reference, const char* gamma, const char* beta) {
  const Tensor& x = reference.inputs.at("x");
  ImageData<S> d{.examples = static_cast<Index>(x.shape[0]), .channels = static_cast<Index>(x.shape[1])};
  for (std::size_t axis = 2; axis < x.shape.size(); ++axis) d.pixel_shape.push_back(static_cast<Index>(x.shape[axis]));
  d.groups = reference.attributes.value("num_groups", d.channels);
  d.x = x.as<S>();
  if (reference.has_input(gamma)) d.gamma = reference.inputs.at(gamma).as<S>();
  if (reference.has_input(beta)) d.beta = reference.inputs.at(beta).as<S>();
  d.eps = reference.eps();
  return d;
}

template <class S>
class GroupNormReference : public testing::Test {
 protected:
  static void expect_torch(const ReferenceCase& reference, const ImageLayout& layout) {
    SCOPED_TRACE(reference.name + ", " + layout.name);
    const auto d = data_of<S>(reference, "gamma", "beta");
    ImageMemory<S> x(d, layout, d.x), dy(d, layout, reference.grad_output.as<S>()), y(d, layout), dx(d, layout);
    const auto options = options_of(d, x);
    NormStatistics<S> saved;
    std::vector<S> dgamma(d.gamma.size()), dbeta(d.beta.size());
    evenkeel::GroupNormGradients<S> to{.dx = dx.view()};
    if (!d.gamma.empty()) to.dgamma = dgamma;
    if (!d.beta.empty()) to.dbeta = dbeta;
    evenkeel::group_norm_into(x.view(), y.view(), saved, options);
    evenkeel::group_norm_backward(dy.view(), x.view(), saved, options, to);
    const auto expect = [](const std::vector<S>& got, const Tensor& expected) {
      EXPECT_TRUE(within(got, expected.data, torch_tolerance<S>(expected)));
    };
    expect(y.values(), reference.outputs.at("y"));
    expect(dx.values(), reference.grads.at("x"));
    if (!d.gamma.empty()) expect(dgamma, reference.grads.at("gamma"));
    if (!d.beta.empty()) expect(dbeta, reference.grads.at("beta"));
  }
  static void expect_onnx(const ReferenceCase& reference, const ImageLayout& layout, const char* gamma) {
    SCOPED_TRACE(reference.name + ", " + layout.name);
    const auto d = data_of<S>(reference, gamma, "bias");
    ImageMemory<S> x(d, layout, d.x), y(d, layout);
    evenkeel::group_norm_into(x.view(), y.view(), options_of(d, x));
    const Tensor& expected = reference.outputs.at("y");
    EXPECT_TRUE(within(y.values(), expected.data, onnx_tolerance(expected)));
  }
};
TYPED_TEST_SUITE(GroupNormReference, Scalars, ScalarName);

TYPED_TEST(GroupNormReference, AgreesWithPyTorch) {
  int cases = 0;
  for (const char* op : {"groupnorm_", "instancenorm_"}) {
    for (const ReferenceCase& reference : read_cases("torch", op)) {
      for (const auto& layout : image_layouts()) this->expect_torch(reference, layout);
      ++cases;
    }
  }
  EXPECT_EQ(cases, 10);
}

TYPED_TEST(GroupNormReference, AgreesWithOnnx) {
  int cases = 0;
  for (const auto& [op, gamma] : {std::pair{"group_normalization_", "scale"}, std::pair{"instancenorm_", "s"}}) {
    for (const ReferenceCase& reference : read_cases("onnx", op)) {
      for (const auto& layout : image_layouts()) this->expect_onnx(reference, layout, gamma);
      ++cases;
    }
  }
  EXPECT_EQ(cases, 4);
}

}  // namespace
}  // namespace evenkeel_test
