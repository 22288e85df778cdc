#include "evenkeel/core/eigen_tensor.hpp"

#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "evenkeel/core/parameter_view.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::const_view;
using evenkeel::ConstMapOf;
using evenkeel::Index;
using evenkeel::make_like;
using evenkeel::OwnedOf;
using evenkeel::Shape;
using evenkeel::StorageOrder;
using evenkeel::Tensor;
using evenkeel::tensor_view;
using evenkeel::TensorView;
using evenkeel::TraitsOf;

template <int Rank, int Options>
using EigenTensor = Eigen::Tensor<float, Rank, Options>;
template <int Rank>
using RowTensor = EigenTensor<Rank, Eigen::RowMajor>;
template <int Rank>
using ColumnTensor = EigenTensor<Rank, Eigen::ColMajor>;

template <class X>
class EigenTensorView : public testing::Test {};

// Extents 2, 3, 4, ... of every rank up to 5, in both orders.
using Tensors = testing::Types<RowTensor<1>, RowTensor<2>, RowTensor<3>, RowTensor<4>, RowTensor<5>, ColumnTensor<1>,
                               ColumnTensor<2>, ColumnTensor<3>, ColumnTensor<4>, ColumnTensor<5>>;
struct TensorName {
  template <class X>
  static std::string GetName(int) {
    return (TraitsOf<X>::is_row_major ? "row_major_" : "column_major_") + std::to_string(X::NumDimensions);
  }
};
TYPED_TEST_SUITE(EigenTensorView, Tensors, TensorName);

template <class X>
typename X::Dimensions dimensions() {
  typename X::Dimensions d;
  for (std::size_t axis = 0; axis < d.size(); ++axis) d[axis] = static_cast<Index>(axis) + 2;
  return d;
}

Shape shape_of_rank(int rank) {
  Shape shape;
  for (int axis = 0; axis < rank; ++axis) shape.append(axis + 2);
  return shape;
}

/// Elements of `view` are those of x, each at its logical index.
template <class Scalar, class X>
void expect_elements(const TensorView<Scalar>& view, const X& x) {
  auto index = dimensions<X>();
  for (Index i = 0; i < x.size(); ++i) {
    Index left = i, at = 0;
    for (std::size_t axis = index.size(); axis-- > 0;) {
      index[axis] = left % x.dimension(axis);
      left /= x.dimension(axis);
      at += index[axis] * view.stride(static_cast<int>(axis));
    }
    EXPECT_EQ(view.data() + at, &x(index));
  }
}

TYPED_TEST(EigenTensorView, HasTheShapeOrderAndMemoryOfTheTensor) {
  TypeParam x(dimensions<TypeParam>());
  const auto view = tensor_view(x);
  static_assert(std::is_same_v<decltype(tensor_view(x)), TensorView<float>>);
  EXPECT_EQ(view.shape(), shape_of_rank(TypeParam::NumDimensions));
  EXPECT_EQ(view.order(), TraitsOf<TypeParam>::is_row_major ? StorageOrder::row_major : StorageOrder::column_major);
  EXPECT_TRUE(evenkeel::is_dense(view));
  expect_elements(view, x);
}

TYPED_TEST(EigenTensorView, OfAConstTensorHasConstElements) {
  const TypeParam x(dimensions<TypeParam>());
  static_assert(std::is_same_v<decltype(tensor_view(x)), TensorView<const float>>);
  expect_elements(tensor_view(x), x);
}

TYPED_TEST(EigenTensorView, OfAMapIsOfTheMemoryItMaps) {
  TypeParam x(dimensions<TypeParam>());
  const Eigen::TensorMap<TypeParam> map(x.data(), dimensions<TypeParam>());
  static_assert(std::is_same_v<decltype(tensor_view(map)), TensorView<float>>);
  EXPECT_EQ(tensor_view(map).shape(), tensor_view(x).shape());
  EXPECT_EQ(tensor_view(map).order(), tensor_view(x).order());
  expect_elements(tensor_view(map), x);
  const Eigen::TensorMap<const TypeParam> constant(x.data(), dimensions<TypeParam>());
  static_assert(std::is_same_v<decltype(tensor_view(constant)), TensorView<const float>>);
  expect_elements(tensor_view(constant), x);
}

TYPED_TEST(EigenTensorView, MakesATensorOfTheSameShapeAndMapsIt) {
  const TypeParam x(dimensions<TypeParam>());
  static_assert(std::is_same_v<OwnedOf<TypeParam>, TypeParam>);
  static_assert(std::is_same_v<OwnedOf<Eigen::TensorMap<const TypeParam>>, TypeParam>);
  const TypeParam made = make_like(x);
  EXPECT_EQ(tensor_view(made).shape(), tensor_view(x).shape());
  EXPECT_NE(made.data(), x.data());
  const ConstMapOf<TypeParam> map = TraitsOf<TypeParam>::map(const_view(x));
  EXPECT_EQ(map.data(), x.data());
  EXPECT_EQ(tensor_view(map).shape(), tensor_view(x).shape());
}

template <int Options>
void expect_fixed_size_tensor() {
  using Fixed = Eigen::TensorFixedSize<float, Eigen::Sizes<2, 3, 4>, Options>;
  Fixed x;
  const Fixed& constant = x;
  static_assert(std::is_same_v<decltype(tensor_view(x)), TensorView<float>>);
  static_assert(std::is_same_v<decltype(tensor_view(constant)), TensorView<const float>>);
  static_assert(std::is_same_v<OwnedOf<Fixed>, EigenTensor<3, Options>>);
  static_assert(TraitsOf<Fixed>::owns_memory);
  EXPECT_EQ(tensor_view(x).data(), x.data());
  EXPECT_EQ(tensor_view(x).shape(), (Shape{2, 3, 4}));
  const bool is_row_major = Options == Eigen::RowMajor;
  EXPECT_EQ(tensor_view(x).order(), is_row_major ? StorageOrder::row_major : StorageOrder::column_major);
  EXPECT_EQ(tensor_view(make_like(x)).shape(), (Shape{2, 3, 4}));
}

TEST(EigenTensorFixedSize, IsATensorOfEitherOrder) {
  expect_fixed_size_tensor<Eigen::RowMajor>();
  expect_fixed_size_tensor<Eigen::ColMajor>();
}

TEST(EigenTensorFixedSize, CanBeMapped) {
  using Fixed = Eigen::TensorFixedSize<float, Eigen::Sizes<2, 3>, Eigen::RowMajor>;
  Fixed x;
  const Eigen::TensorMap<Fixed> map(x.data(), 2, 3);
  EXPECT_EQ(tensor_view(map).data(), x.data());
  EXPECT_EQ(tensor_view(map).shape(), (Shape{2, 3}));
}

TEST(EigenTensor, MayHaveAnotherIndexType) {
  Eigen::Tensor<double, 2, Eigen::RowMajor, int> x(3, 4);
  static_assert(std::is_same_v<decltype(tensor_view(x)), TensorView<double>>);
  EXPECT_EQ(tensor_view(x).shape(), (Shape{3, 4}));
}

TEST(EigenTensor, MayHaveNoElements) {
  const RowTensor<3> x(4, 0, 8);
  EXPECT_EQ(tensor_view(x).shape(), (Shape{4, 0, 8}));
  EXPECT_EQ(make_like(x).dimension(2), 8);
}

TEST(EigenTensor, ExpressionsAndRefsAreLazy) {
  using X = RowTensor<2>;
  using Sum = decltype(X() + X());
  using Ref = Eigen::TensorRef<X>;
  static_assert(Tensor<X> && Tensor<const X&> && Tensor<Eigen::TensorMap<X>>);
  static_assert(!Tensor<Sum> && TraitsOf<Sum>::is_lazy);
  static_assert(!Tensor<Ref> && TraitsOf<Ref>::is_lazy);
  static_assert(!TraitsOf<Eigen::TensorMap<X>>::owns_memory && TraitsOf<X>::owns_memory);
}

// core/parameter_view.hpp takes them as gamma and beta, and as their gradients.
TEST(EigenTensor, IsTakenAsParameters) {
  RowTensor<2> x(3, 4);
  const evenkeel::ParameterView<float> parameters = x;
  EXPECT_EQ(parameters.data(), x.data());
  EXPECT_EQ(parameters.view().shape(), (Shape{3, 4}));
  const evenkeel::ParameterGradient<float> gradient = evenkeel::add_to(x);
  EXPECT_EQ(gradient.data(), x.data());
  EXPECT_TRUE(gradient.adds());
}

}  // namespace
}  // namespace evenkeel_test
