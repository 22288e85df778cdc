// expect: evenkeel: this is a lazy Eigen expression without memory of its own. pass x.eval
#include "evenkeel/ops/layer_norm.hpp"

void f(const Eigen::MatrixXf& x, Eigen::MatrixXf& y) { evenkeel::layer_norm_into(x, y + y); }
