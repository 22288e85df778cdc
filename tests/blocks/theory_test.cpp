// What papers say about networks at random initialization, measured on the library's blocks.
//
// Xiong et al. 2020, arXiv:2002.04745: entries of weights N(0, 1/d), biases 0, gamma 1, beta 0; a layer is an attention
// block and a feed-forward block; attention is uniform (queries and keys 0), feed-forward d x d with ReLU. Each number
// is the mean over independent seeds, with its standard error from their spread: it has to be within 4.5 of those (a
// chance of 3e-4 for 20 other seeds), which the test bounds as well, so that it can fail. Seeds are fixed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/blocks/post_norm.hpp"
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/blocks/stack.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/sublayers/initialization.hpp"
#include "evenkeel/sublayers/linear.hpp"

#include <Eigen/QR>

namespace evenkeel_test {
namespace {

using evenkeel::Index;
using evenkeel::Linear;
using evenkeel::random_key;
using Norm = evenkeel::LayerNorm<double>;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index d = 64;
constexpr int seeds = 20;

Linear<double> random_map(std::uint64_t seed, const std::string& path) {
  Linear<double> map(d, d, false);
  init_normal(map, random_key(seed, path), 1 / std::sqrt(double{d}));
  return map;
}

Matrix random_matrix(Index rows, std::uint64_t seed, const std::string& path) {
  evenkeel::Parameter<double> numbers(evenkeel::Shape{rows, d});
  init_normal(numbers, random_key(seed, path), 1);
  return Eigen::Map<const Matrix>(numbers.data(), rows, d);
}

enum class Kind { attention, feed_forward };

/// last(mean of tokens(first(x))), the same for every token, or last(max(first(x), 0)).
class PaperSublayer {
 public:
  struct Saved {
    Matrix x, hidden;
    Linear<double>::Saved first, last;
  };
  PaperSublayer(Kind kind, std::uint64_t seed, const std::string& path)
      : kind_(kind), first_(random_map(seed, path + "first")), last_(random_map(seed, path + "last")) {}

  template <class X>
  Matrix forward(const X& x, Saved& saved) {
    saved.x = kind_ == Kind::attention ? Matrix(x.colwise().mean()) : Matrix(x);
    saved.hidden = first_.forward(saved.x, saved.first);
    if (kind_ == Kind::feed_forward) saved.hidden = saved.hidden.cwiseMax(0);
    const Matrix y = last_.forward(saved.hidden, saved.last);
    return kind_ == Kind::attention ? Matrix(y.replicate(x.rows(), 1)) : y;
  }
  template <class DY>
  Matrix backward(const DY& dy, const Saved& saved) {
    const Matrix sum = kind_ == Kind::attention ? Matrix(dy.colwise().sum()) : Matrix(dy);
    Matrix dhidden = last_.backward(sum, saved.last);
    if (kind_ == Kind::feed_forward) dhidden = (saved.hidden.array() > 0).select(dhidden, 0);
    const Matrix dx = first_.backward(dhidden, saved.first);
    return kind_ == Kind::attention ? Matrix(dx.replicate(dy.rows(), 1) / double(dy.rows())) : dx;
  }

  /// Of the last map's gradient, the paper's dL / dW2.
  double squared_gradient() const {
    const auto gradient = last_.weight().gradient();
    return Eigen::Map<const Eigen::VectorXd>(gradient.data(), d * d).squaredNorm();
  }

 private:
  Kind kind_;
  Linear<double> first_, last_;
};

using Block = evenkeel::Residual<Norm, PaperSublayer>;
using Stack = evenkeel::Stack<Norm, PaperSublayer>;
using PostNorm = evenkeel::PostNorm<Norm, PaperSublayer>;
using PreNorm = evenkeel::PreNorm<Norm, PaperSublayer>;

/// A mean over seeds, and its standard error.
struct Sample {
  double mean = 0, error = 0;
};
template <class Measure>
Sample sample(const Measure& measure) {
  double sum = 0, squares = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const double value = measure(seed);
    sum += value, squares += value * value;
  }
  const double mean = sum / seeds;
  return {mean, std::sqrt(std::max(squares / seeds - mean * mean, 0.0) / (seeds - 1))};
}
Sample ratio(const Sample& a, const Sample& b) {
  const double mean = a.mean / b.mean;
  return {mean, mean * std::hypot(a.error / a.mean, b.error / b.mean)};
}

/// Within 4.5 standard errors, of which one is at most `most` of what is expected.
testing::AssertionResult agrees(const Sample& got, double expected, double most) {
  const bool is_right = std::abs(got.mean - expected) <= 4.5 * got.error && got.error <= most * expected;
  return (is_right ? testing::AssertionSuccess() : testing::AssertionFailure())
         << got.mean << " +- " << got.error << ", expected " << expected << " +- " << most * expected;
}

/// The mean of x^2: the paper's E||x||^2 / d.
double mean_square(const Matrix& x) { return x.squaredNorm() / static_cast<double>(x.size()); }

/// One network after forward and backward of random tokens of mean square 1 and a random dy.
class Network {
 public:
  template <class Placement>
  Network(std::in_place_type_t<Placement>, std::vector<Kind> kinds, Index tokens, std::uint64_t seed)
      : stack_(blocks<Placement>(kinds, seed)),
        x_(Norm(d).forward(random_matrix(tokens, seed, "x"))),
        dy_(random_matrix(tokens, seed, "dy")) {
    stack_.forward(x_, saved_);
    dx_ = stack_.backward(dy_, saved_);
  }

  const Matrix& dx() const { return dx_; }
  const Matrix& dy() const { return dy_; }

  std::size_t size() const { return stack_.blocks().size(); }
  /// What block i receives; of its size, the last stream.
  Matrix stream(std::size_t i) const {
    return i == 0 ? x_ : Matrix(Eigen::Map<const Matrix>(saved_.stream(i - 1).data(), x_.rows(), d));
  }
  /// x + F(x) of a Post-Norm block, before its norm.
  Matrix sum(std::size_t i) {
    PaperSublayer::Saved saved;
    return stream(i) + stack_.blocks()[i].sublayer().forward(stream(i), saved);
  }
  double squared_gradient(std::size_t i) const { return stack_.blocks()[i].sublayer().squared_gradient(); }

 private:
  template <class Placement>
  static std::vector<Block> blocks(const std::vector<Kind>& kinds, std::uint64_t seed) {
    std::vector<Block> all;
    for (const Kind kind : kinds) {
      all.push_back(Placement(Norm(d), PaperSublayer(kind, seed, "blocks." + std::to_string(all.size()) + ".")));
    }
    return all;
  }

  Stack stack_;
  Matrix x_, dy_, dx_;
  Stack::Saved saved_;
};

/// Attention, feed-forward, attention, feed-forward, ...
std::vector<Kind> transformer(int layers) {
  std::vector<Kind> kinds;
  for (int i = 0; i < layers; ++i) kinds.insert(kinds.end(), {Kind::attention, Kind::feed_forward});
  return kinds;
}
std::vector<Kind> feed_forwards(int layers) {
  return std::vector(static_cast<std::size_t>(layers), Kind::feed_forward);
}

Network post_norm(std::vector<Kind> kinds, Index tokens, std::uint64_t seed) {
  return Network(std::in_place_type<PostNorm>, std::move(kinds), tokens, seed);
}
Network pre_norm(std::vector<Kind> kinds, Index tokens, std::uint64_t seed) {
  return Network(std::in_place_type<PreNorm>, std::move(kinds), tokens, seed);
}

// Lemma 2. ReLU keeps half of the squares, and both maps keep them: 1 + 1/2.
TEST(Theory, SumOfAPostNormFeedForwardBlockIs3HalvesOfD) {
  const Sample sums = sample([](std::uint64_t seed) {
    Network network = post_norm(transformer(8), 8, seed);
    double mean = 0;
    for (std::size_t i = 1; i < network.size(); i += 2) mean += mean_square(network.sum(i)) / 8;
    return mean;
  });
  EXPECT_TRUE(agrees(sums, 1.5, 0.01));  // measured: 1.496 +- 0.013
}

// Not 3/2 of d, which has been said of every sum: attention adds the square of the mean over tokens, d / tokens where
// they are independent, and d where depth has made them alike.
TEST(Theory, SumOfAPostNormAttentionBlockGrowsFromDTo2D) {
  const Sample first =
      sample([](std::uint64_t seed) { return mean_square(post_norm(transformer(1), 8, seed).sum(0)); });
  EXPECT_TRUE(agrees(first, 1 + 1.0 / 8, 0.01));  // measured: 1.135 +- 0.010
  const Sample last =
      sample([](std::uint64_t seed) { return mean_square(post_norm(transformer(16), 8, seed).sum(30)); });
  EXPECT_TRUE(agrees(last, 2, 0.04));  // measured: 2.012 +- 0.057
}

// Lemma 2: between (1 + l/2) d and (1 + 3l/2) d. Feed-forward blocks add d/2 each; attention adds from almost nothing,
// for many independent tokens, to d, which it does for one token: the bounds are met where they should be.
TEST(Theory, StreamOfPreNormGrowsWithDepthBetweenItsBounds) {
  constexpr int layers = 8;
  const auto stream = [](const std::vector<Kind>& kinds, Index tokens, std::size_t block) {
    return sample([&](std::uint64_t seed) { return mean_square(pre_norm(kinds, tokens, seed).stream(block)); });
  };
  EXPECT_TRUE(agrees(stream(feed_forwards(layers), 8, layers), 1 + layers / 2.0, 0.03));  // measured: 4.95 +- 0.12
  EXPECT_TRUE(agrees(stream(transformer(layers), 1, 2 * layers), 1 + 3 * layers / 2.0, 0.05));  // 12.9 +- 0.6
  for (const int l : {1, 4, layers}) {
    const double size = stream(transformer(layers), 8, static_cast<std::size_t>(2 * l)).mean;
    EXPECT_GT(size, 1 + l / 2.0) << l;  // measured: 1.63, 4.34, 8.75
    EXPECT_LT(size, 1 + 3 * l / 2.0) << l;
  }
}

/// The mean squared gradient of the last feed-forward block.
template <class Place>
Sample last_gradient(const Place& place, const std::vector<Kind>& kinds, Index tokens) {
  return sample([&](std::uint64_t seed) {
    const Network network = place(kinds, tokens, seed);
    return network.squared_gradient(network.size() - 1);
  });
}

// Theorem 1.
TEST(Theory, LastGradientOfPostNormDoesNotDependOnDepth) {
  const auto change = [](const auto& shallow, const auto& deep) {
    return ratio(last_gradient(post_norm, shallow, 8), last_gradient(post_norm, deep, 8));
  };
  EXPECT_TRUE(agrees(change(feed_forwards(8), feed_forwards(32)), 1, 0.1));  // measured: 1.11 +- 0.09
  EXPECT_TRUE(agrees(change(transformer(6), transformer(24)), 1, 0.12));     // 1.12 +- 0.11
}

// Theorem 1. The final norm divides by the size of the stream: the root of (1 + L/2) d, or with attention to one token
// (1 + 3L/2) d. Both squares are near 4 for 4 times the depth; measured:
// 3.60 +- 0.25, expected 3.4, and 3.40 +- 0.34, expected 3.7.
TEST(Theory, LastGradientOfPreNormFallsAsTheRootOfDepth) {
  const auto change = [](const auto& shallow, const auto& deep, Index tokens) {
    return ratio(last_gradient(pre_norm, shallow, tokens), last_gradient(pre_norm, deep, tokens));
  };
  EXPECT_TRUE(agrees(change(feed_forwards(8), feed_forwards(32), 8), (1 + 32 / 2.0) / (1 + 8 / 2.0), 0.08));
  EXPECT_TRUE(agrees(change(transformer(6), transformer(24), 1), (1 + 1.5 * 24) / (1 + 1.5 * 6), 0.12));
}

// The gradient is divided by the size of the sum, sqrt(3/2), in the norm of each feed-forward block, which is where
// (2/3)^((L - l) / 2) comes from. That is what is left of dy on the skip path alone: its projection on dy, since all
// that has passed a branch is independent of dy.
TEST(Theory, WhatTheSkipPathOfPostNormLeavesOfAGradientFallsExponentially) {
  const Sample at_8 = sample([](std::uint64_t seed) {
    const Network network = post_norm(feed_forwards(8), 32, seed);
    return network.dx().cwiseProduct(network.dy()).sum() / network.dy().squaredNorm();
  });
  EXPECT_NEAR(at_8.mean, std::pow(2.0 / 3, 8 / 2.0), 4.5 * at_8.error);  // 0.1975; measured: 0.198 +- 0.006
  EXPECT_LT(at_8.error, 0.01);
}

// But the whole gradient does not fall: the branch that has made the sum larger by 3/2 brings back as much, since its
// Jacobian has the same 1/2 of squares, and attention's too. Over 11 layers (2/3)^((L - l) / 2) would be 0.107, of
// logarithm -2.23; measured, the logarithms are 0.03 and below.
TEST(Theory, WholeGradientOfPostNormDoesNotFallTowardsTheInput) {
  const auto log_ratio = [](const std::vector<Kind>& kinds, std::size_t first, std::size_t last) {
    return sample([&](std::uint64_t seed) {
      const Network network = post_norm(kinds, 8, seed);
      return std::log(network.squared_gradient(first) / network.squared_gradient(last)) / 2;
    });
  };
  for (const Sample& got : {log_ratio(feed_forwards(12), 0, 11), log_ratio(transformer(12), 1, 23)}) {
    EXPECT_NEAR(got.mean, 0, 4.5 * got.error);  // -0.01 +- 0.06, -0.03 +- 0.12
    EXPECT_LT(got.error, 0.13);
  }
}

// He et al. 2015, arXiv:1512.03385: every map sigma times an orthogonal one, so that sigma is its spectral norm.
class Maps {
 public:
  static constexpr double sigma = 0.8;

  /// The gradient behind a stack of alpha * x + F(x).
  static Matrix dx_of(double alpha, int depth, std::uint64_t seed) {
    using MapBlock = evenkeel::Residual<Norm, Linear<double>>;
    std::vector<MapBlock> blocks;
    for (int i = 0; i < depth; ++i)
      blocks.push_back(MapBlock(orthogonal(seed, std::to_string(i)), {}, {.alpha = alpha}));
    evenkeel::Stack<Norm, Linear<double>> stack(std::move(blocks));
    decltype(stack)::Saved saved;
    const Matrix x = random_matrix(4, seed, "x");
    stack.forward(x, saved);
    return stack.backward(random_matrix(4, seed, "dy"), saved);
  }

 private:
  static Linear<double> orthogonal(std::uint64_t seed, const std::string& path) {
    Linear<double> map(d, d, false);
    const Matrix q = Eigen::HouseholderQR<Matrix>(random_matrix(d, seed, path)).householderQ();
    const Matrix signs = random_matrix(1, seed, path + "signs").array().sign();  // else its trace is negative
    const Matrix weight = sigma * signs.row(0).asDiagonal() * q;
    map.weight().load(weight.data(), d * d);
    return map;
  }
};

TEST(Theory, WithoutAResidualTheGradientDecaysAsThePowerOfTheSpectralNorm) {
  for (const int depth : {10, 40}) {
    const double size = Maps::dx_of(0, depth, 1).norm() / random_matrix(4, 1, "dy").norm();
    EXPECT_NEAR(size / std::pow(Maps::sigma, depth), 1, 1e-12) << depth;
  }
}

// ||dy + sigma Q dy||^2 is (1 + sigma^2) ||dy||^2, for a random Q: it grows instead.
TEST(Theory, WithAResidualTheGradientDoesNotDecay) {
  const Sample growth = sample([](std::uint64_t seed) {
    return std::log(Maps::dx_of(1, 10, seed).norm() / random_matrix(4, seed, "dy").norm());
  });
  EXPECT_TRUE(agrees(growth, 10 * std::log(1 + Maps::sigma * Maps::sigma) / 2, 0.02));  // 2.47; measured: 2.45 +- 0.02
}

}  // namespace
}  // namespace evenkeel_test
