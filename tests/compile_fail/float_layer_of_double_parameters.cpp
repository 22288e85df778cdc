// expect: evenkeel: parameters have the scalar type of x, or are float where x has 16 bits
#include "evenkeel/layers/layer_norm.hpp"

const evenkeel::LayerNorm<float, double> norm(4);
