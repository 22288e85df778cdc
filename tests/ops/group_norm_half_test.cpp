// GroupNorm and InstanceNorm of Eigen::half.
#include "ops/group_norm_16_bit.hpp"

namespace evenkeel_test {

INSTANTIATE_TYPED_TEST_SUITE_P(half, GroupNorm16, ChannelNorm16Configs<Eigen::half>, ChannelNorm16Name);

}  // namespace evenkeel_test
