// Compiled with -fno-exceptions: a wrong call prints its message and aborts.
#include <evenkeel/evenkeel.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>

int main() {
  std::signal(SIGABRT, [](int) {
    std::fputs("aborted\n", stderr);
    std::_Exit(0);
  });
  const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> x =
      Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>::Ones(2, 4);
  const Eigen::VectorXf gamma = Eigen::VectorXf::Ones(3);
  evenkeel::layer_norm(x, {.gamma = gamma});
}
