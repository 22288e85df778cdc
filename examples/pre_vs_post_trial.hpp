#pragma once

#include <evenkeel/evenkeel.hpp>

#include <cmath>
#include <vector>

#include "pre_vs_post_report.hpp"

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = evenkeel::TensorView<const float>;

inline Measures measure(const View& v, const Matrix& reference) {
  const Eigen::Map<const Matrix> map(v.data(), reference.rows(), reference.cols());
  const Eigen::ArrayXXd x = map.cast<double>(), r = reference.cast<double>();
  const double norm = x.matrix().norm();
  return {.norm = norm,
          .rms = std::sqrt(x.square().mean()),
          .mean = x.mean(),
          .cosine = norm > 0 ? (x * r).sum() / (norm * r.matrix().norm()) : 0};
}

/// Measures the gradient at the input of each block.
struct GradientProbe : evenkeel::NoObserver {
  void on_gradient(std::size_t i, const View& dx, const auto&) { points[i].gradient = measure(dx, dy); }

  std::vector<Point>& points;
  const Matrix& dy;
};

/// What every network of pre_vs_post is given: the embedded text, and the gradient at the output.
struct Trial {
  Matrix x, dy;

  /// One forward and one backward of a stack, looked at before every block and at the output.
  template <class Stack>
  std::vector<Point> run(Stack stack) const {
    typename Stack::Saved saved;
    const Matrix y = stack.forward(x, saved);
    std::vector<Point> points(stack.blocks().size());
    for (std::size_t i = 0; i < points.size(); ++i) {
      points[i].stream = measure(i == 0 ? evenkeel::const_view(x) : saved.stream(i - 1), x);
    }
    stack.backward_into(dy, saved, {}, {}, GradientProbe{{}, points, dy});
    points.push_back({measure(evenkeel::const_view(y), x), measure(evenkeel::const_view(dy), dy)});
    return points;
  }
};
