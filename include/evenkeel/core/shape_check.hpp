#pragma once

#include <string>

#include "evenkeel/core/tensor_view.hpp"
#include "evenkeel/core/value_check.hpp"

/// Where shape errors start: each check names what was given and what was expected, before anything is written.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// "x has shape [4, 128, 512]"
inline std::string has_shape(const char* name, const Shape& shape) {
  return std::string(name) + " has shape " + shape_string(shape);
}

/// "row-major" or "column-major"
inline const char* order_string(StorageOrder order) noexcept {
  return order == StorageOrder::row_major ? "row-major" : "column-major";
}

/// Throws std::invalid_argument unless `shape`, of the tensor `name`, is `expected`, that of `expected_name`.
inline void require_same_shape(const char* where, const char* name, const Shape& shape, const char* expected_name,
                               const Shape& expected) {
  if (shape == expected) return;
  raise_invalid_argument(where, [=, &shape, &expected] {
    return has_shape(name, shape) + ", expected " + shape_string(expected) + " (the shape of " + expected_name + ")";
  });
}

/// Throws unless the two tensors walk their elements in the same order.
template <class A, class B>
void require_same_order(const char* where, const char* name, const TensorView<A>& view, const char* expected_name,
                        const TensorView<B>& expected) {
  int axes_longer_than_1 = 0;
  for (int axis = 0; axis < view.rank(); ++axis) axes_longer_than_1 += view.shape()[axis] > 1;
  if (axes_longer_than_1 < 2 || view.order() == expected.order()) return;
  raise_invalid_argument(where, [=, given = view.order(), order = expected.order()] {
    return std::string(name) + " is " + order_string(given) + ", expected " + order_string(order) + " as " +
           expected_name + " is (copy into a tensor of that order first)";
  });
}

/// Throws unless eps is a finite number, and not negative.
inline void require_eps(const char* where, double eps) { require_not_negative(where, "eps", eps); }

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
