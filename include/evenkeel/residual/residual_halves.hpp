#pragma once

#include <cstddef>
#include <optional>
#include <type_traits>
#include <vector>

#include "evenkeel/core/concepts.hpp"
#include "evenkeel/core/parameter.hpp"
#include "evenkeel/detail/residual_checks.hpp"
#include "evenkeel/residual/fuses_addition.hpp"
#include "evenkeel/residual/residual_settings.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// A Residual but for its sublayer: what goes before F, and what comes behind it, forward and backward, on tensors that
/// have been checked. It is compiled once for all sublayers.
template <Norm N>
struct ResidualHalves {
  using Scalar = typename N::Scalar;
  using View = TensorView<const Scalar>;
  using MutableView = TensorView<Scalar>;

  /// What a training forward keeps besides x and the sublayer's own.
  struct Saved {
    typename N::Saved in, branch, skip, trunk;
    typename Dropout<Scalar>::Saved drop;
    std::vector<Scalar> entered;   // N_in(x), which F's Saved may view
    std::vector<Scalar> returned;  // F's output, where N_branch reads it again
    std::vector<Scalar> added;     // what a learned lambda multiplies
    std::vector<Scalar> sum;       // what N_trunk reads again
    KeptMask<Scalar> mask;
  };

  /// What stands around a block: who looks at its branch and, in a stack, the norms on both sides of a sum.
  template <class SeeBranch = SeesNothing>
  struct Around {
    std::optional<MutableView> entered = {};  // N_in(x), if the block before has computed it with its sum
    const N* next = nullptr;                  // the norm that reads this block's sum next, and goes along with it
    MutableView next_y = {};                  // where it writes
    typename N::Saved* next_saved = nullptr;
    SeeBranch see_branch = {};
  };

  static MutableView temporary(Scratch& scratch, const View& like) {
    return {scratch.take<Scalar>(like.size()), like.shape(), like.order()};
  }
  static MutableView kept(std::vector<Scalar>& memory, const View& like) {
    memory.resize(static_cast<std::size_t>(like.size()));
    return {memory.data(), like.shape(), like.order()};
  }
  static void scale(const Context& context, double factor, const View& from, const MutableView& to) {
    residual_add<Scalar>("Residual", context.executor, factor, from, 0, {}, to);
  }
  bool changes_input(const Context& context) const noexcept {
    return norms.in || settings.in_scale != 1 || context.mask.is_given();
  }

  View enter_view(const View& x, Saved& saved, const Context& context, bool is_normalized = false) {
    if (!changes_input(context)) return saved.mask.keep({}, x);
    const MutableView entered = kept(saved.entered, x);
    enter_into(*this, x, entered, &saved, context, is_normalized);
    return entered;
  }
  /// N_in(x), which may be there already, times its factor.
  template <class Self>
  static void enter_into(Self& self, View x, const MutableView& entered, Saved* saved, const Context& context,
                         bool is_normalized = false) {
    require_row_mask("Residual::enter", "mask", context.mask, x.shape());
    if (saved) x = saved->mask.keep(context.mask, x);
    if (!saved && context.mask.is_given()) x = copy_valid_rows(context.mask, x, entered);
    const double factor = self.settings.in_scale;
    if (self.norms.in && !is_normalized) {
      apply_norm(*self.norms.in, x, entered, saved ? &saved->in : nullptr, context);
    }
    if (!self.norms.in || factor != 1) scale(context, factor, self.norms.in ? View(entered) : x, entered);
  }

  /// Where F writes in training: what reads it again, or sums it up.
  MutableView place_of_returned(const View& x, const MutableView& y, Saved& saved) const {
    if (norms.branch) return kept(saved.returned, x);
    if (settings.lambda.is_learned()) return kept(saved.added, x);
    return norms.trunk ? kept(saved.sum, x) : y;
  }

  /// N_branch(f), or drop(N_branch(f)), 0 in rows that are not valid: f itself or, where it changes or is read again,
  /// at `place`.
  template <class Self>
  static View branch_into(Self& self, View f, const MutableView& place, Saved* saved, bool drops,
                          const Context& context) {
    if (auto& norm = self.norms.branch) {
      if (saved && f.data() != saved->returned.data()) {
        const MutableView returned = kept(saved->returned, f);
        scale(context, 1, f, returned);
        f = returned;
      }
      apply_norm(*norm, f, place, saved ? &saved->branch : nullptr, context);
      f = place;
    }
    if constexpr (!std::is_const_v<Self>) {
      if (drops) {
        self.settings.drop->forward_into(f, place, saved->drop, context);
        f = place;
      }
    }
    if (f.data() != place.data()) {
      const bool is_read_again = saved && self.settings.lambda.is_learned();
      if (!is_read_again && !context.mask.is_given()) return f;
      scale(context, 1, f, place);
    }
    zero_invalid_rows(context.mask, place);
    return place;
  }

  /// f may be y or, in training, what `saved` keeps of it.
  template <class Self, class SeeBranch>
  static void leave_into(Self& self, const View& x, const View& f, const MutableView& y, Saved* saved, Scratch& scratch,
                         const Context& context, const Around<SeeBranch>& around) {
    auto& norms = self.norms;
    const auto& settings = self.settings;
    const MutableView sum = !norms.trunk || (!saved && FusesAddition<N>) ? y
                            : saved                                      ? kept(saved->sum, x)
                                                                         : temporary(scratch, x);
    const MutableView added = saved && settings.lambda.is_learned() ? kept(saved->added, x) : sum;
    // The sum drops, unless somebody reads what is dropped: whoever looks at the branch, or the gradient of lambda.
    const bool drops = saved && settings.drop, is_seen = !std::is_same_v<SeeBranch, SeesNothing>;
    const bool sum_drops = drops && !is_seen && !settings.lambda.is_learned();
    const View branch = branch_into(self, f, added, saved, drops && !sum_drops, scratch.rest(context));
    around.see_branch(branch);
    View skip = x;
    if (norms.skip) {
      const MutableView normalized = temporary(scratch, x);
      apply_norm(*norms.skip, x, normalized, saved ? &saved->skip : nullptr, scratch.rest(context));
      skip = normalized;
    }
    Addition<Scalar> addition{settings.alpha, skip, settings.lambda.factor(), branch};
    if constexpr (!std::is_const_v<Self>) {
      if (sum_drops) addition.drop = self.settings.drop->next_mask(x.shape(), saved->drop);
    }
    if constexpr (FusesAddition<N>) {
      if (around.next) {
        return around.next->add_forward_into(addition, y, around.next_y, around.next_saved, scratch.rest(context));
      }
    }
    add_and_normalize(norms.trunk, addition, sum, y, saved ? &saved->trunk : nullptr, scratch.rest(context));
  }

  /// Whether the gradient at y is the skip path's share of dx as it is, so that enter_backward_into can add to it.
  bool hands_on(const TensorGradient<Scalar>& dx) const noexcept {
    return dx.is_wanted() && !dx.adds() && !norms.trunk && !norms.skip && settings.alpha == 1 &&
           (FusesAddition<N> || !norms.in);
  }

  /// The gradient at what F has returned: dy itself, or what is written to df.
  View leave_backward_into(const View& dy, const Saved& saved, const MutableView& df, const TensorGradient<Scalar>& dx,
                           Scratch& scratch, const Context& context) {
    View at_branch = sum_backward_into(dy, saved, df, dx, scratch, context);
    if (saved.mask.view().is_given()) {
      if (at_branch.data() != df.data()) scale(context, 1, at_branch, df);
      zero_invalid_rows(saved.mask.view(), df);
      at_branch = df;
    }
    if (norms.branch) {
      norms.branch->backward_into(at_branch, saved.branch, df, scratch.rest(context));
      at_branch = df;
    }
    return at_branch;
  }

  /// Of y = N_trunk(alpha * N_skip(x) + lambda * drop(d)): the gradient at d, dy itself or what is written to df, and
  /// dx.
  View sum_backward_into(const View& dy, const Saved& saved, const MutableView& df, const TensorGradient<Scalar>& dx,
                         Scratch& scratch, const Context& context) {
    const auto& lambda = settings.lambda;
    View dsum = dy;
    if (norms.trunk) {
      if constexpr (FusesAddition<N>) {
        if (!norms.skip && !lambda.is_learned()) {
          const DropoutMask drop = settings.drop ? saved.drop.mask() : DropoutMask();
          norms.trunk->add_backward_into(dy, saved.trunk, {}, {settings.alpha, lambda.initial(), dx, df, drop},
                                         scratch.rest(context));
          return df;
        }
      }
      const MutableView place = temporary(scratch, dy);
      norms.trunk->backward_into(dy, saved.trunk, place, scratch.rest(context));
      dsum = place;
    }
    if (norms.skip) {
      scale(context, settings.alpha, dsum, df);
      norms.skip->backward_into(df, saved.skip, dx, scratch.rest(context));
    } else if (dx.is_wanted()) {
      const View before = dx.adds() ? View(dx.view()) : View();
      residual_add<Scalar>("Residual::backward", context.executor, settings.alpha, dsum, 1, before, dx.view());
    }
    settings.lambda.add_gradient("Residual::backward", dsum, {saved.added.data(), dsum.shape(), dsum.order()},
                                 scratch.rest(context));
    View at_branch = dsum;
    if (lambda.is_learned() || lambda.initial() != 1) {
      residual_add<Scalar>("Residual::backward", context.executor, 0, {}, lambda.factor(), dsum, df);
      at_branch = df;
    }
    if (!settings.drop) return at_branch;
    settings.drop->backward_into(at_branch, saved.drop, df, context);
    return df;
  }

  /// Adds the branch's share to dx, or writes dx = skip + that share.
  void enter_backward_into(View da, const Saved& saved, const std::optional<View>& skip,
                           const TensorGradient<Scalar>& dx, Scratch& scratch, const Context& context) {
    if ((norms.in && settings.in_scale != 1) || saved.mask.view().is_given()) {
      const MutableView scaled = temporary(scratch, da);
      scale(context, norms.in ? settings.in_scale : 1, da, scaled);
      zero_invalid_rows(saved.mask.view(), scaled);
      da = scaled;
    }
    if (!norms.in) {
      if (!dx.is_wanted()) return;
      const View before = skip ? *skip : View(dx.view());
      return residual_add<Scalar>("Residual::backward", context.executor, 1, before, settings.in_scale, da, dx.view());
    }
    if constexpr (FusesAddition<N>) {
      if (skip) return norms.in->add_backward_into(da, saved.in, *skip, {.dx = dx}, scratch.rest(context));
    }
    norms.in->backward_into(da, saved.in, dx.is_wanted() ? add_to(dx.view()) : dx, scratch.rest(context));
  }

  ResidualNorms<N> norms;
  ResidualSettings<Scalar> settings;
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
