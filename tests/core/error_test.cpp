#include "evenkeel/core/error.hpp"

#include <gtest/gtest.h>

#include "core/error_text.hpp"

namespace evenkeel_test {
namespace {

TEST(Error, AnInvalidArgumentSaysWhereItWasFound) {
  EXPECT_EQ(error_text<std::invalid_argument>([] { evenkeel::raise_invalid_argument("op", "x is 1, expected 2"); }),
            "evenkeel::op: x is 1, expected 2");
}

TEST(Error, ALogicErrorSaysWhereItWasFound) {
  EXPECT_EQ(error_text<std::logic_error>([] { evenkeel::raise_logic_error("op", "too early, expected later"); }),
            "evenkeel::op: too early, expected later");
}

}  // namespace
}  // namespace evenkeel_test
