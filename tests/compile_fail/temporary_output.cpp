// expect: evenkeel: an output is a temporary with memory of its own
#include "evenkeel/ops/layer_norm.hpp"

void f(const Eigen::MatrixXf& x) { evenkeel::layer_norm_into(x, Eigen::MatrixXf(x.rows(), x.cols())); }
