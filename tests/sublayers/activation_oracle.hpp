// The oracle's functions by the name that sublayers know them by.
#pragma once

#include "evenkeel/sublayers/activation.hpp"
#include "support/oracle.hpp"

namespace evenkeel_test::oracle {

template <class T>
using ActivationFunction = T(const T&);

template <class T>
ActivationFunction<T>* activation_of(evenkeel::Activation activation) {
  switch (activation) {
    case evenkeel::Activation::relu:
      return relu<T>;
    case evenkeel::Activation::gelu:
      return gelu<T>;
    case evenkeel::Activation::gelu_tanh:
      return gelu_tanh<T>;
    case evenkeel::Activation::silu:
      return silu<T>;
  }
  return nullptr;
}

}  // namespace evenkeel_test::oracle
