#pragma once

#include <concepts>

#include "evenkeel/core/context.hpp"
#include "evenkeel/core/tensor.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

template <class S, class Layer>
concept SavedOf = std::same_as<S, typename Layer::Saved>;

/// The forms that return a tensor, of a layer whose output has its input's shape, by its forms that write to one.
template <class Layer>
class ReturningForms {
 public:
  /// Inference: nothing is kept, and many threads may call it at once.
  template <Tensor X>
  OwnedOf<X> forward(const X& x, const Context& context = {}) const {
    auto y = make_like(x);
    static_cast<const Layer&>(*this).forward_into(x, y, context);
    return y;
  }

  /// Training: `saved` keeps what backward takes.
  template <Tensor X, SavedOf<Layer> Saved>
  OwnedOf<X> forward(const X& x, Saved& saved, const Context& context = {}) {
    auto y = make_like(x);
    static_cast<Layer&>(*this).forward_into(x, y, saved, context);
    return y;
  }

  /// The gradient at x. Adds to the gradients of parameters.
  template <Tensor DY, SavedOf<Layer> Saved>
  OwnedOf<DY> backward(const DY& dy, const Saved& saved, const Context& context = {}) {
    auto dx = make_like(dy);
    static_cast<Layer&>(*this).backward_into(dy, saved, dx, context);
    return dx;
  }
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
