// Your own F in x + F(N(x)): a pair of callables, and a class with parameters, trained by gradient descent.
//
// The task: find the filter that a teacher, built from the same blocks, has been given.
#include <evenkeel/evenkeel.hpp>

#include <cstdio>
#include <span>
#include <string>

#include "random.hpp"

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstMatrixRef = Eigen::Ref<const Matrix>;

/// A class: each feature mixed with its own past, y[t] = sum over k of weight[k] * x[t - k].
///
/// This is all that a sublayer needs: a Saved, forward with and without it, backward, and, to be found by
/// for_each_parameter, visit_parameters.
class CausalFilter {
 public:
  struct Saved {
    Matrix x;
  };

  CausalFilter(Eigen::Index taps, Eigen::Index features) : weight_(evenkeel::Shape{taps, features}) {}

  Matrix forward(const ConstMatrixRef& x) const {
    Matrix y = Matrix::Zero(x.rows(), x.cols());
    for (Eigen::Index k = 0; k < weight().rows(); ++k) {
      const Eigen::Index rows = x.rows() - k;
      y.bottomRows(rows) += x.topRows(rows) * weight().row(k).asDiagonal();
    }
    return y;
  }
  Matrix forward(const ConstMatrixRef& x, Saved& saved) const {
    saved.x = x;
    return forward(x);
  }

  /// The gradient at x. Adds to the gradient of the weight, as every backward does.
  Matrix backward(const ConstMatrixRef& dy, const Saved& saved) {
    Matrix dx = Matrix::Zero(dy.rows(), dy.cols());
    Eigen::Map<Matrix> dweight(weight_.gradient_to_add_to(), weight().rows(), weight().cols());
    for (Eigen::Index k = 0; k < dweight.rows(); ++k) {
      const Eigen::Index rows = dy.rows() - k;
      dx.topRows(rows) += dy.bottomRows(rows) * weight().row(k).asDiagonal();
      dweight.row(k) += dy.bottomRows(rows).cwiseProduct(saved.x.topRows(rows)).colwise().sum();
    }
    weight_.commit_gradient();
    return dx;
  }

  template <class Visit>
  void visit_parameters(Visit& visit, const std::string& prefix) {
    visit(prefix + "weight", weight_);
  }

  Eigen::Map<const Matrix> weight() const { return {weight_.data(), weight_.shape()[0], weight_.shape()[1]}; }
  void load(const Matrix& weight) { weight_.load(weight.data(), weight.size()); }

 private:
  evenkeel::Parameter<float> weight_;
};

/// A pair of callables: y = tanh(x), and dx from dy and x.
const auto squash = evenkeel::sublayer(
    [](const auto& x) { return x.array().tanh().matrix(); },
    [](const auto& dy, const auto& x) { return dy.cwiseProduct((1 - x.array().tanh().square()).matrix()); });

/// One step of gradient descent on every parameter, whatever the model is made of.
template <class Model>
void descend(Model& model, float rate) {
  evenkeel::for_each_parameter(model, [&](const std::string&, evenkeel::Parameter<float>& parameter) {
    const auto gradient = parameter.gradient();
    const auto values = parameter.mutable_values();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= rate * gradient[i];
    parameter.zero_gradient();
  });
}

template <class Model>
void print_parameters(const char* name, Model& model) {
  evenkeel::for_each_parameter(model, [&](const std::string& path, const evenkeel::Parameter<float>& parameter) {
    std::printf("  %s.%s %s\n", name, path.c_str(), evenkeel::shape_string(parameter.shape()).c_str());
  });
}

/// For each tap its weight, as the mean over features.
void print_taps(const char* name, const CausalFilter& filter) {
  std::printf("%-8s", name);
  for (const float tap : filter.weight().rowwise().mean().eval()) std::printf(" %6.2f", static_cast<double>(tap));
  std::printf("\n");
}

int main() {
  const Eigen::Index seq_len = 256, features = 16, taps = 4;
  const float rate = 2;
  Matrix x(seq_len, features);
  Random(1).fill_normal(std::span(x.data(), static_cast<std::size_t>(x.size())));

  // The filter scales features itself, so that its norm has nothing to learn.
  evenkeel::PreNorm filter(evenkeel::LayerNorm<float>(features, {.with_gamma = false, .with_beta = false}),
                           CausalFilter(taps, features));
  evenkeel::PreNorm activation(evenkeel::LayerNorm<float>(features), squash);
  std::printf("parameters\n");
  print_parameters("filter", filter);
  print_parameters("activation", activation);

  evenkeel::PreNorm teacher = filter;
  teacher.sublayer().load(Eigen::Vector4f(1, -0.5f, 0.25f, 0.75f).replicate(1, features));
  const Matrix target = activation.forward(teacher.forward(x));

  decltype(filter)::Saved filter_saved;
  decltype(activation)::Saved activation_saved;
  std::printf("\n step       loss\n");
  for (int step = 0; step <= 50; ++step) {
    const Matrix h = filter.forward(x, filter_saved);
    const Matrix error = activation.forward(h, activation_saved) - target;
    if (step % 10 == 0) std::printf("%5d %10.2e\n", step, error.cast<double>().array().square().mean());
    const Matrix dy = error * (2.0f / static_cast<float>(error.size()));
    filter.backward(activation.backward(dy, activation_saved), filter_saved);
    descend(filter, rate);
    descend(activation, rate);
  }
  std::printf("\n          taps\n");
  print_taps("teacher", teacher.sublayer());
  print_taps("learnt", filter.sublayer());
}
