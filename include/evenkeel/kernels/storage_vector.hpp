#pragma once

#include <xsimd/xsimd.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "evenkeel/kernels/storage.hpp"

/// storage.hpp's conversions for whole vectors, in the same bits; but where the processor itself loads half numbers
/// (F16C), a signalling NaN is quiet once it is loaded, as any arithmetic would make it. simd.hpp's loads and stores
/// are made of them.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

template <class Arch>
using FloatVector = xsimd::batch<float, Arch>;
template <class Arch>
using IntVector = xsimd::batch<std::int32_t, Arch>;

/// The same bits as another type. (xsimd's own changed its template parameters between 8 and 14.)
template <class To, class From, class Arch, class Cast = decltype(xsimd::bitwise_cast<To>(xsimd::batch<From, Arch>()))>
inline std::enable_if_t<std::is_same_v<Cast, xsimd::batch<To, Arch>>, Cast> as_bits(
    const xsimd::batch<From, Arch>& v) noexcept {
  return xsimd::bitwise_cast<To>(v);
}
template <class To, class From, class Arch, class Cast = decltype(xsimd::bitwise_cast<To>(xsimd::batch<From, Arch>()))>
inline std::enable_if_t<std::is_same_v<Cast, To>, xsimd::batch<To, Arch>> as_bits(
    const xsimd::batch<From, Arch>& v) noexcept {
  return xsimd::bitwise_cast<xsimd::batch<To, Arch>>(v);
}

/// v with every lane shifted by a constant; to the right, copies of the sign follow.
template <int Bits, class Arch>
inline IntVector<Arch> shift_left(const IntVector<Arch>& v) noexcept {
#if defined(__AVX512F__)
  // As xsimd does it, but for the intrinsics: GCC 12 warns in every user's build of those without a mask.
  if constexpr (IntVector<Arch>::size == 16) return IntVector<Arch>(_mm512_maskz_slli_epi32(0xFFFF, v, Bits));
#endif
  return v << Bits;
}
template <int Bits, class Arch>
inline IntVector<Arch> shift_right(const IntVector<Arch>& v) noexcept {
#if defined(__AVX512F__)
  if constexpr (IntVector<Arch>::size == 16) return IntVector<Arch>(_mm512_maskz_srai_epi32(0xFFFF, v, Bits));
#endif
  return v >> Bits;
}

/// All bits where a < b, none elsewhere; a - b does not overflow. (No comparisons: xsimd 8.1's select of integers does
/// not compile for AVX-512 at -O0.)
template <class Ints>
inline Ints less(const Ints& a, const Ints& b) noexcept {
  return shift_right<31>(Ints(a - b));
}
template <class Ints>
inline Ints choose(const Ints& mask, const Ints& chosen, const Ints& other) noexcept {
  return other ^ ((other ^ chosen) & mask);
}

/// As many words of 16 bits as a vector of floats has lanes, at p, as integers from 0 to 65535.
template <class Arch>
inline IntVector<Arch> load_words(const void* p) noexcept {
  constexpr std::size_t width = IntVector<Arch>::size;
#if defined(__AVX512F__)
  if constexpr (width == 16) {
    const __m256i words = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    return IntVector<Arch>(_mm512_maskz_cvtepu16_epi32(0xFFFF, words));
  }
#endif
#if defined(__AVX2__)
  if constexpr (width == 8) {
    return IntVector<Arch>(_mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))));
  }
#endif
#if defined(__SSE2__)
  if constexpr (width == 4) {
    const __m128i words = _mm_loadl_epi64(static_cast<const __m128i*>(p));
    return IntVector<Arch>(_mm_unpacklo_epi16(words, _mm_setzero_si128()));
  }
#endif
  std::uint16_t words[width];
  std::int32_t lanes[width];
  std::memcpy(words, p, sizeof(words));
  for (std::size_t i = 0; i < width; ++i) lanes[i] = words[i];
  return IntVector<Arch>::load_unaligned(lanes);
}

/// The lower 16 bits of each lane, which has to be from -32768 to 32767, at p.
template <class Arch>
inline void store_words(void* p, const IntVector<Arch>& v) noexcept {
  constexpr std::size_t width = IntVector<Arch>::size;
#if defined(__AVX512F__)
  if constexpr (width == 16) {
    return _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_maskz_cvtepi32_epi16(0xFFFF, v));
  }
#endif
#if defined(__AVX2__)
  if constexpr (width == 8) {
    const __m256i words = _mm256_packs_epi32(v, v);  // within each half of the register
    return _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_castsi256_si128(_mm256_permute4x64_epi64(words, 0x08)));
  }
#endif
#if defined(__SSE2__)
  if constexpr (width == 4) return _mm_storel_epi64(static_cast<__m128i*>(p), _mm_packs_epi32(v, v));
#endif
  std::int32_t lanes[width];
  std::uint16_t words[width];
  v.store_unaligned(lanes);
  for (std::size_t i = 0; i < width; ++i) words[i] = static_cast<std::uint16_t>(lanes[i]);
  std::memcpy(p, words, sizeof(words));
}

/// The bits of v, with every NaN the quiet one of its sign without further digits.
template <class Arch>
inline IntVector<Arch> quiet_nan(const FloatVector<Arch>& v) noexcept {
  using Ints = IntVector<Arch>;
  const Ints bits = as_bits<std::int32_t>(v), sign(INT32_MIN), quiet(0x7FC00000);
#if defined(__AVX512DQ__)
  if constexpr (Ints::size == 16) {
    constexpr int any_nan = 0x01 | 0x80, a_and_b_or_c = 0xEA;
    return Ints(_mm512_mask_ternarylogic_epi32(bits, _mm512_fpclass_ps_mask(v, any_nan), sign, quiet, a_and_b_or_c));
  }
#endif
  return choose(less(Ints(0x7F800000), bits & Ints(INT32_MAX)), (bits & sign) | quiet, bits);
}

/// A vector of floats from, and to, numbers in a format of 16 bits.
template <class Arch, StorageFormat Format>
struct StorageVector;

template <class Arch>
struct StorageVector<Arch, StorageFormat::bfloat16> {
  using Floats = FloatVector<Arch>;
  using Ints = IntVector<Arch>;

  static Floats widen(const Ints& words) noexcept { return as_bits<float>(shift_left<16>(words)); }

  /// Each lane's word with its sign extended, as store_words takes it.
  static Ints narrow(const Floats& v) noexcept {
    const Ints number = quiet_nan(v);
    return shift_right<16>(Ints(number + Ints(0x7FFF) + (shift_right<16>(number) & Ints(1))));
  }

  static Floats load(const void* p) noexcept { return widen(load_words<Arch>(p)); }

  static void store(void* p, const Floats& v) noexcept {
#if defined(__AVX512BF16__) && defined(__AVX512DQ__)
    if constexpr (Floats::size == 16) {
      // The instruction takes subnormal numbers for zero, and keeps the digits of a NaN.
      constexpr int nan_or_subnormal = 0x01 | 0x20 | 0x80;
      if (_mm512_fpclass_ps_mask(v, nan_or_subnormal) == 0) {
        const __m256bh words = _mm512_cvtneps_pbh(v);
        std::memcpy(p, &words, sizeof(words));
        return;
      }
      return store_special(p, v);
    }
#endif
    store_words<Arch>(p, narrow(v));
  }

 private:
#if defined(__GNUC__)
  [[gnu::noinline, gnu::cold]]
#endif
  static void
  store_special(void* p, const Floats& v) noexcept {
    store_words<Arch>(p, narrow(v));
  }
};

template <class Arch>
struct StorageVector<Arch, StorageFormat::half> {
  using Floats = FloatVector<Arch>;
  using Ints = IntVector<Arch>;

  static Floats widen(const Ints& words) noexcept {
    const Ints shifted = shift_left<13>(Ints(words & Ints(0x7FFF))), exponent = shifted & Ints(0x0F800000);
    const Ints number = shifted + Ints(0x38000000);
    const Ints special = shifted + Ints(0x70000000);  // infinity and NaN keep the largest exponent
    // As 2^-14 * (1 + significand), less 2^-14.
    const Floats subnormal = as_bits<float>(Ints(number + Ints(0x00800000))) - Floats(0x1p-14f);
    const Ints finite = choose(less(exponent, Ints(1)), as_bits<std::int32_t>(subnormal), number);
    const Ints magnitude = choose(less(Ints(0x0F7FFFFF), exponent), special, finite);
    return as_bits<float>(Ints(magnitude | shift_left<16>(Ints(words & Ints(0x8000)))));
  }

  /// Each lane's word with its sign extended, as store_words takes it.
  static Ints narrow(const Floats& v) noexcept {
    const Ints bits = as_bits<std::int32_t>(v), magnitude = bits & Ints(INT32_MAX);
    const Ints odd = shift_right<13>(magnitude) & Ints(1);
    const Ints normal = shift_right<13>(Ints(magnitude - Ints(0x38000000 - 0xFFF) + odd));
    // Below 2^-14: added to 1/2, which rounds to multiples of 2^-24.
    const Ints subnormal = as_bits<std::int32_t>(Floats(as_bits<float>(magnitude) + Floats(0.5f))) - Ints(0x3F000000);
    const Ints special = choose(less(Ints(0x7F800000), magnitude), Ints(0x7E00), Ints(0x7C00));
    const Ints finite = choose(less(magnitude, Ints(0x38800000)), subnormal, normal);
    const Ints word = choose(less(magnitude, Ints(0x47800000)), finite, special);
    return word | (shift_right<16>(bits) & Ints(-0x8000));
  }

  static Floats load(const void* p) noexcept {
#if defined(__F16C__) && defined(__AVX512F__)
    if constexpr (Floats::size == 16) {
      return Floats(_mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(static_cast<const __m256i*>(p))));
    }
#endif
#if defined(__F16C__)
    if constexpr (Floats::size == 8) {
      return Floats(_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p))));
    }
#endif
    return widen(load_words<Arch>(p));
  }

  static void store(void* p, const Floats& v) noexcept {
#if defined(__F16C__) && defined(__AVX512F__)
    if constexpr (Floats::size == 16) {
      const __m256i words = _mm512_maskz_cvtps_ph(0xFFFF, as_bits<float>(quiet_nan(v)), 0);
      return _mm256_storeu_si256(static_cast<__m256i*>(p), words);
    }
#endif
#if defined(__F16C__)
    if constexpr (Floats::size == 8) {
      return _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(as_bits<float>(quiet_nan(v)), 0));
    }
#endif
    store_words<Arch>(p, narrow(v));
  }
};

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
