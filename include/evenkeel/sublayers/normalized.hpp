#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/core/concepts.hpp"
#include "evenkeel/core/parameter.hpp"
#include "evenkeel/detail/returning_forms.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// A sublayer with a norm of its own in front: F(N(x)). For sublayers side by side that do not share a norm.
///
/// Errors    what N and F throw.
template <Norm N, class F>
requires IntoSublayer<F, typename N::Scalar>
class Normalized : public detail::ReturningForms<Normalized<N, F>> {
 public:
  using Scalar = typename N::Scalar;

  /// What N and F save, and N(x). It views x, which has to live unchanged until backward (a temporary is
  /// moved in). Move-only.
  class Saved : public detail::SavedBase {
    friend class Normalized;
    typename N::Saved norm_;
    typename F::Saved sublayer_;
    std::vector<Scalar> normalized_;
  };

  Normalized(N norm, F sublayer) : norm_(std::move(norm)), sublayer_(std::move(sublayer)) {}

  // forward(x), forward(x, saved) and backward(dy, saved) return a tensor; these write to the caller's.

  template <Tensor X, Tensor Y>
  void forward_into(const X& x_tensor, Y&& y, const Context& context = {}) const {
    const TensorView<const Scalar> x = const_view(x_tensor);
    Scratch scratch("Normalized::forward", context, workspace_bytes(x.shape()));
    const View normalized(scratch.take<Scalar>(x.size()), x.shape(), x.order());
    norm_.forward_into(x, normalized, scratch.rest(context));
    sublayer_.forward_into(normalized, y, scratch.rest(context));
  }
  template <Tensor X, Tensor Y>
  void forward_into(const X& x_tensor, Y&& y, Saved& saved, const Context& context = {}) {
    const TensorView<const Scalar> x = const_view(x_tensor);
    saved.normalized_.resize(static_cast<std::size_t>(x.size()));
    const View normalized(saved.normalized_.data(), x.shape(), x.order());
    norm_.forward_into(x, normalized, saved.norm_, context);
    sublayer_.forward_into(normalized, y, saved.sublayer_, context);
  }
  template <Tensor DY>
  void backward_into(const DY& dy_tensor, const Saved& saved, const TensorGradient<Scalar>& dx,
                     const Context& context = {}) {
    const TensorView<const Scalar> dy = const_view(dy_tensor);
    Scratch scratch("Normalized::backward", context, workspace_bytes(dy.shape()));
    const View dnormalized(scratch.take<Scalar>(dy.size()), dy.shape(), dy.order());
    sublayer_.backward_into(dy, saved.sublayer_, dnormalized, scratch.rest(context));
    norm_.backward_into(dnormalized, saved.norm_, dx, scratch.rest(context));
  }

  /// Bytes of workspace: N(x), and what N or F takes.
  std::size_t workspace_bytes(const Shape& x) const {
    return Scratch::bytes<Scalar>(x.size()) + std::max(norm_.workspace_bytes(x), sublayer_.workspace_bytes(x));
  }

  N& norm() noexcept { return norm_; }
  F& sublayer() noexcept { return sublayer_; }
  const N& norm() const noexcept { return norm_; }
  const F& sublayer() const noexcept { return sublayer_; }

  /// See for_each_parameter.
  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& prefix) {
    for_each_parameter(self.norm_, visit, prefix + "norm.");
    for_each_parameter(self.sublayer_, visit, prefix + "sublayer.");
  }
  /// See for_each_buffer.
  template <class Self, class Visit>
  static void visit_buffers(Self& self, Visit& visit, const std::string& prefix) {
    for_each_buffer(self.norm_, visit, prefix + "norm.");
    for_each_buffer(self.sublayer_, visit, prefix + "sublayer.");
  }

 private:
  using View = TensorView<Scalar>;

  N norm_;
  F sublayer_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
