// expect: evenkeel: parameters have the scalar type of x
#include "evenkeel/ops/layer_norm.hpp"

void f(const Eigen::MatrixXf& x, const Eigen::VectorXd& gamma) { evenkeel::layer_norm(x, {.gamma = gamma}); }
