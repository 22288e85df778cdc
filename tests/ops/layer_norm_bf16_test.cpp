// LayerNorm of the library's own bf16, for callers with pointers.
#include "ops/norm_16_bit.hpp"

namespace evenkeel_test {

INSTANTIATE_TYPED_TEST_SUITE_P(bf16, Norm16, Configs16<LayerNormOp<kernels::bf16>>, Name16);

}  // namespace evenkeel_test
