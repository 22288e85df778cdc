# What tests, examples and benchmarks are compiled with (GCC, Clang). None of it reaches a user of evenkeel::evenkeel.

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()
set(EVENKEEL_DEV_ARCH_FLAGS "-march=native" CACHE STRING "Instruction set of tests, examples and benchmarks")

# Clang counts sign conversions as -Wconversion, GCC does not.
add_library(evenkeel_warnings INTERFACE)
target_compile_options(evenkeel_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  # GCC 12 takes what AVX-512 intrinsics leave undefined on purpose for a mistake, and joining strings for overlap.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-uninitialized -Wno-restrict>)

add_library(evenkeel_dev INTERFACE)
target_compile_options(evenkeel_dev INTERFACE ${EVENKEEL_DEV_ARCH_FLAGS})
target_link_libraries(evenkeel_dev INTERFACE evenkeel::evenkeel evenkeel_warnings)
