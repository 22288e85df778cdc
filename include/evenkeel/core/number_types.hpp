#pragma once

#include "evenkeel/kernels/storage.hpp"

#if __has_include(<Eigen/Core>)
#include <Eigen/Core>

/// Eigen's numbers of 16 bits, made known to the kernels.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

template <>
struct StorageTraits<Eigen::bfloat16> {
  static constexpr StorageFormat format = StorageFormat::bfloat16;
};
template <>
struct StorageTraits<Eigen::half> {
  static constexpr StorageFormat format = StorageFormat::half;
};

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
#endif
