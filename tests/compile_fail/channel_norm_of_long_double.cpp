// expect: evenkeel: norms of channels .BatchNorm, GroupNorm, InstanceNorm. take tensors of float, double, bfloat16 or
#include "evenkeel/ops/batch_norm.hpp"

using Matrix = Eigen::Matrix<long double, Eigen::Dynamic, Eigen::Dynamic>;

void f(const Matrix& x, Matrix& y) { evenkeel::batch_norm_into(x, y, evenkeel::RunningStatistics<long double>{}); }
