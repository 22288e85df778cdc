#pragma once

#include <xsimd/xsimd.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__AVX__)
#include <immintrin.h>
#endif

#include "evenkeel/core/arch.hpp"
#include "evenkeel/kernels/storage_vector.hpp"

/// The vectors that kernels are written in: with storage_vector.hpp, all that knows xsimd, its versions, and
/// intrinsics.
///
/// `Simd<Arch, T>` is an xsimd architecture or `scalar`; kernels use its `Batch`, `load`, `store`, `fma`, `sum`, and
/// the operators + - * of the batch. Two rules hold everywhere (they keep results the same under every
/// -ffp-contract mode, and accurate under -ffast-math):
/// - never `a * b + c`: write `fma(a, b, c)`, or `add(a * b, c)` where the product must be rounded first;
/// - `keep(v)` where the compiler must not reassociate v with what consumes it.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// The best xsimd architecture that the compiler's flags allow, or `scalar` where there is none.
using native = std::conditional_t<(sizeof(xsimd::batch<float>) > sizeof(float)), xsimd::default_arch, scalar>;

namespace kernels {

using Index = std::ptrdiff_t;

/// v, as a value of which the compiler knows nothing: it is neither reassociated nor contracted with what consumes it.
///
/// An empty assembler statement, which costs no instruction. (GCC 12 takes vectors apart, element by element, for
/// __builtin_assoc_barrier; Clang 14 contracts through __arithmetic_fence.)
template <class T>
inline T keep(T v) noexcept {
#if defined(__AVX512F__)
  asm("" : "+v"(v));
#elif defined(__x86_64__)
  asm("" : "+x"(v));
#elif defined(__aarch64__)
  asm("" : "+w"(v));
#endif
  return v;
}

template <class T, class Arch>
inline xsimd::batch<T, Arch> keep(const xsimd::batch<T, Arch>& v) noexcept {
  using Register = typename xsimd::batch<T, Arch>::register_type;
  return xsimd::batch<T, Arch>(keep(static_cast<Register>(v)));
}

/// What sums of T are merged in.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;

/// A sum of T in double. Where T is double itself, the rounding error of each addition is carried along.
template <class T>
class WideSum {
 public:
  void add(T value) noexcept {
    const Wide<T> before = sum_;
    sum_ = keep(before + value);
    if constexpr (std::is_same_v<T, Wide<T>>) {
      const T added = keep(sum_ - before);
      rest_ += keep(before - keep(sum_ - added)) + keep(value - added);
    }
  }
  Wide<T> value() const noexcept { return sum_ + rest_; }

 private:
  Wide<T> sum_ = 0, rest_ = 0;
};

/// Vectors of T on one architecture. `*_first` forms touch the first `count` elements only, 0 <= count < width. Where T
/// is float, all of them take numbers of 16 bits too, which become floats when loaded, and are rounded when stored.
template <class Arch, class T>
struct Simd {
  using Batch = xsimd::batch<T, Arch>;
  static constexpr Index width = static_cast<Index>(Batch::size);
  /// Rows that a kernel with per-row coefficients can hold in registers at once.
  static constexpr bool has_32_registers = sizeof(Batch) == 64;

  static Batch broadcast(T value) noexcept { return Batch(value); }
  static Batch load(const T* p) noexcept { return Batch::load_unaligned(p); }
  static void store(T* p, const Batch& v) noexcept { v.store_unaligned(p); }
  /// a * b + c; rounded once where the instruction set has it.
  static Batch fma(const Batch& a, const Batch& b, const Batch& c) noexcept {
#if defined(__AVX512F__)
    // xsimd 8.1 has no AVX-512 form of it, and multiplies and adds.
    if constexpr (sizeof(Batch) == 64 && sizeof(T) == 4) {
      return Batch(_mm512_fmadd_ps(a, b, c));
    } else if constexpr (sizeof(Batch) == 64 && sizeof(T) == 8) {
      return Batch(_mm512_fmadd_pd(a, b, c));
    } else {
      return xsimd::fma(a, b, c);
    }
#else
    return xsimd::fma(a, b, c);
#endif
  }

  static Batch sqrt(const Batch& v) noexcept { return xsimd::sqrt(v); }
  /// v where `condition` is not 0, else 0, be v what it may.
  static Batch where(const Batch& condition, const Batch& v) noexcept {
    return xsimd::select(condition != Batch(T(0)), v, Batch(T(0)));
  }
  /// Whether a <= b in every lane; false where either is NaN.
  static bool all_at_most(const Batch& a, const Batch& b) noexcept { return xsimd::all(a <= b); }

  static T sum(const Batch& v) noexcept {
#if defined(__AVX512F__)
    // As xsimd does it, but for the intrinsics: GCC 12 warns in every user's build of those without a mask.
    if constexpr (sizeof(Batch) == 64 && sizeof(T) == 8) {
      const __m256d low = _mm512_maskz_extractf64x4_pd(0xFF, v, 0), high = _mm512_maskz_extractf64x4_pd(0xFF, v, 1);
      return xsimd_sum(xsimd::batch<T, xsimd::avx2>(_mm256_add_pd(low, high)));
    } else {
      return xsimd_sum(v);
    }
#else
    return xsimd_sum(v);
#endif
  }

  /// The first `count` elements of p, then those of `rest`; nothing past p + count is read.
  static Batch load_first(const T* p, Index count, const Batch& rest) noexcept {
#if defined(__AVX512F__)
    if constexpr (sizeof(Batch) == 64 && sizeof(T) == 4) {
      return Batch(_mm512_mask_loadu_ps(rest, static_cast<__mmask16>((1u << count) - 1u), p));
    } else if constexpr (sizeof(Batch) == 64 && sizeof(T) == 8) {
      return Batch(_mm512_mask_loadu_pd(rest, static_cast<__mmask8>((1u << count) - 1u), p));
    }
#endif
#if defined(__AVX__)
    if constexpr (sizeof(Batch) == 32 && sizeof(T) == 4) {
      const __m256i mask = first_lanes(count);
      return Batch(_mm256_blendv_ps(rest, _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask)));
    } else if constexpr (sizeof(Batch) == 32 && sizeof(T) == 8) {
      const __m256i mask = first_lanes(2 * count);
      return Batch(_mm256_blendv_pd(rest, _mm256_maskload_pd(p, mask), _mm256_castsi256_pd(mask)));
    }
#endif
    T lanes[width];
    store(lanes, rest);
    for (Index i = 0; i < count; ++i) lanes[i] = p[i];
    return load(lanes);
  }

  static void store_first(T* p, const Batch& v, Index count) noexcept {
#if defined(__AVX512F__)
    if constexpr (sizeof(Batch) == 64 && sizeof(T) == 4) {
      return _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1u), v);
    } else if constexpr (sizeof(Batch) == 64 && sizeof(T) == 8) {
      return _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << count) - 1u), v);
    }
#endif
#if defined(__AVX__)
    if constexpr (sizeof(Batch) == 32 && sizeof(T) == 4) {
      return _mm256_maskstore_ps(p, first_lanes(count), v);
    } else if constexpr (sizeof(Batch) == 32 && sizeof(T) == 8) {
      return _mm256_maskstore_pd(p, first_lanes(2 * count), v);
    }
#endif
    T lanes[width];
    store(lanes, v);
    for (Index i = 0; i < count; ++i) p[i] = lanes[i];
  }

  template <class U>
  static Batch load(const U* p) noexcept {
    return Stored16<U>::load(p);
  }
  template <class U>
  static void store(U* p, const Batch& v) noexcept {
    Stored16<U>::store(p, v);
  }
  template <class U>
  static Batch load_first(const U* p, Index count, const Batch& rest) noexcept {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    if constexpr (sizeof(Batch) == 64) {
      const auto mask = static_cast<__mmask16>((1u << count) - 1u);
      const __m256i words = _mm256_maskz_loadu_epi16(mask, p);
      return Batch(_mm512_mask_mov_ps(rest, mask, Stored16<U>::load(&words)));
    }
#endif
    T lanes[width];
    store(lanes, rest);
    for (Index i = 0; i < count; ++i) lanes[i] = to_compute(p[i]);
    return load(lanes);
  }
  template <class U>
  static void store_first(U* p, const Batch& v, Index count) noexcept {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    if constexpr (sizeof(Batch) == 64) {
      __m256i words;
      Stored16<U>::store(&words, v);
      return _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1u << count) - 1u), words);
    }
#endif
    T lanes[width];
    store(lanes, v);
    for (Index i = 0; i < count; ++i) p[i] = from_compute<U>(lanes[i]);
  }

 private:
  template <class U>
  using Stored16 = std::enable_if_t<std::is_same_v<Compute<U>, T>, StorageVector<Arch, StorageTraits<U>::format>>;

  template <class B>
  static T xsimd_sum(const B& v) noexcept {
#if XSIMD_VERSION_MAJOR >= 10
    return xsimd::reduce_add(v);
#else
    return xsimd::hadd(v);
#endif
  }

#if defined(__AVX__)
  /// A mask whose first `words` 32-bit words are set.
  static __m256i first_lanes(Index words) noexcept {
    alignas(64) static constexpr std::int32_t set_then_clear[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(set_then_clear + 8 - words));
  }
#endif
};

template <class T>
struct Simd<scalar, T> {
  using Batch = T;
  static constexpr Index width = 1;
  static constexpr bool has_32_registers = false;

  static T broadcast(T value) noexcept { return value; }
  static T sqrt(T v) noexcept { return std::sqrt(v); }
  static T where(T condition, T v) noexcept { return condition != T(0) ? v : T(0); }
  static bool all_at_most(T a, T b) noexcept { return a <= b; }
  static T sum(T v) noexcept { return v; }
  template <class U>
  static T load(const U* p) noexcept {
    return to_compute(*p);
  }
  template <class U>
  static void store(U* p, T v) noexcept {
    *p = from_compute<U>(v);
  }
  template <class U>
  static T load_first(const U*, Index, T rest) noexcept {
    return rest;
  }
  template <class U>
  static void store_first(U*, T, Index) noexcept {}

  static T fma(T a, T b, T c) noexcept {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return std::fma(a, b, c);
#else
    const T product = keep(a * b);  // std::fma would be a library call here
    return product + c;
#endif
  }
};

/// a + b, never contracted with a product that a or b came from.
template <class Batch>
inline Batch add(const Batch& a, const Batch& b) noexcept {
  return keep(a) + keep(b);
}

/// The whole of a vector, and its first lanes: what `for_each_vector` hands to its body, so that a loop and its tail
/// are one piece of code. Lanes outside load `rest` (zero if not given) and are not stored. Pointers are to T, or to
/// any type that is computed in T.
template <class Arch, class T>
struct WholeVector {
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;
  template <class U>
  Batch load(const U* p) const noexcept {
    return S::load(p);
  }
  template <class U>
  Batch load(const U* p, const Batch&) const noexcept {
    return S::load(p);
  }
  template <class U>
  void store(U* p, const Batch& v) const noexcept {
    S::store(p, v);
  }
};

template <class Arch, class T>
struct FirstLanes {
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;
  Index count;
  template <class U>
  Batch load(const U* p) const noexcept {
    return S::load_first(p, count, S::broadcast(T(0)));
  }
  template <class U>
  Batch load(const U* p, const Batch& rest) const noexcept {
    return S::load_first(p, count, rest);
  }
  template <class U>
  void store(U* p, const Batch& v) const noexcept {
    S::store_first(p, v, count);
  }
};

template <int... K, class Body>
[[gnu::always_inline]] inline void unroll_indices(std::integer_sequence<int, K...>, Body&& body) {
  (body(std::integral_constant<int, K>{}), ...);
}

/// body(0), body(1), ..., body(Count - 1), with the number as a constant type.
template <int Count, class Body>
[[gnu::always_inline]] inline void unroll(Body&& body) {
  unroll_indices(std::make_integer_sequence<int, Count>{}, body);
}

/// body(k, j, lanes) for the vectors that start at columns j = 0, width, 2 * width, ... of n; k counts them modulo
/// Unroll as a constant type (an accumulator to use), so that sums are grouped alike whatever the address. Always in
/// line, as unroll is: Clang's `flatten` reaches the calls of a function alone, and sums in registers must not become
/// memory.
template <class Arch, class T, int Unroll, class Body>
[[gnu::always_inline]] inline void for_each_vector(Index n, Body&& body) {
  constexpr Index width = Simd<Arch, T>::width;
  const WholeVector<Arch, T> whole;
  Index j = 0;
  for (; j + Unroll * width <= n; j += Unroll * width) {
    unroll<Unroll>([&](auto k) { body(k, j + k * width, whole); });
  }
  unroll<Unroll - 1>([&](auto k) {
    if (j + width <= n) {
      body(k, j, whole);
      j += width;
    }
  });
  if (j < n) body(std::integral_constant<int, Unroll - 1>{}, j, FirstLanes<Arch, T>{n - j});
}

/// Accumulators of one sum: enough that the adders' latency is hidden in loops that do more than add.
inline constexpr int accumulators = 2;

/// Columns that are summed in vectors of T before the sums are merged in double: chains of 32 additions at most.
template <class Arch, class T>
inline constexpr Index block_columns = std::min<Index>(1024, 32 * accumulators * Simd<Arch, T>::width);

/// The largest power of two not above v (v >= 0), kept where it and its inverse are normal numbers.
template <class T>
inline T power_of_two_below(T v) noexcept {
  static_assert(std::numeric_limits<T>::is_iec559 && (sizeof(T) == 4 || sizeof(T) == 8));
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits one = Bits{1} << (std::numeric_limits<T>::digits - 1);  // the exponent's lowest bit
  constexpr Bits all = Bits{2} * std::numeric_limits<T>::max_exponent - 1;
  Bits bits;
  std::memcpy(&bits, &v, sizeof(v));
  bits = std::clamp<Bits>(bits & (all * one), one, (all - 2) * one);
  T power;
  std::memcpy(&power, &bits, sizeof(v));
  return power;
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
