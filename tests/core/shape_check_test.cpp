#include "evenkeel/core/shape_check.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "core/error_text.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::require_eps;
using evenkeel::require_same_order;
using evenkeel::require_same_shape;
using evenkeel::Shape;
using evenkeel::StorageOrder;
using evenkeel::TensorView;

/// A view of memory that is never read.
TensorView<float> view_of(const Shape& shape, StorageOrder order) { return {nullptr, shape, order}; }

TEST(HasShape, NamesTheTensor) { EXPECT_EQ(evenkeel::has_shape("x", {4, 128, 512}), "x has shape [4, 128, 512]"); }

TEST(RequireSameShape, AcceptsTheSame) { EXPECT_NO_THROW(require_same_shape("op", "y", {2, 3}, "x", {2, 3})); }

TEST(RequireSameShape, NamesBothShapes) {
  EXPECT_EQ(error_text<std::invalid_argument>([] {
              require_same_shape("op", "y", {3, 2}, "x", {2, 3});
            }),
            "evenkeel::op: y has shape [3, 2], expected [2, 3] (the shape of x)");
}

TEST(RequireSameOrder, AcceptsTheSame) {
  for (const auto order : {StorageOrder::row_major, StorageOrder::column_major})
    EXPECT_NO_THROW(require_same_order("op", "y", view_of({2, 3}, order), "x", view_of({2, 3}, order)));
}

TEST(RequireSameOrder, NamesBothOrders) {
  const auto row_major = view_of({2, 3}, StorageOrder::row_major);
  const auto column_major = view_of({2, 3}, StorageOrder::column_major);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { require_same_order("op", "y", row_major, "x", column_major); }),
            "evenkeel::op: y is row-major, expected column-major as x is (copy into a tensor of that order first)");
  EXPECT_EQ(error_text<std::invalid_argument>([&] { require_same_order("op", "y", column_major, "x", row_major); }),
            "evenkeel::op: y is column-major, expected row-major as x is (copy into a tensor of that order first)");
}

TEST(RequireSameOrder, AsksNothingWhereThereIsOnlyOneOrder) {
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{1, 5}, Shape{5, 1}, Shape{1, 5, 1}, Shape{1, 1}, Shape{0, 1}}) {
    EXPECT_NO_THROW(require_same_order("op", "y", view_of(shape, StorageOrder::row_major), "x",
                                       view_of(shape, StorageOrder::column_major)));
  }
}

TEST(RequireEps, AcceptsWhatIsNotNegative) {
  for (const double eps : {0.0, -0.0, 1e-300, 1e-5, 1.0, std::numeric_limits<double>::max()})
    EXPECT_NO_THROW(require_eps("op", eps));
}

TEST(RequireEps, SaysWhatIsWrong) {
  const auto text = [](double eps) { return error_text<std::invalid_argument>([&] { require_eps("op", eps); }); };
  EXPECT_EQ(text(-0.5), "evenkeel::op: eps is -0.500000, expected a finite number of at least 0");
  EXPECT_EQ(text(std::numeric_limits<double>::quiet_NaN()),
            "evenkeel::op: eps is nan, expected a finite number of at least 0");
  EXPECT_EQ(text(std::numeric_limits<double>::infinity()),
            "evenkeel::op: eps is inf, expected a finite number of at least 0");
  EXPECT_EQ(text(-std::numeric_limits<double>::infinity()),
            "evenkeel::op: eps is -inf, expected a finite number of at least 0");
}

}  // namespace
}  // namespace evenkeel_test
