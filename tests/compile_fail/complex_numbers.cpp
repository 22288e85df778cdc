// expect: evenkeel: operations take tensors of .*not of integers or complex numbers
#include "evenkeel/ops/rms_norm.hpp"

void f(const Eigen::MatrixXcf& x, Eigen::MatrixXcf& y) { evenkeel::rms_norm_into(x, y); }
