// RMSNorm of the library's own f16, for callers with pointers.
#include "ops/norm_16_bit.hpp"

namespace evenkeel_test {

INSTANTIATE_TYPED_TEST_SUITE_P(f16, Norm16, Configs16<RMSNormOp<kernels::f16>>, Name16);

}  // namespace evenkeel_test
