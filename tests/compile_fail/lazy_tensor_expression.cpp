// expect: evenkeel: this is a lazy Eigen expression without memory of its own. pass x.eval
#include "evenkeel/core/eigen_tensor.hpp"
#include "evenkeel/ops/layer_norm.hpp"

using Tensor = Eigen::Tensor<float, 2, Eigen::RowMajor>;

Tensor f(const Tensor& x) { return evenkeel::layer_norm(x + x); }
