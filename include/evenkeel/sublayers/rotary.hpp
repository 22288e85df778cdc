#pragma once

#include <cmath>
#include <limits>
#include <string>

#include "evenkeel/core/shape_check.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Rotary position: the pair i of a head's features is turned by position * base^(-2i / head_dim).
///
/// Which two features are pair i is a convention of the weights: (i, i + head_dim / 2), the two halves, as in GPT-NeoX
/// and in LLaMA as Hugging Face stores it; or (2i, 2i + 1), interleaved, as in the paper and in LLaMA as Meta stores
/// it.
///
/// Source    Su et al. 2021, arXiv:2104.09864; base 1e4 there and in LLaMA 1 and 2.
struct Rotary {
  double base = 1e4;
  bool interleaved = false;  ///< false: pairs are (i, i + head_dim / 2)
};

namespace detail {

/// Throws std::invalid_argument unless heads of this size can be turned.
inline void require_rotary(const char* where, const Rotary& rotary, Index head_dim) {
  if (head_dim % 2 != 0) {
    raise_invalid_argument(where, "head_dim is " + std::to_string(head_dim) +
                                      ", expected an even number (rotary position turns pairs of features)");
  }
  if (rotary.base > 0 && rotary.base <= std::numeric_limits<double>::max()) return;
  raise_invalid_argument(
      where, "base of rotary position is " + std::to_string(rotary.base) + ", expected a finite number above 0");
}

enum class Turn { forward = 1, back = -1 };

/// Turns every head of x [batch, seq, heads, head_dim], dense, in place; back is the backward. Token 0 is at
/// `position`.
template <class Scalar>
void rotate(const Rotary& rotary, Turn turn, Index position, const Shape& shape, Scalar* x) {
  const Index seq = shape[1], heads = shape[2], head_dim = shape[3], pairs = head_dim / 2;
  const Index step = rotary.interleaved ? 2 : 1, other = rotary.interleaved ? 1 : pairs;
  for (Index t = 0; t < seq; ++t) {
    for (Index i = 0; i < pairs; ++i) {
      // In double: a float angle of position 1e5 is off by 4e-3.
      const double frequency = std::pow(rotary.base, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
      const double angle = static_cast<double>(position + t) * frequency;
      const auto cosine = static_cast<Scalar>(std::cos(angle));
      const auto sine = static_cast<Scalar>(static_cast<int>(turn) * std::sin(angle));
      for (Index b = 0; b < shape[0]; ++b) {
        Scalar* first = x + (b * seq + t) * heads * head_dim + i * step;
        for (Index h = 0; h < heads; ++h, first += head_dim) {
          const Scalar a = first[0], c = first[other];
          first[0] = a * cosine - c * sine;
          first[other] = c * cosine + a * sine;
        }
      }
    }
  }
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
