// expect: evenkeel: a mask has elements of bool, std::uint8_t, float, or another arithmetic type
#include "evenkeel/ops/rms_norm.hpp"

void f(const Eigen::MatrixXf& x, Eigen::MatrixXf& y, const Eigen::VectorXcf& mask) {
  evenkeel::rms_norm_into(x, y, {.mask = mask});
}
