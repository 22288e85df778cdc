// A program in C++17 that uses evenkeel through shim.hpp: it includes no header of evenkeel, Eigen or xsimd.
#include "shim.hpp"

#include <cmath>
#include <cstdio>
#include <vector>

static_assert(__cplusplus < 202002L, "this file is compiled as C++17");

int main() {
  const std::vector<float> x = {1, 2, 4, 9}, gamma = {0.5f, 1, 2, -1}, dy = {1, 0, -2, 3};
  std::vector<float> y(4), mean(1), rstd(1), dx(4), dgamma(4), dbeta(4);
  if (const char* error =
          shim_layer_norm(x.data(), y.data(), 1, 4, gamma.data(), nullptr, 1e-5, mean.data(), rstd.data())) {
    std::printf("%s\n", error);
    return 1;
  }
  shim_layer_norm_backward(dy.data(), x.data(), gamma.data(), mean.data(), rstd.data(), dx.data(), dgamma.data(),
                           dbeta.data(), 1, 4);
  std::printf("y      %9.6f %9.6f %9.6f %9.6f\n", y[0], y[1], y[2], y[3]);
  std::printf("dx     %9.6f %9.6f %9.6f %9.6f\n", dx[0], dx[1], dx[2], dx[3]);
  std::printf("dgamma %9.6f %9.6f %9.6f %9.6f\n", dgamma[0], dgamma[1], dgamma[2], dgamma[3]);
  std::printf("wrong eps: %s\n", shim_layer_norm(x.data(), y.data(), 1, 4, nullptr, nullptr, -1, nullptr, nullptr));
  const double expected[] = {0.2668119, 0.2454668, -0.7705513, 0.2582727};
  for (int i = 0; i < 4; ++i) {
    if (std::abs(dx[static_cast<unsigned>(i)] - expected[i]) > 1e-6) return 1;
  }
}
