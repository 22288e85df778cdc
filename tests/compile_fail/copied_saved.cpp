// expect: deleted .*Saved
#include "evenkeel/layers/layer_norm.hpp"

using Saved = evenkeel::LayerNorm<float>::Saved;

Saved f(const Saved& saved) { return saved; }
