// expect: evenkeel: this is a lazy Eigen expression without memory of its own. pass x.eval
#include "evenkeel/ops/layer_norm.hpp"

Eigen::MatrixXf f(const Eigen::MatrixXf& x) { return evenkeel::layer_norm(x + x); }
