#pragma once

#include <cstddef>
#include <string>

#include "evenkeel/detail/add_norm_op.hpp"
#include "evenkeel/detail/norm_layer.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// What LayerNorm and RMSNorm are as layers. `Op` names the norm: its kernel's row and the texts of its errors. P is
/// the type of the parameters: S, or float where S has 16 bits.
template <class S, class P, class Op>
class RowNormLayer : public NormLayer<RowNormLayer<S, P, Op>, S, P, Op> {
  using Base = NormLayer<RowNormLayer, S, P, Op>;

 public:
  using Scalar = S;

  /// Bytes of workspace with which forward_into and backward_into allocate nothing for x of this shape.
  std::size_t workspace_bytes(const Shape& x) const {
    return normalize_backward_workspace_bytes<Scalar>(Op::forward, x, axes_);
  }

  /// Of a residual sum, which is written to s: y = N(s), in one pass over memory. With a `saved` it is training, and s
  /// is what backward reads; without, s may be y.
  void add_forward_into(const Addition<Scalar>& sum, const TensorView<Scalar>& s, const TensorView<Scalar>& y,
                        typename Base::Saved* saved, const Context& context) const {
    require_shape(s.shape());
    if (saved) require_no_overlap(Op::forward, "y", y, "s, which backward reads again,", s);
    normalize_sum<Op::template Row, Scalar>(Op::forward, sum, s, y, options(),
                                            saved ? &this->statistics_of(*saved) : nullptr, context);
    if (saved) this->keep_x(*saved, s);
  }

  /// The gradients of the same in one pass: with ds' = ds + N'(dy), dx = alpha * ds' and dd = drop(lambda * ds'). `ds`
  /// may have no memory.
  void add_backward_into(const TensorView<const Scalar>& dy, const typename Base::Saved& saved,
                         const TensorView<const Scalar>& ds, const AdditionGradients<Scalar>& to,
                         const Context& context) {
    this->backward_by(dy, saved, [&](const auto& view, const RowNormGradients<Scalar>& parameters) {
      add_normalize_backward<Op::template Row, Scalar>(Op::backward, {view, ds, this->x_of(saved), {}},
                                                       this->statistics_of(saved),
                                                       {.alpha = to.alpha, .lambda = to.lambda, .drop = to.drop},
                                                       options(), {to.dx, to.dd, {}, {}}, parameters, context);
    });
  }

  /// The shape of the normalized axes.
  const Shape& normalized_shape() const noexcept { return normalized_shape_; }

  Parameter<P>& gamma() noexcept { return this->gamma_; }
  const Parameter<P>& gamma() const noexcept { return this->gamma_; }

 protected:
  template <class Settings>
  RowNormLayer(const Shape& normalized_shape, const Settings& settings)
      : Base(settings.eps),
        normalized_shape_(normalized_shape),
        axes_(settings.axis ? *settings.axis : Axes::last(normalized_shape.rank())),
        rounding_(settings.rounding) {
    if (axes_.count() != normalized_shape.rank()) {
      raise_invalid_argument(Op::name, std::to_string(axes_.count()) + " axes, expected " +
                                           std::to_string(normalized_shape.rank()) + " (the normalized shape is " +
                                           shape_string(normalized_shape) + ")");
    }
    if (!settings.with_gamma) return;
    this->gamma_is_around_zero_ = settings.gamma_around_zero;
    this->gamma_ = Parameter<P>(normalized_shape, P(settings.gamma_around_zero ? 0.f : 1.f));
  }

  Shape normalized_shape_;
  Axes axes_;
  Rounding rounding_;

 private:
  friend Base;

  void require_shape(const Shape& x) const {
    const Shape given = detail::normalized_shape(Op::forward, x, axes_);
    if (given == normalized_shape_) return;
    raise_invalid_argument(Op::forward, "normalized axes of x have shape " + shape_string(given) + ", expected " +
                                            shape_string(normalized_shape_) + " (" + has_shape("x", x) + ")");
  }
  void normalize(const TensorView<const Scalar>& x, const TensorView<Scalar>& y, NormStatistics<Scalar>* saved,
                 const Context& context) const {
    require_shape(x.shape());
    detail::normalize<Op::template Row, Scalar>(Op::forward, x, y, options(), saved, context);
  }
  void differentiate(const TensorView<const Scalar>& dy, const TensorView<const Scalar>& x,
                     const NormStatistics<Scalar>& saved, const RowNormGradients<Scalar>& to,
                     const Context& context) const {
    normalize_backward<Op::template Row, Scalar>(Op::backward, dy, x, saved, options(), to, context);
  }
  RowNormOptions<Scalar> options() const {
    return {this->gamma_option(), this->beta_option(), this->eps_, axes_, {}, rounding_};
  }
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
