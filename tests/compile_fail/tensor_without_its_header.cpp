// expect: evenkeel: this is not a tensor. pass a dense Eigen type, a TensorView, or, with evenkeel/core/eigen_tensor.hpp included
#include "evenkeel/ops/layer_norm.hpp"

#include <unsupported/Eigen/CXX11/Tensor>

using Tensor = Eigen::Tensor<float, 2, Eigen::RowMajor>;

void f(const Tensor& x) { evenkeel::layer_norm(x); }
