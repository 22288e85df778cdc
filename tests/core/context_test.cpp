#include "evenkeel/core/context.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/allocation_count.hpp"
#include "core/error_text.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Context;
using evenkeel::Scratch;

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % Scratch::alignment == 0; }

TEST(Scratch, TakesAlignedMemoryFromAWorkspaceOfAnyAlignment) {
  std::vector<std::byte> memory(4096);
  const std::size_t bytes = Scratch::bytes<double>(10) + Scratch::bytes<float>(3);
  for (std::size_t offset = 0; offset < 2 * Scratch::alignment; ++offset) {
    // Exactly what is asked for, so that the address sanitizer sees a byte too many.
    Scratch scratch("op", {.workspace = std::span(memory).subspan(offset, bytes)}, bytes);
    const auto* tens = scratch.take<double>(10);
    const auto* threes = scratch.take<float>(3);
    EXPECT_TRUE(is_aligned(tens) && is_aligned(threes)) << "offset " << offset;
    const std::byte* begin = memory.data() + offset;
    EXPECT_GE(reinterpret_cast<const std::byte*>(tens), begin);
    EXPECT_GE(reinterpret_cast<const std::byte*>(threes), reinterpret_cast<const std::byte*>(tens + 10));
    EXPECT_LE(reinterpret_cast<const std::byte*>(threes + 3), begin + bytes);
  }
}

TEST(Scratch, AllocatesNothingWithAWorkspace) {
  std::vector<std::byte> memory(Scratch::bytes<float>(100));
  const AllocationCount count;
  Scratch scratch("op", {.workspace = memory}, memory.size());
  scratch.take<float>(100);
  EXPECT_EQ(count.allocations(), 0);
}

TEST(Scratch, AllocatesOnceWithoutAWorkspace) {
  const AllocationCount count;
  Scratch scratch("op", {}, Scratch::bytes<float>(100) + Scratch::bytes<double>(7));
  float* floats = scratch.take<float>(100);
  double* doubles = scratch.take<double>(7);
  EXPECT_EQ(count.allocations(), 1);
  EXPECT_TRUE(is_aligned(floats) && is_aligned(doubles));
  std::fill_n(floats, 100, 1.0f);
  std::fill_n(doubles, 7, 2.0);
  EXPECT_EQ(std::count(floats, floats + 100, 1.0f), 100);
}

TEST(Scratch, OfNothingTakesNothing) {
  const AllocationCount count;
  EXPECT_EQ(Scratch::bytes<float>(0), 0u);
  EXPECT_EQ(Scratch::bytes_of(0), 0u);
  Scratch scratch("op", {}, 0);
  EXPECT_EQ(scratch.take<float>(0), nullptr);
  std::byte one[1];
  EXPECT_NO_THROW(Scratch("op", {.workspace = one}, 0));
  EXPECT_EQ(count.allocations(), 0);
}

TEST(Scratch, SaysHowLargeTheWorkspaceHasToBe) {
  std::vector<std::byte> memory(99);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { Scratch("op", {.workspace = memory}, 100); }),
            "evenkeel::op: workspace has 99 bytes, expected at least 100");
}

TEST(Scratch, RefusesNumbersThatOwnMemory) {
  using Number = std::vector<int>;  // as one of any precision may be
  EXPECT_EQ(error_text<std::invalid_argument>([] { Scratch("op", {}, Scratch::bytes<Number>(1)).take<Number>(1); }),
            "evenkeel::Scratch: numbers that own memory cannot be copied to a workspace, expected contiguous features "
            "and parameters in their order");
}

TEST(Scratch, GivesTheRestToInnerCalls) {
  std::vector<std::byte> memory(1000);
  const Context context{.workspace = memory};
  Scratch scratch("op", context, Scratch::bytes<float>(10));
  const float* taken = scratch.take<float>(10);
  const Context rest = scratch.rest(context);
  EXPECT_EQ(static_cast<const void*>(rest.workspace.data()), taken + 10);
  EXPECT_EQ(rest.workspace.data() + rest.workspace.size(), memory.data() + memory.size());
}

TEST(Scratch, ThatIsOwnedIsGivenOnToo) {
  Scratch scratch("op", {}, Scratch::bytes<float>(10) + 200);
  scratch.take<float>(10);
  const Context rest = scratch.rest({});
  ASSERT_GE(rest.workspace.size(), 200u);
  std::memset(rest.workspace.data(), 0, rest.workspace.size());
}

}  // namespace
}  // namespace evenkeel_test
