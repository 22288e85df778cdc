#pragma once

#include <algorithm>
#include <cstdint>

#include "evenkeel/core/context.hpp"
#include "evenkeel/core/images.hpp"
#include "evenkeel/detail/position_mask.hpp"
#include "evenkeel/kernels/storage.hpp"

/// Images of which some positions are masked: norms take a dense copy of the valid ones.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// Which positions of an example are valid, in the order in which Images visits its pixels.
struct ValidPositions {
  const std::uint8_t* flags;
  Index count;
};

/// body(is_valid, offset of the first, how many valid ones came before, number) for pixels that follow one another, and
/// are all valid or all masked.
template <class Scalar, class Body>
void for_each_stretch(const Images<Scalar>& example, const std::uint8_t* flags, const Body& body) {
  const Axis run = example.run();
  Index valid_before = 0;
  example.for_each_run([&](Index offset) {
    for (Index first = 0, last; first < run.extent; first = last) {
      for (last = first + 1; last < run.extent && flags[last] == flags[first];) ++last;
      body(flags[first] != 0, offset + first * run.stride, valid_before, last - first);
      if (flags[first]) valid_before += last - first;
    }
    flags += run.extent;
  });
}

/// body(index of pixel, channel) for all, those that lie side by side together.
template <class Body>
void for_each_of_stretch(const Axis& channels, Index pixels, const Body& body) {
  if (channels.stride != 1) {
    for (Index c = 0; c < channels.extent; ++c) {
      for (Index i = 0; i < pixels; ++i) body(i, c);
    }
    return;
  }
  constexpr Index together = 16;  // as many as a dense copy has lines of in the L1 cache, whatever the strides
  for (Index first = 0; first < channels.extent; first += together) {
    const Index last = std::min(first + together, channels.extent);
    for (Index i = 0; i < pixels; ++i) {
      for (Index c = first; c < last; ++c) body(i, c);
    }
  }
}

/// copy(element of an example, element of a dense copy [channels, valid positions]) for all that are valid.
template <class Scalar, class Dense, class Copy>
void for_each_valid(const Images<Scalar>& example, const ValidPositions& valid, Dense* dense, const Copy& copy) {
  const Axis channels = example.channels();
  const Index stride = example.run().stride, all = valid.count;
  for_each_stretch(example, valid.flags, [&](bool is_valid, Index offset, Index before, Index count) {
    if (!is_valid) return;
    Scalar* from = example.data() + offset;
    Dense* to = dense + before;
    for_each_of_stretch(channels, count,
                        [=](Index i, Index c) { copy(from[i * stride + c * channels.stride], to[c * all + i]); });
  });
}

/// A number of a dense copy to where it belongs, rounded once; or, with `adds`, added to what is there.
template <class Scalar>
void put(Scalar& to, const kernels::Compute<Scalar>& from, bool adds) {
  to = kernels::from_compute<Scalar>(adds ? kernels::to_compute(to) + from : from);
}

/// The dense copy is in the type that they are computed in.
template <class Scalar>
void gather_valid(const Images<const Scalar>& example, const ValidPositions& valid, kernels::Compute<Scalar>* dense) {
  using T = kernels::Compute<Scalar>;
  for_each_valid(example, valid, dense, [](const Scalar& from, T& to) { to = kernels::to_compute(from); });
}
/// To the valid positions.
template <class Scalar>
void scatter_valid(const Images<Scalar>& example, const ValidPositions& valid, const kernels::Compute<Scalar>* dense,
                   bool adds = false) {
  using T = kernels::Compute<Scalar>;
  for_each_valid(example, valid, dense, [adds](Scalar& to, const T& from) { put(to, from, adds); });
}

template <class Scalar>
void write_zeros_where_masked(const Images<Scalar>& example, const ValidPositions& valid) {
  const Axis channels = example.channels();
  const Index stride = example.run().stride;
  for_each_stretch(example, valid.flags, [&](bool is_valid, Index offset, Index, Index count) {
    if (is_valid) return;
    Scalar* to = example.data() + offset;
    for_each_of_stretch(channels, count, [=](Index i, Index c) { to[i * stride + c * channels.stride] = Scalar(0); });
  });
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
