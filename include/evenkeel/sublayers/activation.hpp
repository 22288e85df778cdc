#pragma once

#include <cmath>

#include "evenkeel/detail/in_blocks.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// The nonlinearity of a feed-forward sublayer, applied to each element.
enum class Activation {
  relu,       ///< max(x, 0)
  gelu,       ///< x * Phi(x), with the exact Gaussian distribution function Phi (erf)
  gelu_tanh,  ///< GELU with Phi approximated by tanh, as GPT-2 has it
  silu,       ///< x * sigmoid(x), also called swish
};

namespace detail {

/// Hendrycks, Gimpel 2016, arXiv:1606.08415. Constants by their definitions: sqrt(1/2), 1/sqrt(2 pi), sqrt(2/pi), and
/// the paper's fitted 0.044715.
template <class T>
struct Gelu {
  static constexpr T sqrt_half = T(0.70710678118654752440), inv_sqrt_2pi = T(0.39894228040143267794);
  static T value(T x) { return T(0.5) * x * std::erfc(-x * sqrt_half); }
  static T derivative(T x) { return T(0.5) * std::erfc(-x * sqrt_half) + x * inv_sqrt_2pi * std::exp(T(-0.5) * x * x); }
};

template <class T>
struct GeluTanh {
  static constexpr T sqrt_2_over_pi = T(0.79788456080286535588), cubic = T(0.044715);
  static T tanh_of(T x) { return std::tanh(sqrt_2_over_pi * (x + cubic * x * x * x)); }
  static T value(T x) { return T(0.5) * x * (1 + tanh_of(x)); }
  static T derivative(T x) {
    const T t = tanh_of(x);
    return T(0.5) * (1 + t) + T(0.5) * x * (1 - t * t) * sqrt_2_over_pi * (1 + 3 * cubic * x * x);
  }
};

template <class T>
struct Relu {
  static T value(T x) { return x > 0 ? x : (x <= 0 ? T(0) : x); }  // NaN stays NaN
  static T derivative(T x) { return x > 0 ? T(1) : T(0); }
};

/// Elfwing et al. 2017, arXiv:1702.03118; Ramachandran et al. 2017, arXiv:1710.05941. The exponential is of what is not
/// positive, and cannot overflow.
template <class T>
struct Silu {
  static T sigmoid(T x) {
    const T e = std::exp(x < 0 ? x : -x);
    return (x < 0 ? e : T(1)) / (1 + e);
  }
  static T value(T x) { return x * sigmoid(x); }
  static T derivative(T x) {
    const T s = sigmoid(x);
    return s + x * s * sigmoid(-x);
  }
};

/// What blocks take one for: an exponential takes as long as copying so many bytes.
inline constexpr Index activation_bytes = 64;

/// Where an activation is max(x, 0) to less than 1e-19, and the formulas of GELU would multiply 0 by infinity.
template <class T>
bool is_far(T x) {
  return x > T(50) || x < T(-50);
}

/// Calls body(function), with the activation as a type that has value(x) and derivative(x).
template <class T, class Body>
void with_activation(Activation activation, Body&& body) {
  switch (activation) {
    case Activation::relu:
      return body(Relu<T>{});
    case Activation::gelu:
      return body(Gelu<T>{});
    case Activation::gelu_tanh:
      return body(GeluTanh<T>{});
    case Activation::silu:
      return body(Silu<T>{});
  }
}

}  // namespace detail

/// y[i] = activation(x[i]); y may be x.
template <class T>
void activate(Activation activation, const T* x, T* y, Index count, const Executor& executor = {}) {
  detail::with_activation<T>(activation, [&](auto f) {
    detail::InBlocks(executor).elements(count, detail::activation_bytes, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) y[i] = detail::is_far(x[i]) ? detail::Relu<T>::value(x[i]) : f.value(x[i]);
    });
  });
}

/// dx[i] = dy[i] * activation'(x[i]); dx may be dy.
template <class T>
void activate_backward(Activation activation, const T* dy, const T* x, T* dx, Index count,
                       const Executor& executor = {}) {
  detail::with_activation<T>(activation, [&](auto f) {
    detail::InBlocks(executor).elements(count, detail::activation_bytes, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i)
        dx[i] = dy[i] * (detail::is_far(x[i]) ? detail::Relu<T>::derivative(x[i]) : f.derivative(x[i]));
    });
  });
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
