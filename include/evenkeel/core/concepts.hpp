#pragma once

#include <concepts>
#include <cstddef>

#include "evenkeel/core/context.hpp"
#include "evenkeel/core/parameter_view.hpp"
#include "evenkeel/core/tensor.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// A layer whose output has its input's shape, and which works on any tensor: LayerNorm, RMSNorm, a user's own.
template <class N>
concept Norm = requires(const N& inference, N& training, typename N::Saved& saved, const typename N::Saved& kept,
                        TensorView<const typename N::Scalar> x, TensorView<typename N::Scalar> y,
                        TensorGradient<typename N::Scalar> dx, const Context& context, const Shape& shape) {
  // Inference: writes y and nothing else.
  inference.forward_into(x, y, context);
  // Training: keeps in `saved` what backward takes; it may view x.
  training.forward_into(x, y, saved, context);
  // Writes or adds to dx, adds to the gradients of parameters.
  training.backward_into(x, kept, dx, context);
  // Bytes of workspace with which none of these allocates.
  { inference.workspace_bytes(shape) } -> std::same_as<std::size_t>;
  // A norm with the same settings, and parameters as they start.
  { inference.fresh() } -> std::convertible_to<N>;
};

/// The F of x + F(x), for inputs of type X: a user's own class, or one of sublayers/. Each call may take a Context as
/// its last argument. forward_of and backward_of call it either way.
template <class F, class X>
concept Sublayer = requires(F& f, const F& inference, typename F::Saved& saved, const typename F::Saved& kept,
                            const X& x, const Context& context) {
  // Inference: a tensor of x's shape.
  requires requires { inference.forward(x); } || requires {
    inference.forward(x, context);
  };
  // Training: keeps in `saved` what backward takes; x lives unchanged until then.
  requires requires { f.forward(x, saved); } || requires {
    f.forward(x, saved, context);
  };
  // The gradient at x, from the gradient at the output. Adds to the gradients of parameters.
  requires requires { f.backward(x, kept); } || requires {
    f.backward(x, kept, context);
  };
};

namespace detail {

template <class F, class X>
decltype(auto) forward_of(const F& f, const X& x, const Context& context) {
  if constexpr (requires { f.forward(x, context); }) {
    return f.forward(x, context);
  } else {
    return f.forward(x);
  }
}
template <class F, class X>
decltype(auto) forward_of(F& f, const X& x, typename F::Saved& saved, const Context& context) {
  if constexpr (requires { f.forward(x, saved, context); }) {
    return f.forward(x, saved, context);
  } else {
    return f.forward(x, saved);
  }
}
template <class F, class X>
decltype(auto) backward_of(F& f, const X& dy, const typename F::Saved& saved, const Context& context) {
  if constexpr (requires { f.backward(dy, saved, context); }) {
    return f.backward(dy, saved, context);
  } else {
    return f.backward(dy, saved);
  }
}

}  // namespace detail

/// A sublayer that writes where it is told to, and so needs no memory of its own for its output. Those of sublayers/
/// do.
template <class F, class Scalar>
concept IntoSublayer = requires(const F& inference, F& training, typename F::Saved& saved,
                                const typename F::Saved& kept, TensorView<const Scalar> x, TensorView<Scalar> y,
                                TensorGradient<Scalar> dx, const Context& context, const Shape& shape) {
  inference.forward_into(x, y, context);
  training.forward_into(x, y, saved, context);
  training.backward_into(x, kept, dx, context);
  { inference.workspace_bytes(shape) } -> std::same_as<std::size_t>;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
