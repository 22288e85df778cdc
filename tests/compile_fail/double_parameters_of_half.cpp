// expect: evenkeel: parameters have the scalar type of x, or are float where x has 16 bits
#include "evenkeel/ops/layer_norm.hpp"

using Matrix = Eigen::Matrix<Eigen::half, Eigen::Dynamic, Eigen::Dynamic>;

void f(const Matrix& x, const Eigen::VectorXd& gamma) { evenkeel::layer_norm(x, {.gamma = gamma}); }
