#include <cstdio>
#include <evenkeel/evenkeel.hpp>
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
void print_rows(const char* name, const Matrix& x) {
  const Eigen::ArrayXf mean = x.rowwise().mean(), std = (x.array().colwise() - mean).square().rowwise().mean().sqrt();
  std::printf("%-14s mean %6.2f %6.2f   std %6.2f %6.2f\n", name, mean[0], mean[1], std[0], std[1]);
}

int main() {
  const Matrix x{{1, 2, 3, 4}, {100, 300, 200, 500}}, dy = Matrix::Ones(2, 4);  // 2 rows (tokens) of 4 features
  const Eigen::Vector4f gamma(2, 2, 2, 2), beta(1, 1, 1, 1);
  print_rows("x", x);
  print_rows("layer_norm(x)", evenkeel::layer_norm(x, {.gamma = gamma, .beta = beta, .eps = 1e-5}));
  evenkeel::Linear<float> f(4, 4);  // any sublayer: FeedForward, your own class, a pair of lambdas
  f.weight().load(Matrix(Matrix::Identity(4, 4) / 2).data(), 16);
  evenkeel::PreNorm block(evenkeel::LayerNorm<float>(4), f);  // x + f(norm(x))
  decltype(block)::Saved saved;                               // what a backward needs; without it: inference
  print_rows("block(x)", block.forward(x, saved));
  print_rows("dx", block.backward(dy, saved));  // the skip path hands dy on; gradients of parameters add up
}
