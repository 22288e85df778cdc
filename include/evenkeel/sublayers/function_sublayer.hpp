#pragma once

#include <cstddef>
#include <utility>

#include "evenkeel/core/shape_check.hpp"
#include "evenkeel/core/tensor.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// A pair of callables as a sublayer without parameters: y = forward(x), dx = backward(dy, x).
///
/// In a block they receive x and dy as maps of the block's kind of tensor (for Matrix: Eigen::Map<const Matrix>) and
/// return a tensor of the same shape, or an Eigen expression. Made by `sublayer`.
template <class Forward, class Backward>
class FunctionSublayer {
 public:
  /// Where x is; it has to live unchanged until backward.
  class Saved {
    friend class FunctionSublayer;
    TensorView<const std::byte> x_;  // data, shape and strides; the scalar is that of backward's dy
  };

  FunctionSublayer(Forward forward, Backward backward) : forward_(std::move(forward)), backward_(std::move(backward)) {}

  template <Tensor X>
  OwnedOf<X> forward(const X& x) const {
    return forward_(x);
  }
  template <Tensor X>
  OwnedOf<X> forward(const X& x, Saved& saved) const {
    const auto view = const_view(x);
    OwnedOf<X> y = forward_(x);
    saved.x_ = {reinterpret_cast<const std::byte*>(view.data()), view.shape(), view.strides(), view.order()};
    return y;
  }
  template <Tensor DY>
  OwnedOf<DY> backward(const DY& dy, const Saved& saved) const {
    if (saved.x_.rank() == 0) {
      raise_logic_error("FunctionSublayer::backward", "saved is empty, expected the Saved of a forward(x, saved) call");
    }
    using Scalar = ScalarOf<DY>;
    const TensorView<const Scalar> x(reinterpret_cast<const Scalar*>(saved.x_.data()), saved.x_.shape(),
                                     saved.x_.strides(), saved.x_.order());
    require_same_shape("FunctionSublayer::backward", "dy", const_view(dy).shape(), "the x that was saved", x.shape());
    require_same_order("FunctionSublayer::backward", "dy", const_view(dy), "the x that was saved", x);
    return backward_(dy, TraitsOf<DY>::map(x));
  }

 private:
  Forward forward_;
  Backward backward_;
};

/// Makes a sublayer of y = forward(x) and dx = backward(dy, x), both callable on const objects.
/// @code
///   auto twice = evenkeel::sublayer([](const auto& x) { return 2 * x; },
///                                   [](const auto& dy, const auto&) { return 2 * dy; });
/// @endcode
template <class Forward, class Backward>
FunctionSublayer<Forward, Backward> sublayer(Forward forward, Backward backward) {
  return {std::move(forward), std::move(backward)};
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
