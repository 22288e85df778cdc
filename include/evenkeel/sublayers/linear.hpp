#pragma once

#include <Eigen/Core>

#include <string>
#include <type_traits>

#include "evenkeel/core/axis_view.hpp"
#include "evenkeel/core/context.hpp"
#include "evenkeel/core/overlap.hpp"
#include "evenkeel/core/parameter.hpp"
#include "evenkeel/core/parameter_view.hpp"
#include "evenkeel/core/tensor.hpp"
#include "evenkeel/detail/product_blocks.hpp"
#include "evenkeel/detail/row_norm_op.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

namespace detail {

/// A tensor as Eigen sees it: a row-major matrix [rows, features].
template <class Scalar>
using RowMap = Eigen::Map<Eigen::Matrix<std::remove_const_t<Scalar>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>,
                          0, Eigen::OuterStride<>>;
template <class Scalar>
using ConstRowMap =
    Eigen::Map<const Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0, Eigen::OuterStride<>>;

template <class Scalar>
ConstRowMap<Scalar> row_map(const char* where, const char* name, const TensorView<const Scalar>& view) {
  const Rows rows = contiguous_rows(where, name, view, -1);
  return {view.data(), rows.rows, rows.features, Eigen::OuterStride<>(rows.stride)};
}
template <class Scalar>
RowMap<Scalar> row_map(const char* where, const char* name, const TensorView<Scalar>& view) {
  const Rows rows = contiguous_rows(where, name, view, -1);
  return {view.data(), rows.rows, rows.features, Eigen::OuterStride<>(rows.stride)};
}

/// The shape of x with its last extent replaced.
inline Shape with_last(const Shape& x, Index last) {
  Shape shape;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) shape.append(x[axis]);
  shape.append(last);
  return shape;
}

}  // namespace detail

/// A linear map of the last axis: y = x * weight^T + bias. Matrix products are Eigen's, in blocks of a size that
/// depends on the shapes alone: the bits are the same on any executor.
///
/// Shapes    x [..., in_features], contiguous along the last axis; y [..., out_features];
///           weight [out_features, in_features]; bias [out_features].
/// Errors    throws std::invalid_argument if a shape does not match or the last axis is not contiguous;
///           std::logic_error for a backward without a forward.
/// Source    agrees with torch.nn.Linear, whose weights can be loaded or mapped as they are.
template <class S>
class Linear {
 public:
  using Scalar = S;

  /// A view of x, which has to live unchanged until backward.
  class Saved {
   public:
    /// The x of the forward; rank 0 before one.
    const TensorView<const Scalar>& x() const noexcept { return x_; }

   private:
    friend class Linear;
    TensorView<const Scalar> x_;
  };

  /// Weight and bias start at zero: load them, map them, or initialize them.
  Linear(Index in_features, Index out_features, bool with_bias = true)
      : in_features_(in_features), out_features_(out_features), weight_(Shape{out_features, in_features}) {
    if (with_bias) bias_ = Parameter<Scalar>(Shape{out_features});
  }

  template <Tensor X>
  OwnedOf<X> forward(const X& x, const Context& context = {}) const {
    OwnedOf<X> y = make_output(x);
    forward_into(x, y, context);
    return y;
  }
  template <Tensor X>
  OwnedOf<X> forward(const X& x, Saved& saved, const Context& context = {}) const {
    OwnedOf<X> y = make_output(x);
    forward_into(x, y, saved, context);
    return y;
  }
  /// The gradient at x. Adds to the gradients of weight and bias.
  template <Tensor DY>
  OwnedOf<DY> backward(const DY& dy, const Saved& saved, const Context& context = {}) {
    OwnedOf<DY> dx = TraitsOf<DY>::make(saved.x_.shape());
    backward_into(dy, saved, dx, context);
    return dx;
  }

  template <Tensor X, Tensor Y>
  void forward_into(const X& x_tensor, Y&& y_tensor, const Context& context = {}) const {
    const char* where = "Linear::forward";
    const auto x_view = const_view(x_tensor);
    const TensorView<Scalar> y_view = tensor_view(y_tensor);
    require_shapes(where, x_view.shape(), "y", y_view.shape());
    require_no_overlap(where, "y", y_view, "x", x_view);
    const auto x = detail::row_map<Scalar>(where, "x", x_view);
    auto y = detail::row_map<Scalar>(where, "y", y_view);
    const ConstMatrix weight = weight_map();
    blocks(x.rows(), out_features_, in_features_)
        .run(context.executor, [&](Index i, Index rows, Index j, Index columns) {
          auto block = y.block(i, j, rows, columns);
          block.noalias() = x.middleRows(i, rows) * weight.middleRows(j, columns).transpose();
          if (!bias_.is_absent()) block.rowwise() += bias_map().segment(j, columns);
        });
  }
  template <Tensor X, Tensor Y>
  void forward_into(const X& x, Y&& y, Saved& saved, const Context& context = {}) const {
    forward_into(x, y, context);
    saved.x_ = const_view(x);
  }
  template <Tensor DY>
  void backward_into(const DY& dy_tensor, const Saved& saved, const TensorGradient<Scalar>& to,
                     const Context& context = {}) {
    const char* where = "Linear::backward";
    if (saved.x_.rank() == 0)
      raise_logic_error(where, "saved is empty, expected the Saved of a forward(x, saved) call");
    const auto dy_view = const_view(dy_tensor);
    require_shapes(where, saved.x_.shape(), "dy", dy_view.shape());
    const auto dy = detail::row_map<Scalar>(where, "dy", dy_view);
    const auto x = detail::row_map<Scalar>(where, "x", saved.x_);
    if (to.is_wanted()) {
      require_same_shape(where, "dx", to.view().shape(), "x", saved.x_.shape());
      require_no_overlap(where, "dx", to.view(), "dy", dy_view);
      require_no_overlap(where, "dx", to.view(), "x", saved.x_);
      write_dx(dy, detail::row_map<Scalar>(where, "dx", to.view()), to.adds(), context);
    }
    add_weight_gradient(dy, x, context);
    if (!bias_.is_absent()) add_bias_gradient(dy, context);
  }

  /// None: what Eigen's matrix products pack into is not counted.
  std::size_t workspace_bytes(const Shape&) const { return 0; }

  Index in_features() const noexcept { return in_features_; }
  Index out_features() const noexcept { return out_features_; }
  Parameter<Scalar>& weight() noexcept { return weight_; }
  Parameter<Scalar>& bias() noexcept { return bias_; }
  const Parameter<Scalar>& weight() const noexcept { return weight_; }
  const Parameter<Scalar>& bias() const noexcept { return bias_; }

  /// See for_each_parameter.
  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& prefix) {
    visit(prefix + "weight", self.weight_);
    if (!self.bias_.is_absent()) visit(prefix + "bias", self.bias_);
  }

 private:
  using Matrix = Eigen::Map<Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
  using ConstMatrix = Eigen::Map<const Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
  using Row = Eigen::Map<Eigen::Matrix<Scalar, 1, Eigen::Dynamic>>;
  using ConstRow = Eigen::Map<const Eigen::Matrix<Scalar, 1, Eigen::Dynamic>>;

  static detail::ProductBlocks blocks(Index rows, Index columns, Index depth) { return {rows, columns, depth}; }

  void write_dx(const detail::ConstRowMap<Scalar>& dy, detail::RowMap<Scalar> dx, bool adds,
                const Context& context) const {
    const ConstMatrix weight = weight_map();
    blocks(dy.rows(), in_features_, out_features_)
        .run(context.executor, [&](Index i, Index rows, Index j, Index columns) {
          auto block = dx.block(i, j, rows, columns);
          const auto product = dy.middleRows(i, rows) * weight.middleCols(j, columns);
          if (adds) {
            block.noalias() += product;
          } else {
            block.noalias() = product;
          }
        });
  }
  void add_weight_gradient(const detail::ConstRowMap<Scalar>& dy, const detail::ConstRowMap<Scalar>& x,
                           const Context& context) {
    Matrix gradient(weight_.gradient_to_add_to(), out_features_, in_features_);
    blocks(out_features_, in_features_, x.rows())
        .run(context.executor, [&](Index i, Index rows, Index j, Index columns) {
          gradient.block(i, j, rows, columns).noalias() +=
              dy.middleCols(i, rows).transpose() * x.middleCols(j, columns);
        });
    weight_.commit_gradient();
  }
  /// A block of columns at a time: which of them Eigen sums in vectors depends on where it begins.
  void add_bias_gradient(const detail::ConstRowMap<Scalar>& dy, const Context& context) {
    constexpr Index step = 64;
    Row gradient(bias_.gradient_to_add_to(), out_features_);
    const detail::InBlocks run(context.executor);
    run((out_features_ + step - 1) / step, dy.rows() * step * sizeof(Scalar), [&](Index first, Index last) {
      for (Index i = first * step; i < std::min(last * step, out_features_); i += step) {
        const Index columns = std::min(step, out_features_ - i);
        gradient.segment(i, columns) += dy.middleCols(i, columns).colwise().sum();
      }
    });
    bias_.commit_gradient();
  }

  ConstMatrix weight_map() const { return {weight_.data(), out_features_, in_features_}; }
  ConstRow bias_map() const { return {bias_.data(), out_features_}; }

  template <Tensor X>
  OwnedOf<X> make_output(const X& x) const {
    require_last("Linear::forward", "x", tensor_view(x).shape(), in_features_);
    return TraitsOf<X>::make(detail::with_last(tensor_view(x).shape(), out_features_));
  }
  static void require_last(const char* where, const char* name, const Shape& shape, Index expected) {
    if (shape.rank() > 0 && shape[shape.rank() - 1] == expected) return;
    raise_invalid_argument(where, std::string("last axis of ") + name + " has " +
                                      (shape.rank() > 0 ? std::to_string(shape[shape.rank() - 1]) : "no") +
                                      " elements, expected " + std::to_string(expected) + " (" +
                                      has_shape(name, shape) + ")");
  }
  void require_shapes(const char* where, const Shape& x, const char* name, const Shape& y) const {
    require_last(where, "x", x, in_features_);
    require_same_shape(where, name, y, "the output", detail::with_last(x, out_features_));
  }

  Index in_features_, out_features_;
  Parameter<Scalar> weight_, bias_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
