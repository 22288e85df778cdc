// RMSNorm of Eigen::half.
#include "ops/norm_16_bit.hpp"

EVENKEEL_TEST_NORM(, RMSNormRow, Eigen::half)

namespace evenkeel_test {

INSTANTIATE_TYPED_TEST_SUITE_P(half, Norm16, Configs16<RMSNormOp<Eigen::half>>, Name16);

}  // namespace evenkeel_test
