#include "layers/layer_test.hpp"

EVENKEEL_TEST_NORMS()
