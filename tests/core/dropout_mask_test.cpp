// Which positions dropout keeps: the same by runs as one by one, in the right share, and reproducible.
#include "evenkeel/core/dropout_mask.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "core/error_text.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::DropoutMask;
using evenkeel::Index;
using evenkeel::philox;
using evenkeel::random_key;

constexpr std::uint64_t beyond_32_bits = (std::uint64_t{1} << 35) + 8;

std::vector<std::uint8_t> run(const DropoutMask& mask, std::uint64_t first, Index count) {
  std::vector<std::uint8_t> kept(static_cast<std::size_t>(count) + 1, 77);
  mask.keeps_run(first, count, kept.data());
  EXPECT_EQ(kept.back(), 77) << "written past the end";
  kept.pop_back();
  return kept;
}

double kept_share(const DropoutMask& mask, std::uint64_t first, Index count) {
  double sum = 0;
  for (const std::uint8_t kept : run(mask, first, count)) sum += kept;
  return sum / static_cast<double>(count);
}

// Of the position i the word i % 4 of philox(key, i / 4, step) is compared with 0.25 * 2^32.
TEST(DropoutMask, IsThePhiloxWordOfThePosition) {
  const auto key = random_key(5, "drop");
  for (const std::uint64_t step : {std::uint64_t{0}, std::uint64_t{3}, beyond_32_bits}) {
    const DropoutMask mask(0.25, key, step);
    for (const std::uint64_t first : {std::uint64_t{0}, beyond_32_bits}) {
      const auto kept = run(mask, first, 64);
      for (std::size_t i = 0; i < kept.size(); ++i) {
        EXPECT_EQ(kept[i] != 0, philox(key, first / 4 + i / 4, step)[i % 4] >= 0x40000000u) << i;
      }
    }
  }
}

TEST(DropoutMask, RunsOfAnyStartAndLengthAreTheSameAsPositionsOneByOne) {
  const DropoutMask mask(0.4, random_key(5, "drop"), 9);
  for (const std::uint64_t first : {0u, 1u, 2u, 3u, 127u, 130u}) {
    for (const Index count : {0, 1, 3, 4, 5, 127, 128, 129, 300}) {
      const auto kept = run(mask, first, count);
      for (std::size_t i = 0; i < kept.size(); ++i) ASSERT_EQ(kept[i] != 0, mask.keeps(first + i)) << first << "+" << i;
    }
  }
}

// A share of 10^5 has the standard deviation 0.00145 at p = 0.3, so that 0.01 is 7 of them; at p = 2^-14, of 2^20
// positions 64 are dropped, give or take 8.
TEST(DropoutMask, KeepsItsShare) {  // B103
  EXPECT_NEAR(kept_share(DropoutMask(0.3, random_key(1, "a"), 0), 0, 100000), 0.7, 0.01);
  EXPECT_NEAR(kept_share(DropoutMask(0.3, random_key(1, "a"), 1), beyond_32_bits, 100000), 0.7, 0.01);
  EXPECT_NEAR(kept_share(DropoutMask(0.9, random_key(2, "a"), 0), 0, 100000), 0.1, 0.01);
  EXPECT_NEAR(0x1p20 * (1 - kept_share(DropoutMask(0x1p-14, random_key(1, "a"), 0), 0, 1 << 20)), 64, 40);
}

// Two independent masks of p = 1/2 agree in half of 10^5 places, give or take 0.0016.
TEST(DropoutMask, OfAnotherStepKeyOrPlaceIsAnother) {  // B103
  const auto base = run(DropoutMask(0.5, random_key(1, "a"), 0), 0, 100000);
  const auto agreement = [&](const std::vector<std::uint8_t>& other) {
    double same = 0;
    for (std::size_t i = 0; i < base.size(); ++i) same += base[i] == other[i];
    return same / static_cast<double>(base.size());
  };
  EXPECT_EQ(agreement(run(DropoutMask(0.5, random_key(1, "a"), 0), 0, 100000)), 1);
  EXPECT_NEAR(agreement(run(DropoutMask(0.5, random_key(1, "a"), 1), 0, 100000)), 0.5, 0.01);
  EXPECT_NEAR(agreement(run(DropoutMask(0.5, random_key(2, "a"), 0), 0, 100000)), 0.5, 0.01);
  EXPECT_NEAR(agreement(run(DropoutMask(0.5, random_key(1, "b"), 0), 0, 100000)), 0.5, 0.01);
  EXPECT_NEAR(agreement(run(DropoutMask(0.5, random_key(1, "a"), 0), 1, 100000)), 0.5, 0.01);
}

TEST(DropoutMask, AtTheEndsOfPKeepsAllOrNothing) {
  for (const double p : {0.0, 0x1p-40}) EXPECT_EQ(kept_share(DropoutMask(p, {1}, 0), 1, 1000), 1) << p;
  for (const double p : {1.0, 1 - 0x1p-40}) EXPECT_EQ(kept_share(DropoutMask(p, {1}, 0), 1, 1000), 0) << p;
  EXPECT_TRUE(DropoutMask(0, {1}, 0).keeps(5));
  EXPECT_FALSE(DropoutMask(1, {1}, 0).keeps(5));
  EXPECT_EQ(DropoutMask(0, {1}, 0).scale(), 1);
  EXPECT_EQ(DropoutMask(0.75, {1}, 0).scale(), 4);
  EXPECT_EQ(DropoutMask(1, {1}, 0).scale(), 0);
  EXPECT_TRUE(DropoutMask().keeps_all() && !DropoutMask(0x1p-40, {1}, 0).keeps_all());
}

TEST(DropoutMask, PHasToBeAProbability) {
  const auto text = [](double p) { return error_text<std::invalid_argument>([&] { DropoutMask(p, {1}, 0); }); };
  EXPECT_EQ(text(1.5), "evenkeel::Dropout: p is 1.500000, expected a number from 0 to 1");
  EXPECT_EQ(text(-0.5), "evenkeel::Dropout: p is -0.500000, expected a number from 0 to 1");
  EXPECT_NE(text(std::numeric_limits<double>::quiet_NaN()).find("nan, expected a number from 0 to 1"),
            std::string::npos);
}

}  // namespace
}  // namespace evenkeel_test
