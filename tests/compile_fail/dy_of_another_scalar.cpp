// expect: evenkeel: every tensor of a call has the same scalar type
#include "evenkeel/ops/layer_norm.hpp"

using evenkeel::NormStatistics;

void f(const Eigen::MatrixXd& dy, const Eigen::MatrixXf& x, Eigen::MatrixXf& dx, const NormStatistics<float>& saved) {
  evenkeel::layer_norm_backward(dy, x, saved, {}, {.dx = dx});
}
