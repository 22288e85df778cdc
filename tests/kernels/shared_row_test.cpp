// Tests of kernels/shared_row.hpp and of the norms that share columns: the bits of one thread, and the contract.
#include "evenkeel/kernels/shared_row.hpp"

#include "kernels/kernel_test.hpp"

namespace evenkeel_test {
namespace {

/// Cuts everything that can be cut, and runs the items one by one, the last first.
struct ByColumns {
  template <class Body>
  void operator()(Index items, Index, const Body& body) const {
    for (Index i = items; i-- > 0;) body(i, i + 1);
  }
  static bool cuts(Index, Index) { return true; }
};

/// A norm whose rows are all taken by columns.
template <class Norm, template <class, class, bool> class NormRow>
struct Shared : Norm {
  template <class Arch, class T>
  static void run(const kernels::RowNormForward<T>& args) {
    kernels::row_norm_forward<Arch, NormRow>(args, ByColumns());
  }
  template <class Arch, class T>
  static void run(const kernels::RowNormBackward<T>& args) {
    kernels::row_norm_backward<Arch, NormRow>(args, ByColumns());
  }
};
using SharedLayerNorm = Shared<LayerNorm, kernels::LayerNormRow>;
using SharedRMSNorm = Shared<RMSNorm, kernels::RMSNormRow>;

template <class C>
class SharedRows : public testing::Test {
 protected:
  using Scalar = typename C::Scalar;
  using Arch = typename C::Arch;
  using OneThread = Config<std::conditional_t<C::Norm::centred, LayerNorm, RMSNorm>, Arch, Scalar>;
  static constexpr Index block = kernels::block_columns<Arch, Scalar>;

  static std::vector<Index> sizes() {
    return {1, block - 1, block, block + 1, 2 * block, 3 * block + 5, 9 * block + block / 2 + 1};
  }
  /// With -ffast-math rows of extreme numbers are nobody's promise.
  static Data<Scalar> data(Index rows, Index features) {
    return fast_math ? random_data<Scalar>(rows, features, 401, 30) : mixed_data<Scalar>(rows, features, 401);
  }
};
using SharedConfigs =
    testing::Types<Config<SharedLayerNorm, evenkeel::native, float>, Config<SharedLayerNorm, evenkeel::native, double>,
                   Config<SharedLayerNorm, evenkeel::scalar, float>, Config<SharedRMSNorm, evenkeel::native, float>,
                   Config<SharedRMSNorm, evenkeel::scalar, double>>;
TYPED_TEST_SUITE(SharedRows, SharedConfigs, ConfigName);

TYPED_TEST(SharedRows, ForwardHasTheBitsOfOneThread) {
  for (const Index n : this->sizes()) {
    for (const Index rows : {1, 2, 3, 13}) {
      SCOPED_TRACE("n " + std::to_string(n) + ", rows " + std::to_string(rows));
      const auto d = this->data(rows, n);
      const ForwardOptions apart{.layout = {.x = {3, 1}, .y = {1, 7}}};
      const auto expected = forward<typename TestFixture::OneThread>(d);
      expect_same_bits(forward<TypeParam>(d, apart), expected);
      expect_same_bits(forward<TypeParam>(d, {.in_place = true}), expected);
    }
  }
}

TYPED_TEST(SharedRows, BackwardHasTheBitsOfOneThread) {
  using T = typename TypeParam::Scalar;
  using Alone = typename TestFixture::OneThread;
  for (const Index n : this->sizes()) {
    for (const Index rows : {1, 2, 9, 19}) {
      SCOPED_TRACE("n " + std::to_string(n) + ", rows " + std::to_string(rows));
      auto d = this->data(rows, n);
      for (T& value : d.dy) value /= 64;
      const auto saved = forward<Alone>(d);
      const Gradients<T> there{.dx = d.dy, .dgamma = d.gamma, .dbeta = d.beta};
      for (const auto& options : {BackwardOptions<T>{}, BackwardOptions<T>{.layout = {.x = {1, 2}, .dx = {3, 1}}},
                                  BackwardOptions<T>{.in_place = true}, BackwardOptions<T>{.add_to = there},
                                  BackwardOptions<T>{.wanted = {.dgamma = false, .dbeta = false}},
                                  BackwardOptions<T>{.wanted = {.dx = false}}}) {
        expect_same_bits(backward<TypeParam>(d, saved, options), backward<Alone>(d, saved, options));
      }
    }
  }
}

TYPED_TEST(SharedRows, OfAsManyRowsAsThereMayBeHaveTheBitsOfOneThread) {
  using Alone = typename TestFixture::OneThread;
  const auto d = this->data(kernels::chunk_rows, 17 * TestFixture::block + 3);  // more blocks than one step has
  const auto saved = forward<Alone>(d);
  expect_same_bits(forward<TypeParam>(d), saved);
  expect_same_bits(backward<TypeParam>(d, saved), backward<Alone>(d, saved));
}

TYPED_TEST(SharedRows, OfNumbersThatAreNotFiniteHaveTheBitsOfOneThread) {
  using T = typename TypeParam::Scalar;
  if (fast_math) GTEST_SKIP() << "NaN is not promised anything";
  auto d = random_data<T>(3, 2 * TestFixture::block + 5, 409);
  d.x[7] = std::numeric_limits<T>::infinity();
  d.x[static_cast<std::size_t>(3 * d.features - 1)] = std::numeric_limits<T>::quiet_NaN();
  const auto got = forward<TypeParam>(d), expected = forward<typename TestFixture::OneThread>(d);
  EXPECT_TRUE(same_bits(rows_of(got.y, d.features, 1, 1), rows_of(expected.y, d.features, 1, 1)));
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
    EXPECT_EQ(std::isnan(got.y[i * static_cast<std::size_t>(d.features)]),
              std::isnan(expected.y[i * static_cast<std::size_t>(d.features)]));
  }
}

TYPED_TEST(SharedRows, HoldTheContract) {
  using T = typename TypeParam::Scalar;
  for (const double mean : {0.0, 5.0, 1e3}) {
    SCOPED_TRACE(mean);
    const auto d = random_data<T>(3, 33 * TestFixture::block + 3, 419, mean);
    const auto saved = forward<TypeParam>(d);
    const auto got = backward<TypeParam>(d, saved);
    const auto expected = expected_gradients<TypeParam>(d);
    const long double parameter_ulps = contract_ulps * std::sqrt(static_cast<long double>(d.rows));
    EXPECT_TRUE(within_ulp(saved.y, expected_y<TypeParam>(d), contract_ulps, y_scale<TypeParam>(d)));
    EXPECT_TRUE(within_ulp(got.dx, expected.dx, contract_ulps, expected.dx_scale));
    EXPECT_TRUE(within_ulp(got.dgamma, expected.dgamma, parameter_ulps, expected.dgamma_scale));
    if (TypeParam::Norm::centred) {
      EXPECT_TRUE(within_ulp(got.dbeta, expected.dbeta, parameter_ulps, expected.dbeta_scale));
    }
  }
}

/// Items that come in any order are merged by columns, in as many steps as it takes.
TEST(SumBlocks, MergesBlocksOfEveryRowInTheOrderOfColumns) {
  for (const auto& [rows, blocks] : {std::pair<Index, Index>{1, 1}, {1, 5000}, {3, 683}, {128, 17}}) {
    std::vector<std::vector<float>> merged(static_cast<std::size_t>(rows));
    kernels::sum_blocks<float>(
        ByColumns(), rows, blocks, 1,
        [&, count = rows](Index first, Index last, const auto& at) {
          for (Index row = 0; row < count; ++row) {
            for (Index block = first; block < last; ++block) {
              at(row, block) = {static_cast<float>(row), static_cast<float>(block)};
            }
          }
        },
        [&](Index row, const kernels::BlockSums<float>& sums) {
          EXPECT_EQ(sums.first, static_cast<float>(row));
          merged[static_cast<std::size_t>(row)].push_back(sums.second);
        });
    for (const auto& of_row : merged) {
      ASSERT_EQ(of_row.size(), static_cast<std::size_t>(blocks));
      for (std::size_t block = 0; block < of_row.size(); ++block) EXPECT_EQ(of_row[block], static_cast<float>(block));
    }
  }
}

}  // namespace
}  // namespace evenkeel_test
