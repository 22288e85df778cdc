// expect: evenkeel: operations take tensors of .*not of integers
#include "evenkeel/ops/residual_add.hpp"

void f(const Eigen::MatrixXi& x, Eigen::MatrixXi& s) { evenkeel::residual_add_into(x, x, s); }
