// expect: evenkeel: this is not a tensor. pass a dense Eigen type, a TensorView, or, with evenkeel/core/eigen_tensor.hpp included
#include "evenkeel/ops/rms_norm.hpp"

void f(const float* x) { evenkeel::rms_norm(x); }
