#include "ops/add_norm_test.hpp"

EVENKEEL_TEST_ADD_NORMS()
