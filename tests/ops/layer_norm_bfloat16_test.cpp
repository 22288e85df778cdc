// LayerNorm of Eigen::bfloat16.
#include "ops/norm_16_bit.hpp"

EVENKEEL_TEST_NORM(, LayerNormRow, Eigen::bfloat16)

namespace evenkeel_test {

INSTANTIATE_TYPED_TEST_SUITE_P(bfloat16, Norm16, Configs16<LayerNormOp<Eigen::bfloat16>>, Name16);

}  // namespace evenkeel_test
