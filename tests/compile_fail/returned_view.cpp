// expect: evenkeel: a TensorView has no owning type to be returned as. call the form that writes into a y
#include "evenkeel/ops/layer_norm.hpp"

void f(evenkeel::TensorView<const float> x) { evenkeel::layer_norm(x); }
