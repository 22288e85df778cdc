// Dropout: its values, its mask by position for every kind of tensor, its state, and its errors.
#include "evenkeel/sublayers/dropout.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/blocks/post_norm.hpp"
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/core/concepts.hpp"
#include "evenkeel/core/eigen_tensor.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;
using evenkeel::Dropout;
using evenkeel::DropoutKind;
using evenkeel::DropoutMask;
using evenkeel::Index;
using evenkeel::random_key;
using evenkeel::TensorView;
template <class T>
using RowMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using ColMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;

static_assert(evenkeel::IntoSublayer<Dropout<float>, float>);

template <class T>
RowMatrix<T> random_matrix(Index rows, Index columns, std::uint64_t seed) {
  const auto values = normal_vector<T>(static_cast<std::size_t>(rows * columns), seed);
  return Eigen::Map<const RowMatrix<T>>(values.data(), rows, columns);
}

/// One position at a time, from the definition.
template <class T>
RowMatrix<T> expected(const RowMatrix<T>& x, const DropoutMask& mask) {
  RowMatrix<T> y(x.rows(), x.cols());
  const T scale = static_cast<T>(1 / (1 - mask.p()));
  for (Index i = 0; i < x.rows(); ++i) {
    for (Index j = 0; j < x.cols(); ++j) {
      const Index position = mask.kind() == DropoutKind::per_sample ? i : i * x.cols() + j;
      y(i, j) = mask.keeps(static_cast<std::uint64_t>(position)) ? x(i, j) * scale : T(0);
    }
  }
  return y;
}

template <class T>
class DropoutOf : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(DropoutOf, Scalars);

TYPED_TEST(DropoutOf, KeepsByPositionAndScales) {
  using T = TypeParam;
  for (const auto kind : {DropoutKind::per_element, DropoutKind::per_sample}) {
    for (const auto& [rows, columns] :
         std::vector<std::array<Index, 2>>{{1, 1}, {3, 5}, {70, 131}, {129, 1}, {1, 300}}) {
      Dropout<T> dropout(0.3, 1, "drop", kind);
      dropout.set_step(4);
      typename Dropout<T>::Saved saved;
      const auto x = random_matrix<T>(rows, columns, 1), dy = random_matrix<T>(rows, columns, 2);
      const DropoutMask mask(0.3, random_key(1, "drop"), 4, kind);
      EXPECT_EQ(dropout.forward(x, saved), expected(x, mask)) << rows << "x" << columns;
      EXPECT_EQ(dropout.backward(dy, saved), expected(dy, mask)) << rows << "x" << columns;
      RowMatrix<T> dx = x;
      dropout.backward_into(dy, saved, add_to(dx));
      const RowMatrix<T> sum = x + expected(dy, mask);
      for (Index i = 0; i < sum.size(); ++i) {  // one rounding or two
        EXPECT_NEAR(dx.data()[i], sum.data()[i], 4 * std::numeric_limits<T>::epsilon() * 4);
      }
    }
  }
}

TYPED_TEST(DropoutOf, HasTheSameBitsForEveryStorageOrder) {
  using T = TypeParam;
  for (const auto kind : {DropoutKind::per_element, DropoutKind::per_sample}) {
    const auto x = random_matrix<T>(70, 131, 3);
    const RowMatrix<T> y = expected(x, DropoutMask(0.3, random_key(1, "drop"), 0, kind));
    Dropout<T> dropout(0.3, 1, "drop", kind);
    typename Dropout<T>::Saved saved;
    const ColMatrix<T> by_columns = dropout.forward(ColMatrix<T>(x), saved);
    EXPECT_EQ(RowMatrix<T>(by_columns), y);
    EXPECT_EQ(RowMatrix<T>(dropout.backward(ColMatrix<T>(x), saved)), y);
    EXPECT_EQ(dropout.backward(x, saved), y) << "backward in another order than forward";

    RowMatrix<T> wide = RowMatrix<T>::Constant(80, 140, 99), from = wide;
    from.block(2, 3, 70, 131) = x;
    dropout.set_step(0);
    dropout.forward_into(from.block(2, 3, 70, 131), wide.block(5, 4, 70, 131), saved);
    EXPECT_EQ(RowMatrix<T>(wide.block(5, 4, 70, 131)), y);
    wide.block(5, 4, 70, 131).setConstant(99);
    EXPECT_EQ(wide, (RowMatrix<T>::Constant(80, 140, 99))) << "written around the block";

    dropout.set_step(0);  // into another order
    ColMatrix<T> other(70, 131);
    dropout.forward_into(x, other, saved);
    EXPECT_EQ(RowMatrix<T>(other), y);
  }
}

TEST(Dropout, TakesTensorsOfAnyRank) {
  const auto values = normal_vector<float>(3 * 5 * 7 * 2, 4);
  const Eigen::TensorMap<const Eigen::Tensor<float, 4, Eigen::RowMajor>> x(values.data(), 3, 5, 7, 2);
  Eigen::Tensor<float, 4> by_columns(3, 5, 7, 2);
  for (int i = 0; i < 3 * 5 * 7 * 2; ++i) by_columns(i / 70, i / 14 % 5, i / 2 % 7, i % 2) = values[i];
  for (const auto kind : {DropoutKind::per_element, DropoutKind::per_sample}) {
    const DropoutMask mask(0.5, random_key(1, "drop"), 0, kind);
    Dropout<float> dropout(0.5, 1, "drop", kind);
    Dropout<float>::Saved saved;
    const Eigen::Tensor<float, 4, Eigen::RowMajor> y = dropout.forward(x, saved);
    const Eigen::Tensor<float, 4> y_by_columns = dropout.backward(by_columns, saved);
    for (int i = 0; i < 3 * 5 * 7 * 2; ++i) {
      const int position = kind == DropoutKind::per_sample ? i / 70 : i;
      EXPECT_EQ(y.data()[i], mask.keeps(position) ? 2 * values[i] : 0) << i;
      EXPECT_EQ(y_by_columns(i / 70, i / 14 % 5, i / 2 % 7, i % 2), y.data()[i]) << i;
    }
    const Eigen::VectorXf vector = Eigen::Map<const Eigen::VectorXf>(values.data(), 200);
    const Eigen::VectorXf dropped = Dropout<float>(0.5, 1, "drop", kind).forward(vector, saved);
    for (Index i = 0; i < 200; ++i) EXPECT_EQ(dropped[i], mask.keeps(i) ? 2 * vector[i] : 0) << i;
  }
}

TEST(Dropout, TakesNumbersOf16Bits) {
  using Half = Eigen::half;
  const RowMatrix<Half> x = random_matrix<float>(9, 33, 5).cast<Half>();
  Dropout<Half> dropout(0.3, 1, "drop");
  Dropout<Half>::Saved saved;
  const RowMatrix<Half> y = dropout.forward(x, saved);
  const RowMatrix<float> wide = expected<float>(x.cast<float>(), saved.mask());
  for (Index i = 0; i < y.size(); ++i) EXPECT_EQ(float(y.data()[i]), float(Half(wide.data()[i]))) << i;
}

TEST(Dropout, WorksInPlace) {
  const auto x = random_matrix<float>(20, 33, 6);
  Dropout<float> dropout(0.3, 1, "drop");
  Dropout<float>::Saved saved;
  RowMatrix<float> y = x;
  dropout.forward_into(y, y, saved);
  EXPECT_EQ(y, expected(x, saved.mask()));
  RowMatrix<float> dx = x;
  dropout.backward_into(dx, saved, dx);
  EXPECT_EQ(dx, expected(x, saved.mask()));
}

TEST(Dropout, OfInferenceCopiesWhateverPIs) {  // B101
  const auto x = random_matrix<float>(5, 7, 7);
  const Dropout<float> none(0, 1, "drop"), all(1, 1, "drop"), some(0.5, 1, "drop");
  EXPECT_EQ(none.forward(x), x);
  EXPECT_EQ(all.forward(x), x);
  EXPECT_EQ(some.forward(x), x);
  EXPECT_EQ(some.forward(ColMatrix<float>(x)), x);
}

TEST(Dropout, InferenceBetweenTrainingStepsChangesNothing) {  // B101
  const auto x = random_matrix<float>(5, 70, 8);
  Dropout<float> with(0.5, 1, "drop"), without(0.5, 1, "drop");
  Dropout<float>::Saved saved;
  EXPECT_EQ(with.forward(x, saved), without.forward(x, saved));
  with.forward(x);
  EXPECT_EQ(with.forward(x, saved), without.forward(x, saved));
}

TEST(Dropout, DrawsAnotherMaskInEachStepAndTheSameAgainFromItsStep) {  // B103
  const auto x = random_matrix<float>(5, 70, 9);
  Dropout<float> dropout(0.5, 1, "drop");
  Dropout<float>::Saved first_saved, saved;
  const RowMatrix<float> first = dropout.forward(x, first_saved), second = dropout.forward(x, saved);
  EXPECT_NE(first, second);
  EXPECT_EQ(dropout.step(), 2u);
  EXPECT_EQ(dropout.backward(x, first_saved), first) << "the mask of its own forward";
  EXPECT_EQ(dropout.backward(x, first_saved), first) << "twice";

  Dropout<float> resumed(0.5, 1, "drop");
  resumed.set_step(1);
  EXPECT_EQ(resumed.forward(x, saved), second);
  Dropout<float> elsewhere(0.5, 1, "other"), another_seed(0.5, 2, "drop");
  EXPECT_NE(elsewhere.forward(x, saved), first);
  EXPECT_NE(another_seed.forward(x, saved), first);
}

// The mean of 10^5 numbers that are 0 or 1/0.7 has the standard deviation 0.0021.
TEST(Dropout, KeepsTheMean) {  // B103
  Dropout<float> dropout(0.3, 1, "drop");
  Dropout<float>::Saved saved;
  const RowMatrix<float> y = dropout.forward(RowMatrix<float>(RowMatrix<float>::Ones(100, 1000)), saved);
  EXPECT_NEAR(y.cast<double>().mean(), 1, 0.01);
}

TEST(Dropout, PZeroCopiesAndDrawsNothing) {  // B103
  auto x = random_matrix<float>(5, 7, 10);
  x(2, 3) = std::numeric_limits<float>::quiet_NaN(), x(1, 1) = -0.0f;
  Dropout<float> dropout(0, 1, "drop");
  Dropout<float>::Saved saved;
  const RowMatrix<float> y = dropout.forward(x, saved), dx = dropout.backward(x, saved);
  EXPECT_EQ(std::memcmp(y.data(), x.data(), sizeof(float) * 35), 0);
  EXPECT_EQ(std::memcmp(dx.data(), x.data(), sizeof(float) * 35), 0);
  EXPECT_EQ(dropout.step(), 0u);
}

TEST(Dropout, POneGivesExactZerosForNaNAndInfinityToo) {
  auto x = random_matrix<float>(5, 7, 11);
  x(2, 3) = std::numeric_limits<float>::quiet_NaN(), x(1, 1) = -std::numeric_limits<float>::infinity();
  Dropout<float> dropout(1, 1, "drop");
  Dropout<float>::Saved saved;
  const RowMatrix<float> y = dropout.forward(x, saved), dx = dropout.backward(x, saved);
  EXPECT_EQ(y, (RowMatrix<float>::Zero(5, 7)));
  EXPECT_EQ(dx, (RowMatrix<float>::Zero(5, 7)));
}

// With everything dropped in its branch a block is its skip path: the drop stands before the sum.
TEST(Dropout, InABlockDropsTheBranchAlone) {  // B100
  using Norm = evenkeel::LayerNorm<float>;
  const auto x = random_matrix<float>(5, 8, 12), dy = random_matrix<float>(5, 8, 13);
  evenkeel::PreNorm pre(Norm(8), Dropout<float>(1, 1, "drop"));
  decltype(pre)::Saved pre_saved;
  EXPECT_EQ(pre.forward(x, pre_saved), x);
  EXPECT_EQ(pre.backward(dy, pre_saved), dy);
  evenkeel::PostNorm post(Norm(8), Dropout<float>(1, 1, "drop"));
  decltype(post)::Saved post_saved;
  EXPECT_EQ(post.forward(x, post_saved), Norm(8).forward(x));
  EXPECT_EQ(pre.forward(x, pre_saved), x) << "the second step";
}

TEST(Dropout, SaysWhatDoesNotFit) {
  Dropout<float> dropout(0.5, 1, "drop");
  Dropout<float>::Saved saved;
  const RowMatrix<float> x = RowMatrix<float>::Zero(4, 6);
  RowMatrix<float> y = RowMatrix<float>::Zero(4, 5);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { dropout.forward_into(x, y, saved); }),
            "evenkeel::Dropout::forward: y has shape [4, 5], expected [4, 6] (the shape of x)");
  EXPECT_EQ(error_text<std::invalid_argument>([&] { dropout.forward_into(y.leftCols(4), y.rightCols(4), saved); }),
            "evenkeel::Dropout::forward: y overlaps x in memory, expected the identical view or memory of its own");
  EXPECT_EQ(error_text<std::logic_error>([&] { dropout.backward(x, saved); }),
            "evenkeel::Dropout::backward: saved is empty, expected the Saved of a forward(x, saved) call");
  EXPECT_EQ(dropout.step(), 0u) << "a forward that has failed draws nothing";
  dropout.forward(x, saved);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { dropout.backward(y, saved); }),
            "evenkeel::Dropout::backward: dy has shape [4, 5], expected [4, 6] (the shape of the x of the forward)");
  EXPECT_EQ(error_text<std::invalid_argument>([&] { dropout.backward_into(x, saved, y); }),
            "evenkeel::Dropout::backward: dx has shape [4, 5], expected [4, 6] (the shape of the x of the forward)");
  RowMatrix<float> wide = RowMatrix<float>::Zero(4, 8);
  EXPECT_EQ(
      error_text<std::invalid_argument>([&] { dropout.backward_into(wide.leftCols(6), saved, wide.rightCols(6)); }),
      "evenkeel::Dropout::backward: dx overlaps dy in memory, expected the identical view or memory of its own");
  EXPECT_EQ(error_text<std::invalid_argument>([] { Dropout<float>(2, 1, "drop"); }),
            "evenkeel::Dropout: p is 2.000000, expected a number from 0 to 1");
}

TEST(Dropout, OfNothingIsNothing) {
  Dropout<float> dropout(0.5, 1, "drop");
  Dropout<float>::Saved saved;
  EXPECT_EQ(dropout.forward(RowMatrix<float>(0, 6), saved).size(), 0);
  EXPECT_EQ(dropout.backward(RowMatrix<float>(0, 6), saved).size(), 0);
}

}  // namespace
}  // namespace evenkeel_test
