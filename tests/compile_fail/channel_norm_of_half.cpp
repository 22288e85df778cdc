// expect: evenkeel: norms of channels .BatchNorm, GroupNorm, InstanceNorm. take tensors of float or double
#include "evenkeel/ops/batch_norm.hpp"

using Matrix = Eigen::Matrix<Eigen::half, Eigen::Dynamic, Eigen::Dynamic>;

void f(const Matrix& x, Matrix& y) { evenkeel::batch_norm_into(x, y, evenkeel::RunningStatistics<Eigen::half>{}); }
