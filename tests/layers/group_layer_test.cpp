// What holds the kernels of norms of groups is compiled once for the tests of layers.
#include "ops/group_op_test.hpp"

EVENKEEL_TEST_GROUP_NORM(, float)
EVENKEEL_TEST_GROUP_NORM(, double)
