// Tests of kernels/product_sums.hpp: sums of products against long double.
#include "evenkeel/kernels/product_sums.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {
namespace {

namespace kernels = evenkeel::kernels;
using kernels::Index;

template <class ArchType, class ScalarType>
struct ProductConfig {
  using Arch = ArchType;
  using Scalar = ScalarType;
};

/// Rows of a and b with gaps of their own between them, which hold what must not be read.
template <class C>
class ProductSums : public testing::Test {
 protected:
  using Scalar = typename C::Scalar;
  using Total = kernels::ProductTotal<Scalar>;
  static constexpr Index width = kernels::Simd<evenkeel::native, Scalar>::width;

  void fill(Index rows_, Index features_, double mean) {
    rows = rows_, features = features_;
    a = rows_with_gaps(3, 1, mean), b = rows_with_gaps(1, 2, 0);
  }
  kernels::ProductSumArgs<Scalar> args() const {
    return {a.data(), b.data(), rows, features, features + 3, features + 1};
  }
  long double product(Index i, Index j) const {
    return static_cast<long double>(a[at(i, j, 3)]) * static_cast<long double>(b[at(i, j, 1)]);
  }

  Index rows = 0, features = 0;
  std::vector<Scalar> a, b;

 private:
  std::size_t at(Index i, Index j, Index gap) const { return static_cast<std::size_t>(i * (features + gap) + j); }
  std::vector<Scalar> rows_with_gaps(Index gap, std::uint64_t seed, double mean) const {
    std::vector<Scalar> values(static_cast<std::size_t>(rows > 0 ? (rows - 1) * (features + gap) + features : 0),
                               Scalar(1e30));
    Random random(seed);
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < features; ++j) values[at(i, j, gap)] = static_cast<Scalar>(mean + random.normal());
    }
    return values;
  }
};
using ProductConfigs = testing::Types<ProductConfig<evenkeel::native, float>, ProductConfig<evenkeel::native, double>,
                                      ProductConfig<evenkeel::scalar, float>, ProductConfig<evenkeel::scalar, double>>;
TYPED_TEST_SUITE(ProductSums, ProductConfigs);

/// Errors in ulp of the largest product times the root of their number, as those of gradients of parameters.
TYPED_TEST(ProductSums, AreThoseOfLongDouble) {
  using T = typename TypeParam::Scalar;
  for (const Index n : {Index{1}, this->width - 1, this->width, 2 * this->width + 1, Index{768}, Index{3001}}) {
    for (const Index n_rows : {0, 1, 2, 31, 32, 33, 100}) {
      if (n == 0) continue;
      for (const double mean : {0.0, 1000.0}) {
        this->fill(n_rows, n, mean);
        std::vector<long double> columns(static_cast<std::size_t>(n), 0.5L);
        long double sum = -0.25L, largest = 0;
        for (Index i = 0; i < n_rows; ++i) {
          for (Index j = 0; j < n; ++j) {
            const long double product = this->product(i, j);
            columns[static_cast<std::size_t>(j)] += product;
            sum += product;
            largest = std::max(largest, std::abs(product));
          }
        }
        typename TestFixture::Total total{};
        std::vector<typename TestFixture::Total> totals(static_cast<std::size_t>(n));
        total.add(-0.25);
        for (auto& column : totals) column.add(0.5);
        kernels::add_product_sum<typename TypeParam::Arch>(this->args(), total);
        kernels::add_column_product_sums<typename TypeParam::Arch>(this->args(), totals.data());

        const std::vector<T> got = {kernels::total_value<T>(total)};
        std::vector<T> got_columns;
        for (const auto& column : totals) got_columns.push_back(kernels::total_value<T>(column));
        const long double scale = std::max(largest, 1.0L), count = static_cast<long double>(n_rows);
        const std::vector<long double> expected = {sum};
        EXPECT_TRUE(within_ulp(got, expected, 2 * std::sqrt(count * n) + 1, {scale})) << n_rows << " rows of " << n;
        EXPECT_TRUE(within_ulp(got_columns, columns, 2 * std::sqrt(count) + 1, {scale})) << n_rows << " rows of " << n;
      }
    }
  }
}

/// In float alone, 2^24 + 1 would be 2^24.
TEST(ProductSums, AreMergedInDouble) {
  const Index n = 1 << 14, rows = 2048;  // 2^25 products of 1
  const std::vector<float> ones(static_cast<std::size_t>(n), 1.0f);
  const kernels::ProductSumArgs<float> args{ones.data(), ones.data(), rows, n, 0, 0};
  kernels::ProductTotal<float> total{};
  kernels::add_product_sum(args, total);
  total.add(1);
  EXPECT_EQ(total.value(), 33554433.0);
}

TEST(ProductSums, TakeTypesWithoutVectors) {
  const std::vector<long double> a = {1, 2, 3, 4}, b = {5, 6, 7, 8};
  long double total = 1, columns[2] = {10, 20};
  kernels::add_product_sum<evenkeel::native, long double>({a.data(), b.data(), 2, 2, 2, 2}, total);
  kernels::add_column_product_sums<evenkeel::native, long double>({a.data(), b.data(), 2, 2, 2, 2}, columns);
  EXPECT_EQ(total, 71);
  EXPECT_EQ(columns[0], 10 + 5 + 21);
  EXPECT_EQ(columns[1], 20 + 12 + 32);
  EXPECT_EQ(kernels::total_value<long double>(total), 71);
}

}  // namespace
}  // namespace evenkeel_test
