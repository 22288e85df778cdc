// Results on any executor are those of the caller's thread alone, to the last bit: what the tests of threads share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <unsupported/Eigen/CXX11/ThreadPool>

#include "evenkeel/core/context.hpp"
#include "evenkeel/core/tensor_view.hpp"
#include "support/random.hpp"

namespace evenkeel_test {

using evenkeel::Context;
using evenkeel::Executor;
using evenkeel::Index;
using evenkeel::Shape;
using evenkeel::StorageOrder;
using evenkeel::TensorView;

/// Runs blocks one by one, the last first: what depends on their order has other bits. Counts what it is asked for.
struct Backwards {
  int steps = 0;
  Index most_blocks = 0;

  void operator()(Index blocks, const Executor::Work& work) {
    ++steps;
    most_blocks = std::max(most_blocks, blocks);
    for (Index i = blocks; i-- > 0;) work(i, i + 1);
  }
};

/// Pools of 1, 2, 3, 7 and 16 threads.
inline std::span<const std::unique_ptr<Eigen::ThreadPool>> pools() {
  static const auto all = [] {
    std::vector<std::unique_ptr<Eigen::ThreadPool>> made;
    for (const int threads : {1, 2, 3, 7, 16}) made.push_back(std::make_unique<Eigen::ThreadPool>(threads));
    return made;
  }();
  return all;
}

/// What a computation has written: some vectors of numbers, as memory.
class Bits {
 public:
  template <class... Vectors>
  explicit Bits(const Vectors&... vectors) {
    (add(vectors.data(), static_cast<std::size_t>(vectors.size())), ...);
  }
  template <class T>
  void add(const T* numbers, std::size_t count) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(numbers);
    bytes_.insert(bytes_.end(), bytes, bytes + count * sizeof(T));
  }
  bool operator==(const Bits& other) const { return bytes_ == other.bytes_; }

 private:
  std::vector<unsigned char> bytes_;
};

/// compute(context) gives the same Bits on every executor.
template <class Compute>
void expect_same_bits_on_all_executors(const Compute& compute) {
  const Bits expected = compute(Context{});
  Backwards backwards;
  EXPECT_TRUE(compute(Context{.executor = backwards}) == expected) << "backwards";
  EXPECT_LE(backwards.most_blocks, 64);
  for (const auto& pool : pools()) {
    EXPECT_TRUE(compute(Context{.executor = *pool}) == expected) << pool->NumThreads() << " threads";
  }
}

/// How many steps of compute(context) were cut into blocks.
template <class Compute>
int steps_of(const Compute& compute) {
  Backwards backwards;
  compute(Context{.executor = backwards});
  return backwards.steps;
}

/// The same, and the executor is used.
template <class Compute>
void expect_parallel(const Compute& compute) {
  EXPECT_GT(steps_of(compute), 0) << "all of it ran on the caller's thread";
  expect_same_bits_on_all_executors(compute);
}
/// The same, and all of it is left to the caller's thread.
template <class Compute>
void expect_serial(const Compute& compute) {
  EXPECT_EQ(steps_of(compute), 0);
  expect_same_bits_on_all_executors(compute);
}

/// A tensor with memory of its own, which begins `offset` elements behind an aligned address; gaps are of `gap`
/// elements between one row (or column) and the next. Random, or zeros without a seed.
template <class T>
class OwnTensor {
 public:
  OwnTensor(const Shape& shape, StorageOrder order, Index gap, std::size_t offset, std::uint64_t seed = 0) {
    std::array<Index, evenkeel::max_rank> strides{};
    Index step = 1;
    for (int k = 0; k < shape.rank(); ++k) {
      const int axis = order == StorageOrder::row_major ? shape.rank() - 1 - k : k;
      strides[static_cast<std::size_t>(axis)] = step;
      step = step * shape[axis] + (k == 0 ? gap : 0);
    }
    memory_.resize(offset + static_cast<std::size_t>(step));
    for (std::size_t i = 0; seed != 0 && i < memory_.size(); ++i) memory_[i] = static_cast<T>(random_number(seed, i));
    view_ = {memory_.data() + offset, shape, strides, order};
  }
  OwnTensor(const OwnTensor& other) : memory_(other.memory_) {
    const TensorView<T>& view = other.view_;
    view_ = {memory_.data() + (view.data() - other.memory_.data()), view.shape(), view.strides(), view.order()};
  }
  OwnTensor& operator=(const OwnTensor&) = delete;

  const TensorView<T>& view() const { return view_; }
  const std::vector<T>& memory() const { return memory_; }

 private:
  /// Quick, and random enough: the sum of two uniform numbers of a multiplicative hash.
  static double random_number(std::uint64_t seed, std::size_t i) {
    const std::uint64_t z = Random(seed * 0x100000000 + i).next();
    return std::ldexp(static_cast<double>(z >> 32) + static_cast<double>(z & 0xffffffff), -31) - 1.0;
  }

  std::vector<T> memory_;
  TensorView<T> view_;
};

}  // namespace evenkeel_test
