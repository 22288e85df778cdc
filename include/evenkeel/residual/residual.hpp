#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "evenkeel/core/concepts.hpp"
#include "evenkeel/core/parameter.hpp"
#include "evenkeel/detail/residual_checks.hpp"
#include "evenkeel/detail/returning_forms.hpp"
#include "evenkeel/residual/fuses_addition.hpp"
#include "evenkeel/residual/residual_settings.hpp"

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
    typename N::Saved in_, branch_, skip_, trunk_;
    typename F::Saved sublayer_;
    typename Dropout<Scalar>::Saved drop_;
    std::vector<Scalar> entered_;   // N_in(x), which F's Saved may view
    std::vector<Scalar> returned_;  // F's output, where N_branch reads it again
    std::vector<Scalar> added_;     // what a learned lambda multiplies
    std::vector<Scalar> sum_;       // what N_trunk reads again
    detail::KeptMask<Scalar> mask_;
  };

  explicit Residual(F sublayer, ResidualNorms<N> norms = {}, ResidualSettings<Scalar> settings = {})
      : sublayer_(std::move(sublayer)), norms_(std::move(norms)), settings_(std::move(settings)) {
    require_finite("Residual", "alpha", settings_.alpha);
    require_finite("Residual", "in_scale", settings_.in_scale);
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
    const std::optional<View> skip = hands_on(dx) ? std::optional(dy) : std::nullopt;
    const View df =
        leave_backward_into(dy, saved, temporary(scratch, dy), skip ? TensorGradient<Scalar>() : dx, scratch, context);
    if constexpr (IntoSublayer<F, Scalar>) {
      const MutableView da = temporary(scratch, dy);
      sublayer_.backward_into(df, saved.sublayer_, da, scratch.rest(context));
      enter_backward_into(da, saved, skip, dx, scratch, context);
    } else {
      const OwnedOf<DY> da =
          detail::backward_of(sublayer_, TraitsOf<DY>::map(df), saved.sublayer_, context_of_sublayer(scratch, context));
      enter_backward_into(require_returned(const_view(da), dy), saved, skip, dx, scratch, context);
    }
  }

  /// The first half: what F receives, N_in(x).
  template <Tensor X>
  OwnedOf<X> enter(const X& x, const Context& context = {}) const {
    auto entered = make_like(x);
    enter_into(*this, const_view(x), tensor_view(entered), nullptr, context);
    return entered;
  }
  /// The same in training: a view of x, or of what `saved` now owns.
  template <Tensor X>
  ConstMapOf<X> enter(const X& x, Saved& saved, const Context& context = {}) {
    const View view = const_view(x);
    const View entered = enter_view(view, saved, context, {});
    saved.x_ = view;
    return TraitsOf<X>::map(entered);
  }

  /// The second half: the new stream, from x and what F has returned.
  template <Tensor X, Tensor FX>
  OwnedOf<X> leave(const X& x, const FX& f, const Context& context = {}) const {
    auto y = make_like(x);
    const View returned = require_returned(const_view(f), const_view(x));
    settings_.lambda.require_fits("Residual::leave", returned.shape());
    detail::require_row_mask("Residual::leave", "mask", context.mask, returned.shape());
    Scratch scratch("Residual::leave", context, workspace_bytes(returned.shape()));
    leave_into(*this, const_view(x), returned, tensor_view(y), nullptr, scratch, context, Around());
    return y;
  }
  /// The same in training.
  template <Tensor X, Tensor FX>
  OwnedOf<X> leave(const X& x, const FX& f, Saved& saved, const Context& context = {}) {
    auto y = make_like(x);
    const View returned = require_returned(const_view(f), const_view(x));
    settings_.lambda.require_fits("Residual::leave", returned.shape());
    detail::require_row_mask("Residual::leave", "mask", context.mask, returned.shape());
    Scratch scratch("Residual::leave", context, workspace_bytes(returned.shape()));
    leave_into(*this, const_view(x), returned, tensor_view(y), &saved, scratch, context, Around());
    return y;
  }

  /// The mirror of leave: the gradient at F's output; writes the skip path's share of the gradient at x to dx.
  template <Tensor DY>
  OwnedOf<DY> leave_backward(const DY& dy, const Saved& saved, const TensorGradient<Scalar>& dx,
                             const Context& context = {}) {
    require_backward(const_view(dy), saved, dx);
    auto df = make_like(dy);
    Scratch scratch("Residual::leave_backward", context, workspace_bytes(const_view(dy).shape()));
    const MutableView place = tensor_view(df);
    const View at_branch = leave_backward_into(const_view(dy), saved, place, dx, scratch, context);
    if (at_branch.data() != place.data()) scale(context, 1, at_branch, place);
    return df;
  }
  /// The mirror of enter: adds to dx the branch's share, from the gradient at what F has received.
  template <Tensor DA>
  void enter_backward(const DA& da, const Saved& saved, const TensorGradient<Scalar>& dx, const Context& context = {}) {
    require_backward(const_view(da), saved, dx);
    Scratch scratch("Residual::enter_backward", context, workspace_bytes(const_view(da).shape()));
    enter_backward_into(const_view(da), saved, {}, dx, scratch, context);
  }

  /// Bytes of workspace with which forward_into and backward_into allocate nothing themselves, for x of this shape.
  std::size_t workspace_bytes(const Shape& x) const {
    std::size_t inner = settings_.lambda.workspace_bytes();
    for (const auto* norm : {&norms_.in, &norms_.branch, &norms_.skip, &norms_.trunk}) {
      if (*norm) inner = std::max(inner, (*norm)->workspace_bytes(x));
    }
    if constexpr (IntoSublayer<F, Scalar>) inner = std::max(inner, sublayer_.workspace_bytes(x));
    return most_temporaries * Scratch::bytes<Scalar>(x.size()) + inner;
  }

  F& sublayer() noexcept { return sublayer_; }
  const F& sublayer() const noexcept { return sublayer_; }
  ResidualNorms<N>& norms() noexcept { return norms_; }
  const ResidualNorms<N>& norms() const noexcept { return norms_; }
  /// To load or map a learned lambda; a value of another kind is not for a Saved that there is.
  Lambda<Scalar>& lambda() noexcept { return settings_.lambda; }
  std::optional<Dropout<Scalar>>& drop() noexcept { return settings_.drop; }
  const ResidualSettings<Scalar>& settings() const noexcept { return settings_; }

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

  /// What stands around a block: who looks at its branch and, in a stack, the norms on both sides of a sum.
  template <class SeeBranch = detail::SeesNothing>
  struct Around {
    std::optional<MutableView> entered = {};  // N_in(x), if the block before has computed it with its sum
    const N* next = nullptr;                  // the norm that reads this block's sum next, and goes along with it
    MutableView next_y = {};                  // where it writes
    typename N::Saved* next_saved = nullptr;
    SeeBranch see_branch = {};
  };

  /// Of one call: inference takes N_in(x), F(x), N_skip(x) and the sum; backward df, da, the gradient of the sum, and
  /// that of N_in(x).
  static constexpr std::size_t most_temporaries = 4;

  template <class Self, class VisitPart>
  static void visit_parts(Self& self, const std::string& prefix, const VisitPart& visit) {
    auto& norms = self.norms_;
    if (norms.in) visit(*norms.in, prefix + "norm_in.");
    visit(self.sublayer_, prefix + "sublayer.");
    if (norms.branch) visit(*norms.branch, prefix + "norm_branch.");
    visit(self.settings_.lambda, prefix + "lambda");
    if (norms.skip) visit(*norms.skip, prefix + "norm_skip.");
    if (norms.trunk) visit(*norms.trunk, prefix + "norm_trunk.");
  }

  /// x and the tensors that F takes and returns are of X's kind.
  template <class X>
  void infer(const View& x, const MutableView& y, const Context& context, const Around<>& around) const {
    require_output(x, y, context);
    Scratch scratch("Residual::forward", context, workspace_bytes(x.shape()));
    View entered = x;
    if (changes_input(context)) {
      const MutableView place = around.entered ? *around.entered : temporary(scratch, x);
      enter_into(*this, x, place, nullptr, scratch.rest(context), around.entered.has_value());
      entered = place;
    }
    const MutableView returned = norms_.branch ? temporary(scratch, x) : y;
    if constexpr (IntoSublayer<F, Scalar>) {
      sublayer_.forward_into(entered, returned, scratch.rest(context));
      leave_into(*this, x, returned, y, nullptr, scratch, context, around);
    } else {
      const OwnedOf<X> f =
          detail::forward_of(sublayer_, TraitsOf<X>::map(entered), context_of_sublayer(scratch, context));
      leave_into(*this, x, require_returned(const_view(f), x), y, nullptr, scratch, context, around);
    }
  }
  template <class X, class SeeBranch>
  void train(const View& x, const MutableView& y, Saved& saved, const Context& context,
             const Around<SeeBranch>& around) {
    require_output(x, y, context);
    Scratch scratch("Residual::forward", context, workspace_bytes(x.shape()));
    saved.x_ = {};
    const View entered = enter_view(x, saved, scratch.rest(context), around.entered.has_value());
    const MutableView returned = place_of_returned(x, y, saved);
    if constexpr (IntoSublayer<F, Scalar>) {
      sublayer_.forward_into(entered, returned, saved.sublayer_, scratch.rest(context));
      leave_into(*this, x, returned, y, &saved, scratch, context, around);
    } else {
      const OwnedOf<X> f = detail::forward_of(sublayer_, TraitsOf<X>::map(entered), saved.sublayer_,
                                              context_of_sublayer(scratch, context));
      leave_into(*this, x, require_returned(const_view(f), x), y, &saved, scratch, context, around);
    }
    saved.x_ = x;
  }

  void require_output(const View& x, const MutableView& y, const Context& context) const {
    detail::require_stream("Residual::forward", x, y, context.mask);
    settings_.lambda.require_fits("Residual::forward", x.shape());
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
  static MutableView temporary(Scratch& scratch, const View& like) {
    return {scratch.take<Scalar>(like.size()), like.shape(), like.order()};
  }
  static MutableView kept(std::vector<Scalar>& memory, const View& like) {
    memory.resize(static_cast<std::size_t>(like.size()));
    return {memory.data(), like.shape(), like.order()};
  }
  static void scale(const Context& context, double factor, const View& from, const MutableView& to) {
    detail::residual_add<Scalar>("Residual", context.executor, factor, from, 0, {}, to);
  }
  bool changes_input(const Context& context) const noexcept {
    return norms_.in || settings_.in_scale != 1 || context.mask.is_given();
  }

  View enter_view(const View& x, Saved& saved, const Context& context, bool is_normalized) {
    if (!changes_input(context)) return saved.mask_.keep({}, x);
    const MutableView entered = kept(saved.entered_, x);
    enter_into(*this, x, entered, &saved, context, is_normalized);
    return entered;
  }
  /// N_in(x), which may be there already, times its factor.
  template <class Self>
  static void enter_into(Self& self, View x, const MutableView& entered, Saved* saved, const Context& context,
                         bool is_normalized = false) {
    detail::require_row_mask("Residual::enter", "mask", context.mask, x.shape());
    if (saved) x = saved->mask_.keep(context.mask, x);
    if (!saved && context.mask.is_given()) x = detail::copy_valid_rows(context.mask, x, entered);
    const double factor = self.settings_.in_scale;
    if (self.norms_.in && !is_normalized) {
      detail::apply_norm(*self.norms_.in, x, entered, saved ? &saved->in_ : nullptr, context);
    }
    if (!self.norms_.in || factor != 1) scale(context, factor, self.norms_.in ? View(entered) : x, entered);
  }

  /// Where F writes in training: what reads it again, or sums it up.
  MutableView place_of_returned(const View& x, const MutableView& y, Saved& saved) const {
    if (norms_.branch) return kept(saved.returned_, x);
    if (settings_.lambda.is_learned()) return kept(saved.added_, x);
    return norms_.trunk ? kept(saved.sum_, x) : y;
  }

  /// drop(N_branch(f)), 0 in rows that are not valid: f itself or, where it changes or is read again, at `place`.
  template <class Self>
  static View branch_into(Self& self, View f, const MutableView& place, Saved* saved, const Context& context) {
    if (auto& norm = self.norms_.branch) {
      if (saved && f.data() != saved->returned_.data()) {
        const MutableView returned = kept(saved->returned_, f);
        scale(context, 1, f, returned);
        f = returned;
      }
      detail::apply_norm(*norm, f, place, saved ? &saved->branch_ : nullptr, context);
      f = place;
    }
    if constexpr (!std::is_const_v<Self>) {
      if (saved && self.settings_.drop) {
        self.settings_.drop->forward_into(f, place, saved->drop_, context);
        f = place;
      }
    }
    if (f.data() != place.data()) {
      const bool is_read_again = saved && self.settings_.lambda.is_learned();
      if (!is_read_again && !context.mask.is_given()) return f;
      scale(context, 1, f, place);
    }
    detail::zero_invalid_rows(context.mask, place);
    return place;
  }

  /// f may be y or, in training, what `saved` keeps of it.
  template <class Self, class SeeBranch>
  static void leave_into(Self& self, const View& x, const View& f, const MutableView& y, Saved* saved, Scratch& scratch,
                         const Context& context, const Around<SeeBranch>& around) {
    auto& norms = self.norms_;
    const auto& settings = self.settings_;
    const MutableView sum = !norms.trunk || (!saved && FusesAddition<N>) ? y
                            : saved                                      ? kept(saved->sum_, x)
                                                                         : temporary(scratch, x);
    const MutableView added = saved && settings.lambda.is_learned() ? kept(saved->added_, x) : sum;
    const View branch = branch_into(self, f, added, saved, scratch.rest(context));
    around.see_branch(branch);
    View skip = x;
    if (norms.skip) {
      const MutableView normalized = temporary(scratch, x);
      detail::apply_norm(*norms.skip, x, normalized, saved ? &saved->skip_ : nullptr, scratch.rest(context));
      skip = normalized;
    }
    const detail::Addition<Scalar> addition{settings.alpha, skip, settings.lambda.factor(), branch};
    if constexpr (FusesAddition<N>) {
      if (around.next) {
        return around.next->add_forward_into(addition, y, around.next_y, around.next_saved, scratch.rest(context));
      }
    }
    detail::add_and_normalize(norms.trunk, addition, sum, y, saved ? &saved->trunk_ : nullptr, scratch.rest(context));
  }

  /// Whether the gradient at y is the skip path's share of dx as it is, so that enter_backward_into can add to it.
  bool hands_on(const TensorGradient<Scalar>& dx) const noexcept {
    return dx.is_wanted() && !dx.adds() && !norms_.trunk && !norms_.skip && settings_.alpha == 1 &&
           (FusesAddition<N> || !norms_.in);
  }

  /// The gradient at what F has returned: dy itself, or what is written to df.
  View leave_backward_into(const View& dy, const Saved& saved, const MutableView& df, const TensorGradient<Scalar>& dx,
                           Scratch& scratch, const Context& context) {
    View at_branch = sum_backward_into(dy, saved, df, dx, scratch, context);
    if (saved.mask_.view().is_given()) {
      if (at_branch.data() != df.data()) scale(context, 1, at_branch, df);
      detail::zero_invalid_rows(saved.mask_.view(), df);
      at_branch = df;
    }
    if (settings_.drop) {
      settings_.drop->backward_into(at_branch, saved.drop_, df, context);
      at_branch = df;
    }
    if (norms_.branch) {
      norms_.branch->backward_into(at_branch, saved.branch_, df, scratch.rest(context));
      at_branch = df;
    }
    return at_branch;
  }

  /// Of y = N_trunk(alpha * N_skip(x) + lambda * d): the gradient at d, dy itself or what is written to df, and dx.
  View sum_backward_into(const View& dy, const Saved& saved, const MutableView& df, const TensorGradient<Scalar>& dx,
                         Scratch& scratch, const Context& context) {
    const auto& lambda = settings_.lambda;
    View dsum = dy;
    if (norms_.trunk) {
      if constexpr (FusesAddition<N>) {
        if (!norms_.skip && !lambda.is_learned()) {
          norms_.trunk->add_backward_into(dy, saved.trunk_, {}, {settings_.alpha, lambda.initial(), dx, df},
                                          scratch.rest(context));
          return df;
        }
      }
      const MutableView place = temporary(scratch, dy);
      norms_.trunk->backward_into(dy, saved.trunk_, place, scratch.rest(context));
      dsum = place;
    }
    if (norms_.skip) {
      scale(context, settings_.alpha, dsum, df);
      norms_.skip->backward_into(df, saved.skip_, dx, scratch.rest(context));
    } else if (dx.is_wanted()) {
      const View before = dx.adds() ? View(dx.view()) : View();
      detail::residual_add<Scalar>("Residual::backward", context.executor, settings_.alpha, dsum, 1, before, dx.view());
    }
    settings_.lambda.add_gradient("Residual::backward", dsum, {saved.added_.data(), dsum.shape(), dsum.order()},
                                  scratch.rest(context));
    if (!lambda.is_learned() && lambda.initial() == 1) return dsum;
    detail::residual_add<Scalar>("Residual::backward", context.executor, 0, {}, lambda.factor(), dsum, df);
    return df;
  }

  /// Adds the branch's share to dx, or writes dx = skip + that share.
  void enter_backward_into(View da, const Saved& saved, const std::optional<View>& skip,
                           const TensorGradient<Scalar>& dx, Scratch& scratch, const Context& context) {
    if ((norms_.in && settings_.in_scale != 1) || saved.mask_.view().is_given()) {
      const MutableView scaled = temporary(scratch, da);
      scale(context, norms_.in ? settings_.in_scale : 1, da, scaled);
      detail::zero_invalid_rows(saved.mask_.view(), scaled);
      da = scaled;
    }
    if (!norms_.in) {
      if (!dx.is_wanted()) return;
      const View before = skip ? *skip : View(dx.view());
      return detail::residual_add<Scalar>("Residual::backward", context.executor, 1, before, settings_.in_scale, da,
                                          dx.view());
    }
    if constexpr (FusesAddition<N>) {
      if (skip) return norms_.in->add_backward_into(da, saved.in_, *skip, {.dx = dx}, scratch.rest(context));
    }
    norms_.in->backward_into(da, saved.in_, dx.is_wanted() ? add_to(dx.view()) : dx, scratch.rest(context));
  }

  F sublayer_;
  ResidualNorms<N> norms_;
  ResidualSettings<Scalar> settings_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
