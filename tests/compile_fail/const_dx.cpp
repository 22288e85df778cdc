// expect: evenkeel: an output is const, and cannot be written to
#include "evenkeel/ops/layer_norm.hpp"

void f(const Eigen::MatrixXf& x, const Eigen::MatrixXf& dx, const evenkeel::NormStatistics<float>& saved) {
  evenkeel::layer_norm_backward(x, x, saved, {}, {.dx = dx});
}
