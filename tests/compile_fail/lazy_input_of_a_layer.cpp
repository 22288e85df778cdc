// expect: evenkeel: this is a lazy Eigen expression without memory of its own. pass x.eval
#include "evenkeel/layers/layer_norm.hpp"

Eigen::MatrixXf f(const evenkeel::LayerNorm<float>& norm, const Eigen::MatrixXf& x) { return norm.forward(x + x); }
