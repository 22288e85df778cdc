// Random matrices, for tests that do not mind what their tensors are.
#pragma once

#include <Eigen/Core>

#include <cstddef>
#include <cstdint>

#include "support/random.hpp"

namespace evenkeel_test {

template <class T>
using NormalMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Elements N(mean, 1), in row-major order those of normal_vector.
template <class T>
NormalMatrix<T> normal_matrix(Eigen::Index rows, Eigen::Index columns, std::uint64_t seed, double mean = 0) {
  const auto values = normal_vector<T>(static_cast<std::size_t>(rows * columns), seed, mean);
  return Eigen::Map<const NormalMatrix<T>>(values.data(), rows, columns);
}

}  // namespace evenkeel_test
