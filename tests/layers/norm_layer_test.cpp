// LayerNorm and RMSNorm as layers: parameters, the three signatures, Saved.
#include "layers/layer_test.hpp"

#include "evenkeel/core/concepts.hpp"

namespace evenkeel_test {
namespace {

template <class Layer>
class NormLayer : public testing::Test {};
TYPED_TEST_SUITE(NormLayer, Layers, LayerName);

// ---------------------------------------------------------------- forward

TYPED_TEST(NormLayer, IsANorm) {
  static_assert(evenkeel::Norm<TypeParam>);
  static_assert(std::is_same_v<typename TypeParam::Saved, typename TypeParam::Saved>);
  static_assert(!std::is_copy_constructible_v<typename TypeParam::Saved>);
  static_assert(std::is_nothrow_move_constructible_v<typename TypeParam::Saved>);
  static_assert(std::is_copy_constructible_v<TypeParam> && std::is_nothrow_move_constructible_v<TypeParam>);
}

TYPED_TEST(NormLayer, StartsAsThePlainNorm) {
  using S = typename TypeParam::Scalar;
  const TypeParam layer(7);
  EXPECT_EQ(layer.normalized_shape(), Shape{7});
  EXPECT_EQ(layer.eps(), 1e-5);
  EXPECT_EQ(values_of(layer.gamma()), std::vector<S>(7, 1));
  EXPECT_FALSE(layer.gamma().has_gradient());
  if constexpr (has_beta<TypeParam>) {
    EXPECT_EQ(values_of(layer.beta()), std::vector<S>(7, 0));
  }
  const auto x = random_matrix<RowMatrix<S>>(3, 7, 1);
  EXPECT_EQ(values_of(layer.forward(x)), values_of(OpOf<TypeParam>::of(x)));
}

// Every signature, bit for bit.
TYPED_TEST(NormLayer, ForwardIsTheOp) {
  using S = typename TypeParam::Scalar;
  const auto layer = with_random_parameters(TypeParam(7));
  const auto x = random_matrix<RowMatrix<S>>(3, 7, 1);
  const RowMatrix<S> expected = OpOf<TypeParam>::of(x, options_of(layer));
  typename TypeParam::Saved saved;
  RowMatrix<S> y(3, 7), training_y(3, 7);
  layer.forward_into(x, y);
  layer.forward_into(x, training_y, saved);
  EXPECT_EQ(values_of(layer.forward(x)), values_of(expected));
  EXPECT_EQ(values_of(layer.forward(x, saved)), values_of(expected));
  EXPECT_EQ(values_of(layer.forward(x, Context())), values_of(expected));
  EXPECT_EQ(values_of(layer.forward(x, saved, Context())), values_of(expected));
  EXPECT_EQ(values_of(y), values_of(expected));
  EXPECT_EQ(training_y, expected);
}

TYPED_TEST(NormLayer, ForwardTakesTensorsOfAnyKind) {
  using S = typename TypeParam::Scalar;
  const auto layer = with_random_parameters(TypeParam(7));
  const auto x = random_matrix<RowMatrix<S>>(3, 7, 1);
  const RowMatrix<S> expected = layer.forward(x);
  RowMatrix<S> wide = RowMatrix<S>::Zero(3, 20);
  wide.leftCols(7) = x;
  EXPECT_EQ(values_of(layer.forward(wide.leftCols(7))), values_of(expected));
  EXPECT_EQ(values_of(layer.forward(Eigen::Map<const RowMatrix<S>>(x.data(), 3, 7))), values_of(expected));
  EXPECT_EQ(values_of(layer.forward(x.row(1))), values_of(expected.row(1)));
  layer.forward_into(x, wide.rightCols(7));
  EXPECT_EQ(values_of(wide.rightCols(7)), values_of(expected));
  std::vector<S> y(21);
  layer.forward_into(TensorView<const S>(x.data(), {3, 7}), TensorView<S>(y.data(), {3, 7}));
  EXPECT_EQ(y, values_of(expected));
  static_assert(std::is_same_v<decltype(layer.forward(x.row(1))), Eigen::RowVector<S, Eigen::Dynamic>>);
}

TYPED_TEST(NormLayer, InferenceMayBeInPlace) {
  using S = typename TypeParam::Scalar;
  const auto layer = with_random_parameters(TypeParam(7));
  auto x = random_matrix<RowMatrix<S>>(3, 7, 1);
  const RowMatrix<S> expected = layer.forward(x);
  layer.forward_into(x, x);
  EXPECT_EQ(values_of(x), values_of(expected));
}

// ---------------------------------------------------------------- backward

/// The gradients of the op at the layer's parameters.
template <class Layer, class S = typename Layer::Scalar>
Gradients<S> op_gradients(const Layer& layer, const RowMatrix<S>& dy, const RowMatrix<S>& x) {
  NormStatistics<S> saved;
  OpOf<Layer>::of(x, saved, options_of(layer));
  Gradients<S> result;
  result.dx.resize(static_cast<std::size_t>(x.size()));
  result.dgamma.resize(static_cast<std::size_t>(x.cols()));
  result.dbeta.resize(static_cast<std::size_t>(x.cols()));
  OpOf<Layer>::backward(
      dy, x, saved, options_of(layer),
      {.dx = TensorView<S>(result.dx.data(), {x.rows(), x.cols()}), .dgamma = result.dgamma, .dbeta = result.dbeta});
  return result;
}

TYPED_TEST(NormLayer, BackwardIsTheOps) {
  using S = typename TypeParam::Scalar;
  auto layer = with_random_parameters(TypeParam(7));
  const auto x = random_matrix<RowMatrix<S>>(3, 7, 1), dy = random_matrix<RowMatrix<S>>(3, 7, 2);
  const auto expected = op_gradients(layer, dy, x);
  typename TypeParam::Saved saved;
  layer.forward(x, saved);
  const RowMatrix<S> dx = layer.backward(dy, saved);
  EXPECT_EQ(values_of(dx), expected.dx);
  EXPECT_EQ(gradient_of(layer.gamma()), expected.dgamma);
  if constexpr (has_beta<TypeParam>) {
    EXPECT_EQ(gradient_of(layer.beta()), expected.dbeta);
  }
}

TYPED_TEST(NormLayer, BackwardIntoAssignsOrAddsToDx) {
  using S = typename TypeParam::Scalar;
  auto layer = with_random_parameters(TypeParam(7));
  const auto x = random_matrix<RowMatrix<S>>(3, 7, 1), dy = random_matrix<RowMatrix<S>>(3, 7, 2);
  typename TypeParam::Saved saved;
  layer.forward(x, saved);
  const RowMatrix<S> expected = layer.backward(dy, saved);
  RowMatrix<S> dx = RowMatrix<S>::Constant(3, 7, poison<S>), in_place = dy, sum = RowMatrix<S>::Ones(3, 7);
  layer.backward_into(dy, saved, dx);
  EXPECT_EQ(values_of(dx), values_of(expected));
  layer.backward_into(in_place, saved, in_place);
  EXPECT_EQ(in_place, expected);
  layer.backward_into(dy, saved, evenkeel::add_to(sum));
  const RowMatrix<S> expected_sum = expected + RowMatrix<S>::Ones(3, 7);
  EXPECT_TRUE(within_ulp(values_of(sum), values_of(expected_sum), 1));
  RowMatrix<S> wide(3, 10);
  layer.backward_into(dy, saved, wide.leftCols(7));
  EXPECT_EQ(values_of(wide.leftCols(7)), values_of(expected));
}

TYPED_TEST(NormLayer, BackwardOfParametersAloneIsPossible) {
  using S = typename TypeParam::Scalar;
  auto layer = with_random_parameters(TypeParam(7));
  const auto x = random_matrix<RowMatrix<S>>(3, 7, 1), dy = random_matrix<RowMatrix<S>>(3, 7, 2);
  typename TypeParam::Saved saved;
  layer.forward(x, saved);
  layer.backward_into(dy, saved, {});
  EXPECT_EQ(gradient_of(layer.gamma()), op_gradients(layer, dy, x).dgamma);
}

TYPED_TEST(NormLayer, BackwardTwiceAddsTwice) {
  using S = typename TypeParam::Scalar;
  auto layer = with_random_parameters(TypeParam(7));
  const auto x = random_matrix<RowMatrix<S>>(3, 7, 1), dy = random_matrix<RowMatrix<S>>(3, 7, 2);
  typename TypeParam::Saved saved;
  layer.forward(x, saved);
  const RowMatrix<S> dx = layer.backward(dy, saved);
  std::vector<std::vector<S>> once;
  for_each_parameter_of(layer, [&](const Parameter<S>& parameter) { once.push_back(gradient_of(parameter)); });
  EXPECT_EQ(values_of(layer.backward(dy, saved)), values_of(dx));
  std::size_t i = 0;
  for_each_parameter_of(layer, [&](const Parameter<S>& parameter) {
    for (S& value : once[i]) value *= 2;
    EXPECT_TRUE(within_ulp(gradient_of(parameter), once[i], 1));  // one more rounding
    ++i;
  });
}

TYPED_TEST(NormLayer, GradientsStartAgainWhenSetToZero) {
  using S = typename TypeParam::Scalar;
  auto layer = with_random_parameters(TypeParam(7));
  const auto x = random_matrix<RowMatrix<S>>(3, 7, 1), dy = random_matrix<RowMatrix<S>>(3, 7, 2);
  typename TypeParam::Saved saved;
  layer.forward(x, saved);
  layer.backward(dy, saved);
  const auto dgamma = gradient_of(layer.gamma());
  evenkeel::zero_gradients(layer);
  EXPECT_EQ(gradient_of(layer.gamma()), std::vector<S>(7));
  layer.backward(dy, saved);
  EXPECT_EQ(gradient_of(layer.gamma()), dgamma);
}

TYPED_TEST(NormLayer, ZeroRowsHaveAGradientOfZero) {  // B66
  using S = typename TypeParam::Scalar;
  TypeParam layer(7);
  const RowMatrix<S> x(0, 7);
  typename TypeParam::Saved saved;
  EXPECT_EQ(layer.forward(x, saved).rows(), 0);
  EXPECT_EQ(layer.backward(x, saved).cols(), 7);
  EXPECT_EQ(gradient_of(layer.gamma()), std::vector<S>(7));
}

// ---------------------------------------------------------------- Saved

TYPED_TEST(NormLayer, SavedIsUsedAgainInTheSameMemory) {
  using S = typename TypeParam::Scalar;
  auto layer = with_random_parameters(TypeParam(7));
  typename TypeParam::Saved saved;
  EXPECT_TRUE(saved.statistics().is_empty());
  const auto first = random_matrix<RowMatrix<S>>(30, 7, 1), second = random_matrix<RowMatrix<S>>(30, 7, 2);
  layer.forward(first, saved);
  const S* mean = saved.statistics().mean.data();
  const S* rstd = saved.statistics().rstd.data();
  layer.forward(second, saved);
  EXPECT_EQ(saved.statistics().mean.data(), mean);
  EXPECT_EQ(saved.statistics().rstd.data(), rstd);
  EXPECT_EQ(saved.statistics().shape, (Shape{30, 7}));
  const RowMatrix<S> dx = layer.backward(first, saved);
  EXPECT_EQ(values_of(dx), op_gradients(layer, first, second).dx);
}

TYPED_TEST(NormLayer, SavedMayBeMoved) {
  using S = typename TypeParam::Scalar;
  auto layer = with_random_parameters(TypeParam(7));
  const auto x = random_matrix<RowMatrix<S>>(3, 7, 1), dy = random_matrix<RowMatrix<S>>(3, 7, 2);
  typename TypeParam::Saved saved;
  layer.forward(RowMatrix<S>(x), saved);
  const RowMatrix<S> expected = layer.backward(dy, saved);
  typename TypeParam::Saved moved = std::move(saved);
  EXPECT_EQ(values_of(layer.backward(dy, moved)), values_of(expected));
  std::vector<typename TypeParam::Saved> all(3);
  all[1] = std::move(moved);
  all.resize(10);
  EXPECT_EQ(values_of(layer.backward(dy, all[1])), values_of(expected));
  EXPECT_ANY_THROW(layer.backward(dy, moved));  // NOLINT(bugprone-use-after-move): not with memory that is gone
  layer.forward(x, moved);
  EXPECT_EQ(values_of(layer.backward(dy, moved)), values_of(expected));
}

/// Backward of a forward of an x that was moved into saved.
template <class Layer, class X>
void expect_moved_in(const RowMatrix<typename Layer::Scalar>& values, int axis = -1) {
  using S = typename Layer::Scalar;
  auto layer = with_random_parameters(Layer(values.cols(), {.axis = axis}));
  const X kept = axis == -1 ? X(values) : X(values.transpose());
  const X dy = X::Random(kept.rows(), kept.cols());
  typename Layer::Saved saved, viewing;
  auto x = std::make_unique<X>(kept);
  const auto y = layer.forward(std::move(*x), saved);
  x->setConstant(poison<S>);
  x.reset();
  EXPECT_EQ(values_of(y), values_of(layer.forward(kept, viewing)));
  EXPECT_EQ(values_of(layer.backward(dy, saved)), values_of(layer.backward(dy, viewing)));
}

TYPED_TEST(NormLayer, AnRvalueIsMovedIntoSaved) {
  using S = typename TypeParam::Scalar;
  const auto values = random_matrix<RowMatrix<S>>(4, 3, 1);
  expect_moved_in<TypeParam, RowMatrix<S>>(values);
  expect_moved_in<TypeParam, ColumnMatrix<S>>(values, features_first);
  expect_moved_in<TypeParam, Eigen::Matrix<S, 4, 3, Eigen::RowMajor>>(values);
  expect_moved_in<TypeParam, Eigen::Array<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(values);
}

TYPED_TEST(NormLayer, AnRvalueIsMovedNotCopied) {
  using S = typename TypeParam::Scalar;
  const TypeParam layer(7);
  typename TypeParam::Saved saved;
  auto x = random_matrix<RowMatrix<S>>(3, 7, 1);
  layer.forward(std::move(x), saved);
  EXPECT_EQ(x.size(), 0);  // NOLINT(bugprone-use-after-move): this is what is tested
}

TYPED_TEST(NormLayer, AnLvalueAndAMapAreViewed) {
  using S = typename TypeParam::Scalar;
  auto layer = with_random_parameters(TypeParam(7));
  auto x = random_matrix<RowMatrix<S>>(3, 7, 1);
  const auto before = x;
  typename TypeParam::Saved saved;
  layer.forward(x, saved);
  EXPECT_EQ(values_of(x), values_of(before));
  layer.forward(Eigen::Map<RowMatrix<S>>(x.data(), 3, 7), saved);
  EXPECT_EQ(values_of(x), values_of(before));
  const RowMatrix<S> dx = layer.backward(before, saved);
  EXPECT_EQ(values_of(dx), op_gradients(layer, before, x).dx);
}

TYPED_TEST(NormLayer, SavedForgetsAnXThatWasMovedIn) {
  using S = typename TypeParam::Scalar;
  auto layer = with_random_parameters(TypeParam(7));
  const auto x = random_matrix<RowMatrix<S>>(3, 7, 1), dy = random_matrix<RowMatrix<S>>(3, 7, 2);
  typename TypeParam::Saved saved;
  layer.forward(random_matrix<RowMatrix<S>>(3, 7, 3), saved);
  layer.forward(x, saved);
  const RowMatrix<S> dx = layer.backward(dy, saved);
  EXPECT_EQ(values_of(dx), op_gradients(layer, dy, x).dx);
}

// ---------------------------------------------------------------- settings

TYPED_TEST(NormLayer, TakesEpsFromItsSettings) {  // B34
  using S = typename TypeParam::Scalar;
  const TypeParam layer(7, {.eps = 0.25});
  const auto x = random_matrix<RowMatrix<S>>(3, 7, 1);
  EXPECT_EQ(layer.eps(), 0.25);
  EXPECT_EQ(values_of(layer.forward(x)), values_of(OpOf<TypeParam>::of(x, {.eps = 0.25})));
}

TYPED_TEST(NormLayer, MayHaveNoGamma) {  // B41
  using S = typename TypeParam::Scalar;
  auto layer = with_random_parameters(TypeParam(7, {.with_gamma = false}));
  EXPECT_TRUE(layer.gamma().is_absent());
  const auto x = random_matrix<RowMatrix<S>>(3, 7, 1), dy = random_matrix<RowMatrix<S>>(3, 7, 2);
  typename TypeParam::Saved saved;
  EXPECT_EQ(values_of(layer.forward(x, saved)), values_of(OpOf<TypeParam>::of(x, options_of(layer))));
  const RowMatrix<S> dx = layer.backward(dy, saved);
  EXPECT_EQ(values_of(dx), op_gradients(layer, dy, x).dx);
  EXPECT_FALSE(layer.gamma().has_gradient());
}

TYPED_TEST(NormLayer, NormalizesTheAxisOfItsSettings) {
  using S = typename TypeParam::Scalar;
  const TypeParam layer(7, {.axis = features_first});
  const auto x = random_matrix<ColumnMatrix<S>>(7, 3, 1);
  EXPECT_EQ(values_of(layer.forward(x)), values_of(OpOf<TypeParam>::of(x, {.axis = features_first})));
  typename TypeParam::Saved saved;
  TypeParam training = with_random_parameters(layer);
  training.forward(x, saved);
  const ColumnMatrix<S> dx = training.backward(x, saved);
  const RowMatrix<S> rows = x.transpose();
  EXPECT_EQ(values_of(dx.transpose()), op_gradients(training, rows, rows).dx);
}

TYPED_TEST(NormLayer, NormalizesOverSeveralAxes) {
  using S = typename TypeParam::Scalar;
  auto layer = with_random_parameters(TypeParam({3, 4}));
  EXPECT_EQ(layer.normalized_shape(), (Shape{3, 4}));
  EXPECT_EQ(layer.gamma().shape(), (Shape{3, 4}));
  const auto x = normal_vector<S>(24, 1), dy = normal_vector<S>(24, 2);
  std::vector<S> y(24), dx(24);
  typename TypeParam::Saved saved;
  layer.forward_into(TensorView<const S>(x.data(), {2, 3, 4}), TensorView<S>(y.data(), {2, 3, 4}), saved);
  layer.backward_into(TensorView<const S>(dy.data(), {2, 3, 4}), saved, TensorView<S>(dx.data(), {2, 3, 4}));
  EXPECT_EQ(saved.statistics().rstd.size(), 2u);

  auto flat = TypeParam(12);
  flat.gamma().load(layer.gamma().data(), 12);
  if constexpr (has_beta<TypeParam>) flat.beta().load(layer.beta().data(), 12);
  typename TypeParam::Saved flat_saved;
  const RowMatrix<S> rows = Eigen::Map<const RowMatrix<S>>(x.data(), 2, 12);
  EXPECT_EQ(y, values_of(flat.forward(rows, flat_saved)));
  const RowMatrix<S> flat_dx =
      flat.backward(RowMatrix<S>(Eigen::Map<const RowMatrix<S>>(dy.data(), 2, 12)), flat_saved);
  EXPECT_EQ(dx, values_of(flat_dx));
  EXPECT_EQ(gradient_of(layer.gamma()), gradient_of(flat.gamma()));
}

TYPED_TEST(NormLayer, AFreshOneHasTheSettingsButNotTheParameters) {
  using S = typename TypeParam::Scalar;
  auto layer = with_random_parameters(TypeParam(7, {.eps = 0.25, .axis = features_first}));
  const TypeParam fresh = layer.fresh();
  EXPECT_EQ(fresh.eps(), 0.25);
  EXPECT_EQ(values_of(fresh.gamma()), std::vector<S>(7, 1));
  const auto x = random_matrix<ColumnMatrix<S>>(7, 3, 1);
  EXPECT_EQ(values_of(fresh.forward(x)), values_of(OpOf<TypeParam>::of(x, {.eps = 0.25, .axis = features_first})));
  EXPECT_TRUE(TypeParam(7, {.with_gamma = false}).fresh().gamma().is_absent());
}

// ---------------------------------------------------------------- parameters

TYPED_TEST(NormLayer, ParametersAreVisitedByName) {
  using S = typename TypeParam::Scalar;
  TypeParam layer(7);
  std::vector<std::string> paths, expected = {"norm.gamma"};
  if (has_beta<TypeParam>) expected.push_back("norm.beta");
  evenkeel::for_each_parameter(
      layer, [&](const std::string& path, Parameter<S>&) { paths.push_back(path); }, "norm.");
  EXPECT_EQ(paths, expected);
  paths.clear();
  const TypeParam& constant = layer;
  evenkeel::for_each_parameter(
      constant, [&](const std::string& path, const Parameter<S>&) { paths.push_back(path); }, "norm.");
  EXPECT_EQ(paths, expected);
  TypeParam plain(7, {.with_gamma = false});
  if constexpr (has_beta<TypeParam>) plain = TypeParam(7, {.with_gamma = false, .with_beta = false});
  evenkeel::for_each_parameter(plain, [](const std::string&, Parameter<S>&) { FAIL(); });
}

TYPED_TEST(NormLayer, ParametersMayBeMapped) {
  using S = typename TypeParam::Scalar;
  TypeParam layer(7);
  std::vector<S> gamma = normal_vector<S>(7, 1);
  layer.gamma() = Parameter<S>::map(gamma.data(), 7);
  const auto x = random_matrix<RowMatrix<S>>(3, 7, 2);
  EXPECT_EQ(values_of(layer.forward(x)), values_of(OpOf<TypeParam>::of(x, {.gamma = gamma})));
  gamma[3] = 9;
  EXPECT_EQ(values_of(layer.forward(x)), values_of(OpOf<TypeParam>::of(x, {.gamma = gamma})));
  layer.gamma().mutable_values()[0] = 4;
  EXPECT_EQ(gamma[0], 4);
}

TYPED_TEST(NormLayer, ParametersMappedFromConstMemoryAreTrainedOnlyInTheirGradient) {
  using S = typename TypeParam::Scalar;
  TypeParam layer(7);
  const std::vector<S> gamma = normal_vector<S>(7, 1), before = gamma;
  layer.gamma() = Parameter<S>::map(gamma.data(), 7);
  const auto x = random_matrix<RowMatrix<S>>(3, 7, 2);
  typename TypeParam::Saved saved;
  layer.forward(x, saved);
  layer.backward(x, saved);
  EXPECT_EQ(gradient_of(layer.gamma()), op_gradients(layer, x, x).dgamma);
  EXPECT_EQ(gamma, before);
  EXPECT_FALSE(layer.gamma().is_writable());
}

TYPED_TEST(NormLayer, CopiesAreDeep) {
  using S = typename TypeParam::Scalar;
  auto original = with_random_parameters(TypeParam(7));
  std::vector<S> gamma = normal_vector<S>(7, 1);
  original.gamma() = Parameter<S>::map(gamma.data(), 7);
  const auto x = random_matrix<RowMatrix<S>>(3, 7, 2);
  const RowMatrix<S> y = original.forward(x);
  TypeParam copy = original, assigned(3);
  assigned = original;
  for_each_parameter_of(original, [](Parameter<S>& parameter) { parameter.mutable_values()[0] = 99; });
  EXPECT_EQ(values_of(copy.forward(x)), values_of(y));
  EXPECT_EQ(values_of(assigned.forward(x)), values_of(y));
  typename TypeParam::Saved saved;
  copy.forward(x, saved);
  copy.backward(x, saved);
  EXPECT_FALSE(original.gamma().has_gradient());
}

TYPED_TEST(NormLayer, MovesKeepParametersAndMaps) {
  using S = typename TypeParam::Scalar;
  auto original = with_random_parameters(TypeParam(7));
  std::vector<S> gamma = normal_vector<S>(7, 1);
  original.gamma() = Parameter<S>::map(gamma.data(), 7);
  const auto x = random_matrix<RowMatrix<S>>(3, 7, 2);
  const RowMatrix<S> y = original.forward(x);
  const TypeParam moved = std::move(original);
  EXPECT_EQ(values_of(moved.forward(x)), values_of(y));
  EXPECT_EQ(moved.gamma().data(), gamma.data());
}

}  // namespace
}  // namespace evenkeel_test
