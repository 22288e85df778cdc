#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "evenkeel/core/parameter.hpp"
#include "evenkeel/core/shape_check.hpp"
#include "evenkeel/detail/branch_factor_gradient.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// The lambda of alpha * x + lambda * F(x): a constant, a learned number, or a learned number for each index of the
/// last axis.
/// @code
///   Residual<N, F> re_zero(f, {}, {.lambda = Lambda<float>::learned_scalar(0)});
///   Residual<N, F> layer_scale(f, {.in = norm}, {.lambda = Lambda<float>::learned_vector(256, 1e-5)});
/// @endcode
///
/// A learned lambda is a Parameter, of the type that Scalar is computed in: float beside data of 16 bits.
///
/// Errors    throws std::invalid_argument for a value that is not finite, or no features.
/// Source    one number: ReZero (Bachlechner et al. 2020, arXiv:2003.04887), SkipInit (De, Smith 2020,
///           arXiv:2002.10444); a vector: LayerScale (Touvron et al. 2021, arXiv:2103.17239).
template <class Scalar>
class Lambda {
 public:
  using ParameterScalar = kernels::Compute<Scalar>;

  Lambda(double value = 1) : constant_(value) {  // NOLINT(google-explicit-constructor): a constant is a number
    require_finite("Residual", "lambda", value);
  }

  static Lambda constant(double value) { return Lambda(value); }
  static Lambda learned_scalar(double initial = 0) { return Lambda(initial, 1, true); }
  static Lambda learned_vector(Index features, double initial) {
    require_at_least("Lambda::learned_vector", "features", features, 1);
    return Lambda(initial, features, false);
  }

  bool is_learned() const noexcept { return !parameter_.is_absent(); }
  bool is_vector() const noexcept { return is_learned() && !is_one_; }
  /// The constant, or what the parameter started from.
  double initial() const noexcept { return constant_; }
  /// Absent where lambda is a constant.
  Parameter<ParameterScalar>& parameter() noexcept { return parameter_; }
  const Parameter<ParameterScalar>& parameter() const noexcept { return parameter_; }

  /// Throws std::invalid_argument unless it fits the last axis of x.
  void require_fits(const char* where, const Shape& x) const {
    if (!is_vector()) return;
    const Index last = x.rank() > 0 ? x[x.rank() - 1] : 0;
    if (parameter_.size() == last) return;
    raise_invalid_argument(where, "lambda has " + std::to_string(parameter_.size()) + " elements, expected " +
                                      std::to_string(last) + " (the last axis of x; " + has_shape("x", x) + ")");
  }

  /// As a residual sum takes it.
  detail::BranchFactor<ParameterScalar> factor() const noexcept {
    if (!is_learned()) return constant_;
    return {parameter_.data()[0], is_one_ ? nullptr : parameter_.data()};
  }

  /// Adds to the parameter's gradient, from the gradient of the sum and what lambda has multiplied.
  void add_gradient(const char* where, const TensorView<const Scalar>& ds, const TensorView<const Scalar>& d,
                    const Context& context) {
    if (!is_learned()) return;
    const std::span<ParameterScalar> dlambda(parameter_.gradient_to_add_to(),
                                             static_cast<std::size_t>(parameter_.size()));
    detail::add_branch_factor_gradient<Scalar>(where, ds, d, is_one_, dlambda, context);
    parameter_.commit_gradient();
  }
  /// See for_each_parameter; `path` is that of lambda itself.
  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& path) {
    if (self.is_learned()) visit(path, self.parameter());
  }

  /// Bytes of workspace for add_gradient.
  std::size_t workspace_bytes() const noexcept {
    return is_vector() ? detail::branch_factor_workspace_bytes<Scalar>(parameter_.size()) : 0;
  }

 private:
  Lambda(double initial, Index size, bool is_one) : Lambda(initial) {
    parameter_ = Parameter<ParameterScalar>(Shape{size}, static_cast<ParameterScalar>(initial));
    is_one_ = is_one;
  }

  double constant_;
  bool is_one_ = true;
  Parameter<ParameterScalar> parameter_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
