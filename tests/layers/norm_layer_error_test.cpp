// What the layers LayerNorm and RMSNorm refuse: the whole text, and that nothing has changed when it is thrown.
#include "layers/layer_test.hpp"

namespace evenkeel_test {
namespace {

/// A layer of 4 features with a gradient of its own or none, and tensors [3, 4] that fit it. Outputs hold poison.
template <class Layer>
class NormLayerError : public testing::Test {
 protected:
  using Scalar = typename Layer::Scalar;

  NormLayerError() { layer_.forward(x_, saved_); }

  static std::string without_name(const std::string& text, const std::string& suffix) {
    const std::string start = std::string("evenkeel::") + layer_name<Layer> + suffix;
    EXPECT_TRUE(text.starts_with(start)) << text;
    return text.substr(std::min(start.size(), text.size()));
  }

  /// What constructors say.
  template <class Make>
  static std::string made_text(const Make& make) {
    return without_name(error_text<std::invalid_argument>(make), ": ");
  }

  /// What the forward says of x and y, in inference and training, after which saved still serves.
  template <class X, class Y>
  std::string forward_text(const X& x, Y&& y) {
    const std::string text = error_text<std::invalid_argument>([&] { layer_.forward_into(x, y); });
    EXPECT_EQ(error_text<std::invalid_argument>([&] { layer_.forward_into(x, y, saved_); }), text);
    expect_nothing_changed();
    return without_name(text, "::forward: ");
  }

  template <class DY>
  std::string backward_text(const DY& dy, const evenkeel::TensorGradient<Scalar>& dx, const Context& context = {}) {
    const std::string text = error_text<std::invalid_argument>([&] { layer_.backward_into(dy, saved_, dx, context); });
    expect_nothing_changed();
    return without_name(text, "::backward: ");
  }

  /// No output is written, no gradient has come about; and the Saved is as it was.
  void expect_nothing_changed() {
    EXPECT_TRUE(same_bits(values_of(y_), std::vector<Scalar>(12, poison<Scalar>)));
    EXPECT_TRUE(same_bits(values_of(dx_), std::vector<Scalar>(12, poison<Scalar>)));
    for_each_parameter_of(layer_, [](const Parameter<Scalar>& parameter) {
      EXPECT_FALSE(parameter.has_gradient());
      EXPECT_TRUE(parameter.gradient().empty());
    });
    Layer same = layer_;
    EXPECT_EQ(values_of(same.backward(dy_, saved_)), dx_before_);
  }

  Layer layer_ = with_random_parameters(Layer(4));
  const RowMatrix<Scalar> x_ = random_matrix<RowMatrix<Scalar>>(3, 4, 1),
                          dy_ = random_matrix<RowMatrix<Scalar>>(3, 4, 2);
  RowMatrix<Scalar> y_ = RowMatrix<Scalar>::Constant(3, 4, poison<Scalar>), dx_ = y_;
  typename Layer::Saved saved_;

 private:
  static std::vector<Scalar> first_dx(Layer layer, const RowMatrix<Scalar>& x, const RowMatrix<Scalar>& dy) {
    typename Layer::Saved saved;
    layer.forward(x, saved);
    return values_of(layer.backward(dy, saved));
  }
  const std::vector<Scalar> dx_before_ = first_dx(layer_, x_, dy_);
};
TYPED_TEST_SUITE(NormLayerError, Layers, LayerName);

// ---------------------------------------------------------------- construction

TYPED_TEST(NormLayerError, EpsIsFiniteAndNotNegative) {
  const auto text = [](double eps) {
    return NormLayerError<TypeParam>::made_text([&] { TypeParam(4, {.eps = eps}); });
  };
  EXPECT_EQ(text(-0.5), "eps is -0.500000, expected a finite number of at least 0");
  EXPECT_EQ(text(std::numeric_limits<double>::quiet_NaN()), "eps is nan, expected a finite number of at least 0");
  EXPECT_EQ(text(std::numeric_limits<double>::infinity()), "eps is inf, expected a finite number of at least 0");
}

TYPED_TEST(NormLayerError, ThereAreAsManyAxesAsTheNormalizedShapeHas) {
  EXPECT_EQ(this->made_text([] {
    TypeParam({3, 4}, {.axis = -1});
  }),
            "1 axes, expected 2 (the normalized shape is [3, 4])");
  EXPECT_EQ(this->made_text([] {
    TypeParam(4, {.axis = Axes{-2, -1}});
  }),
            "2 axes, expected 1 (the normalized shape is [4])");
}

// ---------------------------------------------------------------- forward

TYPED_TEST(NormLayerError, XHasTheNormalizedShape) {  // B58
  using Matrix = RowMatrix<typename TypeParam::Scalar>;
  EXPECT_EQ(this->forward_text(Matrix(3, 5), this->y_),
            "normalized axes of x have shape [5], expected [4] (x has shape [3, 5])");
  EXPECT_EQ(this->forward_text(Matrix(4, 3), this->y_),
            "normalized axes of x have shape [3], expected [4] (x has shape [4, 3])");
}

TYPED_TEST(NormLayerError, XHasTheAxesOfTheSettings) {
  using S = typename TypeParam::Scalar;
  const TypeParam over_two({3, 4}), over_third(4, {.axis = 2});
  const Vector<S> x = Vector<S>::Ones(4);
  EXPECT_EQ(this->without_name(error_text<std::invalid_argument>([&] { over_two.forward(x); }), "::forward: "),
            "axis is -2, expected -1 to 0 (x has shape [4])");
  EXPECT_EQ(this->without_name(error_text<std::invalid_argument>([&] { over_third.forward(x); }), "::forward: "),
            "axis is 2, expected -1 to 0 (x has shape [4])");
}

TYPED_TEST(NormLayerError, YFitsX) {
  using S = typename TypeParam::Scalar;
  RowMatrix<S> small = RowMatrix<S>::Ones(2, 4);
  ColumnMatrix<S> columns = ColumnMatrix<S>::Ones(3, 4);
  EXPECT_EQ(this->forward_text(this->x_, small), "y has shape [2, 4], expected [3, 4] (the shape of x)");
  EXPECT_EQ(this->forward_text(this->x_, columns),
            "y is column-major, expected row-major as x is (copy into a tensor of that order first)");
  EXPECT_EQ(values_of(small), std::vector<S>(8, 1));
}

TYPED_TEST(NormLayerError, YOverlapsXOnlyInPlace) {
  using S = typename TypeParam::Scalar;
  std::vector<S> memory(40, 1);
  const TensorView<const S> x(memory.data(), {3, 4});
  const TensorView<S> y(memory.data() + 4, {3, 4});
  EXPECT_EQ(
      this->without_name(error_text<std::invalid_argument>([&] { this->layer_.forward_into(x, y); }), "::forward: "),
      "y overlaps x in memory, expected the identical view or memory of its own");
}

TYPED_TEST(NormLayerError, TrainingIsNotInPlace) {
  using S = typename TypeParam::Scalar;
  std::vector<S> memory(40, 1);
  const TensorView<const S> x(memory.data(), {3, 4});
  for (const Index by : {0, 4}) {
    const TensorView<S> y(memory.data() + by, {3, 4});
    const auto train = [&] { this->layer_.forward_into(x, y, this->saved_); };
    EXPECT_EQ(this->without_name(error_text<std::invalid_argument>(train), "::forward: "),
              "y overlaps x, which backward reads again, in memory, expected memory of its own");
    this->expect_nothing_changed();
  }
  EXPECT_EQ(memory, std::vector<S>(40, 1));
}

TYPED_TEST(NormLayerError, YDoesNotOverlapParameters) {
  using S = typename TypeParam::Scalar;
  std::vector<S> memory(12, 1);
  TypeParam layer(4);
  layer.gamma() = Parameter<S>::map(memory.data(), 4);
  const TensorView<S> y(memory.data(), {3, 4});
  EXPECT_EQ(
      this->without_name(error_text<std::invalid_argument>([&] { layer.forward_into(this->x_, y); }), "::forward: "),
      "y overlaps gamma in memory, expected memory of its own");
}

TYPED_TEST(NormLayerError, AParameterThatWasReplacedStillFits) {
  using S = typename TypeParam::Scalar;
  this->layer_.gamma() = Parameter<S>(5, S(1));
  EXPECT_EQ(
      this->without_name(error_text<std::invalid_argument>([&] { this->layer_.forward(this->x_); }), "::forward: "),
      "gamma has 5 elements, expected 4 (normalized axes of shape [4]; x has shape [3, 4])");
}

// ---------------------------------------------------------------- backward

TYPED_TEST(NormLayerError, BackwardFollowsAForward) {
  const typename TypeParam::Saved empty;
  const auto text = error_text<std::logic_error>([&] { this->layer_.backward(this->dy_, empty); });
  EXPECT_EQ(this->without_name(text, "::backward: "), "saved is empty, expected the Saved of a forward(x, saved) call");
  this->expect_nothing_changed();
}

TYPED_TEST(NormLayerError, DyAndDxFitTheXThatWasSaved) {
  using S = typename TypeParam::Scalar;
  RowMatrix<S> small = RowMatrix<S>::Ones(2, 4);
  ColumnMatrix<S> columns = ColumnMatrix<S>::Ones(3, 4);
  EXPECT_EQ(this->backward_text(small, this->dx_),
            "dy has shape [2, 4], expected [3, 4] (the shape of the x that was saved)");
  EXPECT_EQ(this->backward_text(columns, this->dx_),
            "dy is column-major, expected row-major as x is (copy into a tensor of that order first)");
  EXPECT_EQ(this->backward_text(this->dy_, small), "dx has shape [2, 4], expected [3, 4] (the shape of x)");
  EXPECT_EQ(this->backward_text(this->dy_, columns),
            "dx is column-major, expected row-major as x is (copy into a tensor of that order first)");
}

TYPED_TEST(NormLayerError, DxOverlapsDyOnlyInPlace) {
  using S = typename TypeParam::Scalar;
  std::vector<S> memory(40, 1);
  const TensorView<const S> dy(memory.data(), {3, 4});
  EXPECT_EQ(this->backward_text(dy, TensorView<S>(memory.data() + 4, {3, 4})),
            "dx overlaps dy in memory, expected the identical view or memory of its own");
}

TYPED_TEST(NormLayerError, TheWorkspaceIsLargeEnough) {
  using S = typename TypeParam::Scalar;
  const std::size_t needed =
      evenkeel::Scratch::bytes_of(evenkeel::kernels::row_norm_backward_workspace_bytes<S>(3, 4));  // in this layout
  EXPECT_LE(needed, this->layer_.workspace_bytes({3, 4}));
  std::vector<std::byte> workspace(needed - 1);
  EXPECT_EQ(this->backward_text(this->dy_, this->dx_, {.workspace = workspace}),
            "workspace has " + std::to_string(needed - 1) + " bytes, expected at least " + std::to_string(needed));
}

TYPED_TEST(NormLayerError, GradientsAreAsBeforeWhenABackwardFails) {
  using S = typename TypeParam::Scalar;
  this->layer_.backward(this->dy_, this->saved_);
  const auto before = gradient_of(this->layer_.gamma());
  EXPECT_ANY_THROW(this->layer_.backward(RowMatrix<S>(2, 4), this->saved_));
  EXPECT_EQ(gradient_of(this->layer_.gamma()), before);
}

}  // namespace
}  // namespace evenkeel_test
