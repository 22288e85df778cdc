// expect: evenkeel: every tensor of a call has the same scalar type
#include "evenkeel/ops/layer_norm.hpp"

void f(const Eigen::MatrixXf& x, Eigen::MatrixXd& y) { evenkeel::layer_norm_into(x, y); }
