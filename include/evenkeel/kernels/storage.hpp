#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "evenkeel/core/arch.hpp"

/// Number types of 16 bits: stored so, computed with as float.
///
/// Converting to 16 bits rounds to nearest, ties to even. Every NaN becomes the quiet one of its sign without further
/// digits, on every instruction set: the bits are those of Eigen's scalar conversions. Only integers are compared, so
/// that -ffast-math changes nothing. storage_vector.hpp does the same to whole vectors.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// What the bits of a number are: those of a type that the processor computes with, or one of the two formats of 16
/// bits, the upper half of a float and IEEE 754's binary16.
enum class StorageFormat { computed, bfloat16, half };

/// How a type is stored. A specialization makes any other 16-bit type with one of these formats known to the kernels,
/// which move its bits and ask nothing else of it.
template <class T>
struct StorageTraits {
  static constexpr StorageFormat format = StorageFormat::computed;
};

template <class T>
inline constexpr bool is_16_bit = StorageTraits<T>::format != StorageFormat::computed;

/// The type that numbers of type T are computed in, and their statistics kept in.
template <class T>
using Compute = std::conditional_t<is_16_bit<T>, float, T>;

template <StorageFormat Format>
struct StorageConversion;

/// The upper half of a float.
template <>
struct StorageConversion<StorageFormat::bfloat16> {
  static constexpr std::uint16_t one = 0x3F80;

  static float widen(std::uint16_t bits) noexcept {
    const std::uint32_t wide = std::uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &wide, sizeof(value));
    return value;
  }
  static std::uint16_t narrow(float value) noexcept {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    if ((bits & 0x7FFFFFFF) > 0x7F800000) bits = (bits & 0x80000000) | 0x7FC00000;
    return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
  }
};

/// IEEE 754's binary16: 5 bits of exponent and 10 of significand.
///
/// Source    Fabian Giesen, "Half to float done quick", as in Eigen.
template <>
struct StorageConversion<StorageFormat::half> {
  static constexpr std::uint16_t one = 0x3C00;

  static float widen(std::uint16_t bits) noexcept {
    std::uint32_t wide = (std::uint32_t{bits} & 0x7FFF) << 13;
    const std::uint32_t exponent = wide & 0x0F800000;
    wide += exponent == 0x0F800000 ? 0x70000000u : 0x38000000u;  // infinity and NaN keep the largest exponent
    float value;
    if (exponent == 0) {  // subnormal: as 2^-14 * (1 + significand), less 2^-14
      wide += 0x00800000;
      std::memcpy(&value, &wide, sizeof(value));
      value -= 0x1p-14f;
      std::memcpy(&wide, &value, sizeof(wide));
    }
    wide |= (std::uint32_t{bits} & 0x8000) << 16;
    std::memcpy(&value, &wide, sizeof(value));
    return value;
  }
  static std::uint16_t narrow(float value) noexcept {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    const std::uint32_t magnitude = bits & 0x7FFFFFFF, sign = (bits >> 16) & 0x8000;
    if (magnitude > 0x7F800000) return static_cast<std::uint16_t>(sign | 0x7E00);
    if (magnitude >= 0x47800000) return static_cast<std::uint16_t>(sign | 0x7C00);  // 2^16 and more
    if (magnitude < 0x38800000) {  // below 2^-14: subnormal; added to 1/2, which rounds to multiples of 2^-24
      std::memcpy(&value, &magnitude, sizeof(value));
      value += 0.5f;
      std::memcpy(&bits, &value, sizeof(bits));
      return static_cast<std::uint16_t>(sign | (bits - 0x3F000000));
    }
    return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000 + 0xFFF + ((magnitude >> 13) & 1)) >> 13));
  }
};

/// A number as it is computed with.
template <class T>
inline Compute<T> to_compute(const T& stored) noexcept {
  if constexpr (is_16_bit<T>) {
    static_assert(sizeof(T) == 2 && std::is_trivially_copyable_v<T>);
    std::uint16_t bits;
    std::memcpy(&bits, &stored, sizeof(bits));
    return StorageConversion<StorageTraits<T>::format>::widen(bits);
  } else {
    return stored;
  }
}

/// A number as it is stored.
template <class T>
inline T from_compute(const Compute<T>& value) noexcept {
  if constexpr (is_16_bit<T>) {
    const std::uint16_t bits = StorageConversion<StorageTraits<T>::format>::narrow(value);
    T stored;
    std::memcpy(static_cast<void*>(&stored), &bits, sizeof(bits));
    return stored;
  } else {
    return value;
  }
}

/// A number of 16 bits, for callers who have no type of their own for it: storage only, without arithmetic.
template <StorageFormat Format>
struct Stored {
  std::uint16_t bits;

  Stored() = default;
  explicit Stored(float value) noexcept : bits(StorageConversion<Format>::narrow(value)) {}
  explicit operator float() const noexcept { return StorageConversion<Format>::widen(bits); }
};
template <StorageFormat Format>
struct StorageTraits<Stored<Format>> {
  static constexpr StorageFormat format = Format;
};

using bf16 = Stored<StorageFormat::bfloat16>;
using f16 = Stored<StorageFormat::half>;

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
