// expect: (cannot convert|no known conversion).*Saved
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/layers/rms_norm.hpp"

void f(const evenkeel::LayerNorm<float>& norm, const Eigen::MatrixXf& x, evenkeel::RMSNorm<float>::Saved& saved) {
  norm.forward(x, saved);
}
