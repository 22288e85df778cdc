// The second file that includes everything: a definition that is not inline would stop the link.
#include "other.hpp"

#include <evenkeel/evenkeel.hpp>

Matrix normalized_elsewhere(const Matrix& x) { return evenkeel::layer_norm(x); }
