#pragma once

#include <type_traits>

#include "evenkeel/core/axis_view.hpp"
#include "evenkeel/core/parameter_view.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// One number for each channel, where the caller has them: running statistics. Or absent.
///
/// Made from a std::vector, array or span, an Eigen vector, map, row or column, a Tensor, or {pointer, size}. The
/// numbers may lie any distance apart, if it is the same everywhere. `Element` is const where they are only read.
///
/// Errors    throws std::invalid_argument for a tensor of several axes with gaps between them.
template <class Element>
class ChannelView {
 public:
  using Scalar = std::remove_const_t<Element>;

  ChannelView() = default;
  ChannelView(Element* data, Index size) : view_(data, Shape(size)), is_given_(true) {}
  template <class V>
  requires(Tensor<V> || detail::VectorLike<std::remove_reference_t<V>>)
      ChannelView(V&& v)  // NOLINT(google-explicit-constructor)
      : is_given_(true) {
    if constexpr (Tensor<V>) {
      view_ = flat(tensor_view(v));
    } else {
      view_ = flat(detail::parameter_view(v));
    }
  }

  bool is_given() const noexcept { return is_given_; }
  Index size() const noexcept { return view_.size(); }
  Element& operator[](Index channel) const noexcept { return view_.data()[channel * view_.stride(0)]; }
  const TensorView<Element>& view() const noexcept { return view_; }

 private:
  template <class E>
  static TensorView<Element> flat(const TensorView<E>& view) {
    static_assert(std::is_same_v<std::remove_const_t<E>, Scalar>,
                  "evenkeel: running statistics have the scalar type of x, or are float where x has 16 bits");
    static_assert(std::is_const_v<Element> || !std::is_const_v<E>,
                  "evenkeel: cannot write to const running statistics");
    const Axis all = detail::join_axes("ChannelView", "v", view, 0, view.rank());
    return {view.data(), {all.extent}, {all.stride}, StorageOrder::row_major};
  }

  TensorView<Element> view_{nullptr, Shape(0)};
  bool is_given_ = false;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
