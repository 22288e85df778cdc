#include "evenkeel/core/shape.hpp"

#include <gtest/gtest.h>

#include "core/error_text.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Index;
using evenkeel::Shape;
using evenkeel::shape_string;

TEST(Shape, HoldsExtentsInLogicalOrder) {
  const Shape shape{4, 128, 768};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[0], 4);
  EXPECT_EQ(shape[1], 128);
  EXPECT_EQ(shape[2], 768);
  EXPECT_EQ(shape.size(), 4 * 128 * 768);
}

TEST(Shape, OfANumberHasRank1) {
  const Shape shape = Index{5};
  EXPECT_EQ(shape, Shape{5});
  EXPECT_EQ(shape.rank(), 1);
  EXPECT_EQ(shape.size(), 5);
}

TEST(Shape, WithoutAxesIsThatOfOneNumber) {
  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ(Shape().size(), 1);
  EXPECT_EQ(Shape(), Shape{});
}

TEST(Shape, WithAnExtentOfZeroHasNoElements) { EXPECT_EQ((Shape{4, 0, 8}.size()), 0); }

TEST(Shape, GrowsByAxes) {
  Shape shape;
  shape.append(2);
  shape.append(3);
  EXPECT_EQ(shape, (Shape{2, 3}));
}

TEST(Shape, IsEqualOnlyWithTheSameAxes) {
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  EXPECT_NE((Shape{2, 0}), Shape{2});
  EXPECT_NE(Shape{1}, Shape{});
}

TEST(Shape, IsWrittenInBrackets) {
  EXPECT_EQ(shape_string(Shape{4, 128, 768}), "[4, 128, 768]");
  EXPECT_EQ(shape_string(7), "[7]");
  EXPECT_EQ(shape_string({}), "[]");
}

TEST(Shape, HasAtMost8Axes) {
  EXPECT_EQ((Shape{1, 2, 3, 4, 5, 6, 7, 8}.rank()), 8);
  const char* text = "evenkeel::Shape: more than 8 axes, expected at most 8";
  EXPECT_EQ(error_text<std::invalid_argument>([] { Shape{1, 2, 3, 4, 5, 6, 7, 8, 9}; }), text);
  Shape full{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(error_text<std::invalid_argument>([&] { full.append(9); }), text);
  EXPECT_EQ(full, (Shape{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(Shape, HasNoNegativeExtent) {
  const char* text = "evenkeel::Shape: extent is -1, expected at least 0";
  EXPECT_EQ(error_text<std::invalid_argument>([] { Shape{3, -1}; }), text);
  EXPECT_EQ(error_text<std::invalid_argument>([] { Shape(Index{-1}); }), text);
}

}  // namespace
}  // namespace evenkeel_test
