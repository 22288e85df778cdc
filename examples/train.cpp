// Trains a deep stack of feed-forward sublayers as Pre-Norm and as Post-Norm, from the same weights, with and without a
// warm-up of the learning rate, and shows what has become of its blocks.
//
// The task: random vectors, and as targets what a random network of one hidden layer makes of them. A loss of 1 is that
// of an output of zeros.
//
// What to look for: Post-Norm without a warm-up gets stuck, at a learning rate with which the other three learn (Xiong
// et al. 2020, arXiv:2002.04745). Its blocks show it: hardly any gradient reaches the first of them.
#include <evenkeel/evenkeel.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "random.hpp"

using LayerNorm = evenkeel::LayerNorm<float>;
using FeedForward = evenkeel::FeedForward<float>;
using Linear = evenkeel::Linear<float>;
using Stack = evenkeel::Stack<LayerNorm, FeedForward>;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr int depth = 24, width = 32, tokens = 64, warmup_steps = 60;
constexpr double learning_rate = 6e-3;

Matrix random_matrix(Eigen::Index rows, Eigen::Index cols, Random& random, double std = 1) {
  Matrix m(rows, cols);
  random.fill_normal(std::span(m.data(), static_cast<std::size_t>(m.size())), std);
  return m;
}

struct Task {
  Matrix x, target;
};

Task make_task() {
  Random random(2);
  const Matrix x = random_matrix(tokens, width, random);
  const Matrix hidden = (x * random_matrix(width, 2 * width, random, 1 / std::sqrt(width))).cwiseMax(0);
  return {x, hidden * random_matrix(2 * width, width, random, 1 / std::sqrt(width))};
}

/// y = head(stack(x)). A model of one's own: all that visits parameters takes it.
struct Model {
  Stack stack;
  Linear head{width, width};

  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& prefix) {
    evenkeel::for_each_parameter(self.stack, visit, prefix + "stack.");
    evenkeel::for_each_parameter(self.head, visit, prefix + "head.");
  }
};

/// Xavier normal.
void initialize(Linear& linear, Random& random) {
  const auto fans = static_cast<double>(linear.in_features() + linear.out_features());
  random.fill_normal(linear.weight().mutable_values(), std::sqrt(2 / fans));
}

template <template <class, class> class Placement>
Model make_model() {
  Random random(1);
  std::vector<Stack::Block> blocks;
  for (int i = 0; i < depth; ++i) {
    FeedForward f(width, 4 * width);
    initialize(f.up(), random);
    initialize(f.down(), random);
    blocks.push_back(Placement<LayerNorm, FeedForward>(LayerNorm(width), f));
  }
  Model model{Stack(std::move(blocks))};
  initialize(model.head, random);
  return model;
}

/// What training keeps from step to step.
struct Run {
  Model model;
  Stack::Saved saved;
  Linear::Saved head_saved;
  evenkeel::Health health;
};

/// Forward and backward; the loss.
double compute_gradients(Run& run, const Task& task) {
  Matrix h(tokens, width);
  run.model.stack.forward_into(task.x, h, run.saved, {}, run.health);
  const Matrix difference = run.model.head.forward(h, run.head_saved) - task.target;
  const Matrix dy = 2 / task.target.squaredNorm() * difference;
  evenkeel::zero_gradients(run.model);
  run.model.stack.backward_into(run.model.head.backward(dy, run.head_saved), run.saved, {}, {}, run.health);
  return static_cast<double>(difference.squaredNorm() / task.target.squaredNorm());
}

Run train(const char* name, Model model, int steps, const evenkeel::LinearWarmup& warmup) {
  const Task task = make_task();
  Run run{std::move(model), {}, {}, {}};
  evenkeel::AdamW<float> optimizer({.learning_rate = learning_rate});
  std::printf("%-22s", name);
  for (int step = 1; step <= steps; ++step) {
    const double loss = compute_gradients(run, task);
    evenkeel::clip_gradient_norm(run.model, 1);
    optimizer.step(run.model, warmup.factor(step));
    if (step == 1 || step % 20 == 0) std::printf("%8.3f", loss);
  }
  std::printf("\n");
  return run;
}

void print_health(const char* name, const evenkeel::Health& health) {
  std::printf("\n%-22s block  stream RMS  branch RMS  norm of gradient: at input  of parameters\n", name);
  for (std::size_t i = 0; i < health.blocks().size(); ++i) {
    if (i > 0 && (i + 1) % 8 != 0) continue;
    const evenkeel::BlockHealth& block = health.blocks()[i];
    std::printf("%28zu%12.2f%12.2f%28.1g%15.1g\n", i + 1, block.stream_rms, block.branch_rms, block.input_gradient_norm,
                block.parameter_gradient_norm);
  }
}

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 120;
  const evenkeel::LinearWarmup none(0), warmup(warmup_steps);
  std::printf("%d blocks; the loss at step 1, 20, 40, ...\n\n", depth);
  const Run pre = train("Pre-Norm", make_model<evenkeel::PreNorm>(), steps, none);
  const Run pre_warm = train("Pre-Norm, warm-up", make_model<evenkeel::PreNorm>(), steps, warmup);
  const Run post = train("Post-Norm", make_model<evenkeel::PostNorm>(), steps, none);
  const Run post_warm = train("Post-Norm, warm-up", make_model<evenkeel::PostNorm>(), steps, warmup);
  print_health("Pre-Norm", pre.health);
  print_health("Pre-Norm, warm-up", pre_warm.health);
  print_health("Post-Norm", post.health);
  print_health("Post-Norm, warm-up", post_warm.health);
}
