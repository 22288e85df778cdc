// What the tests of ops share: the two norms under one interface, and the kinds of tensor that they take.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "evenkeel/ops/layer_norm.hpp"
#include "evenkeel/ops/rms_norm.hpp"
#include "kernels/kernel_test.hpp"
#include "support/compiled_norms.hpp"

namespace evenkeel_test {

using evenkeel::Axes;
using evenkeel::Context;
using evenkeel::features_first;
using evenkeel::features_last;
using evenkeel::NormStatistics;
using evenkeel::Shape;
using evenkeel::StorageOrder;
using evenkeel::TensorView;

template <class S>
using RowMatrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class S>
using ColumnMatrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>;
template <class S>
using Vector = Eigen::Vector<S, Eigen::Dynamic>;

/// The elements of a matrix, row by row.
template <class Matrix, class S = typename Matrix::Scalar>
std::vector<S> values_of(const Matrix& matrix) {
  std::vector<S> values;
  for (Index i = 0; i < matrix.rows(); ++i)
    for (Index j = 0; j < matrix.cols(); ++j) values.push_back(matrix(i, j));
  return values;
}

// ---------------------------------------------------------------- what is tested

/// The options of either norm.
template <class S>
struct OpOptions {
  evenkeel::ParameterView<S> gamma = {}, beta = {};
  double eps = 1e-5;
  Axes axis = -1;
  evenkeel::MaskView mask = {};
  evenkeel::Rounding rounding = {};
};

/// The gradients of either norm.
template <class S>
struct OpGradients {
  evenkeel::TensorGradient<S> dx = {};
  evenkeel::ParameterGradient<S> dgamma = {}, dbeta = {};
};

template <class S>
struct LayerNormOp {
  using Scalar = S;
  using Kernel = Config<LayerNorm, evenkeel::native, S>;
  using Options = OpOptions<S>;
  using Gradients = OpGradients<S>;
  static constexpr const char* name = "layer_norm";

  template <class X, class Y>
  static void into(const X& x, Y&& y, const Options& o = {}) {
    evenkeel::layer_norm_into(x, std::forward<Y>(y), {o.gamma, o.beta, o.eps, o.axis, o.mask, o.rounding});
  }
  template <class X, class Y>
  static void into(const X& x, Y&& y, NormStatistics<S>& saved, const Options& o = {}) {
    evenkeel::layer_norm_into(x, std::forward<Y>(y), saved, {o.gamma, o.beta, o.eps, o.axis, o.mask, o.rounding});
  }
  template <class X>
  static auto of(const X& x, const Options& o = {}) {
    return evenkeel::layer_norm(x, {o.gamma, o.beta, o.eps, o.axis, o.mask, o.rounding});
  }
  template <class X>
  static auto of(const X& x, NormStatistics<S>& saved, const Options& o = {}) {
    return evenkeel::layer_norm(x, saved, {o.gamma, o.beta, o.eps, o.axis, o.mask, o.rounding});
  }
  template <class DY, class X>
  static void backward(const DY& dy, const X& x, const NormStatistics<S>& saved, const Options& o, const Gradients& to,
                       const Context& context = {}) {
    evenkeel::layer_norm_backward(dy, x, saved, {o.gamma, o.beta, o.eps, o.axis, o.mask, o.rounding},
                                  {to.dx, to.dgamma, to.dbeta}, context);
  }
  static std::size_t workspace_bytes(const Shape& x, const Axes& axis = -1) {
    return evenkeel::layer_norm_workspace_bytes<S>(x, axis);
  }
};

/// beta and dbeta are left out: it has none.
template <class S>
struct RMSNormOp {
  using Scalar = S;
  using Kernel = Config<RMSNorm, evenkeel::native, S>;
  using Options = OpOptions<S>;
  using Gradients = OpGradients<S>;
  static constexpr const char* name = "rms_norm";

  template <class X, class Y>
  static void into(const X& x, Y&& y, const Options& o = {}) {
    evenkeel::rms_norm_into(x, std::forward<Y>(y), {o.gamma, o.eps, o.axis, o.mask, o.rounding});
  }
  template <class X, class Y>
  static void into(const X& x, Y&& y, NormStatistics<S>& saved, const Options& o = {}) {
    evenkeel::rms_norm_into(x, std::forward<Y>(y), saved, {o.gamma, o.eps, o.axis, o.mask, o.rounding});
  }
  template <class X>
  static auto of(const X& x, const Options& o = {}) {
    return evenkeel::rms_norm(x, {o.gamma, o.eps, o.axis, o.mask, o.rounding});
  }
  template <class X>
  static auto of(const X& x, NormStatistics<S>& saved, const Options& o = {}) {
    return evenkeel::rms_norm(x, saved, {o.gamma, o.eps, o.axis, o.mask, o.rounding});
  }
  template <class DY, class X>
  static void backward(const DY& dy, const X& x, const NormStatistics<S>& saved, const Options& o, const Gradients& to,
                       const Context& context = {}) {
    evenkeel::rms_norm_backward(dy, x, saved, {o.gamma, o.eps, o.axis, o.mask, o.rounding}, {to.dx, to.dgamma},
                                context);
  }
  static std::size_t workspace_bytes(const Shape& x, const Axes& axis = -1) {
    return evenkeel::rms_norm_workspace_bytes<S>(x, axis);
  }
};

template <class Op>
inline constexpr bool is_centred = Op::Kernel::Norm::centred;

using Ops = testing::Types<LayerNormOp<float>, LayerNormOp<double>, RMSNormOp<float>, RMSNormOp<double>>;
struct OpName {
  template <class Op>
  static std::string GetName(int) {
    return std::string(Op::name) + (std::is_same_v<typename Op::Scalar, float> ? "_float" : "_double");
  }
};

/// The gamma, beta and eps of the data. They view it.
template <class S>
OpOptions<S> options_of(const Data<S>& d, const Axes& axis = -1) {
  OpOptions<S> options{.eps = d.eps, .axis = axis};
  if (!d.gamma.empty()) options.gamma = d.gamma;
  if (!d.beta.empty()) options.beta = d.beta;
  return options;
}

// ---------------------------------------------------------------- kinds of tensor

/// A kind makes a tensor of an array [rows, features], and says along which axis it has the features.

template <class S>
struct Pointers {
  static constexpr const char* name = "dense pointers";
  static constexpr Place place = {};
  static constexpr int axis = features_last;
  static auto tensor(const Array<S>& a, Index rows, Index features) {
    return TensorView<S>(a.data(), {rows, features});
  }
};

template <class S>
struct StridedPointers {
  static constexpr const char* name = "pointers with a row stride";
  static constexpr Place place = {.offset = 1, .gap = 5};
  static constexpr int axis = features_last;
  static auto tensor(const Array<S>& a, Index rows, Index features) {
    return TensorView<S>(a.data(), rows, features, a.stride());
  }
};

template <class S>
struct RowMajorMap {
  static constexpr const char* name = "a row-major map";
  static constexpr Place place = {.offset = 3};
  static constexpr int axis = features_last;
  static auto tensor(const Array<S>& a, Index rows, Index features) {
    return Eigen::Map<RowMatrix<S>>(a.data(), rows, features);
  }
};

template <class S>
struct RowMajorBlock {
  static constexpr const char* name = "a block of a row-major matrix";
  static constexpr Place place = {.offset = 2, .gap = 7};
  static constexpr int axis = features_last;
  static auto tensor(const Array<S>& a, Index rows, Index features) {
    return Eigen::Map<RowMatrix<S>>(a.data(), rows, a.stride()).leftCols(features);
  }
};

template <class S>
struct RowMajorRef {
  static constexpr const char* name = "a ref to a block of a row-major array";
  static constexpr Place place = {.gap = 2};
  static constexpr int axis = features_last;
  using RowArray = Eigen::Array<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  static auto tensor(const Array<S>& a, Index rows, Index features) {
    return Eigen::Ref<RowArray, 0, Eigen::OuterStride<>>(
        Eigen::Map<RowArray>(a.data(), rows, a.stride()).leftCols(features));
  }
};

template <class S>
struct ColumnMajorMap {
  static constexpr const char* name = "a column-major map [features, rows]";
  static constexpr Place place = {};
  static constexpr int axis = features_first;
  static auto tensor(const Array<S>& a, Index rows, Index features) {
    return Eigen::Map<ColumnMatrix<S>>(a.data(), features, rows);
  }
};

template <class S>
struct ColumnMajorBlock {
  static constexpr const char* name = "a block of a column-major matrix [features, rows]";
  static constexpr Place place = {.offset = 5, .gap = 3};
  static constexpr int axis = features_first;
  static auto tensor(const Array<S>& a, Index rows, Index features) {
    return Eigen::Map<ColumnMatrix<S>>(a.data(), a.stride(), rows).topRows(features);
  }
};

template <class S>
struct ColumnMajorPointers {
  static constexpr const char* name = "column-major pointers [features, rows]";
  static constexpr Place place = {.gap = 1};
  static constexpr int axis = features_first;
  static auto tensor(const Array<S>& a, Index rows, Index features) {
    return TensorView<S>(a.data(), {features, rows}, {1, a.stride()}, StorageOrder::column_major);
  }
};

template <class S>
struct Transposed {
  static constexpr const char* name = "the transpose of a block of a column-major matrix";
  static constexpr Place place = {.offset = 1, .gap = 4};
  static constexpr int axis = features_last;
  static auto tensor(const Array<S>& a, Index rows, Index features) {
    return ColumnMajorBlock<S>::tensor(a, rows, features).transpose();
  }
};

template <class S>
using RowMajorKinds =
    std::tuple<Pointers<S>, StridedPointers<S>, RowMajorMap<S>, RowMajorBlock<S>, RowMajorRef<S>, Transposed<S>>;
template <class S>
using ColumnMajorKinds = std::tuple<ColumnMajorMap<S>, ColumnMajorBlock<S>, ColumnMajorPointers<S>>;

/// Calls body(kind) for each kind of a tuple.
template <class Kinds, class Body>
void for_each_kind(const Body& body) {
  std::apply(
      [&]<class... Kind>(Kind... kinds) {
        const auto call = [&](auto kind) {
          SCOPED_TRACE(kind.name);
          body(kind);
        };
        (call(kinds), ...);
      },
      Kinds());
}

/// An array in the place that suits a kind, filled with `values`, or with poison where there are none.
template <class Kind, class S>
Array<S> array_for(const Data<S>& d, const std::vector<S>& values = {}) {
  return Array<S>(true, d.rows, d.features, Kind::place, values);
}

// ---------------------------------------------------------------- ops against kernels

template <class S>
ForwardResult<S> result_of(const Array<S>& y, const NormStatistics<S>& saved) {
  return {.y = y.values(), .mean = saved.mean, .mean_rest = saved.mean_rest, .rstd = saved.rstd};
}

/// An op gives what the kernel gives for plain arrays, bit for bit: y, statistics and every gradient. What it reads
/// stays as it was, as does all memory around what it writes. Each tensor may be of another kind.
template <class Op, class KindX, class KindY = KindX, class KindDY = KindX, class KindDX = KindX>
void expect_like_kernels(const Data<typename Op::Scalar>& d, const Axes& axis = KindX::axis) {
  using S = typename Op::Scalar;
  SCOPED_TRACE(std::to_string(d.rows) + " x " + std::to_string(d.features));
  const ForwardResult<S> expected = forward<typename Op::Kernel>(d);
  const Gradients<S> expected_gradients = backward<typename Op::Kernel>(d, expected);
  const Data<S> before = d;
  const auto options = options_of(d, axis);

  const Array<S> x = array_for<KindX>(d, d.x), y = array_for<KindY>(d);
  const auto x_tensor = KindX::tensor(x, d.rows, d.features);
  NormStatistics<S> saved;
  Op::into(x_tensor, KindY::tensor(y, d.rows, d.features), saved, options);
  expect_same_bits(result_of(y, saved), expected);
  const Array<S> inference_y = array_for<KindY>(d);
  Op::into(x_tensor, KindY::tensor(inference_y, d.rows, d.features), options);
  EXPECT_TRUE(same_bits(inference_y.values(), expected.y));

  const Array<S> dy = array_for<KindDY>(d, d.dy), dx = array_for<KindDX>(d);
  std::vector<S> dgamma(d.gamma.size(), poison<S>), dbeta(d.beta.size(), poison<S>);
  OpGradients<S> to{.dx = KindDX::tensor(dx, d.rows, d.features)};
  if (!d.gamma.empty()) to.dgamma = dgamma;
  if (!d.beta.empty()) to.dbeta = dbeta;
  Op::backward(KindDY::tensor(dy, d.rows, d.features), x_tensor, saved, options, to);
  EXPECT_TRUE(same_bits(dx.values(), expected_gradients.dx));
  EXPECT_TRUE(d.gamma.empty() || same_bits(dgamma, expected_gradients.dgamma));
  EXPECT_TRUE(d.beta.empty() || !is_centred<Op> || same_bits(dbeta, expected_gradients.dbeta));

  for (const Array<S>* array : {&x, &y, &inference_y, &dy, &dx}) EXPECT_TRUE(array->is_intact_around());
  EXPECT_TRUE(same_bits(x.values(), d.x));
  EXPECT_TRUE(same_bits(dy.values(), d.dy));
  EXPECT_TRUE(same_bits(d.gamma, before.gamma));
  EXPECT_TRUE(same_bits(d.beta, before.beta));
}

}  // namespace evenkeel_test
