// What the operators of allocation_count.hpp have counted, for every source file of the executable that has them.
#pragma once

#include <atomic>

namespace evenkeel_test {

inline std::atomic<long> allocations_so_far{0};

/// Allocations since it was made.
class AllocationCount {
 public:
  long allocations() const { return allocations_so_far - start_; }

 private:
  long start_ = allocations_so_far;
};

}  // namespace evenkeel_test
