// Tests of core/concepts.hpp: which types are norms and sublayers, and which near misses are not. Checked by compiling.
#include <gtest/gtest.h>

#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/blocks/stack.hpp"
#include "evenkeel/core/eigen_tensor.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/layers/rms_norm.hpp"
#include "evenkeel/sublayers/feed_forward.hpp"
#include "evenkeel/sublayers/function_sublayer.hpp"
#include "evenkeel/sublayers/linear.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Context;
using evenkeel::IntoSublayer;
using evenkeel::Norm;
using evenkeel::Sublayer;
using evenkeel::TensorGradient;
using evenkeel::TensorView;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixMap = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;  // what a block hands to F
using Tensor3 = Eigen::Tensor<float, 3, Eigen::RowMajor>;
using Block = evenkeel::Residual<evenkeel::LayerNorm<float>, evenkeel::FeedForward<float>>;
using Stack = evenkeel::Stack<evenkeel::LayerNorm<float>, evenkeel::FeedForward<float>>;

// ---------------------------------------------------------------- the library's own

static_assert(Norm<evenkeel::LayerNorm<float>> && Norm<evenkeel::LayerNorm<double>>);
static_assert(Norm<evenkeel::RMSNorm<float>> && Norm<evenkeel::RMSNorm<double>>);
static_assert(!Norm<evenkeel::Linear<float>> && !Norm<Block> && !Norm<float>);

template <class F>
constexpr bool is_sublayer_of_every_tensor =
    Sublayer<F, Matrix>&& Sublayer<F, MatrixMap>&& Sublayer<F, Eigen::MatrixXf>&& Sublayer<F, Eigen::VectorXf>&&
        Sublayer<F, Tensor3>&& Sublayer<F, Eigen::TensorMap<const Tensor3>>&& Sublayer<F, Eigen::Block<Matrix>>;
static_assert(is_sublayer_of_every_tensor<evenkeel::Linear<float>>);
static_assert(is_sublayer_of_every_tensor<evenkeel::FeedForward<float>>);
static_assert(is_sublayer_of_every_tensor<Block>);
static_assert(is_sublayer_of_every_tensor<Stack>);
static_assert(is_sublayer_of_every_tensor<evenkeel::LayerNorm<float>>);

struct Plus {
  template <class X>
  auto operator()(const X& x) const {
    return x + x;
  }
  template <class X>
  auto operator()(const X& dy, const X&) const {
    return dy + dy;
  }
};
static_assert(is_sublayer_of_every_tensor<evenkeel::FunctionSublayer<Plus, Plus>>);

static_assert(IntoSublayer<evenkeel::Linear<float>, float> && IntoSublayer<evenkeel::FeedForward<double>, double>);
static_assert(IntoSublayer<evenkeel::LayerNorm<float>, float>);
static_assert(IntoSublayer<Block, float> && IntoSublayer<Stack, float>);
static_assert(IntoSublayer<evenkeel::PreNorm<evenkeel::LayerNorm<float>, evenkeel::FeedForward<float>>, float>);
static_assert(!IntoSublayer<evenkeel::FeedForward<float>, double>);
static_assert(!IntoSublayer<evenkeel::FunctionSublayer<Plus, Plus>, float>);

// ---------------------------------------------------------------- a user's sublayers, and near misses

struct Whole {
  struct Saved {};
  Matrix forward(const Matrix&) const;
  Matrix forward(const Matrix&, Saved&);
  Matrix backward(const Matrix&, const Saved&);
};
static_assert(Sublayer<Whole, Matrix>);
static_assert(Sublayer<Whole, MatrixMap>);
static_assert(!Sublayer<Whole, Tensor3>);
static_assert(!IntoSublayer<Whole, float>);

struct WithContext {
  struct Saved {};
  Matrix forward(const Matrix&, const Context&) const;
  Matrix forward(const Matrix&, Saved&, const Context&);
  Matrix backward(const Matrix&, const Saved&, const Context&);
};
static_assert(Sublayer<WithContext, Matrix>);

struct WithContextInTraining {
  struct Saved {};
  Matrix forward(const Matrix&) const;
  Matrix forward(const Matrix&, Saved&, const Context&);
  Matrix backward(const Matrix&, const Saved&);
};
static_assert(Sublayer<WithContextInTraining, Matrix>);

struct WithoutSaved {
  Matrix forward(const Matrix&) const;
  Matrix backward(const Matrix&);
};
static_assert(!Sublayer<WithoutSaved, Matrix>);

struct InferenceChangesIt : Whole {
  Matrix forward(const Matrix&);
  Matrix forward(const Matrix&, Saved&);
};
static_assert(!Sublayer<InferenceChangesIt, Matrix>);

struct WithoutTraining {
  struct Saved {};
  Matrix forward(const Matrix&) const;
  Matrix backward(const Matrix&, const Saved&);
};
static_assert(!Sublayer<WithoutTraining, Matrix>);

struct WithoutBackward {
  struct Saved {};
  Matrix forward(const Matrix&) const;
  Matrix forward(const Matrix&, Saved&);
};
static_assert(!Sublayer<WithoutBackward, Matrix>);

struct BackwardChangesSaved {
  struct Saved {};
  Matrix forward(const Matrix&) const;
  Matrix forward(const Matrix&, Saved&);
  Matrix backward(const Matrix&, Saved&);
};
static_assert(!Sublayer<BackwardChangesSaved, Matrix>);

// ---------------------------------------------------------------- a user's norms, and near misses

struct WholeNorm {
  using Scalar = float;
  struct Saved {};
  void forward_into(TensorView<const float>, TensorView<float>, const Context&) const;
  void forward_into(TensorView<const float>, TensorView<float>, Saved&, const Context&);
  void backward_into(TensorView<const float>, const Saved&, TensorGradient<float>, const Context&);
  std::size_t workspace_bytes(const evenkeel::Shape&) const;
};
struct UsersNorm : WholeNorm {
  UsersNorm fresh() const;
};
static_assert(Norm<UsersNorm>);
static_assert(!Norm<WholeNorm>, "it has no fresh()");

struct FreshIsAnotherType : WholeNorm {
  WholeNorm fresh() const;
};
static_assert(!Norm<FreshIsAnotherType>);

struct WithoutScalar : UsersNorm {
  using Scalar = void;
  WithoutScalar fresh() const;
};
static_assert(!Norm<WithoutScalar>);

struct WorkspaceIsAnInt : UsersNorm {
  int workspace_bytes(const evenkeel::Shape&) const;
  WorkspaceIsAnInt fresh() const;
};
static_assert(!Norm<WorkspaceIsAnInt>);

struct InferenceNormChangesIt : UsersNorm {
  void forward_into(TensorView<const float>, TensorView<float>, const Context&);
  void forward_into(TensorView<const float>, TensorView<float>, Saved&, const Context&);
  InferenceNormChangesIt fresh() const;
};
static_assert(!Norm<InferenceNormChangesIt>);

struct BackwardWithoutGradients : UsersNorm {
  void backward_into(TensorView<const float>, const Saved&, const Context&);
  BackwardWithoutGradients fresh() const;
};
static_assert(!Norm<BackwardWithoutGradients>);

/// So that the file runs alone.
TEST(SublayerConcepts, HoldIfThisFileCompiles) {}

}  // namespace
}  // namespace evenkeel_test
