#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "evenkeel/core/parameter_view.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Which positions are valid, as an operation takes it: those of true, or of any number but 0. Or absent: all are.
///
/// Made from a std::vector (of std::uint8_t, not of bool), array or span, an Eigen vector, array or matrix, a Tensor,
/// or {pointer, size}, of bool, std::uint8_t, float, or any other arithmetic type. A flat one is in row-major order of
/// the axes that it is for, whatever the storage order of x; any other has their shape, in either storage order.
class MaskView {
 public:
  MaskView() = default;
  template <class T>
  requires std::is_arithmetic_v<T> MaskView(const T* data, Index size) { set(TensorView<const T>(data, Shape(size))); }
  template <class V>
  requires(Tensor<V> || detail::VectorLike<V>)
      MaskView(const V& v) {  // NOLINT(google-explicit-constructor): an option as it is
    if constexpr (Tensor<V>) {
      set(const_view(v));
    } else {
      set(TensorView<std::remove_pointer_t<decltype(v.data())>>(v.data(), Shape(static_cast<Index>(v.size()))));
    }
  }
  template <class Allocator>
  MaskView(const std::vector<bool, Allocator>&) {  // NOLINT(google-explicit-constructor): refused, and says why
    static_assert(
        !std::is_same_v<Allocator, Allocator>,
        "evenkeel: a std::vector<bool> has no elements in memory; a mask is a std::vector<std::uint8_t>, or an "
        "array, span, tensor or pointer of bool");
  }

  bool is_given() const noexcept { return is_valid_ != nullptr; }
  const Shape& shape() const noexcept { return bytes_.shape(); }
  /// Whether it is a list, in row-major order of what it is for.
  bool is_flat() const noexcept { return shape().rank() < 2; }
  Index stride(int axis) const noexcept { return bytes_.stride(axis) / element_bytes_; }
  /// Whether the element at an offset from the first is not 0.
  bool operator[](Index offset) const noexcept { return is_valid_(bytes_.data(), offset); }
  /// Its memory: a byte of each element.
  const TensorView<const std::byte>& bytes() const noexcept { return bytes_; }

 private:
  template <class T>
  static bool is_valid(const void* data, Index offset) noexcept {
    return static_cast<const T*>(data)[offset] != T(0);
  }
  template <class T>
  void set(const TensorView<T>& view) noexcept {
    static_assert(std::is_arithmetic_v<std::remove_const_t<T>>,
                  "evenkeel: a mask has elements of bool, std::uint8_t, float, or another arithmetic type");
    is_valid_ = is_valid<T>;
    element_bytes_ = static_cast<Index>(sizeof(T));
    auto strides = view.strides();
    for (Index& stride : strides) stride *= element_bytes_;
    bytes_ = {reinterpret_cast<const std::byte*>(view.data()), view.shape(), strides, view.order()};
  }

  bool (*is_valid_)(const void*, Index) = nullptr;
  Index element_bytes_ = 1;
  TensorView<const std::byte> bytes_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
