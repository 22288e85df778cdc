// Tests of residual/residual.hpp: what can stand for F, and for a norm.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/residual/residual.hpp"
#include "evenkeel/sublayers/function_sublayer.hpp"
#include "support/matrix.hpp"
#include "support/random.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Context;
using evenkeel::Index;
using evenkeel::Parameter;
using evenkeel::Residual;
using evenkeel::Shape;
using evenkeel::TensorView;
using LayerNorm = evenkeel::LayerNorm<double>;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index rows = 3, features = 4;

Matrix random_matrix(std::uint64_t seed) { return normal_matrix<double>(rows, features, seed); }

/// y = x^2 as a pair of callables: what the other sublayers here are compared with.
auto square() {
  return evenkeel::sublayer([](const auto& x) { return x.cwiseAbs2(); },
                            [](const auto& dy, const auto& x) { return 2 * x.cwiseProduct(dy); });
}

/// A user's own class that squares. Its forward knows nothing of a Context.
struct Square {
  struct Saved {
    Matrix x;
  };
  template <class X>
  Matrix forward(const X& x) const {
    return x.cwiseAbs2();
  }
  template <class X>
  Matrix forward(const X& x, Saved& saved) const {
    saved.x = x;
    return x.cwiseAbs2();
  }
  template <class DY>
  Matrix backward(const DY& dy, const Saved& saved) {
    return 2 * saved.x.cwiseProduct(dy);
  }
};

/// The same with the Context as the last argument of each call, which it counts, and without templates.
struct SquareWithContext {
  using In = Eigen::Ref<const Matrix>;
  struct Saved {
    Matrix x;
  };
  mutable std::vector<std::size_t> workspaces;

  Matrix forward(const In& x, const Context& context) const {
    workspaces.push_back(context.workspace.size());
    return x.cwiseAbs2();
  }
  Matrix forward(const In& x, Saved& saved, const Context& context) {
    saved.x = x;
    return forward(x, context);
  }
  Matrix backward(const In& dy, const Saved& saved, const Context& context) {
    workspaces.push_back(context.workspace.size());
    return 2 * saved.x.cwiseProduct(dy);
  }
};

/// The same, returning lazy expressions, with a Context in training only.
struct LazySquare {
  struct Saved {
    TensorView<const double> x;
  };
  template <class X>
  auto forward(const X& x) const {
    return x.cwiseAbs2();
  }
  template <class X>
  auto forward(const X& x, Saved& saved, const Context&) const {
    saved.x = evenkeel::const_view(x);
    return x.cwiseAbs2();
  }
  template <class DY>
  auto backward(const DY& dy, const Saved& saved) const {
    const Eigen::Map<const Matrix> x(saved.x.data(), saved.x.shape()[0], saved.x.shape()[1]);
    return 2 * x.cwiseProduct(dy);
  }
};

/// The same, writing where it is told to.
struct SquareInto {
  struct Saved {
    TensorView<const double> x;
  };
  static void for_each(const TensorView<const double>& x, const auto& body) {
    for (Index i = 0; i < x.size(); ++i) body(i);
  }
  void forward_into(const TensorView<const double>& x, const TensorView<double>& y, const Context&) const {
    for_each(x, [&](Index i) { y.data()[i] = x.data()[i] * x.data()[i]; });
  }
  void forward_into(const TensorView<const double>& x, const TensorView<double>& y, Saved& saved,
                    const Context& c) const {
    saved.x = x;
    forward_into(x, y, c);
  }
  void backward_into(const TensorView<const double>& dy, const Saved& saved, const evenkeel::TensorGradient<double>& dx,
                     const Context&) const {
    for_each(dy, [&](Index i) { dx.view().data()[i] = 2 * saved.x.data()[i] * dy.data()[i]; });
  }
  std::size_t workspace_bytes(const Shape&) const { return 0; }
};

template <class F>
auto random_block(F f, int slots) {
  evenkeel::ResidualNorms<LayerNorm> norms;
  int bit = 1;
  for (auto* place : {&norms.in, &norms.branch, &norms.skip, &norms.trunk}) {
    if (slots & bit) place->emplace(features);
    bit *= 2;
  }
  Residual<LayerNorm, F> block(std::move(f), norms, {.alpha = 1.5, .lambda = 0.75});
  std::uint64_t seed = 100;
  for (auto* place : {&block.norms().in, &block.norms().branch, &block.norms().skip, &block.norms().trunk}) {
    if (*place) (*place)->gamma().load(normal_vector<double>(features, seed++).data(), features);
  }
  return block;
}

/// Inference, training and gradient of a block with f, for every combination of norms, against the callables'.
template <class F>
void expect_that_it_squares(const F& f) {
  const Matrix x = random_matrix(1), dy = random_matrix(2);
  for (int slots = 0; slots < 16; ++slots) {
    auto block = random_block(f, slots);
    auto expected = random_block(square(), slots);
    typename decltype(block)::Saved saved;
    typename decltype(expected)::Saved expected_saved;
    const Matrix y = expected.forward(x, expected_saved);
    EXPECT_EQ(std::as_const(block).forward(x), y) << slots;
    EXPECT_EQ(block.forward(x, saved), y) << slots;
    EXPECT_EQ(block.backward(dy, saved), expected.backward(dy, expected_saved)) << slots;
  }
}

TEST(ResidualSublayer, MayBeAUsersClassWithoutContext) { expect_that_it_squares(Square()); }
TEST(ResidualSublayer, MayBeAUsersClassWithContextAndWithoutTemplates) { expect_that_it_squares(SquareWithContext()); }
TEST(ResidualSublayer, MayReturnLazyExpressions) { expect_that_it_squares(LazySquare()); }
TEST(ResidualSublayer, MayWriteWhereItIsToldTo) { expect_that_it_squares(SquareInto()); }

TEST(ResidualSublayer, ReceivesTheContextInEveryCall) {
  auto block = random_block(SquareWithContext(), 1);
  decltype(block)::Saved saved;
  std::vector<std::byte> memory(block.workspace_bytes(Shape{rows, features}) + 1000);
  const Context context{.workspace = memory};
  block.forward(random_matrix(1), context);
  block.forward(random_matrix(1), saved, context);
  block.backward(random_matrix(2), saved, context);
  const auto& workspaces = block.sublayer().workspaces;
  ASSERT_EQ(workspaces.size(), 3u);
  for (const std::size_t bytes : workspaces) EXPECT_GE(bytes, 1000u) << "what is left of the workspace is F's";
}

/// A user's sublayer that hands its Context on, as everything does.
struct NeedsWorkspace {
  struct Saved {};
  static constexpr std::size_t bytes = 100000;
  Matrix twice(const Matrix& x, const Context& context) const {
    evenkeel::Scratch scratch("NeedsWorkspace", context, bytes);
    return 2 * x;
  }
  Matrix forward(const Matrix& x, const Context& context) const { return twice(x, context); }
  Matrix forward(const Matrix& x, Saved&, const Context& context) { return twice(x, context); }
  Matrix backward(const Matrix& dy, const Saved&, const Context& context) { return twice(dy, context); }
};

TEST(ResidualSublayer, MayTakeWorkspaceWhereTheCallerGaveNone) {
  for (int slots = 0; slots < 16; ++slots) {
    auto block = random_block(NeedsWorkspace(), slots);
    decltype(block)::Saved saved;
    const Matrix x = random_matrix(1);
    EXPECT_NO_THROW(block.forward(x)) << slots;
    EXPECT_NO_THROW({
      block.forward(x, saved);
      block.backward(x, saved);
    }) << slots;
  }
}

// ---------------------------------------------------------------- parameters

/// y = scale * x with a learned scale.
struct Scale {
  struct Saved {
    Matrix x;
  };
  Parameter<double> scale = Parameter<double>(Shape{1}, 3);

  Matrix forward(const Matrix& x) const { return scale.values()[0] * x; }
  Matrix forward(const Matrix& x, Saved& saved) const {
    saved.x = x;
    return forward(x);
  }
  Matrix backward(const Matrix& dy, const Saved& saved) {
    scale.gradient_to_add_to()[0] += dy.cwiseProduct(saved.x).sum();
    scale.commit_gradient();
    return scale.values()[0] * dy;
  }
  template <class Visit>
  void visit_parameters(Visit& visit, const std::string& prefix) {
    visit(prefix + "scale", scale);
  }
};

TEST(ResidualSublayer, MayHaveParametersOfItsOwn) {
  Residual<LayerNorm, Scale> block(Scale(), {}, {.alpha = 1, .lambda = 0.5});
  decltype(block)::Saved saved;
  const Matrix x = random_matrix(1), dy = random_matrix(2);
  block.forward(x, saved);
  block.backward(dy, saved);
  std::vector<std::string> paths;
  for_each_parameter(block, [&](const std::string& path, Parameter<double>& parameter) {
    paths.push_back(path);
    EXPECT_NEAR(parameter.gradient()[0], 0.5 * dy.cwiseProduct(x).sum(), 1e-14);
  });
  EXPECT_EQ(paths, std::vector<std::string>{"sublayer.scale"});
  zero_gradients(block);
  EXPECT_EQ(block.sublayer().scale.gradient()[0], 0);
}

TEST(ResidualSublayer, MayBeABlockItself) {
  using Inner = Residual<LayerNorm, SquareInto>;
  Residual<LayerNorm, Inner> outer(Inner(SquareInto(), {.in = LayerNorm(features)}), {.trunk = LayerNorm(features)});
  Inner inner = outer.sublayer();
  LayerNorm norm(features);
  const Matrix x = random_matrix(1), dy = random_matrix(2);
  decltype(outer)::Saved saved;
  Inner::Saved inner_saved;
  LayerNorm::Saved norm_saved;
  const Matrix sum = x + inner.forward(x, inner_saved), y = norm.forward(sum, norm_saved);
  EXPECT_EQ(outer.forward(x), y);
  EXPECT_EQ(outer.forward(x, saved), y);
  const Matrix dsum = norm.backward(dy, norm_saved);
  EXPECT_EQ(outer.backward(dy, saved), dsum + inner.backward(dsum, inner_saved));
}

// ---------------------------------------------------------------- a user's own norm

/// y = x / 2: a norm as a user may write it.
struct Half {
  using Scalar = double;
  struct Saved {};
  static void scale(const TensorView<const double>& x, const TensorView<double>& y, bool add) {
    for (Index i = 0; i < x.size(); ++i) y.data()[i] = x.data()[i] / 2 + (add ? y.data()[i] : 0);
  }
  template <evenkeel::Tensor X, evenkeel::Tensor Y>
  void forward_into(const X& x, Y&& y, const Context&) const {
    scale(evenkeel::const_view(x), evenkeel::tensor_view(y), false);
  }
  template <evenkeel::Tensor X, evenkeel::Tensor Y>
  void forward_into(const X& x, Y&& y, Saved&, const Context&) const {
    scale(evenkeel::const_view(x), evenkeel::tensor_view(y), false);
  }
  void backward_into(const TensorView<const double>& dy, const Saved&, const evenkeel::TensorGradient<double>& dx,
                     const Context&) const {
    if (dx.is_wanted()) scale(dy, dx.view(), dx.adds());
  }
  std::size_t workspace_bytes(const Shape&) const { return 0; }
  Half fresh() const { return {}; }
};
static_assert(evenkeel::Norm<Half>);

TEST(ResidualSublayer, TheNormMayBeAUsersClassToo) {
  Residual<Half, Square> block(Square(), {.in = Half(), .branch = Half(), .skip = Half(), .trunk = Half()});
  decltype(block)::Saved saved;
  const Matrix x = random_matrix(1), dy = random_matrix(2);
  const Matrix y = (x / 2 + (x / 2).cwiseAbs2() / 2) / 2, dx = (dy / 2 + x.cwiseProduct(dy) / 4) / 2;
  EXPECT_TRUE(block.forward(x).isApprox(y, 1e-15));
  EXPECT_TRUE(block.forward(x, saved).isApprox(y, 1e-15));
  EXPECT_TRUE(block.backward(dy, saved).isApprox(dx, 1e-15));
}

// ---------------------------------------------------------------- a sublayer that returns another shape

/// Returns `extra` more columns, in forward or in backward.
struct Misshapen {
  struct Saved {};
  Index forward_extra, backward_extra;
  template <class X>
  Matrix forward(const X& x) const {
    return Matrix::Zero(x.rows(), x.cols() + forward_extra);
  }
  template <class X>
  Matrix forward(const X& x, Saved&) const {
    return forward(x);
  }
  template <class DY>
  Matrix backward(const DY& dy, const Saved&) const {
    return Matrix::Zero(dy.rows(), dy.cols() + backward_extra);
  }
};

TEST(ResidualSublayer, ThatReturnsAnotherShapeIsRefused) {
  const std::string text =
      "evenkeel::Residual: what the sublayer returned has shape [3, 5], expected [3, 4] (the shape of what it was "
      "given)";
  const Matrix x = random_matrix(1);
  for (int slots = 0; slots < 16; ++slots) {
    auto block = random_block(Misshapen{1, 0}, slots);
    decltype(block)::Saved saved;
    Matrix y = Matrix::Constant(rows, features, 7);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.forward_into(x, y); }), text) << slots;
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.forward_into(x, y, saved); }), text) << slots;
    EXPECT_TRUE((y.array() == 7).all()) << slots;
    const Matrix wide = Matrix::Zero(rows, features + 1);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.leave(x, wide); }), text) << slots;
    EXPECT_EQ(error_text<std::invalid_argument>([&] { block.leave(x, wide, saved); }), text) << slots;
  }
}

TEST(ResidualSublayer, ThatReturnsAGradientOfAnotherShapeIsRefused) {
  const Matrix x = random_matrix(1);
  auto block = random_block(Misshapen{0, 1}, 0);
  decltype(block)::Saved saved;
  block.forward(x, saved);
  EXPECT_EQ(
      error_text<std::invalid_argument>([&] { block.backward(x, saved); }),
      "evenkeel::Residual: what the sublayer returned has shape [3, 5], expected [3, 4] (the shape of what it was "
      "given)");
}

}  // namespace
}  // namespace evenkeel_test
