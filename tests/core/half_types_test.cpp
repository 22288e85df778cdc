// Eigen's numbers of 16 bits as the kernels see them: the same bits as Eigen's own conversions.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

#include "evenkeel/core/number_types.hpp"
#include "evenkeel/kernels/simd.hpp"
#include "support/random.hpp"

namespace evenkeel_test {
namespace {

namespace kernels = evenkeel::kernels;
using kernels::Index;

template <class U>
class HalfTypes : public testing::Test {
 protected:
  static std::uint16_t bits_of(const U& value) {
    std::uint16_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
  static bool is_nan(float value) { return (std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFF) > 0x7F800000; }
  template <class From, class To>
  static void convert(const std::vector<From>& from, std::vector<To>& to) {
    kernels::for_each_vector<evenkeel::native, float, 2>(
        static_cast<Index>(from.size()),
        [&](auto, Index j, auto lanes) { lanes.store(to.data() + j, lanes.load(from.data() + j)); });
  }
};
using EigenTypes = testing::Types<Eigen::bfloat16, Eigen::half>;
TYPED_TEST_SUITE(HalfTypes, EigenTypes);

TYPED_TEST(HalfTypes, EveryPatternIsLoadedAsEigenConvertsIt) {
  std::vector<TypeParam> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    std::memcpy(static_cast<void*>(&all[i]), &bits, sizeof(bits));
  }
  std::vector<float> floats(all.size());
  this->convert(all, floats);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto expected = std::bit_cast<std::uint32_t>(static_cast<float>(all[i]));
    // Where the processor converts half numbers, for Eigen or for us, a signalling NaN becomes a quiet one.
    const std::uint32_t quiet_bit = this->is_nan(floats[i]) ? 0x400000 : 0;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(floats[i]) | quiet_bit, expected | quiet_bit) << std::hex << i;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(kernels::to_compute(all[i])) | quiet_bit, expected | quiet_bit);
  }
}

TYPED_TEST(HalfTypes, FloatsAreStoredAsEigenConvertsThem) {
  std::vector<float> floats;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {  // ties, infinities, NaN of many digits, subnormal numbers
    for (const std::uint32_t lower : {0x0000u, 0x0FFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      floats.push_back(std::bit_cast<float>(upper << 16 | lower));
  }
  Random random(11);
  for (int i = 0; i < 1'000'000; ++i) floats.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random.next())));
  std::vector<TypeParam> stored(floats.size());
  this->convert(floats, stored);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    std::uint16_t expected = this->bits_of(TypeParam(floats[i]));
#if defined(EIGEN_HAS_FP16_C) || defined(EIGEN_HAS_BUILTIN_FLOAT16)
    // There Eigen has the processor convert, which keeps digits of a NaN.
    if (std::is_same_v<TypeParam, Eigen::half> && this->is_nan(floats[i])) expected &= 0xFE00;
#endif
    ASSERT_EQ(this->bits_of(stored[i]), expected) << std::hex << std::bit_cast<std::uint32_t>(floats[i]);
    ASSERT_EQ(this->bits_of(kernels::from_compute<TypeParam>(floats[i])), expected);
  }
}

TYPED_TEST(HalfTypes, AreComputedInFloat) {
  static_assert(kernels::is_16_bit<TypeParam>);
  static_assert(std::is_same_v<kernels::Compute<TypeParam>, float>);
}

}  // namespace
}  // namespace evenkeel_test
