#pragma once

#include <cstddef>

#include "evenkeel/core/tensor_view.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Sees what each block of a Stack does, in a training forward and in a backward. `Health` is one.
///
/// Views are dense, in the storage order of x, and there only while the call runs. Values are never changed by it: with
/// an observer and without, a stack computes the same bits.
template <class O, class Block>
concept StackObserver = requires(O& observer, std::size_t i, const TensorView<const typename Block::Scalar>& view,
                                 Block& block) {
  // Forward, from the first block to the last: what block i is about to add, N_branch(F(N_in(x))), before its factor.
  observer.on_branch(i, view);
  // Then the stream that it leaves; the final norm of the stack comes after all of them.
  observer.on_stream(i, view);
  // Backward, from the last block to the first: the gradient at its input; those of its parameters are in `block`.
  observer.on_gradient(i, view, block);
};

/// Looks at nothing, and costs nothing. An observer derived from it has only the members that it wants.
/// @code
///   struct Gradients : evenkeel::NoObserver {
///     std::vector<double> norms;
///     void on_gradient(std::size_t, const evenkeel::TensorView<const float>& dx, const auto&) { ... }
///   };
///   stack.backward_into(dy, saved, dx, {}, gradients);
/// @endcode
struct NoObserver {
  void on_branch(std::size_t, const auto&) const noexcept {}
  void on_stream(std::size_t, const auto&) const noexcept {}
  void on_gradient(std::size_t, const auto&, const auto&) const noexcept {}
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
