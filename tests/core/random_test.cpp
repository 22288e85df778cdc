// Random numbers as functions of a key and a counter: known answers, ends of ranges, statistics.
#include "evenkeel/core/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

namespace evenkeel_test {
namespace {

using namespace evenkeel;

// philox4x32 with 10 rounds in kat_vectors of Random123.
TEST(Philox, GivesThePublishedKnownAnswers) {
  const std::uint64_t ones = ~std::uint64_t{0};
  EXPECT_EQ(philox({0}, 0, 0), (RandomWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({ones}, ones, ones), (RandomWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x299f31d0a4093822}, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (RandomWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, IsKnownAtCompileTime) {
  static_assert(philox({0}, 0, 0)[0] == 0x6627e8d5);
  static_assert(random_key(1, "a") != random_key(2, "a"));
}

// FNV-1a: its published answers for "" and "foobar". SplitMix64 from the state 0 has 0xE220A8397B1DCDAF first, which is
// mix of the golden ratio.
TEST(RandomKey, IsMadeOfTheHashesItsDocumentationNames) {
  EXPECT_EQ(detail::hash_text(""), 0xcbf29ce484222325u);
  EXPECT_EQ(detail::hash_text("foobar"), 0x85944171f73967e8u);
  EXPECT_EQ(detail::mix_bits(0x9E3779B97F4A7C15u), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(random_key(7, "foobar").bits, detail::mix_bits(detail::mix_bits(7) ^ 0x85944171f73967e8u));
}

TEST(RandomKey, DiffersBetweenPathsAndSeeds) {
  std::set<std::uint64_t> keys;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (int block = 0; block < 50; ++block) {
      keys.insert(random_key(seed, "blocks." + std::to_string(block) + ".drop").bits);
      keys.insert(random_key(seed, "blocks." + std::to_string(block) + ".sublayer.drop").bits);
    }
  }
  EXPECT_EQ(keys.size(), 20u * 50u * 2u);
}

TEST(Uniform, TakesTheHighestBits) {
  EXPECT_EQ(uniform_float(0), 0.0f);
  EXPECT_EQ(uniform_float(0xFF), 0.0f);
  EXPECT_EQ(uniform_float(0x100), 0x1p-24f);
  EXPECT_EQ(uniform_float(0x80000000), 0.5f);
  EXPECT_EQ(uniform_float(0xFFFFFFFF), 1 - 0x1p-24f);
  EXPECT_EQ(uniform_double(0, 0x7FF), 0.0);
  EXPECT_EQ(uniform_double(0, 0x800), 0x1p-53);
  EXPECT_EQ(uniform_double(0x80000000, 0), 0.5);
  EXPECT_EQ(uniform_double(0xFFFFFFFF, 0xFFFFFFFF), 1 - 0x1p-53);
}

TEST(NormalPair, IsFiniteAtTheEndsOfTheUniformNumbers) {
  const std::uint32_t most = 0xFFFFFFFF;
  EXPECT_EQ(normal_pair({0, 0, 0, 0})[0], 0.0);                                               // radius 0
  EXPECT_NEAR(normal_pair({most, most, 0, 0})[0], std::sqrt(2 * 53 * std::log(2.0)), 1e-14);  // the largest, 8.57
  EXPECT_NEAR(normal_pair({most, most, 0x40000000, 0})[1], std::sqrt(2 * 53 * std::log(2.0)), 1e-14);
}

// Of 10^6 numbers N(0, 1) the mean of z^k, k = 1..4, has the standard deviations 1, sqrt 2, sqrt 15, sqrt 96, in
// thousandths; 4 of them leave a chance of 6e-5 for each of another seed to fail. The seed is fixed.
TEST(NormalPair, HasTheMomentsOfAStandardNormalDistribution) {
  const RandomKey key = random_key(1, "normal");
  constexpr int pairs = 500000;
  double moments[5] = {}, product = 0, inside = 0;
  for (std::uint64_t i = 0; i < pairs; ++i) {
    const auto z = normal_pair(philox(key, i));
    for (const double value : z) {
      double power = 1;
      for (double& moment : moments) moment += power / (2 * pairs), power *= value;
      inside += (std::abs(value) < 1 ? 1.0 : 0.0) / (2 * pairs);
    }
    product += z[0] * z[1] / pairs;
  }
  EXPECT_NEAR(moments[1], 0, 4e-3);
  EXPECT_NEAR(moments[2], 1, 4e-3 * std::sqrt(2.0));
  EXPECT_NEAR(moments[3], 0, 4e-3 * std::sqrt(15.0));
  EXPECT_NEAR(moments[4], 3, 4e-3 * std::sqrt(96.0));
  EXPECT_NEAR(product, 0, 4 / std::sqrt(double{pairs}));
  EXPECT_NEAR(inside, std::erf(std::sqrt(0.5)), 4e-3 * 0.466);
}

// 10^6 words in 256 bins by their highest byte: chi squared of 255 degrees of freedom is below 355 but for 3e-5 of the
// seeds.
TEST(Philox, FillsTheBinsOfItsHighestByteEvenly) {
  const RandomKey key = random_key(3, "bins");
  constexpr int words = 1 << 20;
  double bins[256] = {};
  for (std::uint64_t i = 0; i < words / 4; ++i) {
    for (const std::uint32_t word : philox(key, i)) bins[word >> 24] += 1;
  }
  double chi_squared = 0;
  for (const double bin : bins) chi_squared += (bin - words / 256) * (bin - words / 256) / (words / 256);
  EXPECT_LT(chi_squared, 355);
  EXPECT_GT(chi_squared, 175);
}

}  // namespace
}  // namespace evenkeel_test
