#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "evenkeel/detail/returning_forms.hpp"
#include "evenkeel/sublayers/activation.hpp"
#include "evenkeel/sublayers/linear.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// What a FeedForward is made of.
struct FeedForwardSettings {
  Activation activation = Activation::gelu;
  bool with_bias = true;
};

/// The feed-forward sublayer of a transformer: y = down(activation(up(x))).
///
/// Shapes    x, y [..., d_model], contiguous along the last axis; up is Linear(d_model, d_ff), down
///           Linear(d_ff, d_model).
/// Errors    as Linear.
/// Source    Vaswani et al. 2017, arXiv:1706.03762, section 3.3.
template <class S>
class FeedForward : public detail::ReturningForms<FeedForward<S>> {
 public:
  using Scalar = S;

  /// A view of x (a temporary is moved in), and the hidden layer before and after its activation: 2 * rows * d_ff
  /// numbers. Used again for the same shape it allocates nothing. Move-only.
  class Saved : public detail::SavedBase {
    friend class FeedForward;
    typename Linear<Scalar>::Saved up_, down_;
    std::vector<Scalar> hidden_, activated_;
  };

  FeedForward(Index d_model, Index d_ff, const FeedForwardSettings& settings = {})
      : activation_(settings.activation),
        up_(d_model, d_ff, settings.with_bias),
        down_(d_ff, d_model, settings.with_bias) {}

  // forward(x), forward(x, saved) and backward(dy, saved) return a tensor; these write to the caller's.

  template <Tensor X, Tensor Y>
  void forward_into(const X& x, Y&& y, const Context& context = {}) const {
    require_shapes("FeedForward::forward", const_view(x), "y", tensor_view(y).shape());
    const Shape hidden_shape = detail::with_last(const_view(x).shape(), up_.out_features());
    Scratch scratch("FeedForward::forward", context, workspace_bytes(const_view(x).shape()));
    const TensorView<Scalar> hidden(scratch.take<Scalar>(hidden_shape.size()), hidden_shape);
    const Context inner = scratch.rest(context);
    up_.forward_into(x, hidden, inner);
    activate<Scalar>(activation_, hidden.data(), hidden.data(), hidden.size(), context.executor);
    down_.forward_into(hidden, y, inner);
  }
  template <Tensor X, Tensor Y>
  void forward_into(const X& x, Y&& y, Saved& saved, const Context& context = {}) const {
    require_shapes("FeedForward::forward", const_view(x), "y", tensor_view(y).shape());
    require_no_overlap("FeedForward::forward", "y", tensor_view(y), "x, which backward reads again,", const_view(x));
    const Shape hidden_shape = detail::with_last(const_view(x).shape(), up_.out_features());
    saved.hidden_.resize(static_cast<std::size_t>(hidden_shape.size()));
    saved.activated_.resize(saved.hidden_.size());
    const TensorView<Scalar> hidden(saved.hidden_.data(), hidden_shape);
    const TensorView<Scalar> activated(saved.activated_.data(), hidden_shape);
    up_.forward_into(x, hidden, saved.up_, context);
    activate<Scalar>(activation_, hidden.data(), activated.data(), hidden.size(), context.executor);
    down_.forward_into(activated, y, saved.down_, context);
  }
  template <Tensor DY>
  void backward_into(const DY& dy, const Saved& saved, const TensorGradient<Scalar>& dx, const Context& context = {}) {
    const char* where = "FeedForward::backward";
    if (saved.up_.x().rank() == 0) {
      raise_logic_error(where, "saved is empty, expected the Saved of a forward(x, saved) call");
    }
    require_same_shape(where, "dy", const_view(dy).shape(), "the x that was saved", saved.up_.x().shape());
    require_input_gradient(where, dx, const_view(dy), saved.up_.x());
    const Shape hidden_shape = detail::with_last(const_view(dy).shape(), up_.out_features());
    Scratch scratch(where, context, workspace_bytes(const_view(dy).shape()));
    const TensorView<Scalar> dhidden(scratch.take<Scalar>(hidden_shape.size()), hidden_shape);
    const Context inner = scratch.rest(context);
    down_.backward_into(dy, saved.down_, dhidden, inner);
    activate_backward<Scalar>(activation_, dhidden.data(), saved.hidden_.data(), dhidden.data(), dhidden.size(),
                              context.executor);
    up_.backward_into(dhidden, saved.up_, dx, inner);
  }

  /// Bytes of workspace with which nothing is allocated: one hidden layer, and what Eigen's matrix products pack into
  /// is not counted.
  std::size_t workspace_bytes(const Shape& x) const {
    return Scratch::bytes<Scalar>(detail::with_last(x, up_.out_features()).size());
  }

  Linear<Scalar>& up() noexcept { return up_; }
  Linear<Scalar>& down() noexcept { return down_; }
  const Linear<Scalar>& up() const noexcept { return up_; }
  const Linear<Scalar>& down() const noexcept { return down_; }

  /// See for_each_parameter.
  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& prefix) {
    for_each_parameter(self.up_, visit, prefix + "up.");
    for_each_parameter(self.down_, visit, prefix + "down.");
  }

 private:
  void require_shapes(const char* where, const TensorView<const Scalar>& x, const char* name, const Shape& y) const {
    require_same_shape(where, "x", x.shape(), "the input", detail::with_last(x.shape(), up_.in_features()));
    require_same_shape(where, name, y, "x", x.shape());
  }

  Activation activation_;
  Linear<Scalar> up_, down_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
