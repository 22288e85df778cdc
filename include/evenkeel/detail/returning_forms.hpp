#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "evenkeel/core/context.hpp"
#include "evenkeel/core/tensor.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// What every Saved that views x is: move-only, and the owner of an x that was moved in.
class SavedBase {
 public:
  SavedBase() = default;
  SavedBase(SavedBase&&) noexcept = default;
  SavedBase& operator=(SavedBase&&) noexcept = default;

 private:
  template <class Layer>
  friend class ReturningForms;
  std::shared_ptr<const void> moved_in_;
};

template <class S, class Layer>
concept SavedOf = std::same_as<S, typename Layer::Saved>;

/// The same of a layer in which training changes nothing, so that a const one can be trained with.
template <class S, class Layer, class X>
concept SavedOfConst = SavedOf<S, Layer> &&
    requires(const Layer& layer, const X& x, OwnedOf<X>& y, S& saved, const Context& context) {
  layer.forward_into(x, y, saved, context);
};

/// Whether an X, as a forwarding reference has it, is a temporary that a Saved can take over.
template <class X, class Saved>
concept MovedInto = std::derived_from<Saved, SavedBase> && !std::is_reference_v<X> && !std::is_const_v<X> && requires {
  requires TraitsOf<X>::owns_memory;
};

/// The forms that return a tensor, of a layer whose output has its input's shape, by its forms that write to one.
template <class Layer>
class ReturningForms {
 public:
  /// A new tensor of x's scalar, rank and storage order. Inference: nothing is kept, and many threads may call it at
  /// once.
  template <class X>
  OwnedOf<X> forward(const X& x, const Context& context = {}) const {
    auto y = make_like(x);
    static_cast<const Layer&>(*this).forward_into(x, y, context);
    return y;
  }

  /// Training: `saved` keeps what backward takes; a temporary x is moved in.
  template <class X, SavedOf<Layer> Saved>
  OwnedOf<X> forward(X&& x, Saved& saved, const Context& context = {}) {
    return train(static_cast<Layer&>(*this), std::forward<X>(x), saved, context);
  }
  template <class X, SavedOfConst<Layer, X> Saved>
  OwnedOf<X> forward(X&& x, Saved& saved, const Context& context = {}) const {
    return train(static_cast<const Layer&>(*this), std::forward<X>(x), saved, context);
  }

  /// The gradient at x. Adds to the gradients of parameters.
  template <class DY, SavedOf<Layer> Saved>
  OwnedOf<DY> backward(const DY& dy, const Saved& saved, const Context& context = {}) {
    auto dx = make_like(dy);
    static_cast<Layer&>(*this).backward_into(dy, saved, dx, context);
    return dx;
  }

 private:
  template <class Self, class X, class Saved>
  static OwnedOf<X> train(Self& self, X&& x, Saved& saved, const Context& context) {
    auto y = make_like(x);
    if constexpr (MovedInto<X, Saved>) {
      auto owned = std::make_shared<const X>(std::move(x));
      self.forward_into(*owned, y, saved, context);
      saved.moved_in_ = std::move(owned);
    } else {
      self.forward_into(x, y, saved, context);
    }
    return y;
  }
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
