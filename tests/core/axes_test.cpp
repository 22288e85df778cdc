#include "evenkeel/core/axes.hpp"

#include <gtest/gtest.h>

#include "core/error_text.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Axes;
using evenkeel::Shape;

const Shape shape{2, 3, 4};

TEST(Axes, AreOneOrSeveral) {
  EXPECT_EQ(Axes(-1).count(), 1);
  EXPECT_EQ((Axes{-2, -1}.count()), 2);
  EXPECT_EQ(Axes::last(3).count(), 3);
}

TEST(Axes, CountFromTheEndWhereNegative) {
  for (int axis = 0; axis < 3; ++axis) {
    EXPECT_EQ(Axes(axis).first("op", shape), axis);
    EXPECT_EQ(Axes(axis - 3).first("op", shape), axis);
  }
}

TEST(Axes, StartAtTheFirstOfThem) {
  EXPECT_EQ((Axes{0, 1}.first("op", shape)), 0);
  EXPECT_EQ((Axes{1, 2}.first("op", shape)), 1);
  EXPECT_EQ((Axes{-2, -1}.first("op", shape)), 1);
  EXPECT_EQ((Axes{-2, 2}.first("op", shape)), 1);
  EXPECT_EQ((Axes{0, 1, 2}.first("op", shape)), 0);
}

TEST(Axes, LastAreTheLast) {
  EXPECT_EQ(Axes::last(1).first("op", shape), 2);
  EXPECT_EQ(Axes::last(2).first("op", shape), 1);
  EXPECT_EQ(Axes::last(3).first("op", shape), 0);
  EXPECT_EQ(Axes::last(8).first("op", {1, 2, 3, 4, 5, 6, 7, 8}), 0);
}

TEST(Axes, AreAtLeast1AndAtMost8) {
  EXPECT_EQ(error_text<std::invalid_argument>([] { Axes(std::initializer_list<int>{}); }),
            "evenkeel::Axes: 0 axes, expected 1 to 8");
  EXPECT_EQ(error_text<std::invalid_argument>([] { Axes{0, 1, 2, 3, 4, 5, 6, 7, 8}; }),
            "evenkeel::Axes: 9 axes, expected 1 to 8");
  EXPECT_EQ(error_text<std::invalid_argument>([] { Axes::last(0); }), "evenkeel::Axes::last: 0 axes, expected 1 to 8");
  EXPECT_EQ(error_text<std::invalid_argument>([] { Axes::last(9); }), "evenkeel::Axes::last: 9 axes, expected 1 to 8");
  EXPECT_EQ(error_text<std::invalid_argument>([] { Axes::last(-1); }),
            "evenkeel::Axes::last: -1 axes, expected 1 to 8");
}

TEST(Axes, OutOfRangeAreAnError) {
  const auto text = [](const Axes& axes) {
    return error_text<std::invalid_argument>([&] { axes.first("op", shape); });
  };
  EXPECT_EQ(text(3), "evenkeel::op: axis is 3, expected -3 to 2 (x has shape [2, 3, 4])");
  EXPECT_EQ(text(-4), "evenkeel::op: axis is -4, expected -3 to 2 (x has shape [2, 3, 4])");
  EXPECT_EQ(text({2, 3}), "evenkeel::op: axis is 3, expected -3 to 2 (x has shape [2, 3, 4])");
  EXPECT_EQ(text(Axes::last(4)), "evenkeel::op: axis is -4, expected -3 to 2 (x has shape [2, 3, 4])");
}

TEST(Axes, NotAdjacentAreAnError) {
  const auto text = [](const Axes& axes) {
    return error_text<std::invalid_argument>([&] { axes.first("op", shape); });
  };
  EXPECT_EQ(text({0, 2}),
            "evenkeel::op: axis 2 follows axis 0, expected axis 1: axes are adjacent and ascending (x has shape [2, 3, "
            "4])");
  EXPECT_EQ(text({0, -1}), text({0, 2}));
  EXPECT_EQ(text({1, 0}),
            "evenkeel::op: axis 0 follows axis 1, expected axis 2: axes are adjacent and ascending (x has shape [2, 3, "
            "4])");
  EXPECT_EQ(text({1, 1}),
            "evenkeel::op: axis 1 follows axis 1, expected axis 2: axes are adjacent and ascending (x has shape [2, 3, "
            "4])");
}

}  // namespace
}  // namespace evenkeel_test
