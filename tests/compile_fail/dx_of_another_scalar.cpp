// expect: evenkeel: every tensor of a call has the same scalar type
#include "evenkeel/ops/rms_norm.hpp"

using evenkeel::NormStatistics;

void f(const Eigen::MatrixXf& x, Eigen::MatrixXd& dx, const NormStatistics<float>& saved) {
  evenkeel::rms_norm_backward(x, x, saved, {}, {.dx = dx});
}
