#pragma once

#include <string>
#include <type_traits>

#include "evenkeel/core/number_types.hpp"
#include "evenkeel/core/tensor_view.hpp"

#if __has_include(<Eigen/Core>)
#include <Eigen/Core>
#endif

/// What counts as a tensor: a TensorView, and where Eigen is on the include path, its dense types with direct access
/// (Matrix, Array, Map, Ref, Block, a transpose of one). eigen_tensor.hpp adds Eigen's Tensor.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Stands where a type has no owning tensor.
struct NoTensor {
  static constexpr const void* data() noexcept { return nullptr; }
};

/// How a type of tensor is looked at: Scalar, view(x), and for types that can be made anew: Owned, make(shape), and
/// ConstMap, map(view). Specialized for each kind of tensor.
template <class X>
struct TensorTraits {
  static constexpr bool is_tensor = false;
  static constexpr bool is_lazy = false;
  using Scalar = float;  // with these two a call gets as far as the message of require_tensor
  using Owned = NoTensor;
};

/// A view is its own view, and owns nothing that could be made like it.
template <class S>
struct TensorTraits<TensorView<S>> {
  static constexpr bool is_tensor = true;
  static constexpr bool is_lazy = false;
  static constexpr bool owns_memory = false;
  using Scalar = std::remove_const_t<S>;
  using Owned = NoTensor;
  using ConstMap = TensorView<const Scalar>;
  static TensorView<S> view(const TensorView<S>& x) noexcept { return x; }
  static ConstMap map(const TensorView<const Scalar>& view) noexcept { return view; }
};

#if __has_include(<Eigen/Core>)
namespace detail {
template <class Dense>
Dense dense_base(const Eigen::DenseBase<Dense>*);
}
/// A segment of a vector is a class derived from its Block, which is what Eigen knows of it; as a user's own matrix.
template <class X>
requires requires(const X* x) { detail::dense_base(x); }
struct TensorTraits<X> {
  using Dense = decltype(detail::dense_base(static_cast<const X*>(nullptr)));
  static constexpr bool is_tensor = (Eigen::internal::traits<Dense>::Flags & Eigen::DirectAccessBit) != 0;
  static constexpr bool is_lazy = !is_tensor;
  using Scalar = typename X::Scalar;
  using Owned = typename X::PlainObject;
  static constexpr bool owns_memory = std::is_same_v<X, Owned>;
  static constexpr bool is_vector = X::IsVectorAtCompileTime;
  static constexpr bool is_mutable = (Eigen::internal::traits<Dense>::Flags & Eigen::LvalueBit) != 0;
  static constexpr auto order = X::IsRowMajor ? StorageOrder::row_major : StorageOrder::column_major;
  using Stride = std::conditional_t<is_vector, Eigen::InnerStride<>, Eigen::OuterStride<>>;
  using ConstMap = Eigen::Map<const Owned, 0, Stride>;

  template <class Self>
  static auto view(Self& x) noexcept {
    using Element = std::conditional_t<is_mutable && !std::is_const_v<Self>, Scalar, const Scalar>;
    auto* data = const_cast<Element*>(x.data());
    if constexpr (is_vector) {
      return TensorView<Element>(data, {x.size()}, {x.innerStride()}, order);
    } else if constexpr (order == StorageOrder::row_major) {
      return TensorView<Element>(data, {x.rows(), x.cols()}, {x.outerStride(), x.innerStride()}, order);
    } else {
      return TensorView<Element>(data, {x.rows(), x.cols()}, {x.innerStride(), x.outerStride()}, order);
    }
  }

  static Owned make(const Shape& shape) {
    if constexpr (is_vector) {
      return Owned(shape[0]);
    } else {
      return Owned(shape[0], shape[1]);
    }
  }

  /// A view whose elements along the fastest axis are contiguous (any stride, for a vector), as an Eigen map.
  static ConstMap map(const TensorView<const Scalar>& view) {
    constexpr int fast = !is_vector && order == StorageOrder::row_major ? 1 : 0;
    if (!is_vector && view.shape()[fast] > 1 && view.stride(fast) != 1) {
      raise_invalid_argument("Tensor", "x has stride " + std::to_string(view.stride(fast)) +
                                           " between the elements of axis " + std::to_string(fast) +
                                           ", expected contiguous elements (x has shape " + shape_string(view.shape()) +
                                           ")");
    }
    if constexpr (is_vector) {
      return ConstMap(view.data(), view.size(), Stride(view.stride(0)));
    } else {
      return ConstMap(view.data(), view.shape()[0], view.shape()[1],
                      Stride(view.stride(order == StorageOrder::row_major ? 0 : 1)));
    }
  }
};
#endif

template <class X>
using TraitsOf = TensorTraits<std::remove_cvref_t<X>>;
template <class X>
using ScalarOf = typename TraitsOf<X>::Scalar;

/// The tensor that owns memory of x's scalar, rank and storage order.
template <class X>
using OwnedOf = typename TraitsOf<X>::Owned;
template <class X>
using ConstMapOf = typename TraitsOf<X>::ConstMap;

template <class X>
concept Tensor = TraitsOf<X>::is_tensor;

/// Says at compile time why a type is no tensor.
template <class X>
constexpr void require_tensor() {
  using Traits = TraitsOf<X>;
  static_assert(!Traits::is_lazy,
                "evenkeel: this is a lazy Eigen expression without memory of its own; pass x.eval(), or a Matrix, "
                "Array, Map, Ref, Block, Tensor, TensorFixedSize or TensorMap");
  static_assert(Traits::is_tensor || Traits::is_lazy,
                "evenkeel: this is not a tensor; pass a dense Eigen type, a TensorView, or, with "
                "evenkeel/core/eigen_tensor.hpp included, a Tensor, TensorFixedSize or TensorMap");
}

/// The view of a tensor: no element is copied. Says at compile time why other types have none.
template <class X>
auto tensor_view(X&& x) noexcept {
  require_tensor<X>();
  if constexpr (Tensor<X>) {
    return TraitsOf<X>::view(x);
  } else {
    return TensorView<float>();
  }
}

/// The view of a tensor that an operation on elements of type Scalar reads.
template <class Scalar, class X>
TensorView<const Scalar> input_view(const X& x) noexcept {
  constexpr bool fits = std::is_same_v<ScalarOf<X>, Scalar>;
  static_assert(fits, "evenkeel: every tensor of a call has the same scalar type, that of x or of the layer");
  if constexpr (fits) {
    return tensor_view(x);
  } else {
    return {};
  }
}

/// The view of a tensor that an operation on elements of type Scalar writes to.
template <class Scalar, class Y>
TensorView<Scalar> output_view(Y&& y) noexcept {
  constexpr bool fits = std::is_same_v<ScalarOf<Y>, Scalar>;
  constexpr bool is_const = std::is_const_v<std::remove_pointer_t<decltype(tensor_view(y).data())>>;
  static_assert(fits, "evenkeel: every tensor of a call has the same scalar type, that of x or of the layer");
  static_assert(!is_const, "evenkeel: an output is const, and cannot be written to");
  static_assert(std::is_lvalue_reference_v<Y> || !std::is_same_v<std::remove_cvref_t<Y>, OwnedOf<Y>>,
                "evenkeel: an output is a temporary with memory of its own: what is written to it is lost");
  if constexpr (fits && !is_const) {
    return tensor_view(y);
  } else {
    return {};
  }
}

template <class X>
TensorView<const ScalarOf<X>> const_view(const X& x) noexcept {
  return tensor_view(x);
}

template <class X>
OwnedOf<X> make_like(const X& x) {
  static_assert(!Tensor<X> || !std::is_same_v<OwnedOf<X>, NoTensor>,
                "evenkeel: a TensorView has no owning type to be returned as; call the form that writes into a y: "
                "layer_norm_into, forward_into, ...");
  require_tensor<X>();
  if constexpr (Tensor<X> && !std::is_same_v<OwnedOf<X>, NoTensor>) {
    return TraitsOf<X>::make(tensor_view(x).shape());
  } else {
    return {};
  }
}

/// The first axis is normalized: for matrices with one token in each column.
inline constexpr int features_first = 0;
/// The last axis is normalized (the default): for matrices with one token in each row.
inline constexpr int features_last = -1;

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
