#pragma once

#include "evenkeel/core/overlap.hpp"
#include "evenkeel/core/parameter_view.hpp"
#include "evenkeel/core/shape_check.hpp"
#include "evenkeel/detail/valid_rows.hpp"

/// What a residual sublayer refuses, before anything is written.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// Sees what a branch adds, where nobody else wants to.
struct SeesNothing {
  void operator()(const auto&) const noexcept {}
};

template <class A, class B>
void require_like(const char* where, const char* name, const TensorView<A>& view, const char* expected_name,
                  const TensorView<B>& expected) {
  require_same_shape(where, name, view.shape(), expected_name, expected.shape());
  require_same_order(where, name, view, expected_name, expected);
}

/// x, y, and a mask of their rows.
template <class Scalar>
void require_stream(const char* where, const TensorView<const Scalar>& x, const TensorView<Scalar>& y,
                    const MaskView& mask) {
  require_like(where, "y", y, "x", x);
  require_no_overlap(where, "y", y, "x", x);
  require_row_mask(where, "mask", mask, x.shape());
}

/// dy and dx, behind a forward of x; rank 0: there was none.
template <class Scalar>
void require_stream_gradient(const char* where, const TensorView<const Scalar>& dy, const TensorView<const Scalar>& x,
                             const TensorGradient<Scalar>& dx) {
  if (x.rank() == 0) raise_logic_error(where, "saved is empty, expected the Saved of a forward(x, saved) call");
  require_like(where, "dy", dy, "the x that was saved", x);
  require_input_gradient(where, dx, dy, x);
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
