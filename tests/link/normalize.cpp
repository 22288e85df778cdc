// Compiled once for each instruction set, each time as a function of another name. Only pointers go in and out: an
// Eigen object that owns memory must not pass between files whose flags differ, because its alignment does.
#include <evenkeel/evenkeel.hpp>

void EVENKEEL_TEST_NORMALIZE(const float* x, float* y, int rows, int features);

void EVENKEEL_TEST_NORMALIZE(const float* x, float* y, int rows, int features) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Matrix input = Eigen::Map<const Matrix>(x, rows, features);
  const Matrix output = evenkeel::layer_norm(input);
  for (int i = 0; i < rows * features; ++i) y[i] = output.data()[i];
}
