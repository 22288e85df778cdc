#pragma once

#include <memory>
#include <string>
#include <utility>

#include "evenkeel/core/parameter.hpp"
#include "evenkeel/detail/row_norm_op.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// What every norm without running statistics is as a layer. `Kind` derives from it and says how x is normalized and
/// differentiated: normalize(x, y, saved or null, context) and differentiate(dy, x, saved, gradients, context), which
/// check everything. P is the type of the parameters. `Op` has the names of the norm and of its calls, for the texts of
/// errors.
template <class Kind, class S, class P, class Op>
class NormLayer {
  static_assert(is_parameter_of<P, S>,
                "evenkeel: parameters have the scalar type of x, or are float where x has 16 bits");

 public:
  using Scalar = S;
  using ParameterScalar = P;

  /// What a training forward keeps for its backward: statistics, and a view of x, which has to live unchanged until
  /// then, or x itself if it was moved in. Used again for the same shape it allocates nothing. Move-only.
  class Saved {
   public:
    Saved() = default;
    Saved(Saved&&) noexcept = default;
    Saved& operator=(Saved&&) noexcept = default;

    const NormStatistics<Scalar>& statistics() const noexcept { return statistics_; }

   private:
    friend class NormLayer;
    TensorView<const Scalar> x_;
    NormStatistics<Scalar> statistics_;
    std::shared_ptr<const void> moved_in_;
  };

  /// The normalization of x as a new tensor of x's scalar, rank and storage order. Inference: nothing is kept, and many
  /// threads may call it at once.
  template <class X>
  OwnedOf<X> forward(const X& x, const Context& context = {}) const {
    auto y = make_like(x);
    forward_into(x, y, context);
    return y;
  }

  /// Training: `saved` keeps what backward takes.
  template <class X>
  OwnedOf<X> forward(X&& x, Saved& saved, const Context& context = {}) const {
    auto y = make_like(x);
    forward_into(x, y, saved, context);
    if constexpr (!std::is_reference_v<X> && !std::is_const_v<X> && TraitsOf<X>::owns_memory) {
      const auto owned = std::make_shared<X>(std::move(x));
      saved.x_ = const_view(*owned);
      saved.moved_in_ = owned;
    }
    return y;
  }

  /// Inference into memory of the caller's; y may be x.
  template <class X, class Y>
  void forward_into(const X& x, Y&& y, const Context& context = {}) const {
    kind().normalize(input_view<Scalar>(x), output_view<Scalar>(std::forward<Y>(y)), nullptr, context);
  }

  /// Training into memory of the caller's; y is not x, which backward reads.
  template <class X, class Y>
  void forward_into(const X& x, Y&& y, Saved& saved, const Context& context = {}) const {
    const auto view = input_view<Scalar>(x);
    const auto output = output_view<Scalar>(std::forward<Y>(y));
    kind().require_shape(view.shape());
    require_no_overlap(Op::forward, "y", output, "x, which backward reads again,", view);
    kind().normalize(view, output, &saved.statistics_, context);
    saved.x_ = view;
    saved.moved_in_.reset();
  }

  /// The gradient at x. Adds to the parameters' gradients.
  template <class DY>
  OwnedOf<DY> backward(const DY& dy, const Saved& saved, const Context& context = {}) {
    auto dx = make_like(dy);
    backward_into(dy, saved, dx, context);
    return dx;
  }

  /// The same into memory of the caller's, `add_to(dx)` to add; dx may be dy.
  template <class DY>
  void backward_into(const DY& dy, const Saved& saved, const TensorGradient<Scalar>& dx, const Context& context = {}) {
    backward_by(input_view<Scalar>(dy), saved, [&](const auto& view, RowNormGradients<Scalar> to) {
      to.dx = dx;
      kind().differentiate(view, saved.x_, saved.statistics_, to, context);
    });
  }

  double eps() const noexcept { return eps_; }

  /// A norm with the same settings and parameters as they start.
  auto fresh() const { return static_cast<const typename Op::template Layer<Scalar, P>&>(*this).make_fresh(); }

  /// See for_each_parameter.
  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& prefix) {
    if (!self.gamma_.is_absent()) visit(prefix + "gamma", self.gamma_);
    if (!self.beta_.is_absent()) visit(prefix + "beta", self.beta_);
  }

 protected:
  explicit NormLayer(double eps) : eps_(eps) { require_eps(Op::name, eps); }

  /// differentiate(dy, gradients of the parameters to add to), between what every backward checks and does.
  template <class Differentiate>
  void backward_by(const TensorView<const Scalar>& dy, const Saved& saved, const Differentiate& differentiate) {
    if (saved.statistics_.is_empty()) {
      raise_logic_error(Op::backward, "saved is empty, expected the Saved of a forward(x, saved) call");
    }
    require_same_shape(Op::backward, "dy", dy.shape(), "the x that was saved", saved.x_.shape());
    RowNormGradients<Scalar> to;
    for (auto& [parameter, gradient] : {std::pair{&gamma_, &to.dgamma}, std::pair{&beta_, &to.dbeta}}) {
      if (!parameter->is_absent())
        *gradient = add_to(TensorView<P>(parameter->gradient_to_add_to(), parameter->shape()));
    }
    differentiate(dy, to);
    gamma_.commit_gradient();
    beta_.commit_gradient();
  }

  // For forwards and backwards of a kind's own: where statistics go, and the x that they are of.
  static const NormStatistics<Scalar>& statistics_of(const Saved& saved) noexcept { return saved.statistics_; }
  static const TensorView<const Scalar>& x_of(const Saved& saved) noexcept { return saved.x_; }
  static NormStatistics<Scalar>& statistics_of(Saved& saved) noexcept { return saved.statistics_; }
  static void keep_x(Saved& saved, const TensorView<const Scalar>& x) noexcept {
    saved.x_ = x;
    saved.moved_in_.reset();
  }

  ParameterView<Scalar> gamma_option() const {
    if (gamma_is_around_zero_) return around_zero(option(gamma_));
    return option(gamma_);
  }
  ParameterView<Scalar> beta_option() const { return option(beta_); }

  double eps_;
  Parameter<P> gamma_, beta_;
  bool gamma_is_around_zero_ = false;

 private:
  const Kind& kind() const noexcept { return static_cast<const Kind&>(*this); }
  static ParameterView<Scalar> option(const Parameter<P>& parameter) {
    return parameter.is_absent() ? ParameterView<Scalar>() : ParameterView<Scalar>(parameter.view());
  }
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
