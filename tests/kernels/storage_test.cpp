// Tests of kernels/storage.hpp and of the vectors of simd.hpp that load and store it: every bit, against an independent
// reference in double arithmetic.
#include "evenkeel/kernels/storage.hpp"

#include <bit>
#include <cmath>

#include "kernels/kernel_test.hpp"

namespace evenkeel_test {
namespace {

using kernels::bf16;
using kernels::f16;
using kernels::StorageFormat;

template <class U>
inline constexpr bool is_half = kernels::StorageTraits<U>::format == StorageFormat::half;

/// The type's own numbers: digits of the significand, and the exponent of its smallest normal number.
template <class U>
inline constexpr int digits = is_half<U> ? 11 : 8;
template <class U>
inline constexpr int smallest_exponent = is_half<U> ? -14 : -126;
template <class U>
inline constexpr std::uint16_t infinity = is_half<U> ? 0x7C00 : 0x7F80;
template <class U>
inline constexpr std::uint16_t quiet_nan = is_half<U> ? 0x7E00 : 0x7FC0;

bool is_nan(float value) { return (std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFF) > 0x7F800000; }

/// The magnitude of a positive finite float in the type, by its definition: a multiple of the unit of its binade.
template <class U>
std::uint16_t rounded(double magnitude) {
  const int exponent = magnitude == 0 ? smallest_exponent<U> : std::max(std::ilogb(magnitude), smallest_exponent<U>);
  const double units = std::ldexp(magnitude, digits<U> - 1 - exponent);  // exact
  double whole = std::floor(units);
  const double rest = units - whole;
  if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) == 1)) ++whole;
  // Bits count the numbers from 0 on: 2^(digits - 1) in the binades below and at the smallest normal exponent.
  const auto per_binade = std::ldexp(1.0, digits<U> - 1);
  const double bits = (exponent - smallest_exponent<U>)*per_binade + whole;
  return static_cast<std::uint16_t>(std::min<double>(bits, infinity<U>));
}

template <class U>
std::uint16_t reference(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  if (is_nan(value)) return sign | quiet_nan<U>;
  if ((bits & 0x7FFFFFFF) == 0x7F800000) return sign | infinity<U>;
  return sign | rounded<U>(std::bit_cast<float>(bits & 0x7FFFFFFF));
}

/// The float that has exactly the value of the bits.
template <class U>
float reference(std::uint16_t bits) {
  const std::uint16_t magnitude = bits & 0x7FFF;
  const std::uint32_t sign = (std::uint32_t{bits} & 0x8000) << 16;
  if (magnitude >= infinity<U>) {
    const std::uint32_t nan_digits = std::uint32_t{magnitude} << (24 - digits<U>);
    return std::bit_cast<float>(sign | 0x7F800000 | (nan_digits & 0x7FFFFF));
  }
  const int binade = magnitude >> (digits<U> - 1), significand = magnitude & ((1 << (digits<U> - 1)) - 1);
  const double units = binade == 0 ? significand : significand + std::ldexp(1.0, digits<U> - 1);
  const auto value =
      static_cast<float>(std::ldexp(units, std::max(binade, 1) - 1 + smallest_exponent<U> - digits<U> + 1));
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

/// A subnormal float, which -ffast-math may take for zero.
template <class U>
bool is_lost(std::size_t bits) {
  return fast_math && !is_half<U> && (bits & 0x7F80) == 0 && (bits & 0x7F) != 0;
}

template <class U>
std::uint16_t bits_of(const U& value) {
  return std::bit_cast<std::uint16_t>(value);
}

/// Floats of every exponent and sign, ties of both types, their neighbours, and NaN of many digits.
std::vector<float> interesting_floats() {
  std::vector<float> values;
  Random random(7);
  const auto add = [&](std::uint32_t bits) { values.push_back(std::bit_cast<float>(bits)); };
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t lower : {0x0000u, 0x0FFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      add(upper << 16 | lower);
  }
  for (int i = 0; i < 1'000'000; ++i) add(static_cast<std::uint32_t>(random.next()));
  if (fast_math) {  // subnormal numbers may be taken for zero
    std::erase_if(values, [](float v) {
      const auto magnitude = std::bit_cast<std::uint32_t>(v) & 0x7FFFFFFF;
      return magnitude != 0 && magnitude < 0x00800000;
    });
  }
  return values;
}

template <class U, class A>
struct StorageConfig {
  using Stored = U;
  using Arch = A;
};
struct StorageName {
  template <class C>
  static std::string GetName(int) {
    return std::string(is_half<typename C::Stored> ? "half" : "bfloat16") +
           (std::is_same_v<typename C::Arch, evenkeel::scalar> ? "_scalar" : "_native");
  }
};
using StorageConfigs = testing::Types<StorageConfig<bf16, evenkeel::native>, StorageConfig<bf16, evenkeel::scalar>,
                                      StorageConfig<f16, evenkeel::native>, StorageConfig<f16, evenkeel::scalar>>;

template <class C>
class Storage : public testing::Test {
 protected:
  using Number = typename C::Stored;
  using Vector = kernels::Simd<typename C::Arch, float>;
  static constexpr Index width = Vector::width;

  static std::vector<Number> stored(const std::vector<float>& values) {
    std::vector<Number> result(values.size(), Number(0.0f));
    kernels::for_each_vector<typename C::Arch, float, 2>(
        static_cast<Index>(values.size()),
        [&](auto, Index j, auto lanes) { lanes.store(result.data() + j, lanes.load(values.data() + j)); });
    return result;
  }
  static std::vector<float> loaded(const std::vector<Number>& values) {
    std::vector<float> result(values.size());
    kernels::for_each_vector<typename C::Arch, float, 2>(
        static_cast<Index>(values.size()),
        [&](auto, Index j, auto lanes) { lanes.store(result.data() + j, lanes.load(values.data() + j)); });
    return result;
  }
  static std::vector<Number> every_pattern() {
    std::vector<Number> all(65536);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::bit_cast<Number>(static_cast<std::uint16_t>(i));
    return all;
  }
};
TYPED_TEST_SUITE(Storage, StorageConfigs, StorageName);

TYPED_TEST(Storage, EveryPatternIsLoadedAsItsValue) {
  using U = typename TypeParam::Stored;
  const auto all = this->every_pattern();
  const auto floats = this->loaded(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_lost<U>(i)) continue;
    const auto expected = std::bit_cast<std::uint32_t>(reference<U>(static_cast<std::uint16_t>(i)));
    // Where the processor converts, a signalling NaN becomes a quiet one.
    const std::uint32_t quiet_bit = is_half<U> && is_nan(floats[i]) ? 0x400000 : 0;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(floats[i]) | quiet_bit, expected | quiet_bit) << std::hex << i;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(kernels::to_compute(all[i])), expected) << std::hex << i;
  }
}

TYPED_TEST(Storage, EveryPatternComesBack) {
  using U = typename TypeParam::Stored;
  const auto all = this->every_pattern();
  const auto back = this->stored(this->loaded(all));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_lost<U>(i)) continue;
    const float value = kernels::to_compute(all[i]);
    if (is_nan(value)) {
      ASSERT_TRUE(is_nan(kernels::to_compute(back[i]))) << std::hex << i;
    } else {
      ASSERT_EQ(bits_of(back[i]), i);
    }
  }
}

TYPED_TEST(Storage, FloatsAreRoundedToNearestEven) {
  using U = typename TypeParam::Stored;
  const auto values = interesting_floats();
  const auto got = this->stored(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t expected = reference<U>(values[i]);
    const auto input = std::bit_cast<std::uint32_t>(values[i]);
    ASSERT_EQ(bits_of(got[i]), expected) << std::hex << input;
    ASSERT_EQ(bits_of(kernels::from_compute<U>(values[i])), expected) << std::hex << input;
  }
}

TYPED_TEST(Storage, KnownNumbers) {
  using U = typename TypeParam::Stored;
  const auto round_trip = [&](float value) { return kernels::to_compute(this->stored({value})[0]); };
  EXPECT_EQ(round_trip(1), 1);
  if (is_half<U>) {
    EXPECT_EQ(round_trip(2049), 2048);  // a tie, to even
    EXPECT_EQ(round_trip(2051), 2052);
    EXPECT_EQ(round_trip(65519), 65504);  // the largest
    EXPECT_EQ(bits_of(U(65520.0f)), 0x7C00);
    EXPECT_EQ(round_trip(0x1p-24f), 0x1p-24f);  // the smallest
    EXPECT_EQ(round_trip(0x1p-25f), 0);
  } else {
    EXPECT_EQ(round_trip(257), 256);  // a tie, to even
    EXPECT_EQ(round_trip(16.9375f), 17);
    EXPECT_EQ(round_trip(1 + 3 / 512.0f), 1.0078125f);
    EXPECT_EQ(round_trip(65280), 65280);
  }
  // Truncated, this NaN would be an infinity.
  EXPECT_TRUE(is_nan(round_trip(std::bit_cast<float>(0x7F800001u))));
  EXPECT_TRUE(is_nan(round_trip(std::bit_cast<float>(0xFF800001u))));
}

TYPED_TEST(Storage, FirstLanesTouchNothingElse) {
  using U = typename TypeParam::Stored;
  using S = typename TestFixture::Vector;
  for (Index count = 0; count < this->width; ++count) {
    SCOPED_TRACE(count);
    std::vector<U> values;  // exactly as long as what may be read and written
    for (Index i = 0; i < count; ++i) values.push_back(U(static_cast<float>(i + 1)));
    values.shrink_to_fit();
    const kernels::FirstLanes<typename TypeParam::Arch, float> lanes{count};
    std::vector<float> all(static_cast<std::size_t>(this->width));
    S::store(all.data(), lanes.load(values.data()));
    for (Index i = 0; i < this->width; ++i) EXPECT_EQ(all[i], i < count ? static_cast<float>(i + 1) : 0);
    S::store(all.data(), lanes.load(values.data(), S::broadcast(-7)));
    for (Index i = 0; i < this->width; ++i) EXPECT_EQ(all[i], i < count ? static_cast<float>(i + 1) : -7);

    lanes.store(values.data(), S::broadcast(5));
    for (const U& value : values) EXPECT_EQ(kernels::to_compute(value), 5);
    std::vector<U> longer(static_cast<std::size_t>(this->width), U(3.0f));
    lanes.store(longer.data(), S::broadcast(5));
    for (Index i = 0; i < this->width; ++i) EXPECT_EQ(kernels::to_compute(longer[i]), i < count ? 5 : 3);
  }
}

TYPED_TEST(Storage, VectorsLieAtAnyAddress) {
  using U = typename TypeParam::Stored;
  using S = typename TestFixture::Vector;
  for (Index offset = 0; offset < 2 * this->width; ++offset) {
    std::vector<U> from(static_cast<std::size_t>(offset + this->width), U(1.0f)), to = from;
    for (Index i = 0; i < this->width; ++i) from[offset + i] = U(static_cast<float>(2 + i));
    S::store(to.data() + offset, S::load(from.data() + offset));
    EXPECT_TRUE(same_bits(std::vector<float>(to.begin(), to.end()), std::vector<float>(from.begin(), from.end())));
  }
}

TEST(Storage, TypesOfSixteenBitsAreComputedInFloat) {
  static_assert(sizeof(bf16) == 2 && sizeof(f16) == 2);
  static_assert(std::is_trivially_copyable_v<bf16> && std::is_trivially_default_constructible_v<f16>);
  static_assert(std::is_same_v<kernels::Compute<bf16>, float> && std::is_same_v<kernels::Compute<f16>, float>);
  static_assert(std::is_same_v<kernels::Compute<double>, double> && !kernels::is_16_bit<float>);
  EXPECT_EQ(kernels::from_compute<double>(0.1), 0.1);
  EXPECT_EQ(static_cast<float>(bf16(3.0f)), 3);
  EXPECT_EQ(static_cast<float>(f16(3.0f)), 3);
}

}  // namespace
}  // namespace evenkeel_test
