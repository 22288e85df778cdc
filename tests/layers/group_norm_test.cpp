// The layers GroupNorm and InstanceNorm: what their ops give, parameters and their gradients, memory and errors.
#include "evenkeel/layers/group_norm.hpp"
#include "core/allocations.hpp"
#include "core/error_text.hpp"
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/core/eigen_tensor.hpp"
#include "evenkeel/layers/instance_norm.hpp"
#include "evenkeel/sublayers/function_sublayer.hpp"
#include "ops/group_op_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Context;
using evenkeel::Parameter;

template <class S>
using Image = Eigen::Tensor<S, 4, Eigen::RowMajor>;

template <class S>
Image<S> image_of(const std::vector<S>& values, Index n, Index c, Index h, Index w) {
  Image<S> x(n, c, h, w);
  std::copy(values.begin(), values.end(), x.data());
  return x;
}
template <class S>
std::vector<S> values_of(const Image<S>& x) {
  return {x.data(), x.data() + x.size()};
}
template <class S>
std::vector<S> gradient_of(const Parameter<S>& parameter) {
  return {parameter.gradient().begin(), parameter.gradient().end()};
}

template <class S>
struct GroupKind {
  using Scalar = S;
  using Layer = evenkeel::GroupNorm<S>;
  static constexpr const char* name = "GroupNorm";
  static constexpr Index groups = 2;
  static Layer make(const typename Layer::Settings& settings = {}) { return Layer(2, 4, settings); }
};
template <class S>
struct InstanceKind {
  using Scalar = S;
  using Layer = evenkeel::InstanceNorm<S>;
  static constexpr const char* name = "InstanceNorm";
  static constexpr Index groups = 4;
  static Layer make(const typename Layer::Settings& settings = {}) { return Layer(4, settings); }
};
struct KindName {
  template <class Kind>
  static std::string GetName(int) {
    return std::string(Kind::name) + (std::is_same_v<typename Kind::Scalar, float> ? "_float" : "_double");
  }
};

template <class Kind>
class GroupNormLayers : public testing::Test {
 protected:
  using Number = typename Kind::Scalar;
  using Layer = typename Kind::Layer;

  ImageData<Number> data = random_images<Number>(2, 4, {3, 5}, Kind::groups, 901, 0.5);
  Image<Number> x = image_of(data.x, 2, 4, 3, 5), dy = image_of(data.dy, 2, 4, 3, 5);

  /// The layer with the parameters of `data`, as far as it has any.
  Layer layer(const typename Layer::Settings& settings = {}) {
    Layer layer = Kind::make(settings);
    if (settings.with_gamma) layer.gamma().load(data.gamma.data(), 4);
    if (settings.with_beta) layer.beta().load(data.beta.data(), 4);
    if (!settings.with_gamma) data.gamma.clear();
    if (!settings.with_beta) data.beta.clear();
    return layer;
  }
};
using Kinds = testing::Types<GroupKind<float>, GroupKind<double>, InstanceKind<float>, InstanceKind<double>>;
TYPED_TEST_SUITE(GroupNormLayers, Kinds, KindName);

// B41
TYPED_TEST(GroupNormLayers, GiveTheOraclesOutputInInferenceAndTraining) {
  for (int presence = 0; presence < 4; ++presence) {
    const auto layer = this->layer({.with_gamma = presence < 2, .with_beta = presence % 2 == 0});
    const auto y = values_of(layer.forward(this->x));
    EXPECT_TRUE(within_ulp(y, expected_y(this->data), 4, y_scale(this->data)));
    typename TypeParam::Layer::Saved saved;
    EXPECT_EQ(values_of(layer.forward(this->x, saved)), y);
    EXPECT_EQ(saved.statistics().rstd.size(), static_cast<std::size_t>(2 * TypeParam::groups));
    this->data = random_images<typename TypeParam::Scalar>(2, 4, {3, 5}, TypeParam::groups, 901, 0.5);
  }
}

TYPED_TEST(GroupNormLayers, GradientsMatchDualNumbersAndAddUp) {
  using S = typename TypeParam::Scalar;
  auto layer = this->layer();
  typename TypeParam::Layer::Saved saved;
  layer.forward(this->x, saved);
  const auto dx = values_of(layer.backward(this->dy, saved));
  const auto scales = gradient_scales(this->data);
  EXPECT_TRUE(within_ulp(dx, dual_gradient(this->data, 0), 4, scales.dx_scale));
  EXPECT_TRUE(within_ulp(gradient_of(layer.gamma()), dual_gradient(this->data, 1), 22, scales.dgamma_scale));
  EXPECT_TRUE(within_ulp(gradient_of(layer.beta()), dual_gradient(this->data, 2), 22, scales.dbeta_scale));
  const auto once = gradient_of(layer.gamma());
  Image<S> sum = this->dy;
  layer.backward_into(this->dy, saved, evenkeel::add_to(sum));
  for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(sum.data()[i], this->dy.data()[i] + dx[i], 1e-5);
  for (std::size_t c = 0; c < 4; ++c) EXPECT_NEAR(layer.gamma().gradient()[c], 2 * once[c], 1e-4);
  evenkeel::zero_gradients(layer);
  EXPECT_EQ(gradient_of(layer.beta()), std::vector<S>(4));
}

TYPED_TEST(GroupNormLayers, ParametersStartAtOneAndZeroAndAreVisitedByName) {
  using S = typename TypeParam::Scalar;
  auto layer = TypeParam::make();
  std::vector<std::string> paths;
  evenkeel::for_each_parameter(
      layer,
      [&](const std::string& path, auto& parameter) {
        paths.push_back(path);
        EXPECT_EQ(parameter.shape(), Shape(4));
        EXPECT_EQ(parameter.values()[3], path == "norm.gamma" ? S(1) : S(0));
      },
      "norm.");
  EXPECT_EQ(paths, (std::vector<std::string>{"norm.gamma", "norm.beta"}));
  int visited = 0;
  auto without = TypeParam::make({.with_gamma = false, .with_beta = false});
  evenkeel::for_each_parameter(without, [&](const std::string&, auto&) { ++visited; });
  EXPECT_EQ(visited, 0);
}

TYPED_TEST(GroupNormLayers, AnImageThatIsMovedInIsKeptForBackward) {
  auto layer = this->layer();
  typename TypeParam::Layer::Saved saved, expected_saved;
  layer.forward(this->x, expected_saved);
  const auto expected = values_of(layer.backward(this->dy, expected_saved));
  auto moved = this->x;
  layer.forward(std::move(moved), saved);
  EXPECT_EQ(values_of(layer.backward(this->dy, saved)), expected);
}

TYPED_TEST(GroupNormLayers, NothingIsAllocatedWithAWorkspaceWhateverTheLayout) {
  using S = typename TypeParam::Scalar;
  for (const auto order : {StorageOrder::row_major, StorageOrder::column_major}) {
    auto layer = this->layer();
    std::vector<S> y(this->data.x.size()), dx(y);
    const Shape shape = {2, 4, 3, 5};
    const TensorView<const S> x_view(this->data.x.data(), shape, order), dy_view(this->data.dy.data(), shape, order);
    const TensorView<S> y_view(y.data(), shape, order), dx_view(dx.data(), shape, order);
    std::vector<std::byte> memory(layer.workspace_bytes(shape));
    const Context context{.workspace = memory};
    typename TypeParam::Layer::Saved saved;
    const AllocationCount inference;
    layer.forward_into(x_view, y_view, context);
    EXPECT_EQ(inference.allocations(), 0);
    layer.forward_into(x_view, y_view, saved, context);
    layer.backward_into(dy_view, saved, dx_view, context);
    const AllocationCount second_step;
    layer.forward_into(x_view, y_view, saved, context);
    layer.backward_into(dy_view, saved, dx_view, context);
    EXPECT_EQ(second_step.allocations(), 0);
  }
}

TYPED_TEST(GroupNormLayers, AFreshOneHasTheSettingsAndNewParameters) {
  using S = typename TypeParam::Scalar;
  const auto layer = this->layer({.eps = 0.5, .with_beta = false, .channel_axis = -1, .batch_axis = 1});
  const auto fresh = layer.fresh();
  EXPECT_EQ(fresh.eps(), 0.5);
  EXPECT_EQ(fresh.channels(), 4);
  EXPECT_EQ(fresh.channel_axis(), -1);
  EXPECT_EQ(fresh.batch_axis(), 1);
  EXPECT_TRUE(fresh.beta().is_absent());
  EXPECT_EQ(fresh.gamma().values()[0], S(1));
}

// Norms of images take part in blocks.
TYPED_TEST(GroupNormLayers, AreNormsOfResidualBlocks) {
  using S = typename TypeParam::Scalar;
  static_assert(evenkeel::Norm<typename TypeParam::Layer>);
  auto layer = this->layer();
  const Image<S> y = layer.forward(this->x);
  const auto twice = evenkeel::sublayer([](const Image<S>& z) { return Image<S>(z * S(2)); },
                                        [](const Image<S>& dz) { return Image<S>(dz * S(2)); });
  evenkeel::PreNorm block(layer, twice);
  const Image<S> got = block.forward(this->x);
  for (Index i = 0; i < y.size(); ++i) {
    EXPECT_NEAR(got.data()[i], this->x.data()[i] + 2 * y.data()[i], 16 * std::numeric_limits<S>::epsilon() * 8);
  }
}

// ---------------------------------------------------------------- errors

TYPED_TEST(GroupNormLayers, BackwardWithoutAForwardIsRefused) {
  auto layer = this->layer();
  typename TypeParam::Layer::Saved saved;
  EXPECT_EQ(error_text<std::logic_error>([&] { layer.backward(this->dy, saved); }),
            std::string("evenkeel::") + TypeParam::name +
                "::backward: saved is empty, expected the Saved of a forward(x, saved) call");
}

TYPED_TEST(GroupNormLayers, ImagesOfOtherChannelsAreRefused) {
  using S = typename TypeParam::Scalar;
  auto layer = this->layer();
  const Image<S> other = image_of(this->data.x, 4, 2, 3, 5);
  typename TypeParam::Layer::Saved saved;
  const std::string text = std::string("evenkeel::") + TypeParam::name +
                           "::forward: axis 1 of x has 2 channels, expected 4 (x has shape [4, 2, 3, 5])";
  EXPECT_EQ(error_text<std::invalid_argument>([&] { layer.forward(other); }), text);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { layer.forward(other, saved); }), text);
  layer.forward(this->x, saved);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { layer.backward(other, saved); }),
            std::string("evenkeel::") + TypeParam::name +
                "::backward: dy has shape [4, 2, 3, 5], expected [2, 4, 3, 5] (the shape of the x that was saved)");
}

TYPED_TEST(GroupNormLayers, TrainingInPlaceIsRefused) {
  auto layer = this->layer();
  typename TypeParam::Layer::Saved saved;
  EXPECT_EQ(error_text<std::invalid_argument>([&] { layer.forward_into(this->x, this->x, saved); }),
            std::string("evenkeel::") + TypeParam::name +
                "::forward: y overlaps x, which backward reads again, in memory, expected memory of its own");
  EXPECT_EQ(values_of(this->x), this->data.x);
}

TYPED_TEST(GroupNormLayers, EpsBelowZeroIsRefused) {
  EXPECT_EQ(error_text<std::invalid_argument>([] { TypeParam::make({.eps = -1}); }),
            std::string("evenkeel::") + TypeParam::name + ": eps is -1.000000, expected a finite number of at least 0");
}

// B76
TEST(GroupNormLayer, GroupsThatDoNotDivideTheChannelsAreRefusedAtConstruction) {
  const auto text = [](Index groups, Index channels) {
    return error_text<std::invalid_argument>([&] { evenkeel::GroupNorm<float> layer(groups, channels); });
  };
  EXPECT_EQ(text(4, 6), "evenkeel::GroupNorm: groups is 4, expected a divisor of 6, the number of channels");
  EXPECT_EQ(text(0, 6), "evenkeel::GroupNorm: groups is 0, expected at least 1");
  EXPECT_EQ(text(1, 0), "evenkeel::GroupNorm: channels is 0, expected at least 1");
  EXPECT_EQ(error_text<std::invalid_argument>([] { evenkeel::InstanceNorm<float> layer(0); }),
            "evenkeel::InstanceNorm: channels is 0, expected at least 1");
}

}  // namespace
}  // namespace evenkeel_test
