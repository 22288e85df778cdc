#pragma once

#include <cstddef>
#include <type_traits>

#include <unsupported/Eigen/CXX11/Tensor>

#include "evenkeel/core/tensor.hpp"

/// Makes Eigen's Tensor, TensorFixedSize and TensorMap tensors of evenkeel.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {

namespace detail {

template <class X>
struct EigenTensorTraits {
  static constexpr bool is_tensor = true;
  static constexpr bool is_lazy = false;
  using Scalar = std::remove_const_t<typename X::Scalar>;
  static constexpr int rank = static_cast<int>(X::NumDimensions);
  static constexpr bool is_row_major = static_cast<int>(X::Layout) == static_cast<int>(Eigen::RowMajor);
  static constexpr auto order = is_row_major ? StorageOrder::row_major : StorageOrder::column_major;
  using Owned = Eigen::Tensor<Scalar, rank, is_row_major ? Eigen::RowMajor : Eigen::ColMajor>;
  using ConstMap = Eigen::TensorMap<const Owned>;
  static_assert(rank >= 1 && rank <= max_rank, "evenkeel: a Tensor has 1 to 8 axes here");

  template <class Self>
  static auto view(Self& x) noexcept {
    Shape shape;
    for (int axis = 0; axis < rank; ++axis) shape.append(static_cast<Index>(x.dimension(axis)));
    return TensorView(x.data(), shape, order);
  }
  static Owned make(const Shape& shape) { return Owned(dimensions(shape)); }
  static ConstMap map(const TensorView<const Scalar>& view) { return ConstMap(view.data(), dimensions(view.shape())); }

 private:
  static auto dimensions(const Shape& shape) {
    typename Owned::Dimensions d;
    for (int axis = 0; axis < rank; ++axis) d[static_cast<std::size_t>(axis)] = shape[axis];
    return d;
  }
};

}  // namespace detail

/// Sizes known when the program runs.
template <class S, int Rank, int Options, class I>
struct TensorTraits<Eigen::Tensor<S, Rank, Options, I>>
    : detail::EigenTensorTraits<Eigen::Tensor<S, Rank, Options, I>> {
  static constexpr bool owns_memory = true;
};

/// Sizes known to the compiler; what is returned is a Tensor.
template <class S, class Sizes, int Options, class I>
struct TensorTraits<Eigen::TensorFixedSize<S, Sizes, Options, I>>
    : detail::EigenTensorTraits<Eigen::TensorFixedSize<S, Sizes, Options, I>> {
  static constexpr bool owns_memory = true;
};

/// Memory of the caller's.
template <class Plain, int Options, template <class> class MakePointer>
struct TensorTraits<Eigen::TensorMap<Plain, Options, MakePointer>>
    : detail::EigenTensorTraits<Eigen::TensorMap<Plain, Options, MakePointer>> {
  static constexpr bool owns_memory = false;
  template <class Self>
  static auto view(Self& x) noexcept {
    using Element = std::conditional_t<std::is_const_v<Plain>, const std::remove_const_t<typename Plain::Scalar>,
                                       typename Plain::Scalar>;
    Element* data = x.data();  // a map's constness is its elements', as a pointer's is not
    Shape shape;
    for (int axis = 0; axis < Plain::NumDimensions; ++axis) shape.append(static_cast<Index>(x.dimension(axis)));
    return TensorView<Element>(data, shape, TensorTraits::order);
  }
};

/// TensorRef and expressions: computed anew at every element that is read.
template <class X>
requires std::is_base_of_v<Eigen::TensorBase<X, Eigen::ReadOnlyAccessors>, X>
struct TensorTraits<X> {
  static constexpr bool is_tensor = false;
  static constexpr bool is_lazy = true;
  using Scalar = std::remove_const_t<typename X::Scalar>;
  using Owned = NoTensor;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
