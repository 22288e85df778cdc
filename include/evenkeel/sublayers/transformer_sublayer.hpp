#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "evenkeel/detail/returning_forms.hpp"
#include "evenkeel/sublayers/feed_forward.hpp"
#include "evenkeel/sublayers/gated_feed_forward.hpp"
#include "evenkeel/sublayers/self_attention.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// The F of a transformer: a SelfAttention, a FeedForward or a GatedFeedForward, whichever it was made from. So blocks
/// of both kinds stand in one stack.
///
/// Shapes, errors, parameters and their paths are those of what it holds.
template <class S>
class TransformerSublayer : public detail::ReturningForms<TransformerSublayer<S>> {
 public:
  using Scalar = S;
  using Variant = std::variant<SelfAttention<Scalar>, FeedForward<Scalar>, GatedFeedForward<Scalar>>;

  /// What the sublayer that ran has saved. Move-only.
  class Saved : public detail::SavedBase {
    friend class TransformerSublayer;
    std::variant<typename SelfAttention<Scalar>::Saved, typename FeedForward<Scalar>::Saved,
                 typename GatedFeedForward<Scalar>::Saved>
        saved_;
  };

  // Not explicit: a block of a transformer is made from any of the three.
  TransformerSublayer(SelfAttention<Scalar> attention) : held_(std::move(attention)) {}           // NOLINT
  TransformerSublayer(FeedForward<Scalar> feed_forward) : held_(std::move(feed_forward)) {}       // NOLINT
  TransformerSublayer(GatedFeedForward<Scalar> feed_forward) : held_(std::move(feed_forward)) {}  // NOLINT

  // forward(x), forward(x, saved) and backward(dy, saved) return a tensor; these write to the caller's.

  template <Tensor X, Tensor Y>
  void forward_into(const X& x, Y&& y, const Context& context = {}) const {
    const TensorView<const Scalar> input = const_view(x);
    const TensorView<Scalar> output = tensor_view(y);
    std::visit([&](const auto& f) { f.forward_into(input, output, context); }, held_);
  }
  template <Tensor X, Tensor Y>
  void forward_into(const X& x, Y&& y, Saved& saved, const Context& context = {}) {
    const TensorView<const Scalar> input = const_view(x);
    const TensorView<Scalar> output = tensor_view(y);
    const auto forward = [&](auto& f) {
      using OwnSaved = typename std::remove_cvref_t<decltype(f)>::Saved;
      if (!std::holds_alternative<OwnSaved>(saved.saved_)) saved.saved_.template emplace<OwnSaved>();
      f.forward_into(input, output, std::get<OwnSaved>(saved.saved_), context);
    };
    std::visit(forward, held_);
  }
  template <Tensor DY>
  void backward_into(const DY& dy, const Saved& saved, const TensorGradient<Scalar>& dx, const Context& context = {}) {
    const TensorView<const Scalar> upstream = const_view(dy);
    const auto backward = [&](auto& f) {
      using OwnSaved = typename std::remove_cvref_t<decltype(f)>::Saved;
      const OwnSaved* own = std::get_if<OwnSaved>(&saved.saved_);
      const OwnSaved empty;  // refused, as that of any backward without a forward
      f.backward_into(upstream, own ? *own : empty, dx, context);
    };
    std::visit(backward, held_);
  }

  std::size_t workspace_bytes(const Shape& x) const {
    return std::visit([&](const auto& f) { return f.workspace_bytes(x); }, held_);
  }

  /// The attention, or null if it is a feed-forward sublayer.
  SelfAttention<Scalar>* attention() noexcept { return std::get_if<SelfAttention<Scalar>>(&held_); }
  const SelfAttention<Scalar>* attention() const noexcept { return std::get_if<SelfAttention<Scalar>>(&held_); }
  Variant& held() noexcept { return held_; }
  const Variant& held() const noexcept { return held_; }

  /// See for_each_parameter.
  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& prefix) {
    std::visit([&](auto& f) { for_each_parameter(f, visit, prefix); }, self.held_);
  }

 private:
  Variant held_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
