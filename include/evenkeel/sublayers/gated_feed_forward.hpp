#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "evenkeel/detail/returning_forms.hpp"
#include "evenkeel/sublayers/activation.hpp"
#include "evenkeel/sublayers/linear.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// What a GatedFeedForward is made of.
struct GatedFeedForwardSettings {
  Activation activation = Activation::silu;  ///< silu: SwiGLU; gelu or gelu_tanh: GEGLU; relu: ReGLU
  bool with_bias = false;
};

/// The gated feed-forward sublayer: y = down(activation(gate(x)) * up(x)), the product taken number by number.
///
/// Shapes    x, y [..., d_model], contiguous along the last axis; gate and up are Linear(d_model, d_ff), down
///           Linear(d_ff, d_model).
/// Errors    as Linear.
/// Source    Shazeer 2020, arXiv:2002.05202: SwiGLU (LLaMA: gate w1, down w2, up w3) and GEGLU (Gemma).
template <class S>
class GatedFeedForward : public detail::ReturningForms<GatedFeedForward<S>> {
 public:
  using Scalar = S;

  /// A view of x (a temporary is moved in), the two hidden layers and their product: 3 * rows * d_ff numbers. Used
  /// again for the same shape it allocates nothing. Move-only.
  class Saved : public detail::SavedBase {
    friend class GatedFeedForward;
    typename Linear<Scalar>::Saved gate_, up_, down_;
    std::vector<Scalar> gates_, hidden_, gated_;
  };

  GatedFeedForward(Index d_model, Index d_ff, const GatedFeedForwardSettings& settings = {})
      : activation_(settings.activation),
        gate_(d_model, d_ff, settings.with_bias),
        up_(d_model, d_ff, settings.with_bias),
        down_(d_ff, d_model, settings.with_bias) {}

  // forward(x), forward(x, saved) and backward(dy, saved) return a tensor; these write to the caller's.

  template <Tensor X, Tensor Y>
  void forward_into(const X& x, Y&& y, const Context& context = {}) const {
    const char* where = "GatedFeedForward::forward";
    require_shapes(where, const_view(x), "y", tensor_view(y).shape());
    const Shape shape = hidden_shape(const_view(x).shape());
    Scratch scratch(where, context, workspace_bytes(const_view(x).shape()));
    const TensorView<Scalar> gates(scratch.take<Scalar>(shape.size()), shape);
    const TensorView<Scalar> hidden(scratch.take<Scalar>(shape.size()), shape);
    const Context inner = scratch.rest(context);
    gate_.forward_into(x, gates, inner);
    up_.forward_into(x, hidden, inner);
    multiply(gates.data(), hidden.data(), hidden.data(), gates.data(), shape.size(), context);
    down_.forward_into(hidden, y, inner);
  }
  template <Tensor X, Tensor Y>
  void forward_into(const X& x, Y&& y, Saved& saved, const Context& context = {}) const {
    const char* where = "GatedFeedForward::forward";
    require_shapes(where, const_view(x), "y", tensor_view(y).shape());
    require_no_overlap(where, "y", tensor_view(y), "x, which backward reads again,", const_view(x));
    const Shape shape = hidden_shape(const_view(x).shape());
    for (auto* memory : {&saved.gates_, &saved.hidden_, &saved.gated_}) {
      memory->resize(static_cast<std::size_t>(shape.size()));
    }
    gate_.forward_into(x, TensorView<Scalar>(saved.gates_.data(), shape), saved.gate_, context);
    up_.forward_into(x, TensorView<Scalar>(saved.hidden_.data(), shape), saved.up_, context);
    const TensorView<Scalar> gated(saved.gated_.data(), shape);
    multiply(saved.gates_.data(), saved.hidden_.data(), gated.data(), gated.data(), shape.size(), context);
    down_.forward_into(gated, y, saved.down_, context);
  }
  template <Tensor DY>
  void backward_into(const DY& dy, const Saved& saved, const TensorGradient<Scalar>& dx, const Context& context = {}) {
    const char* where = "GatedFeedForward::backward";
    if (saved.up_.x().rank() == 0) {
      raise_logic_error(where, "saved is empty, expected the Saved of a forward(x, saved) call");
    }
    require_same_shape(where, "dy", const_view(dy).shape(), "the x that was saved", saved.up_.x().shape());
    require_input_gradient(where, dx, const_view(dy), saved.up_.x());
    const Shape shape = hidden_shape(const_view(dy).shape());
    Scratch scratch(where, context, workspace_bytes(const_view(dy).shape()));
    const TensorView<Scalar> dgates(scratch.take<Scalar>(shape.size()), shape);
    const TensorView<Scalar> dhidden(scratch.take<Scalar>(shape.size()), shape);
    const Context inner = scratch.rest(context);
    down_.backward_into(dy, saved.down_, dgates, inner);
    multiply_backward(saved, dgates.data(), dhidden.data(), shape.size(), context);
    up_.backward_into(dhidden, saved.up_, dx, inner);
    gate_.backward_into(dgates, saved.gate_, dx.is_wanted() ? add_to(dx.view()) : dx, inner);
  }

  /// Bytes of workspace with which nothing is allocated: two hidden layers, and what Eigen's matrix products pack into
  /// is not counted.
  std::size_t workspace_bytes(const Shape& x) const { return 2 * Scratch::bytes<Scalar>(hidden_shape(x).size()); }

  Linear<Scalar>& gate() noexcept { return gate_; }
  Linear<Scalar>& up() noexcept { return up_; }
  Linear<Scalar>& down() noexcept { return down_; }
  const Linear<Scalar>& gate() const noexcept { return gate_; }
  const Linear<Scalar>& up() const noexcept { return up_; }
  const Linear<Scalar>& down() const noexcept { return down_; }

  /// See for_each_parameter.
  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& prefix) {
    for_each_parameter(self.gate_, visit, prefix + "gate.");
    for_each_parameter(self.up_, visit, prefix + "up.");
    for_each_parameter(self.down_, visit, prefix + "down.");
  }

 private:
  Shape hidden_shape(const Shape& x) const { return detail::with_last(x, up_.out_features()); }
  void require_shapes(const char* where, const TensorView<const Scalar>& x, const char* name, const Shape& y) const {
    require_same_shape(where, "x", x.shape(), "the input", detail::with_last(x.shape(), up_.in_features()));
    require_same_shape(where, name, y, "x", x.shape());
  }
  /// gated = activation(gates) * hidden; gated may be hidden, and `activated`, which is written first, may be gates, or
  /// gated where that is not hidden.
  void multiply(const Scalar* gates, const Scalar* hidden, Scalar* gated, Scalar* activated, Index count,
                const Context& context) const {
    activate<Scalar>(activation_, gates, activated, count, context.executor);
    detail::InBlocks(context.executor).elements(count, sizeof(Scalar), [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) gated[i] = activated[i] * hidden[i];
    });
  }
  /// Of the gradient of gated, which dgates has, it makes those of gates and hidden.
  void multiply_backward(const Saved& saved, Scalar* dgates, Scalar* dhidden, Index count,
                         const Context& context) const {
    activate<Scalar>(activation_, saved.gates_.data(), dhidden, count, context.executor);
    const Scalar* hidden = saved.hidden_.data();
    detail::InBlocks(context.executor).elements(count, sizeof(Scalar), [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) {
        const Scalar dgated = dgates[i];
        dhidden[i] *= dgated;
        dgates[i] = dgated * hidden[i];
      }
    });
    activate_backward<Scalar>(activation_, dgates, saved.gates_.data(), dgates, count, context.executor);
  }

  Activation activation_;
  Linear<Scalar> gate_, up_, down_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
