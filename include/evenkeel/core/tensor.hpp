#pragma once

#include <type_traits>
#include <utility>

#include "evenkeel/core/tensor_view.hpp"

#if __has_include(<Eigen/Core>)
#include <Eigen/Core>
#endif

/// What counts as a tensor: a TensorView, and where Eigen is on the include path, its dense types with direct access
/// (Matrix, Array, Map, Ref, Block, a transpose of one). eigen_tensor.hpp adds Eigen's Tensor.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// How a type of tensor is looked at: Scalar, view(x), and for types that can be made anew: Owned, make(shape), and
/// ConstMap, map(view). Specialized for each kind of tensor.
template <class X>
struct TensorTraits {
  static constexpr bool is_tensor = false;
  static constexpr bool is_lazy = false;
};

template <class S>
struct TensorTraits<TensorView<S>> {
  static constexpr bool is_tensor = true;
  static constexpr bool is_lazy = false;
  static constexpr bool owns_memory = false;
  using Scalar = std::remove_const_t<S>;
  using ConstMap = TensorView<const Scalar>;
  static TensorView<S> view(const TensorView<S>& x) noexcept { return x; }
  static ConstMap map(const TensorView<const Scalar>& view) noexcept { return view; }
};

#if __has_include(<Eigen/Core>)
template <class X>
  requires std::is_base_of_v<Eigen::DenseBase<X>, X>
struct TensorTraits<X> {
  static constexpr bool is_tensor = (Eigen::internal::traits<X>::Flags & Eigen::DirectAccessBit) != 0;
  static constexpr bool is_lazy = !is_tensor;
  using Scalar = typename X::Scalar;
  using Owned = typename X::PlainObject;
  static constexpr bool owns_memory = std::is_same_v<X, Owned>;
  static constexpr bool is_vector = X::IsVectorAtCompileTime;
  static constexpr bool is_mutable = (Eigen::internal::traits<X>::Flags & Eigen::LvalueBit) != 0;
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

/// The view of a tensor: no element is copied. Says at compile time why other types have none.
template <class X>
auto tensor_view(X&& x) noexcept {
  using Traits = TraitsOf<X>;
  static_assert(!Traits::is_lazy,
                "evenkeel: this is a lazy Eigen expression without memory of its own; pass x.eval(), or a Matrix, "
                "Array, Map, Ref, Block, Tensor, TensorFixedSize or TensorMap");
  static_assert(Traits::is_tensor || Traits::is_lazy,
                "evenkeel: this is not a tensor; pass a dense Eigen type, a TensorView, or, with "
                "evenkeel/core/eigen_tensor.hpp included, a Tensor, TensorFixedSize or TensorMap");
  if constexpr (Traits::is_tensor) return Traits::view(x);
}

template <class X>
TensorView<const ScalarOf<X>> const_view(const X& x) noexcept {
  return tensor_view(x);
}

template <class X>
OwnedOf<X> make_like(const X& x) {
  return TraitsOf<X>::make(tensor_view(x).shape());
}

/// The first axis is normalized: for matrices with one token in each column.
inline constexpr int features_first = 0;
/// The last axis is normalized (the default): for matrices with one token in each row.
inline constexpr int features_last = -1;

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
