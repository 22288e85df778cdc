#include "residual/reference_tests.hpp"

namespace evenkeel_test {

TEST(ResidualReference, ForwardAndEveryGradientMatchPyTorchInDouble) { expect_pytorchs_results<double>(); }

}  // namespace evenkeel_test
