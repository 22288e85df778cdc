#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "baselines.hpp"
#include "evenkeel/kernels/layer_norm.hpp"

/// The shapes that are measured, and their data.
namespace bench {

/// A row of the printed table.
struct Shape {
  Index rows, features;
  bool sorted = false;      ///< every row ascending: a trend, which a shift taken from the first elements misses
  Index misaligned_by = 0;  ///< elements past a cache line where every array starts

  std::string name() const {
    return std::to_string(rows) + "x" + std::to_string(features) + (sorted ? " sorted" : "") +
           (misaligned_by ? " misaligned" : "");
  }
  /// As benchmarks are named.
  std::string path() const {
    return "rows:" + std::to_string(rows) + "/features:" + std::to_string(features) + (sorted ? "/sorted" : "") +
           (misaligned_by ? "/misaligned" : "");
  }
};

inline const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {1, 768},    {32, 768},   {256, 768},   {256, 768, true}, {256, 768, false, 3}, {256, 769},  {4096, 768},
      {4096, 769}, {512, 4096}, {4096, 4096}, {65536, 64},      {65536, 128},         {16, 65536},
  };
  return all;
}

/// Numbers on a cache line, the same for the same seed.
template <class T>
class Buffer {
 public:
  explicit Buffer(Index count, std::uint64_t seed = 1)
      : data_(static_cast<T*>(::operator new[](static_cast<std::size_t>(count) * sizeof(T), alignment))) {
    std::uint64_t state = seed;
    for (Index i = 0; i < count; ++i) data_[i] = normal(state);
  }
  ~Buffer() { ::operator delete[](data_, alignment); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* at(Index offset) const { return data_ + offset; }

 private:
  static constexpr std::align_val_t alignment{64};

  /// Near enough to N(0, 1) for timing: the sum of four uniform numbers.
  static T normal(std::uint64_t& state) {
    double sum = 0;
    for (int k = 0; k < 4; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      sum += static_cast<double>(state >> 11) * 0x1p-53 - 0.5;
    }
    using evenkeel::kernels::Compute;
    constexpr double scale = 1.7320508075688772;  // sqrt(12 / 4)
    return evenkeel::kernels::from_compute<T>(static_cast<Compute<T>>(sum * scale));
  }

  T* data_;
};

/// Memory for the largest shape, allocated and filled once: all benchmarks of a type use it.
template <class T>
class Data {
 public:
  static Problem<T> problem(const Shape& shape) {
    static Data data;
    return data.view(shape);
  }
  static void* workspace(Index rows, Index features) {
    static std::vector<std::byte> bytes;
    bytes.resize(std::max(bytes.size(), evenkeel::kernels::layer_norm_backward_workspace_bytes<T>(rows, features)));
    return bytes.data();
  }

 private:
  static constexpr Index largest = 4096 * 4096 + 64, longest = 65536 + 64, most_rows = 65536;

  Problem<T> view(const Shape& s) {
    const Index o = s.misaligned_by;
    if (s.sorted) sort_rows(s);
    return {s.rows,       s.features,   s.sorted ? sorted_->at(0) : x_.at(o),
            dy_.at(o),    gamma_.at(o), beta_.at(o),
            y_.at(o),     dx_.at(o),    dgamma_.at(o),
            dbeta_.at(o), mean_.at(0),  mean_rest_.at(0),
            rstd_.at(0),  1e-5};
  }
  void sort_rows(const Shape& s) {
    sorted_ = std::make_unique<Buffer<T>>(s.rows * s.features);
    for (Index i = 0; i < s.rows; ++i) std::sort(sorted_->at(i * s.features), sorted_->at((i + 1) * s.features));
  }

  // What is read differs: with dy or gamma equal to x, results that are wrong could agree.
  Buffer<T> x_{largest, 1}, dy_{largest, 2}, y_{largest}, dx_{largest};
  Buffer<T> gamma_{longest, 3}, beta_{longest, 4}, dgamma_{longest}, dbeta_{longest};
  Buffer<T> mean_{most_rows}, mean_rest_{most_rows}, rstd_{most_rows};
  std::unique_ptr<Buffer<T>> sorted_;
};

}  // namespace bench
