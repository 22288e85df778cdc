// expect: evenkeel: an output is const, and cannot be written to
#include "evenkeel/ops/layer_norm.hpp"

void f(const Eigen::MatrixXf& x, const Eigen::MatrixXf& y) { evenkeel::layer_norm_into(x, y); }
