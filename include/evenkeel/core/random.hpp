#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "evenkeel/core/arch.hpp"

/// Random numbers without a state: pure functions of a key and a counter. Whoever knows both has the number again, in
/// any order, on any thread, and on every platform.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Which stream of random numbers: one for each place in a model that draws some. Made by random_key.
struct RandomKey {
  std::uint64_t bits = 0;

  friend constexpr bool operator==(RandomKey a, RandomKey b) noexcept { return a.bits == b.bits; }
  friend constexpr bool operator!=(RandomKey a, RandomKey b) noexcept { return a.bits != b.bits; }
};

/// 128 random bits.
using RandomWords = std::array<std::uint32_t, 4>;

namespace detail {

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014), a bijection: each bit of z changes half of the result's.
constexpr std::uint64_t mix_bits(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// FNV-1a of 64 bits (Fowler, Noll, Vo).
constexpr std::uint64_t hash_text(std::string_view text) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x00000100000001B3u;
  return hash;
}

inline constexpr int philox_rounds = 10;

/// The key of each round.
struct PhiloxKey {
  std::uint32_t k0, k1;

  constexpr explicit PhiloxKey(RandomKey key) noexcept
      : k0(static_cast<std::uint32_t>(key.bits)), k1(static_cast<std::uint32_t>(key.bits >> 32)) {}
  constexpr void next() noexcept {
    k0 += 0x9E3779B9u;  // of 2^32 the golden section, and sqrt(3) - 1
    k1 += 0xBB67AE85u;
  }
};

constexpr void philox_round(const PhiloxKey& key, std::uint32_t& c0, std::uint32_t& c1, std::uint32_t& c2,
                            std::uint32_t& c3) noexcept {
  const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0, p1 = std::uint64_t{0xCD9E8D57u} * c2;
  c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ key.k0;
  c1 = static_cast<std::uint32_t>(p1);
  c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ key.k1;
  c3 = static_cast<std::uint32_t>(p0);
}

}  // namespace detail

/// The key of a place in a model, "blocks.3.drop", under a seed: mix(mix(seed) ^ hash(path)), with FNV-1a as the hash
/// and the finalizer of SplitMix64 as mix.
///
/// Equal on every platform. Two seeds never give one path the same key; two paths have the same key under a seed only
/// where their 64-bit hashes are equal.
constexpr RandomKey random_key(std::uint64_t seed, std::string_view path) noexcept {
  return {detail::mix_bits(detail::mix_bits(seed) ^ detail::hash_text(path))};
}

/// Philox4x32-10: 128 random bits for each of 2^128 counters {low, high} of a key.
///
/// Numerics  integers: the same bits everywhere. BigCrush finds nothing in it (paper); held to the known answers of
///           Random123.
/// Cost      20 multiplications of 32 bits.
/// Source    Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
constexpr RandomWords philox(RandomKey key, std::uint64_t low, std::uint64_t high = 0) noexcept {
  auto c0 = static_cast<std::uint32_t>(low), c1 = static_cast<std::uint32_t>(low >> 32);
  auto c2 = static_cast<std::uint32_t>(high), c3 = static_cast<std::uint32_t>(high >> 32);
  detail::PhiloxKey k(key);
  for (int round = 0; round < detail::philox_rounds; ++round, k.next()) detail::philox_round(k, c0, c1, c2, c3);
  return {c0, c1, c2, c3};
}

/// Uniform in [0, 1), a multiple of 2^-24.
constexpr float uniform_float(std::uint32_t word) noexcept { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// Uniform in [0, 1), a multiple of 2^-53.
constexpr double uniform_double(std::uint32_t high, std::uint32_t low) noexcept {
  return static_cast<double>((std::uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

/// Two independent numbers N(0, 1), by the transformation of Box and Muller; at most 8.6 in size.
///
/// Numerics  in double, from 53 bits for the radius and as many for the angle. log, sqrt, sin and cos of a good
///           standard library are right to 1 or 2 ulp of double, so that, rounded to float, the numbers of two
///           platforms are equal but for the rare case next to the middle of two floats: they are within 1 ulp of
///           float.
/// Source    Box, Muller 1958, "A note on the generation of random normal deviates".
inline std::array<double, 2> normal_pair(const RandomWords& words) noexcept {
  const double uniform = 1 - uniform_double(words[0], words[1]);  // (0, 1], exact
  const double radius = std::sqrt(-2 * std::log(uniform));
  const double angle = 6.283185307179586 * uniform_double(words[2], words[3]);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
