#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "evenkeel/core/concepts.hpp"
#include "evenkeel/core/parameter.hpp"
#include "evenkeel/detail/residual_checks.hpp"
#include "evenkeel/detail/returning_forms.hpp"
#include "evenkeel/residual/residual_halves.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

template <Norm N, class F>
class Stack;

/// The residual sublayer wrapper, one formula for every placement of the norm:
///
///   y = N_trunk(alpha * N_skip(x) + lambda * drop(N_branch(F(in_scale * N_in(x)))))
///
/// Blocks such as PreNorm and PostNorm are names for settings of it, and can be stored as a Residual. The forward is
/// two halves, enter(x), what F receives, and leave(x, f), the new stream; the backward is their mirror.
/// @code
///   using Block = Residual<LayerNorm<float>, FeedForward<float>>;
///   Block block(FeedForward<float>(256, 1024), {.in = LayerNorm<float>(256)}, {.alpha = 2});
///   Block::Saved saved;
///   auto y = block.forward(x, saved);
///   auto dx = block.backward(dy, saved);
/// @endcode
///
/// Where Context has a mask, F receives a row that is not valid as N_in(0), what it returns for that row counts as 0,
/// and the skip path goes on: y = N_trunk(alpha * N_skip(x)) there. F sees the mask too.
///
/// Shapes    x, y, and F's input and output alike, in one storage order; a lambda that is a vector [last axis].
/// Errors    throws std::invalid_argument if a factor is not finite, lambda does not fit, F's output has another shape
///           than its input, or a norm or F does; std::logic_error for a backward without a forward.
/// Source    He et al. 2015, arXiv:1512.03385; placements: Xiong et al. 2020, arXiv:2002.04745, and see blocks/.
template <Norm N, class F>
class Residual : public detail::ReturningForms<Residual<N, F>> {
 public:
  using Scalar = typename N::Scalar;
  using NormType = N;
  using SublayerType = F;

  /// What a training forward keeps. It views x, which has to live unchanged until backward (a temporary is moved in),
  /// and owns every intermediate tensor once. Used again for the same shape it allocates nothing. Move-only.
  class Saved : public detail::SavedBase {
    friend class Residual;
    friend class Stack<N, F>;
    TensorView<const Scalar> x_;  // rank 0 before a forward, and after one that has failed
    typename detail::ResidualHalves<N>::Saved halves_;
    typename F::Saved sublayer_;
  };

  explicit Residual(F sublayer, ResidualNorms<N> norms = {}, ResidualSettings<Scalar> settings = {})
      : sublayer_(std::move(sublayer)), halves_{std::move(norms), std::move(settings)} {
    require_finite("Residual", "alpha", halves_.settings.alpha);
    require_finite("Residual", "in_scale", halves_.settings.in_scale);
  }

  // forward(x), forward(x, saved) and backward(dy, saved) return a tensor; these write to the caller's.

  template <Tensor X, Tensor Y>
  void forward_into(const X& x, Y&& y, const Context& context = {}) const {
    infer<X>(const_view(x), tensor_view(y), context, {});
  }

  /// Training; see_branch(view) is shown N_branch(F(N_in(x))) before it is multiplied by lambda and added.
  template <Tensor X, Tensor Y, class SeeBranch = detail::SeesNothing>
  void forward_into(const X& x, Y&& y, Saved& saved, const Context& context = {}, const SeeBranch& see_branch = {}) {
    train<X>(const_view(x), tensor_view(y), saved, context, Around<SeeBranch>{.see_branch = see_branch});
  }

  template <Tensor DY>
  void backward_into(const DY& dy_tensor, const Saved& saved, const TensorGradient<Scalar>& dx,
                     const Context& context = {}) {
    const View dy = const_view(dy_tensor);
    require_backward(dy, saved, dx);
    Scratch scratch("Residual::backward", context, workspace_bytes(dy.shape()));
    const std::optional<View> skip = halves_.hands_on(dx) ? std::optional(dy) : std::nullopt;
    const View df = halves_.leave_backward_into(dy, saved.halves_, Halves::temporary(scratch, dy),
                                                skip ? TensorGradient<Scalar>() : dx, scratch, context);
    if constexpr (IntoSublayer<F, Scalar>) {
      const MutableView da = Halves::temporary(scratch, dy);
      sublayer_.backward_into(df, saved.sublayer_, da, scratch.rest(context));
      halves_.enter_backward_into(da, saved.halves_, skip, dx, scratch, context);
    } else {
      const OwnedOf<DY> da =
          detail::backward_of(sublayer_, TraitsOf<DY>::map(df), saved.sublayer_, context_of_sublayer(scratch, context));
      halves_.enter_backward_into(require_returned(const_view(da), dy), saved.halves_, skip, dx, scratch, context);
    }
  }

  /// The first half: what F receives, N_in(x).
  template <Tensor X>
  OwnedOf<X> enter(const X& x, const Context& context = {}) const {
    auto entered = make_like(x);
    Halves::enter_into(halves_, const_view(x), tensor_view(entered), nullptr, context);
    return entered;
  }
  /// The same in training: a view of x, or of what `saved` now owns.
  template <Tensor X>
  ConstMapOf<X> enter(const X& x, Saved& saved, const Context& context = {}) {
    const View view = const_view(x);
    const View entered = halves_.enter_view(view, saved.halves_, context);
    saved.x_ = view;
    return TraitsOf<X>::map(entered);
  }

  /// The second half: the new stream, from x and what F has returned.
  template <Tensor X, Tensor FX>
  OwnedOf<X> leave(const X& x, const FX& f, const Context& context = {}) const {
    return leave_of(halves_, x, const_view(f), nullptr, context);
  }
  /// The same in training.
  template <Tensor X, Tensor FX>
  OwnedOf<X> leave(const X& x, const FX& f, Saved& saved, const Context& context = {}) {
    return leave_of(halves_, x, const_view(f), &saved.halves_, context);
  }

  /// The mirror of leave: the gradient at F's output; writes the skip path's share of the gradient at x to dx.
  template <Tensor DY>
  OwnedOf<DY> leave_backward(const DY& dy, const Saved& saved, const TensorGradient<Scalar>& dx,
                             const Context& context = {}) {
    require_backward(const_view(dy), saved, dx);
    auto df = make_like(dy);
    Scratch scratch("Residual::leave_backward", context, workspace_bytes(const_view(dy).shape()));
    const MutableView place = tensor_view(df);
    const View at_branch = halves_.leave_backward_into(const_view(dy), saved.halves_, place, dx, scratch, context);
    if (at_branch.data() != place.data()) Halves::scale(context, 1, at_branch, place);
    return df;
  }
  /// The mirror of enter: adds to dx the branch's share, from the gradient at what F has received.
  template <Tensor DA>
  void enter_backward(const DA& da, const Saved& saved, const TensorGradient<Scalar>& dx, const Context& context = {}) {
    require_backward(const_view(da), saved, dx);
    Scratch scratch("Residual::enter_backward", context, workspace_bytes(const_view(da).shape()));
    halves_.enter_backward_into(const_view(da), saved.halves_, {}, dx, scratch, context);
  }

  /// Bytes of workspace with which forward_into and backward_into allocate nothing themselves, for x of this shape.
  std::size_t workspace_bytes(const Shape& x) const {
    std::size_t inner = halves_.settings.lambda.workspace_bytes();
    for (const auto* norm : {&halves_.norms.in, &halves_.norms.branch, &halves_.norms.skip, &halves_.norms.trunk}) {
      if (*norm) inner = std::max(inner, (*norm)->workspace_bytes(x));
    }
    if constexpr (IntoSublayer<F, Scalar>) inner = std::max(inner, sublayer_.workspace_bytes(x));
    return most_temporaries * Scratch::bytes<Scalar>(x.size()) + inner;
  }

  F& sublayer() noexcept { return sublayer_; }
  const F& sublayer() const noexcept { return sublayer_; }
  ResidualNorms<N>& norms() noexcept { return halves_.norms; }
  const ResidualNorms<N>& norms() const noexcept { return halves_.norms; }
  /// To load or map a learned lambda; a value of another kind is not for a Saved that there is.
  Lambda<Scalar>& lambda() noexcept { return halves_.settings.lambda; }
  std::optional<Dropout<Scalar>>& drop() noexcept { return halves_.settings.drop; }
  const ResidualSettings<Scalar>& settings() const noexcept { return halves_.settings; }

  /// See for_each_parameter.
  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& prefix) {
    visit_parts(self, prefix, [&](auto& part, const std::string& path) { for_each_parameter(part, visit, path); });
  }
  /// See for_each_buffer.
  template <class Self, class Visit>
  static void visit_buffers(Self& self, Visit& visit, const std::string& prefix) {
    visit_parts(self, prefix, [&](auto& part, const std::string& path) { for_each_buffer(part, visit, path); });
  }

 private:
  friend class Stack<N, F>;
  using View = TensorView<const Scalar>;
  using MutableView = TensorView<Scalar>;
  using Halves = detail::ResidualHalves<N>;
  template <class SeeBranch = detail::SeesNothing>
  using Around = typename Halves::template Around<SeeBranch>;

  /// Of one call: inference takes N_in(x), F(x), N_skip(x) and the sum; backward df, da, the gradient of the sum, and
  /// that of N_in(x).
  static constexpr std::size_t most_temporaries = 4;

  template <class Self, class VisitPart>
  static void visit_parts(Self& self, const std::string& prefix, const VisitPart& visit) {
    auto& norms = self.halves_.norms;
    if (norms.in) visit(*norms.in, prefix + "norm_in.");
    visit(self.sublayer_, prefix + "sublayer.");
    if (norms.branch) visit(*norms.branch, prefix + "norm_branch.");
    visit(self.halves_.settings.lambda, prefix + "lambda");
    if (norms.skip) visit(*norms.skip, prefix + "norm_skip.");
    if (norms.trunk) visit(*norms.trunk, prefix + "norm_trunk.");
  }

  /// x and the tensors that F takes and returns are of X's kind.
  template <class X>
  void infer(const View& x, const MutableView& y, const Context& context, const Around<>& around) const {
    require_output(x, y, context);
    Scratch scratch("Residual::forward", context, workspace_bytes(x.shape()));
    View entered = x;
    if (halves_.changes_input(context)) {
      const MutableView place = around.entered ? *around.entered : Halves::temporary(scratch, x);
      Halves::enter_into(halves_, x, place, nullptr, scratch.rest(context), around.entered.has_value());
      entered = place;
    }
    const MutableView returned = halves_.norms.branch ? Halves::temporary(scratch, x) : y;
    if constexpr (IntoSublayer<F, Scalar>) {
      sublayer_.forward_into(entered, returned, scratch.rest(context));
      Halves::leave_into(halves_, x, returned, y, nullptr, scratch, context, around);
    } else {
      const OwnedOf<X> f =
          detail::forward_of(sublayer_, TraitsOf<X>::map(entered), context_of_sublayer(scratch, context));
      Halves::leave_into(halves_, x, require_returned(const_view(f), x), y, nullptr, scratch, context, around);
    }
  }
  template <class X, class SeeBranch>
  void train(const View& x, const MutableView& y, Saved& saved, const Context& context,
             const Around<SeeBranch>& around) {
    require_output(x, y, context);
    Scratch scratch("Residual::forward", context, workspace_bytes(x.shape()));
    saved.x_ = {};
    const View entered = halves_.enter_view(x, saved.halves_, scratch.rest(context), around.entered.has_value());
    const MutableView returned = halves_.place_of_returned(x, y, saved.halves_);
    if constexpr (IntoSublayer<F, Scalar>) {
      sublayer_.forward_into(entered, returned, saved.sublayer_, scratch.rest(context));
      Halves::leave_into(halves_, x, returned, y, &saved.halves_, scratch, context, around);
    } else {
      const OwnedOf<X> f = detail::forward_of(sublayer_, TraitsOf<X>::map(entered), saved.sublayer_,
                                              context_of_sublayer(scratch, context));
      Halves::leave_into(halves_, x, require_returned(const_view(f), x), y, &saved.halves_, scratch, context, around);
    }
    saved.x_ = x;
  }

  template <class SomeHalves, class X>
  OwnedOf<X> leave_of(SomeHalves& halves, const X& x, const View& f, typename Halves::Saved* saved,
                      const Context& context) const {
    auto y = make_like(x);
    require_returned(f, const_view(x));
    halves.settings.lambda.require_fits("Residual::leave", f.shape());
    detail::require_row_mask("Residual::leave", "mask", context.mask, f.shape());
    Scratch scratch("Residual::leave", context, workspace_bytes(f.shape()));
    Halves::leave_into(halves, const_view(x), f, tensor_view(y), saved, scratch, context, Around<>());
    return y;
  }

  void require_output(const View& x, const MutableView& y, const Context& context) const {
    detail::require_stream("Residual::forward", x, y, context.mask);
    halves_.settings.lambda.require_fits("Residual::forward", x.shape());
  }
  static View require_returned(const View& f, const View& x) {
    detail::require_like("Residual", "what the sublayer returned", f, "what it was given", x);
    return f;
  }
  static void require_backward(const View& dy, const Saved& saved, const TensorGradient<Scalar>& dx) {
    detail::require_stream_gradient("Residual::backward", dy, saved.x_, dx);
  }

  /// What a sublayer of the caller's needs is not in workspace_bytes: without a workspace it allocates for itself.
  static Context context_of_sublayer(const Scratch& scratch, const Context& context) {
    return context.workspace.empty() ? context : scratch.rest(context);
  }

  F sublayer_;
  detail::ResidualHalves<N> halves_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
