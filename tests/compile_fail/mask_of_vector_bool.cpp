// expect: evenkeel: a std::vector<bool> has no elements in memory
#include "evenkeel/ops/rms_norm.hpp"

void f(const Eigen::MatrixXf& x, Eigen::MatrixXf& y, const std::vector<bool>& mask) {
  evenkeel::rms_norm_into(x, y, {.mask = mask});
}
