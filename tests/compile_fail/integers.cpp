// expect: evenkeel: operations take tensors of float, double
#include "evenkeel/ops/layer_norm.hpp"

void f(const Eigen::MatrixXi& x) { evenkeel::layer_norm(x); }
