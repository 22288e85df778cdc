#include "residual/reference_tests.hpp"

namespace evenkeel_test {

TEST(ResidualReference, ForwardAndEveryGradientMatchPyTorchInFloat) { expect_pytorchs_results<float>(); }

}  // namespace evenkeel_test
