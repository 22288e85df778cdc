// expect: evenkeel: this is not a tensor. pass a dense Eigen type, a TensorView, or, with evenkeel/core/eigen_tensor.hpp included
#include <vector>

#include "evenkeel/ops/layer_norm.hpp"

void f(const std::vector<float>& x, std::vector<float>& y) { evenkeel::layer_norm_into(x, y); }
