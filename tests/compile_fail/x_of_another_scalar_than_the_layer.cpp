// expect: evenkeel: every tensor of a call has the same scalar type
#include "evenkeel/layers/layer_norm.hpp"

void f(const evenkeel::LayerNorm<float>& norm, const Eigen::MatrixXd& x) { norm.forward(x); }
