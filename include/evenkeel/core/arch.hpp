#pragma once

/// The instruction set this file is compiled for, as the name of an inline namespace.
///
/// Everything in evenkeel lives in `evenkeel::EVENKEEL_ARCH`, so that source files compiled with different -m flags
/// share no symbol: the linker would otherwise keep one copy of each inline function for all of them, and run, say,
/// AVX-512 instructions on a machine without them.

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define EVENKEEL_ARCH avx512
#elif defined(__AVX512F__)
#define EVENKEEL_ARCH avx512f
#elif defined(__AVX2__) && defined(__FMA__)
#define EVENKEEL_ARCH avx2_fma
#elif defined(__AVX2__)
#define EVENKEEL_ARCH avx2
#elif defined(__AVX__) && defined(__FMA__)
#define EVENKEEL_ARCH avx_fma
#elif defined(__AVX__)
#define EVENKEEL_ARCH avx
#elif defined(__SSE4_2__)
#define EVENKEEL_ARCH sse4_2
#elif defined(__SSE4_1__)
#define EVENKEEL_ARCH sse4_1
#elif defined(__SSSE3__)
#define EVENKEEL_ARCH ssse3
#elif defined(__SSE3__)
#define EVENKEEL_ARCH sse3
#elif defined(__SSE2__) || defined(_M_X64)
#define EVENKEEL_ARCH sse2
#elif defined(__ARM_FEATURE_SVE)
#define EVENKEEL_ARCH sve
#elif defined(__aarch64__) || defined(_M_ARM64)
#define EVENKEEL_ARCH neon64
#elif defined(__ARM_NEON)
#define EVENKEEL_ARCH neon
#else
#define EVENKEEL_ARCH generic
#endif

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// The architecture without SIMD: one number at a time, by the same source as every vectorized kernel.
struct scalar {
  static constexpr const char* name() noexcept { return "scalar"; }
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
