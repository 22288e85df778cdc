// What a training step (forward and backward) of GPT-2 small spends in its norms and residual sums, one after the other
// and in one pass each: evenkeel_training_step [TOKENS]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../quantile.hpp"
#include "evenkeel/evenkeel.hpp"

namespace {

using evenkeel::add_to;
using evenkeel::Index;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index d_model = 768;
constexpr int layers = 12, rounds = 9;

template <class Call>
double milliseconds(const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double step_milliseconds(Index tokens) {
  auto model = evenkeel::gpt2<float>();
  for (int layer = 0; layer < layers; ++layer) {
    for (auto* block : {&model.attention(layer), &model.feed_forward(layer)}) {
      for_each_parameter(*block, [&](const std::string& path, evenkeel::Parameter<float>& parameter) {
        if (parameter.shape().rank() == 2) evenkeel::init_normal(parameter, evenkeel::random_key(1, path), 0.02);
      });
    }
  }
  const Matrix x = Matrix::Random(tokens, d_model), dy = Matrix::Random(tokens, d_model);
  Matrix y(tokens, d_model), dx(tokens, d_model);
  decltype(model)::Saved saved;
  const auto step = [&] {
    model.forward_into(x, y, saved);
    model.backward_into(dy, saved, dx);
  };
  step();
  return milliseconds(step);
}

/// A residual sum s = x + h and the norm of it, with tensors of its own, as a model keeps them.
struct SumAndNorm {
  explicit SumAndNorm(Index tokens)
      : x(Matrix::Random(tokens, d_model)),
        h(Matrix::Random(tokens, d_model)),
        dy(Matrix::Random(tokens, d_model)),
        ds(Matrix::Random(tokens, d_model)),
        s(tokens, d_model),
        y(tokens, d_model),
        dx(tokens, d_model) {}

  void one_after_the_other() {
    evenkeel::residual_add_into(x, h, s);
    evenkeel::layer_norm_into(s, y, saved, options.norm);
    evenkeel::layer_norm_backward(dy, s, saved, options.norm, {.dx = dx, .dgamma = dgamma, .dbeta = dbeta});
    evenkeel::residual_add_into(ds, dx, dx);
  }
  void in_one_pass() {
    evenkeel::add_layer_norm_into(x, h, s, y, saved, options);
    evenkeel::add_layer_norm_backward<float>({.dy = dy, .s = s, .ds = ds}, saved, options,
                                             {.dx = dx, .dgamma = dgamma, .dbeta = dbeta});
  }

  Matrix x, h, dy, ds, s, y, dx;
  std::vector<float> gamma = std::vector<float>(d_model, 1), beta = std::vector<float>(d_model), dgamma = beta,
                     dbeta = beta;
  evenkeel::AddLayerNormOptions<float> options{.norm = {.gamma = gamma, .beta = beta}};
  evenkeel::NormStatistics<float> saved;
};

}  // namespace

int main(int argc, char** argv) {
  const Index tokens = argc > 1 ? std::atol(argv[1]) : 256;
  if (tokens < 1) return std::fprintf(stderr, "usage: %s [TOKENS], at least 1 (default 256)\n", argv[0]), 2;
  std::vector<SumAndNorm> all;
  for (int i = 0; i < 2 * layers; ++i) all.emplace_back(tokens);
  std::vector<double> apart, fused, ratio;
  for (int round = 0; round <= rounds; ++round) {  // the first one is left out
    const double a = milliseconds([&] {
      for (SumAndNorm& part : all) part.one_after_the_other();
    });
    const double f = milliseconds([&] {
      for (SumAndNorm& part : all) part.in_one_pass();
    });
    if (round == 0) continue;
    apart.push_back(a), fused.push_back(f), ratio.push_back(f / a);
  }
  const double step = step_milliseconds(tokens), a = bench::quantile(apart, 0.5), f = bench::quantile(fused, 0.5);
  std::printf("GPT-2 small, %td tokens, one thread: forward and backward of %d layers\n\n", tokens, layers);
  std::printf("| | ms | share of the step |\n|---|---|---|\n");
  std::printf("| the step | %.0f | 100 %% |\n", step);
  std::printf("| its sums and norms, one after the other | %.1f | %.2f %% |\n", a, 100 * a / step);
  std::printf("| the same in one pass each, as a Stack does it | %.1f | %.2f %% |\n\n", f, 100 * f / step);
  std::printf("In one pass they take %.2f of the time (median of %d rounds).\n", bench::quantile(ratio, 0.5), rounds);
}
