// LayerNorm and RMSNorm layers on Eigen's Tensor and TensorFixedSize.
#include "evenkeel/core/eigen_tensor.hpp"
#include "layers/layer_test.hpp"

namespace evenkeel_test {
namespace {

template <class S, int Rank>
using RowTensor = Eigen::Tensor<S, Rank, Eigen::RowMajor>;
template <class S, int Rank>
using ColumnTensor = Eigen::Tensor<S, Rank, Eigen::ColMajor>;

/// x with elements from N(0,1).
template <class X>
X random_tensor(X x, std::uint64_t seed) {
  const auto values = normal_vector<typename X::Scalar>(static_cast<std::size_t>(x.size()), seed);
  std::copy(values.begin(), values.end(), x.data());
  return x;
}

template <class X>
std::vector<typename X::Scalar> elements_of(const X& x) {
  return {x.data(), x.data() + x.size()};
}

template <class Layer>
class NormLayerEigenTensor : public testing::Test {};
TYPED_TEST_SUITE(NormLayerEigenTensor, Layers, LayerName);

/// Forward and backward give the same elements as on a matrix of x's rows.
template <class Layer, class X>
void expect_as_matrix(Layer layer, const X& x, const X& dy, Index features) {
  using S = typename Layer::Scalar;
  Layer matrix_layer = Layer(features, {.eps = layer.eps()});
  matrix_layer.gamma().load(layer.gamma().data(), features);
  if constexpr (has_beta<Layer>) matrix_layer.beta().load(layer.beta().data(), features);
  const Eigen::Map<const RowMatrix<S>> rows(x.data(), x.size() / features, features);
  const Eigen::Map<const RowMatrix<S>> dy_rows(dy.data(), x.size() / features, features);
  typename Layer::Saved saved, matrix_saved;
  EXPECT_EQ(elements_of(layer.forward(x)), elements_of(matrix_layer.forward(rows)));
  EXPECT_EQ(elements_of(layer.forward(x, saved)), elements_of(matrix_layer.forward(rows, matrix_saved)));
  EXPECT_EQ(elements_of(layer.backward(dy, saved)), elements_of(matrix_layer.backward(dy_rows, matrix_saved)));
  EXPECT_EQ(gradient_of(layer.gamma()), gradient_of(matrix_layer.gamma()));
}

TYPED_TEST(NormLayerEigenTensor, WorksOnTensorsOfAnyRank) {
  using S = typename TypeParam::Scalar;
  const auto layer = with_random_parameters(TypeParam(5));
  expect_as_matrix(layer, random_tensor(RowTensor<S, 1>(5), 1), random_tensor(RowTensor<S, 1>(5), 2), 5);
  expect_as_matrix(layer, random_tensor(RowTensor<S, 3>(2, 3, 5), 1), random_tensor(RowTensor<S, 3>(2, 3, 5), 2), 5);
  expect_as_matrix(layer, random_tensor(RowTensor<S, 5>(2, 1, 3, 2, 5), 1),
                   random_tensor(RowTensor<S, 5>(2, 1, 3, 2, 5), 2), 5);
}

TYPED_TEST(NormLayerEigenTensor, WorksOverSeveralAxes) {
  using S = typename TypeParam::Scalar;
  const auto layer = with_random_parameters(TypeParam({3, 5}));
  expect_as_matrix(layer, random_tensor(RowTensor<S, 3>(2, 3, 5), 1), random_tensor(RowTensor<S, 3>(2, 3, 5), 2), 15);
}

TYPED_TEST(NormLayerEigenTensor, WorksOnColumnMajorTensorsAlongTheirFirstAxis) {
  using S = typename TypeParam::Scalar;
  const auto layer = with_random_parameters(TypeParam(5, {.axis = 0}));
  expect_as_matrix(layer, random_tensor(ColumnTensor<S, 3>(5, 3, 2), 1), random_tensor(ColumnTensor<S, 3>(5, 3, 2), 2),
                   5);
}

TYPED_TEST(NormLayerEigenTensor, WritesIntoTensorsAndMaps) {
  using S = typename TypeParam::Scalar;
  auto layer = with_random_parameters(TypeParam(5));
  const auto x = random_tensor(RowTensor<S, 2>(3, 5), 1);
  RowTensor<S, 2> y(3, 5), dx(3, 5);
  std::vector<S> memory(15);
  typename TypeParam::Saved saved;
  layer.forward_into(x, y, saved);
  layer.forward_into(x, Eigen::TensorMap<RowTensor<S, 2>>(memory.data(), 3, 5));
  EXPECT_EQ(elements_of(y), memory);
  layer.backward_into(x, saved, dx);
  EXPECT_EQ(elements_of(dx), elements_of(layer.backward(x, saved)));
}

// ---------------------------------------------------------------- rvalues

/// A backward reads an x that was moved into saved, after the x that was given is gone.
template <class Layer, class X>
void expect_moved_in(const X& kept) {
  using S = typename Layer::Scalar;
  auto layer = with_random_parameters(Layer(kept.dimension(1)));
  typename Layer::Saved saved, viewing;
  auto x = std::make_unique<X>(kept);
  const auto y = layer.forward(std::move(*x), saved);
  std::fill_n(x->data(), x->data() ? x->size() : 0, poison<S>);
  x.reset();
  typename Layer::Saved moved = std::move(saved);
  EXPECT_EQ(elements_of(y), elements_of(layer.forward(kept, viewing)));
  EXPECT_EQ(elements_of(layer.backward(kept, moved)), elements_of(layer.backward(kept, viewing)));
}

TYPED_TEST(NormLayerEigenTensor, AnRvalueIsMovedIntoSaved) {
  using S = typename TypeParam::Scalar;
  expect_moved_in<TypeParam>(random_tensor(RowTensor<S, 2>(3, 5), 1));
  using Fixed = Eigen::TensorFixedSize<S, Eigen::Sizes<3, 5>, Eigen::RowMajor>;
  const auto values = normal_vector<S>(15, 1);
  Fixed fixed;
  std::copy(values.begin(), values.end(), fixed.data());
  expect_moved_in<TypeParam>(fixed);
}

}  // namespace
}  // namespace evenkeel_test
