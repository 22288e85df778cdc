#include "evenkeel/core/parameter_view.hpp"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <type_traits>
#include <vector>

#include "core/error_text.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;
using evenkeel::Index;
using evenkeel::ParameterGradient;
using evenkeel::ParameterView;
using evenkeel::Shape;
using evenkeel::StorageOrder;
using evenkeel::TensorGradient;
using evenkeel::TensorView;

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr const char* gap_text =
    "evenkeel::parameters: elements of a parameter of shape [3] have gaps between them, expected contiguous memory";

/// As an option is given: an implicit conversion.
void expect_parameters(const ParameterView<float>& parameters, const float* data, Index size) {
  EXPECT_TRUE(parameters.is_given());
  EXPECT_EQ(parameters.data(), data);
  EXPECT_EQ(parameters.view().data(), data);
  EXPECT_EQ(parameters.view().shape(), Shape{size});
}

TEST(ParameterView, IsAbsentUnlessGiven) {
  const ParameterView<float> parameters;
  EXPECT_FALSE(parameters.is_given());
  EXPECT_EQ(parameters.data(), nullptr);
  EXPECT_FALSE(ParameterView<float>({}).is_given());
}

TEST(ParameterView, TakesAPointerAndASize) {
  const float memory[] = {1, 2, 3};
  expect_parameters({memory, 3}, memory, 3);
}

TEST(ParameterView, TakesVectorsArraysAndSpans) {
  const std::vector<float> vector = {1, 2, 3};
  const std::array<float, 3> array = {1, 2, 3};
  std::vector<float> mutable_vector = {1, 2, 3};
  expect_parameters(vector, vector.data(), 3);
  expect_parameters(array, array.data(), 3);
  expect_parameters(std::span(vector), vector.data(), 3);
  expect_parameters(mutable_vector, mutable_vector.data(), 3);
  expect_parameters(std::span(mutable_vector), mutable_vector.data(), 3);
}

TEST(ParameterView, TakesEigenVectors) {
  Eigen::VectorXf column(3);
  const Eigen::RowVectorXf row(3);
  const Eigen::ArrayXf array(3);
  const Eigen::Vector3f fixed(1, 2, 3);
  expect_parameters(column, column.data(), 3);
  expect_parameters(row, row.data(), 3);
  expect_parameters(array, array.data(), 3);
  expect_parameters(fixed, fixed.data(), 3);
  expect_parameters(column.head(2), column.data(), 2);
  expect_parameters(Eigen::Map<const Eigen::VectorXf>(column.data(), 3), column.data(), 3);
  const Eigen::Ref<const Eigen::VectorXf> reference = column;
  expect_parameters(reference, column.data(), 3);
  Matrix matrix(3, 4);
  expect_parameters(matrix.row(1), &matrix(1, 0), 4);
}

TEST(ParameterView, KeepsTheShapeAndOrderOfAMatrix) {
  const Eigen::MatrixXf matrix(3, 4);
  const ParameterView<float> parameters = matrix;
  EXPECT_EQ(parameters.view().shape(), (Shape{3, 4}));
  EXPECT_EQ(parameters.view().order(), StorageOrder::column_major);
}

TEST(ParameterView, RefusesGapsBetweenElements) {
  Matrix matrix(3, 4);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { ParameterView<float>(matrix.col(0)); }), gap_text);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { ParameterView<float>(matrix.col(0).head(3)); }), gap_text);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { ParameterView<float>(matrix.leftCols(2)); }),
            "evenkeel::parameters: elements of a parameter of shape [3, 2] have gaps between them, expected contiguous "
            "memory");
}

TEST(ParameterView, IsOfTheGivenMemoryNotACopy) {
  std::vector<float> vector = {1, 2, 3};
  const ParameterView<float> parameters = vector;
  vector[1] = 9;
  EXPECT_EQ(parameters.data()[1], 9);
}

// ---------------------------------------------------------------- gradients of parameters

void expect_gradient(const ParameterGradient<float>& gradient, const float* data, Index size, bool adds) {
  EXPECT_TRUE(gradient.is_wanted());
  EXPECT_EQ(gradient.adds(), adds);
  EXPECT_EQ(gradient.data(), data);
  EXPECT_EQ(gradient.view().shape(), Shape{size});
}

TEST(ParameterGradient, IsNotWantedUnlessGiven) {
  EXPECT_FALSE(ParameterGradient<float>().is_wanted());
  EXPECT_FALSE(ParameterGradient<float>({}).is_wanted());
  EXPECT_EQ(ParameterGradient<float>().data(), nullptr);
}

TEST(ParameterGradient, TakesWhatCanBeWrittenTo) {
  float memory[3];
  std::vector<float> vector(3);
  std::array<float, 3> array;
  Eigen::VectorXf eigen(3);
  Matrix matrix(3, 4);
  expect_gradient({memory, 3}, memory, 3, false);
  expect_gradient(vector, vector.data(), 3, false);
  expect_gradient(array, array.data(), 3, false);
  expect_gradient(std::span(vector), vector.data(), 3, false);
  expect_gradient(eigen, eigen.data(), 3, false);
  expect_gradient(eigen.tail(2), eigen.data() + 1, 2, false);
  expect_gradient(Eigen::Map<Eigen::VectorXf>(memory, 3), memory, 3, false);
  expect_gradient(matrix.row(1), &matrix(1, 0), 4, false);
}

TEST(ParameterGradient, AddsWhereAsked) {
  float memory[3];
  std::vector<float> vector(3);
  Eigen::VectorXf eigen(3);
  expect_gradient(add_to(vector), vector.data(), 3, true);
  expect_gradient(add_to(std::span(vector)), vector.data(), 3, true);
  expect_gradient(add_to(eigen), eigen.data(), 3, true);
  expect_gradient(add_to(eigen.tail(2)), eigen.data() + 1, 2, true);
  expect_gradient(add_to(Eigen::Map<Eigen::VectorXf>(memory, 3)), memory, 3, true);
  expect_gradient(add_to(TensorView<float>(memory, 3)), memory, 3, true);
}

TEST(ParameterGradient, RefusesGapsBetweenElements) {
  Matrix matrix(3, 4);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { ParameterGradient<float>(matrix.col(0)); }), gap_text);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { ParameterGradient<float>(matrix.col(0).head(3)); }), gap_text);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { ParameterGradient<float>(add_to(matrix.col(0))); }), gap_text);
}

// ---------------------------------------------------------------- gradients of tensors

void expect_gradient(const TensorGradient<float>& gradient, const float* data, const Shape& shape, Index row_stride,
                     bool adds) {
  EXPECT_TRUE(gradient.is_wanted());
  EXPECT_EQ(gradient.adds(), adds);
  EXPECT_EQ(gradient.view().data(), data);
  EXPECT_EQ(gradient.view().shape(), shape);
  EXPECT_EQ(gradient.view().stride(0), row_stride);
}

TEST(TensorGradient, IsNotWantedUnlessGiven) {
  EXPECT_FALSE(TensorGradient<float>().is_wanted());
  EXPECT_FALSE(TensorGradient<float>({}).is_wanted());
}

TEST(TensorGradient, TakesTensorsThatCanBeWrittenTo) {
  Matrix matrix(3, 4);
  expect_gradient(matrix, matrix.data(), {3, 4}, 4, false);
  expect_gradient(matrix.leftCols(2), matrix.data(), {3, 2}, 4, false);
  expect_gradient(Eigen::Map<Matrix>(matrix.data(), 2, 6), matrix.data(), {2, 6}, 6, false);
  expect_gradient(TensorView<float>(matrix.data(), 2, 3, 5), matrix.data(), {2, 3}, 5, false);
}

TEST(TensorGradient, AddsWhereAsked) {
  Matrix matrix(3, 4);
  expect_gradient(add_to(matrix), matrix.data(), {3, 4}, 4, true);
  expect_gradient(add_to(matrix.leftCols(2)), matrix.data(), {3, 2}, 4, true);
  expect_gradient(add_to(TensorView<float>(matrix.data(), 2, 3, 5)), matrix.data(), {2, 3}, 5, true);
}

TEST(TensorGradient, IsLikeXAndHasMemoryOfItsOwn) {
  Matrix x(3, 4), dy(3, 4), dx(3, 4), turned(4, 3);
  Eigen::MatrixXf columns(3, 4);
  const auto require = [&](const TensorGradient<float>& to) {
    evenkeel::require_input_gradient<float>("op", to, evenkeel::const_view(dy), evenkeel::const_view(x));
  };
  const auto text = [&](const TensorGradient<float>& to) {
    return error_text<std::invalid_argument>([&] { require(to); });
  };
  EXPECT_NO_THROW(require({}));
  EXPECT_NO_THROW(require(dx));
  EXPECT_EQ(text(turned), "evenkeel::op: dx has shape [4, 3], expected [3, 4] (the shape of x)");
  EXPECT_EQ(text(columns),
            "evenkeel::op: dx is column-major, expected row-major as x is (copy into a tensor of that order first)");
  EXPECT_EQ(text(dy), "evenkeel::op: dx overlaps dy in memory, expected memory of its own");
  EXPECT_EQ(text(x), "evenkeel::op: dx overlaps x in memory, expected memory of its own");
}

TEST(TensorGradient, IsNotMadeFromVectorsOfTheStandardLibrary) {
  static_assert(!std::is_convertible_v<std::vector<float>&, TensorGradient<float>>);
  static_assert(!std::is_convertible_v<int, ParameterView<float>>);
  static_assert(!std::is_convertible_v<float*, ParameterView<float>>);
}

}  // namespace
}  // namespace evenkeel_test
