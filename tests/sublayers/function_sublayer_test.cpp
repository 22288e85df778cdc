// Tests of sublayers/function_sublayer.hpp: a pair of callables as a sublayer.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/core/concepts.hpp"
#include "evenkeel/core/eigen_tensor.hpp"
#include "evenkeel/core/parameter.hpp"
#include "evenkeel/sublayers/function_sublayer.hpp"
#include "support/matrix.hpp"
#include "support/random.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Index;
using evenkeel::TensorView;
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowTensor = Eigen::Tensor<double, 3, Eigen::RowMajor>;

template <class Matrix = RowMatrix>
Matrix random_matrix(Index rows, Index columns, std::uint64_t seed) {
  return normal_matrix<double>(rows, columns, seed);
}

/// y = x^2, dx = 2 * x * dy, for matrices: both return lazy expressions.
auto square() {
  return evenkeel::sublayer([](const auto& x) { return x.cwiseAbs2(); },
                            [](const auto& dy, const auto& x) { return 2 * x.cwiseProduct(dy); });
}

/// y, then dx, where f squares.
template <class X>
void expect_square(const X& x, const X& dy) {
  auto f = square();
  typename decltype(f)::Saved saved;
  const evenkeel::OwnedOf<X> squared = x.cwiseAbs2(), gradient = 2 * x.cwiseProduct(dy);
  EXPECT_EQ(f.forward(x), squared);
  EXPECT_EQ(f.forward(x, saved), squared);
  EXPECT_EQ(f.backward(dy, saved), gradient);
  EXPECT_EQ(f.backward(dy, saved), gradient);
}

TEST(FunctionSublayer, TakesMatricesOfEitherOrderVectorsAndBlocks) {
  expect_square(random_matrix(3, 4, 1), random_matrix(3, 4, 2));
  expect_square(random_matrix<Eigen::MatrixXd>(3, 4, 1), random_matrix<Eigen::MatrixXd>(3, 4, 2));
  expect_square(Eigen::VectorXd(random_matrix(1, 5, 3).transpose()),
                Eigen::VectorXd(random_matrix(1, 5, 4).transpose()));
  const RowMatrix a = random_matrix(6, 9, 5), b = random_matrix(6, 9, 6);
  expect_square(a.block(1, 2, 3, 4), b.block(2, 4, 3, 4));
  const Eigen::MatrixXd c = a, d = b;
  expect_square(c.block(1, 2, 3, 4), d.block(2, 4, 3, 4));
  expect_square(c.row(2), d.row(4));
}

TEST(FunctionSublayer, TakesTensors) {
  auto f = evenkeel::sublayer([](const auto& x) { return x.square(); },
                              [](const auto& dy, const auto& x) { return dy * x * x.constant(2); });
  RowTensor x(2, 3, 4), dy(2, 3, 4);
  const auto values = normal_vector<double>(48, 7);
  std::copy_n(values.begin(), 24, x.data()), std::copy_n(values.begin() + 24, 24, dy.data());
  decltype(f)::Saved saved;
  const RowTensor y = f.forward(x, saved), dx = f.backward(dy, saved);
  for (Index i = 0; i < 24; ++i) {
    EXPECT_EQ(y.data()[i], x.data()[i] * x.data()[i]);
    EXPECT_EQ(dx.data()[i], 2 * x.data()[i] * dy.data()[i]);
  }
}

TEST(FunctionSublayer, CallablesMayReturnTensorsAndHoldState) {
  const RowMatrix weight = random_matrix(3, 4, 8);
  const auto f =
      evenkeel::sublayer([weight](const auto& x) -> RowMatrix { return x.cwiseProduct(weight); },
                         [weight](const auto& dy, const auto&) -> RowMatrix { return dy.cwiseProduct(weight); });
  const RowMatrix x = random_matrix(3, 4, 9), dy = random_matrix(3, 4, 10);
  decltype(f)::Saved saved;
  EXPECT_EQ(f.forward(x, saved), x.cwiseProduct(weight));
  EXPECT_EQ(f.backward(dy, saved), dy.cwiseProduct(weight));
}

TEST(FunctionSublayer, BackwardSeesTheXOfTheLastForwardWhereItLies) {
  const double* seen = nullptr;
  auto f = evenkeel::sublayer([](const auto& x) { return x * 1.0; },
                              [&seen](const auto& dy, const auto& x) {
                                seen = x.data();
                                return dy * 1.0;
                              });
  const RowMatrix first = random_matrix(2, 3, 11), second = random_matrix(5, 3, 12);
  decltype(f)::Saved saved;
  f.forward(first, saved);
  f.forward(second, saved);
  const auto moved = std::move(saved);
  f.backward(second, moved);
  EXPECT_EQ(seen, second.data());
}

TEST(FunctionSublayer, HasNoParameters) {
  auto f = square();
  int parameters = 0;
  evenkeel::for_each_parameter(f, [&](const std::string&, auto&) { ++parameters; });
  EXPECT_EQ(parameters, 0);
}

TEST(FunctionSublayer, ABackwardNeedsAForward) {
  auto f = square();
  decltype(f)::Saved saved;
  EXPECT_EQ(error_text<std::logic_error>([&] { f.backward(random_matrix(2, 3, 1), saved); }),
            "evenkeel::FunctionSublayer::backward: saved is empty, expected the Saved of a forward(x, saved) call");
}

TEST(FunctionSublayer, RefusesADyOfAnotherShapeOrOrder) {
  auto f = evenkeel::sublayer([](const auto& x) { return 2 * x; }, [](const auto& dy, const auto&) { return 2 * dy; });
  const RowMatrix x = random_matrix(3, 4, 1), other_shape = random_matrix(2, 4, 2);
  const Eigen::MatrixXd other_order = random_matrix(3, 4, 3);
  decltype(f)::Saved saved;
  f.forward(x, saved);
  EXPECT_THROW(f.backward(other_shape, saved), std::invalid_argument);
  EXPECT_THROW(f.backward(other_order, saved), std::invalid_argument) << "x would be seen transposed";
}

TEST(FunctionSublayer, NeverMistakesAnXWithGapsBetweenItsFeatures) {
  std::vector<double> memory = normal_vector<double>(64, 13);
  using Strided = Eigen::Map<RowMatrix, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;
  const Strided x(memory.data(), 3, 4, {16, 2});
  const RowMatrix dy = random_matrix(3, 4, 14);
  auto f = square();
  decltype(f)::Saved saved;
  try {
    f.forward(x, saved);
    EXPECT_EQ(f.backward(dy, saved), RowMatrix(2 * x.cwiseProduct(dy)));
  } catch (const std::invalid_argument&) {  // refused: as good
  }
}

}  // namespace
}  // namespace evenkeel_test
