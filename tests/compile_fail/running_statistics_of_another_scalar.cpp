// expect: evenkeel: running statistics have the scalar type of x
#include <vector>

#include "evenkeel/ops/batch_norm.hpp"

void f(const Eigen::MatrixXf& x, Eigen::MatrixXf& y, const std::vector<double>& mean, const std::vector<double>& var) {
  evenkeel::batch_norm_into(x, y, evenkeel::RunningStatistics<float>{mean, var});
}
