// Moments of parts, merged, are those of the whole.
#include "evenkeel/core/moments.hpp"

#include "core/error_text.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Moments;

Moments moments_of(const std::vector<double>& values, std::size_t first, std::size_t last) {
  Moments m;
  for (std::size_t i = first; i < last; ++i) m.add(values[i]);
  return m;
}

/// Two passes in long double.
void expect_moments(const Moments& m, const std::vector<double>& values, long double ulps) {
  long double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  const long double mean = sum / static_cast<long double>(values.size());
  for (const double v : values) squares += (v - mean) * (v - mean);
  EXPECT_EQ(m.count, static_cast<std::int64_t>(values.size()));
  EXPECT_NEAR(m.mean, static_cast<double>(mean),
              static_cast<double>(ulps * ulp<double>() * std::max(std::abs(mean), 1.0L)));
  EXPECT_NEAR(m.m2, static_cast<double>(squares), static_cast<double>(ulps * ulp<double>() * squares));
}

TEST(Moments, MergedPartsOfAnySizesAreTheWhole) {
  for (const double mean : {0.0, 1e4}) {
    const auto values = normal_vector<double>(1000, 3, mean);
    for (const std::vector<std::size_t>& cuts :
         {std::vector<std::size_t>{500}, {1}, {999}, {0, 0, 1000}, {1, 2, 3, 500, 500, 501}, {100, 200, 300, 400}}) {
      Moments all;
      std::size_t first = 0;
      for (const std::size_t cut : cuts) {
        all.merge(moments_of(values, first, cut));
        first = cut;
      }
      all.merge(moments_of(values, first, values.size()));
      // Deviations of values of size 1e4 are themselves off by 1e4 ulp.
      expect_moments(all, values, mean == 0 ? 64 : 64 * 1e3L);
    }
  }
}

TEST(Moments, ATreeOfPartsIsAsExactAsOnePass) {
  const auto values = normal_vector<double>(1024, 5);
  std::vector<Moments> parts;
  for (const double v : values) parts.push_back({1, v, 0});
  for (; parts.size() > 1; parts.resize(parts.size() / 2)) {
    for (std::size_t i = 0; i < parts.size() / 2; ++i) parts[i] = evenkeel::merged(parts[2 * i], parts[2 * i + 1]);
  }
  expect_moments(parts[0], values, 8);
}

TEST(Moments, EmptyPartsChangeNoBit) {
  const Moments some = moments_of({1, 2, 4, 9}, 0, 4);
  for (const Moments& m : {evenkeel::merged(some, {}), evenkeel::merged({}, some)}) {
    EXPECT_EQ(m.count, 4);
    EXPECT_EQ(m.mean, 4);
    EXPECT_EQ(m.m2, 38);
  }
  EXPECT_EQ(evenkeel::merged({}, {}).count, 0);
}

TEST(Moments, EqualNumbersHaveNoSpread) {
  Moments m;
  for (int i = 0; i < 1000; ++i) m.add(1234.567);
  EXPECT_EQ(m.mean, 1234.567);
  EXPECT_EQ(m.m2, 0);
}

TEST(Moments, CountsInSixtyFourBits) {
  const Moments m = evenkeel::merged({std::int64_t{1} << 40, 1, 0}, {std::int64_t{1} << 40, 3, 0});
  EXPECT_EQ(m.count, std::int64_t{1} << 41);
  EXPECT_EQ(m.mean, 2);
  EXPECT_EQ(m.var_biased(), 1);
}

TEST(Moments, TheTwoVariances) {  // B60
  const Moments m = moments_of({1, 2, 4, 9}, 0, 4);
  EXPECT_EQ(m.var_biased(), 9.5);
  EXPECT_DOUBLE_EQ(m.var_unbiased(), 38.0 / 3);
  EXPECT_EQ(moments_of({7}, 0, 1).var_biased(), 0);
}

TEST(Moments, VariancesNeedNumbers) {
  EXPECT_EQ(error_text<std::logic_error>([] { Moments().var_biased(); }),
            "evenkeel::Moments::var_biased: count is 0, expected at least 1");
  EXPECT_EQ(error_text<std::logic_error>([] { moments_of({7}, 0, 1).var_unbiased(); }),
            "evenkeel::Moments::var_unbiased: count is 1, expected at least 2");
}

}  // namespace
}  // namespace evenkeel_test
