#pragma once

#include <type_traits>
#include <utility>

#include "evenkeel/core/concepts.hpp"
#include "evenkeel/ops/residual_add.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// A norm that can take a sum by its terms, and so goes over memory once for both. A Residual uses it where it can;
/// bits are those of the sum and the norm one after the other.
template <class N>
concept FusesAddition = Norm<N> &&
    requires(N& norm, const N& const_norm, typename N::Saved* saved, const detail::Addition<typename N::Scalar>& sum,
             TensorView<typename N::Scalar> s, const detail::AdditionGradients<typename N::Scalar>& to,
             const Context& context) {
  // Writes the sum to s, and y = N(s); training if there is a `saved`, else s may be y.
  const_norm.add_forward_into(sum, s, s, saved, context);
  // From dy, and the gradient at s, where it went on.
  norm.add_backward_into(s, *saved, s, to, context);
};

namespace detail {

/// Training, which may change a norm's running statistics, if there is a `saved`; a const norm has none.
template <class N>
void apply_norm(N& norm, const TensorView<const typename N::Scalar>& x, const TensorView<typename N::Scalar>& y,
                typename N::Saved* saved, const Context& context) {
  if constexpr (!std::is_const_v<N>) {
    if (saved) return norm.forward_into(x, y, *saved, context);
  }
  std::as_const(norm).forward_into(x, y, context);
}

/// The sum at s, and y = N(s); without a norm s alone. `norm` is an optional one, const or not.
template <class Optional, class N = typename std::remove_const_t<Optional>::value_type,
          class Scalar = typename N::Scalar>
void add_and_normalize(Optional& norm, const Addition<Scalar>& sum, const TensorView<Scalar>& s,
                       const TensorView<Scalar>& y, typename N::Saved* saved, const Context& context) {
  if constexpr (FusesAddition<N>) {
    if (norm) return norm->add_forward_into(sum, s, y, saved, context);
  }
  residual_add<Scalar>("Residual::leave", sum, s, context);
  if constexpr (!FusesAddition<N>) {
    if (norm) apply_norm(*norm, s, y, saved, context);
  }
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
