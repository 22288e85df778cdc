#include "support/compiled_norms.hpp"

EVENKEEL_TEST_NORMS()
EVENKEEL_TEST_GROUP_NORM(, float)
EVENKEEL_TEST_GROUP_NORM(, double)
