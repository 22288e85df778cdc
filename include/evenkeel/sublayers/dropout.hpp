#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "evenkeel/core/context.hpp"
#include "evenkeel/core/dropout_mask.hpp"
#include "evenkeel/core/overlap.hpp"
#include "evenkeel/core/parameter_view.hpp"
#include "evenkeel/core/shape_check.hpp"
#include "evenkeel/core/tensor.hpp"
#include "evenkeel/detail/dropout_op.hpp"
#include "evenkeel/detail/returning_forms.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Dropout: in training y = x / (1 - p) where an element is kept, and exactly 0, even if x is NaN, where it is dropped;
/// in inference y = x. Each element is dropped with probability p, or each sample as a whole (DropPath).
///
/// The mask is a function of (seed, path), of a step that each training forward advances, and of an element's row-major
/// position in the logical shape: the same for every storage order, instruction set and number of threads. Backward
/// makes it again. Give each layer its own path: two with one key share a mask, and so does a copy.
///
/// The step belongs to the state of a training run, not to the parameters: to go on from a checkpoint as if nothing
/// had happened, save `step()` of each Dropout with the model, and restore it by `set_step`.
/// @code
///   Dropout<float> dropout(0.1, seed, "blocks.3.drop");
///   Dropout<float>::Saved saved;
///   auto y = dropout.forward(x, saved);
///   auto dx = dropout.backward(dy, saved);
/// @endcode
///
/// Shapes    x, y alike, of any strides and storage orders.
/// Aliasing  y may be x, and dx dy: the identical view. x need not live until backward.
/// Numerics  x is multiplied by 1 / (1 - p), rounded to the compute type: within 1 ulp of x / (1 - p). p counts in
///           steps of 2^-32. p = 0 draws nothing, advances no step, and copies.
/// Cost      x read once, y written once, and the mask's draws: see DropoutMask. No allocation.
/// Errors    throws std::invalid_argument if p is not in [0, 1], shapes differ or memory overlaps; std::logic_error for
///           a backward without a forward.
/// Source    Srivastava et al. 2014, JMLR 15; scaled as in torch.nn.Dropout. Per sample: Huang et al. 2016,
///           arXiv:1603.09382.
template <class S>
class Dropout : public detail::ReturningForms<Dropout<S>> {
 public:
  using Scalar = S;

  /// The shape, and the mask as a few numbers: what backward takes, whatever becomes of the layer.
  class Saved {
   public:
    /// Which elements the forward has kept.
    const DropoutMask& mask() const noexcept { return mask_; }

   private:
    friend class Dropout;
    DropoutMask mask_;
    Shape shape_;
    bool is_empty_ = true;
  };

  Dropout(double p, RandomKey key, DropoutKind kind = DropoutKind::per_element) : next_(p, key, 0, kind) {}
  Dropout(double p, std::uint64_t seed, std::string_view path, DropoutKind kind = DropoutKind::per_element)
      : Dropout(p, random_key(seed, path), kind) {}

  // forward(x), forward(x, saved) and backward(dy, saved) return a tensor; these write to the caller's.

  template <Tensor X, Tensor Y>
  void forward_into(const X& x, Y&& y, const Context& context = {}) const {
    detail::dropout<Scalar>(context.executor, DropoutMask(), x_view(x, y), output_view<Scalar>(y));
  }
  template <Tensor X, Tensor Y>
  void forward_into(const X& x, Y&& y, Saved& saved, const Context& context = {}) {
    const TensorView<const Scalar> view = x_view(x, y);
    detail::dropout<Scalar>(context.executor, next_mask(view.shape(), saved), view, output_view<Scalar>(y));
  }
  template <Tensor DY>
  void backward_into(const DY& dy_tensor, const Saved& saved, const TensorGradient<Scalar>& dx,
                     const Context& context = {}) {
    const char* where = "Dropout::backward";
    if (saved.is_empty_) raise_logic_error(where, "saved is empty, expected the Saved of a forward(x, saved) call");
    const TensorView<const Scalar> dy = input_view<Scalar>(dy_tensor);
    require_same_shape(where, "dy", dy.shape(), "the x of the forward", saved.shape_);
    if (!dx.is_wanted()) return;
    require_same_shape(where, "dx", dx.view().shape(), "the x of the forward", saved.shape_);
    require_in_place_or_no_overlap(where, "dx", dx.view(), "dy", dy);
    detail::dropout<Scalar>(context.executor, saved.mask_, dy, dx.view(), dx.adds());
  }

  /// The mask of a training forward of x, for an operation that drops by itself: the step goes on, and `saved` is as
  /// after forward.
  const DropoutMask& next_mask(const Shape& x, Saved& saved) {
    saved.mask_ = next_;
    saved.shape_ = x;
    saved.is_empty_ = false;
    if (!next_.keeps_all()) set_step(step() + 1);
    return saved.mask_;
  }

  /// None.
  std::size_t workspace_bytes(const Shape&) const noexcept { return 0; }

  double p() const noexcept { return next_.p(); }
  RandomKey key() const noexcept { return next_.key(); }
  DropoutKind kind() const noexcept { return next_.kind(); }

  /// The step of the next training forward: how many have drawn.
  std::uint64_t step() const noexcept { return next_.step(); }
  void set_step(std::uint64_t step) { next_ = DropoutMask(p(), key(), step, kind()); }

 private:
  template <class X, class Y>
  static TensorView<const Scalar> x_view(const X& x, Y&& y) {
    const char* where = "Dropout::forward";
    const TensorView<const Scalar> view = input_view<Scalar>(x);
    require_same_shape(where, "y", tensor_view(y).shape(), "x", view.shape());
    require_in_place_or_no_overlap(where, "y", tensor_view(y), "x", view);
    return view;
  }

  DropoutMask next_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
