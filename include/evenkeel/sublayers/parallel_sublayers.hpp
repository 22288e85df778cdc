#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "evenkeel/core/concepts.hpp"
#include "evenkeel/core/parameter.hpp"
#include "evenkeel/detail/returning_forms.hpp"
#include "evenkeel/ops/residual_add.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Two sublayers side by side: F(x) = A(x) + M(x), attention and feed-forward of a parallel block.
///
/// Shapes    x, F(x), and what A and M return alike.
/// Errors    throws std::invalid_argument for a y of another shape, and what A and M throw.
template <class A, class M>
requires(IntoSublayer<A, typename A::Scalar>&& IntoSublayer<M, typename A::Scalar>) class ParallelSublayers
    : public detail::ReturningForms<ParallelSublayers<A, M>> {
 public:
  using Scalar = typename A::Scalar;

  /// What A and M save: they may view x, which has to live unchanged until backward (a temporary is moved in).
  /// Move-only.
  class Saved : public detail::SavedBase {
    friend class ParallelSublayers;
    typename A::Saved attention_;
    typename M::Saved feed_forward_;
  };

  ParallelSublayers(A attention, M feed_forward)
      : attention_(std::move(attention)), feed_forward_(std::move(feed_forward)) {}

  // forward(x), forward(x, saved) and backward(dy, saved) return a tensor; these write to the caller's.

  template <Tensor X, Tensor Y>
  void forward_into(const X& x, Y&& y, const Context& context = {}) const {
    Scratch scratch("ParallelSublayers::forward", context, workspace_bytes(const_view(x).shape()));
    const View other = temporary(scratch, const_view(x), tensor_view(y));
    attention_.forward_into(x, y, scratch.rest(context));
    feed_forward_.forward_into(x, other, scratch.rest(context));
    add(other, tensor_view(y), context);
  }
  template <Tensor X, Tensor Y>
  void forward_into(const X& x, Y&& y, Saved& saved, const Context& context = {}) {
    Scratch scratch("ParallelSublayers::forward", context, workspace_bytes(const_view(x).shape()));
    const View other = temporary(scratch, const_view(x), tensor_view(y));
    attention_.forward_into(x, y, saved.attention_, scratch.rest(context));
    feed_forward_.forward_into(x, other, saved.feed_forward_, scratch.rest(context));
    add(other, tensor_view(y), context);
  }
  template <Tensor DY>
  void backward_into(const DY& dy, const Saved& saved, const TensorGradient<Scalar>& dx, const Context& context = {}) {
    attention_.backward_into(dy, saved.attention_, dx, context);
    feed_forward_.backward_into(dy, saved.feed_forward_, dx.is_wanted() ? add_to(dx.view()) : dx, context);
  }

  /// Bytes of workspace: what M returns, and what A or M takes.
  std::size_t workspace_bytes(const Shape& x) const {
    return Scratch::bytes<Scalar>(x.size()) + std::max(attention_.workspace_bytes(x), feed_forward_.workspace_bytes(x));
  }

  A& attention() noexcept { return attention_; }
  M& feed_forward() noexcept { return feed_forward_; }
  const A& attention() const noexcept { return attention_; }
  const M& feed_forward() const noexcept { return feed_forward_; }

  /// See for_each_parameter.
  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& prefix) {
    for_each_parameter(self.attention_, visit, prefix + "attention.");
    for_each_parameter(self.feed_forward_, visit, prefix + "feed_forward.");
  }
  /// See for_each_buffer.
  template <class Self, class Visit>
  static void visit_buffers(Self& self, Visit& visit, const std::string& prefix) {
    for_each_buffer(self.attention_, visit, prefix + "attention.");
    for_each_buffer(self.feed_forward_, visit, prefix + "feed_forward.");
  }

 private:
  using View = TensorView<Scalar>;

  static View temporary(Scratch& scratch, const TensorView<const Scalar>& x, const View& y) {
    require_same_shape("ParallelSublayers::forward", "y", y.shape(), "x", x.shape());
    require_same_order("ParallelSublayers::forward", "y", y, "x", x);
    return {scratch.take<Scalar>(x.size()), x.shape(), x.order()};
  }
  static void add(const View& other, const View& y, const Context& context) {
    detail::residual_add<Scalar>("ParallelSublayers::forward", context.executor, 1, y, 1, other, y);
  }

  A attention_;
  M feed_forward_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
