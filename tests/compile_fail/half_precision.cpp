// expect: evenkeel: norms take tensors of float or double
#include "evenkeel/ops/rms_norm.hpp"

using Matrix = Eigen::Matrix<Eigen::half, Eigen::Dynamic, Eigen::Dynamic>;

void f(const Matrix& x, Matrix& y) { evenkeel::rms_norm_into(x, y); }
