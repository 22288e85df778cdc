// expect: evenkeel: this is a lazy Eigen expression without memory of its own. pass x.eval
#include "evenkeel/ops/rms_norm.hpp"

void f(const Eigen::MatrixXf& x, Eigen::MatrixXf& y) { evenkeel::rms_norm_into(2 * x, y); }
