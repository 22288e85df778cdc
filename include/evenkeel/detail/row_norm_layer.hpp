#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "evenkeel/core/parameter.hpp"
#include "evenkeel/detail/row_norm_op.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// What LayerNorm and RMSNorm are as layers. `Op` names the norm: its kernel's row and the texts of its errors. P is
/// the type of the parameters: S, or float where S has 16 bits.
template <class S, class P, class Op>
class RowNormLayer {
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
    friend class RowNormLayer;
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
  void forward_into(const X& x, Y&& y, const Context& = {}) const {
    const auto view = input_view<Scalar>(x);
    require_normalized_shape(view);
    normalize<Op::template Row, Scalar>(Op::forward, view, output_view<Scalar>(std::forward<Y>(y)), gamma(), beta(),
                                        eps_, axes_, nullptr);
  }

  /// Training into memory of the caller's; y is not x, which backward reads.
  template <class X, class Y>
  void forward_into(const X& x, Y&& y, Saved& saved, const Context& = {}) const {
    const auto view = input_view<Scalar>(x);
    const auto output = output_view<Scalar>(std::forward<Y>(y));
    require_normalized_shape(view);
    require_no_overlap(Op::forward, "y", output, "x, which backward reads again,", view);
    normalize<Op::template Row, Scalar>(Op::forward, view, output, gamma(), beta(), eps_, axes_, &saved.statistics_);
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
    if (saved.statistics_.is_empty()) {
      raise_logic_error(Op::backward, "saved is empty, expected the Saved of a forward(x, saved) call");
    }
    RowNormGradients<Scalar> to{dx, {}, {}};
    for (auto& [parameter, gradient] : {std::pair{&gamma_, &to.dgamma}, std::pair{&beta_, &to.dbeta}}) {
      if (!parameter->is_absent())
        *gradient = add_to(TensorView<P>(parameter->gradient_to_add_to(), parameter->shape()));
    }
    require_same_shape(Op::backward, "dy", tensor_view(dy).shape(), "the x that was saved", saved.x_.shape());
    normalize_backward<Op::template Row, Scalar>(Op::backward, input_view<Scalar>(dy), saved.x_, saved.statistics_,
                                                 gamma(), axes_, to, context);
    gamma_.commit_gradient();
    beta_.commit_gradient();
  }

  /// Bytes of workspace with which forward_into and backward_into allocate nothing for x of this shape.
  std::size_t workspace_bytes(const Shape& x) const {
    return normalize_backward_workspace_bytes<Scalar>(Op::forward, x, axes_);
  }

  /// The shape of the normalized axes.
  const Shape& normalized_shape() const noexcept { return normalized_shape_; }
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
  RowNormLayer(const Shape& normalized_shape, double eps, const std::optional<Axes>& axes)
      : normalized_shape_(normalized_shape), eps_(eps), axes_(axes ? *axes : Axes::last(normalized_shape.rank())) {
    require_eps(Op::name, eps);
    if (axes_.count() != normalized_shape.rank()) {
      raise_invalid_argument(Op::name, std::to_string(axes_.count()) + " axes, expected " +
                                           std::to_string(normalized_shape.rank()) + " (the normalized shape is " +
                                           shape_string(normalized_shape) + ")");
    }
  }

  Shape normalized_shape_;
  double eps_;
  Axes axes_;
  Parameter<P> gamma_, beta_;

 private:
  static ParameterView<Scalar> option(const Parameter<P>& parameter) {
    return parameter.is_absent() ? ParameterView<Scalar>() : ParameterView<Scalar>(parameter.view());
  }
  ParameterView<Scalar> gamma() const { return option(gamma_); }
  ParameterView<Scalar> beta() const { return option(beta_); }

  void require_normalized_shape(const TensorView<const Scalar>& x) const {
    const int first = axes_.first(Op::forward, x.shape());
    Shape given;
    for (int k = 0; k < axes_.count(); ++k) given.append(x.shape()[first + k]);
    if (given == normalized_shape_) return;
    raise_invalid_argument(Op::forward, "normalized axes of x have shape " + shape_string(given) + ", expected " +
                                            shape_string(normalized_shape_) + " (" + has_shape("x", x.shape()) + ")");
  }
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
