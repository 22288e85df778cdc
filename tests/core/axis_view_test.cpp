#include "evenkeel/core/axis_view.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "core/error_text.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Axes;
using evenkeel::Axis;
using evenkeel::AxisView;
using evenkeel::Index;
using evenkeel::Shape;
using evenkeel::StorageOrder;
using evenkeel::TensorView;

using Strides = std::array<Index, evenkeel::max_rank>;
constexpr auto row_major = StorageOrder::row_major, column_major = StorageOrder::column_major;

AxisView view_of(const Shape& shape, StorageOrder order, const Axes& axes) {
  return evenkeel::axis_view("op", "x", TensorView<float>(nullptr, shape, order), axes);
}
AxisView view_of(const Shape& shape, const Strides& strides, StorageOrder order, const Axes& axes) {
  return evenkeel::axis_view("op", "x", TensorView<float>(nullptr, shape, strides, order), axes);
}

/// The stride along an axis with one element means nothing.
void expect_axis(const Axis& axis, Index extent, Index stride) {
  EXPECT_EQ(axis.extent, extent);
  EXPECT_TRUE(extent <= 1 || axis.stride == stride) << "the stride is " << axis.stride << ", expected " << stride;
}

TEST(AxisView, OfTheLastAxisInRowMajorOrderHasRows) {
  const AxisView view = view_of({2, 3, 4}, row_major, -1);
  expect_axis(view.outer, 6, 4);
  expect_axis(view.length, 4, 1);
  expect_axis(view.inner, 1, 0);
}

TEST(AxisView, OfTheLastAxisInColumnMajorOrderHasLanes) {
  const AxisView view = view_of({2, 3, 4}, column_major, -1);
  expect_axis(view.outer, 1, 0);
  expect_axis(view.length, 4, 6);
  expect_axis(view.inner, 6, 1);
}

TEST(AxisView, OfTheFirstAxisInColumnMajorOrderHasRows) {
  const AxisView view = view_of({2, 3, 4}, column_major, 0);
  expect_axis(view.outer, 12, 2);
  expect_axis(view.length, 2, 1);
  expect_axis(view.inner, 1, 0);
}

TEST(AxisView, OfAxesInTheMiddleHasAllThree) {
  const AxisView rows = view_of({2, 3, 4, 5}, row_major, {1, 2});
  expect_axis(rows.outer, 2, 60);
  expect_axis(rows.length, 12, 5);
  expect_axis(rows.inner, 5, 1);
  const AxisView columns = view_of({2, 3, 4, 5}, column_major, {1, 2});
  expect_axis(columns.outer, 5, 24);
  expect_axis(columns.length, 12, 2);
  expect_axis(columns.inner, 2, 1);
}

TEST(AxisView, OfAllAxesIsOneRow) {
  for (const auto order : {row_major, column_major}) {
    const AxisView view = view_of({2, 3, 4}, order, Axes::last(3));
    expect_axis(view.outer, 1, 0);
    expect_axis(view.length, 24, 1);
    expect_axis(view.inner, 1, 0);
  }
}

// Each element of the tensor is exactly one of the view, whatever the axes, and elements that are normalized together
// are those that agree in every other index.
TEST(AxisView, CoversEveryElementOnce) {
  const Shape shape{2, 3, 1, 5};
  for (const auto order : {row_major, column_major}) {
    for (int first = 0; first < 4; ++first) {
      const AxisView view = view_of(shape, order, first);
      std::vector<int> seen(30);
      for (Index o = 0; o < view.outer.extent; ++o)
        for (Index l = 0; l < view.length.extent; ++l)
          for (Index i = 0; i < view.inner.extent; ++i)
            ++seen.at(static_cast<std::size_t>(o * view.outer.stride + l * view.length.stride + i * view.inner.stride));
      EXPECT_EQ(seen, std::vector<int>(30, 1)) << "axis " << first;
      EXPECT_EQ(view.length.extent, shape[first]);
    }
  }
}

TEST(AxisView, KeepsTheGapBetweenRows) {
  const AxisView view = view_of({3, 4}, Strides{9, 1}, row_major, -1);
  expect_axis(view.outer, 3, 9);
  expect_axis(view.length, 4, 1);
  const AxisView columns = view_of({4, 3}, Strides{1, 9}, column_major, 0);
  expect_axis(columns.outer, 3, 9);
  expect_axis(columns.length, 4, 1);
}

TEST(AxisView, KeepsTheGapBetweenElements) {
  const AxisView view = view_of({3, 4}, Strides{40, 2}, row_major, -1);
  expect_axis(view.outer, 3, 40);
  expect_axis(view.length, 4, 2);
}

TEST(AxisView, JoinsAxesAcrossOnesOfExtent1) {
  const AxisView view = view_of({1, 2, 1, 3, 4}, Strides{-7, 12, 99, 4, 1}, row_major, -1);
  expect_axis(view.outer, 6, 4);
  expect_axis(view.length, 4, 1);
}

TEST(AxisView, OfNoElementsHasNone) {
  for (const auto order : {row_major, column_major}) {
    EXPECT_EQ(view_of({0, 4}, order, -1).length.extent, 4);
    EXPECT_EQ(view_of({4, 0}, order, -1).length.extent, 0);
    const AxisView view = view_of({4, 0, 8}, order, -1);
    EXPECT_EQ(view.outer.extent * view.inner.extent, 0);
    EXPECT_EQ(view.length.extent, 8);
  }
}

TEST(AxisView, RefusesGapsWithinTheRows) {
  EXPECT_EQ(error_text<std::invalid_argument>([] {
              view_of({2, 3, 4}, Strides{20, 4, 1}, row_major, -1);
            }),
            "evenkeel::op: x has stride 20 along axis 0, expected 12: axes that are taken together have no gaps (x has "
            "shape [2, 3, 4])");
  EXPECT_EQ(error_text<std::invalid_argument>([] {
              view_of({2, 3, 4}, Strides{1, 2, 7}, column_major, 0);
            }),
            "evenkeel::op: x has stride 7 along axis 2, expected 6: axes that are taken together have no gaps (x has "
            "shape [2, 3, 4])");
}

TEST(AxisView, RefusesGapsWithinTheNormalizedAxes) {
  EXPECT_EQ(error_text<std::invalid_argument>([] {
              view_of({3, 4}, Strides{9, 1}, row_major, {0, 1});
            }),
            "evenkeel::op: x has stride 9 along axis 0, expected 4: axes that are taken together have no gaps (x has "
            "shape [3, 4])");
}

TEST(AxisView, RefusesAxesThatXDoesNotHave) {
  EXPECT_EQ(error_text<std::invalid_argument>([] {
              view_of({3, 4}, row_major, 2);
            }),
            "evenkeel::op: axis is 2, expected -2 to 1 (x has shape [3, 4])");
}

}  // namespace
}  // namespace evenkeel_test
