// Compiled as C++17 with -fno-exceptions -fno-rtti, and without Eigen on the include path.
#include "all_kernels.hpp"  // written by CMake: every header of evenkeel/kernels
