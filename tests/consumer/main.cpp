#include <evenkeel/evenkeel.hpp>

#include <cmath>
#include <cstdio>

#include "other.hpp"

int main() {
  const Matrix x{{1, 2, 3, 4}, {4, 3, 2, 1}};
  const Matrix y = evenkeel::layer_norm(x);
  std::printf("y(0, 0) = %f\n", static_cast<double>(y(0, 0)));
  const bool is_right = std::abs(y(0, 0) + 1.341635F) < 1e-6F;  // (1 - 2.5) / sqrt(1.25 + 1e-5)
  return is_right && y == normalized_elsewhere(x) ? 0 : 1;
}
