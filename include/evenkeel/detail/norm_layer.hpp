#pragma once

#include <utility>

#include "evenkeel/detail/norm_parameters.hpp"
#include "evenkeel/detail/row_norm_op.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// What every norm without running statistics is as a layer. `Kind` derives from it and says how x is normalized and
/// differentiated: normalize(x, y, saved or null, context) and differentiate(dy, x, saved, gradients, context), which
/// check everything. P is the type of the parameters. `Op` has the names of the norm and of its calls, for the texts of
/// errors.
template <class Kind, class S, class P, class Op>
class NormLayer : public NormParameters<S, P>, public ReturningForms<NormLayer<Kind, S, P, Op>> {
  static_assert(is_parameter_of<P, S>,
                "evenkeel: parameters have the scalar type of x, or are float where x has 16 bits");

 public:
  using Scalar = S;
  using ParameterScalar = P;
  using Saved = NormSaved<NormLayer, S, NormStatistics<S>>;

  // forward(x), forward(x, saved) and backward(dy, saved) return a tensor; these write to the caller's.

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
  }

  /// The gradient at x, `add_to(dx)` to add; dx may be dy. Adds to the parameters' gradients.
  template <class DY>
  void backward_into(const DY& dy, const Saved& saved, const TensorGradient<Scalar>& dx, const Context& context = {}) {
    backward_by(input_view<Scalar>(dy), saved, [&](const auto& view, RowNormGradients<Scalar> to) {
      to.dx = dx;
      kind().differentiate(view, saved.x_, saved.statistics_, to, context);
    });
  }

  double eps() const noexcept { return eps_; }

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
    this->add_to_gradients(to);
    differentiate(dy, to);
    this->commit_gradients();
  }

  // For forwards and backwards of a kind's own: where statistics go, and the x that they are of.
  static const NormStatistics<Scalar>& statistics_of(const Saved& saved) noexcept { return saved.statistics_; }
  static const TensorView<const Scalar>& x_of(const Saved& saved) noexcept { return saved.x_; }
  static NormStatistics<Scalar>& statistics_of(Saved& saved) noexcept { return saved.statistics_; }
  static void keep_x(Saved& saved, const TensorView<const Scalar>& x) noexcept { saved.x_ = x; }

  ParameterView<Scalar> gamma_option() const {
    if (gamma_is_around_zero_) return around_zero(this->option(this->gamma_));
    return this->option(this->gamma_);
  }
  ParameterView<Scalar> beta_option() const { return this->option(this->beta_); }

  double eps_;
  bool gamma_is_around_zero_ = false;

 private:
  const Kind& kind() const noexcept { return static_cast<const Kind&>(*this); }
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
