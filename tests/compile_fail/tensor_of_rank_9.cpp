// expect: evenkeel: a Tensor has 1 to 8 axes here
#include "evenkeel/core/eigen_tensor.hpp"
#include "evenkeel/ops/layer_norm.hpp"

void f(const Eigen::Tensor<float, 9>& x, Eigen::Tensor<float, 9>& y) { evenkeel::layer_norm_into(x, y); }
