#pragma once

#include <memory>

#include "evenkeel/kernels/lane_norm_backward.hpp"
#include "evenkeel/kernels/lane_norm_forward.hpp"

/// Groups whose elements lie side by side with those of other groups: what forward and backward share.
///
/// Each element of a row is a lane. Lanes are measured (or summed) down their length by the kernels of lanes; the
/// results of a group's lanes are merged; and a second pass writes, with coefficients for each lane.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// How lanes belong to groups: they are [groups, group_channels, examples]. Channels-last images have one example in a
/// row; in column-major [examples, channels, pixels] all examples are.
struct LaneGroups {
  Index groups = 0, group_channels = 0, examples = 1;
  Index length = 0;
  Index channels() const noexcept { return groups * group_channels; }
  Index lanes() const noexcept { return channels() * examples; }
  Index lane(Index channel, Index example) const noexcept { return channel * examples + example; }
};

/// Arrays [lanes], one after another in a workspace.
template <class T>
class LaneArrays {
 public:
  static constexpr std::size_t alignment = 64;
  static std::size_t bytes(Index arrays, Index lanes) noexcept {
    return static_cast<std::size_t>(arrays) * (static_cast<std::size_t>(lanes) * sizeof(T) + alignment);
  }
  LaneArrays(void* workspace, Index lanes) noexcept : next_(static_cast<char*>(workspace)), lanes_(lanes) {}
  T* take() noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(next_);
    T* array = reinterpret_cast<T*>(next_ + (alignment - address % alignment) % alignment);
    next_ = reinterpret_cast<char*>(array + lanes_);
    return array;
  }
  void* rest() const noexcept { return next_; }

 private:
  char* next_;
  Index lanes_;
};

/// x_hat = (x * scale - shift) * gain + offset of each lane: that of LayerNorm in a scaled row, which is exact for
/// ordinary ones too. What is past the end of a vector deviates by nothing, as its coefficients are 0.
template <class T>
struct LaneNormalization {
  T *scale, *shift, *gain, *offset;

  explicit LaneNormalization(LaneArrays<T>& arrays) noexcept
      : scale(arrays.take()), shift(arrays.take()), gain(arrays.take()), offset(arrays.take()) {}
  void set(Index lane, const RowStatistics<T>& row) const noexcept {
    const T power = row_scale(row.rstd);
    scale[lane] = power;
    shift[lane] = row.mean * power;
    gain[lane] = row.rstd / power;
    offset[lane] = -row.mean_rest * row.rstd;
  }
};

/// body(start, end, j, lanes) for rows [start, end) of the vector of lanes at j: several rows, for which coefficients
/// are loaded once. From the last row, which is still in a cache, to the first.
template <class Arch, class T, class Body>
inline void for_each_lane_vector(Index length, Index lanes, const Body& body) noexcept {
  for (Index end = length; end > 0; end -= std::min(end, step_rows)) {
    const Index start = std::max<Index>(0, end - step_rows);
    for_each_vector<Arch, T, 1>(lanes,
                                [&](auto, Index j, auto lanes_of_vector) { body(start, end, j, lanes_of_vector); });
  }
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
