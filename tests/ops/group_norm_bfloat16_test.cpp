// GroupNorm and InstanceNorm of Eigen::bfloat16.
#include "ops/group_norm_16_bit.hpp"

namespace evenkeel_test {

INSTANTIATE_TYPED_TEST_SUITE_P(bfloat16, GroupNorm16, ChannelNorm16Configs<Eigen::bfloat16>, ChannelNorm16Name);

}  // namespace evenkeel_test
