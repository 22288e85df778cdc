// expect: evenkeel: an optimizer is of the scalar type of the parameters
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/training/sgd.hpp"

void f(evenkeel::SGD<double>& optimizer, evenkeel::LayerNorm<float>& norm) { optimizer.step(norm); }
