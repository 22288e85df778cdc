// Counts what operator new allocates. To be included by one source file of an executable: it replaces the operators.
// Others take allocations.hpp.
#pragma once

#include <cstdlib>
#include <new>

#include "core/allocations.hpp"

namespace evenkeel_test {

inline void* counted(void* memory) {
  if (!memory) throw std::bad_alloc();
  ++allocations_so_far;
  return memory;
}

}  // namespace evenkeel_test

// Not inlined: GCC would take the pairs of malloc and free for mismatched ones. The forms that do not throw call these.
[[gnu::noinline]] void* operator new(std::size_t size) {
  return evenkeel_test::counted(std::malloc(size == 0 ? 1 : size));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  return evenkeel_test::counted(std::aligned_alloc(step, (size + step - 1) / step * step));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

// The standard library's forms for arrays call those above; the address sanitizer's own do not.
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return operator new(size, alignment); }
void operator delete[](void* memory) noexcept { operator delete(memory); }
void operator delete[](void* memory, std::size_t) noexcept { operator delete(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { operator delete(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { operator delete(memory); }
