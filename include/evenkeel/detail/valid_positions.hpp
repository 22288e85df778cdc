#pragma once

#include <cstdint>

#include "evenkeel/core/context.hpp"
#include "evenkeel/core/images.hpp"
#include "evenkeel/detail/position_mask.hpp"

/// Images of which some positions are masked: norms take a dense copy of the valid ones.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// Which positions of an example are valid, in the order in which Images visits its pixels.
struct ValidPositions {
  const std::uint8_t* flags;
  Index count;
};

/// copy(element of an example, element of a dense copy [channels, valid positions]) for all that are valid.
template <class Scalar, class Dense, class Copy>
void for_each_valid(const Images<Scalar>& example, const ValidPositions& valid, Dense* dense, const Copy& copy) {
  const Axis& channels = example.channels();
  const Index together = channels.stride == 1 ? channels.extent : 1;  // what lies side by side is read once
  for (Index first = 0; first < channels.extent; first += together) {
    Index position = 0, k = 0;
    example.for_each_pixel([&](Index offset) {
      if (!valid.flags[position++]) return;
      for (Index c = first; c < first + together; ++c) {
        copy(example.data()[offset + c * channels.stride], dense[c * valid.count + k]);
      }
      ++k;
    });
  }
}

template <class Scalar>
void gather_valid(const Images<const Scalar>& example, const ValidPositions& valid, Scalar* dense) {
  for_each_valid(example, valid, dense, [](const Scalar& from, Scalar& to) { to = from; });
}
/// To the valid positions; or, with `adds`, added to them.
template <class Scalar>
void scatter_valid(const Images<Scalar>& example, const ValidPositions& valid, const Scalar* dense, bool adds = false) {
  for_each_valid(example, valid, dense, [adds](Scalar& to, const Scalar& from) { to = adds ? to + from : from; });
}

template <class Scalar>
void write_zeros_where_masked(const Images<Scalar>& example, const ValidPositions& valid) {
  Index position = 0;
  example.for_each_pixel([&](Index offset) {
    if (valid.flags[position++]) return;
    const Axis& channels = example.channels();
    for (Index c = 0; c < channels.extent; ++c) example.data()[offset + c * channels.stride] = Scalar(0);
  });
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
