// expect: evenkeel: cannot write to const parameters
#include <vector>

#include "evenkeel/ops/layer_norm.hpp"

void f(const Eigen::MatrixXf& x, const std::vector<float>& dgamma, const evenkeel::NormStatistics<float>& saved) {
  evenkeel::layer_norm_backward(x, x, saved, {}, {.dgamma = evenkeel::add_to(dgamma)});
}
