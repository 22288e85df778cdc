// LayerNorm and RMSNorm against PyTorch's and ONNX's results in tests/data, through every kind of tensor.
#include "evenkeel/core/eigen_tensor.hpp"
#include "ops/op_test.hpp"
#include "support/reference_case.hpp"

namespace evenkeel_test {
namespace {

/// The axes that a case normalizes, all from one on, and its numbers as rows of features.
template <class S>
struct NormCase {
  Shape shape;
  Axes axes = -1;
  Data<S> data;

  NormCase(const Tensor& x, std::size_t normalized_axes, double eps)
      : axes(Axes::last(static_cast<int>(normalized_axes))) {
    for (const std::size_t extent : x.shape) shape.append(static_cast<Index>(extent));
    data.features = static_cast<Index>(x.features(-static_cast<std::ptrdiff_t>(normalized_axes)));
    data.rows = shape.size() / data.features;
    data.x = x.as<S>();
    data.eps = eps;
  }
};

/// The numbers of a parameter, or none if the case does not have it.
template <class S>
std::vector<S> parameter(const ReferenceCase& reference, const std::string& name) {
  return reference.has_input(name) ? reference.inputs.at(name).as<S>() : std::vector<S>();
}

/// Gemma's gamma is 1 + what is stored; gradients are the same.
template <class S>
NormCase<S> torch_case(const ReferenceCase& reference) {
  NormCase<S> result(reference.inputs.at("x"), reference.attributes.at("normalized_shape").size(), reference.eps());
  result.data.dy = reference.grad_output.as<S>();
  result.data.gamma = parameter<S>(reference, "gamma");
  result.data.beta = parameter<S>(reference, "beta");
  const auto gamma_offset = static_cast<S>(reference.attributes.value("gamma_offset", 0.0));
  for (S& value : result.data.gamma) value += gamma_offset;
  return result;
}

template <class S>
NormCase<S> onnx_case(const ReferenceCase& reference) {
  const Tensor& x = reference.inputs.at("X");
  const auto axis = reference.attributes.at("axis").get<std::ptrdiff_t>();
  const auto rank = static_cast<std::ptrdiff_t>(x.shape.size());
  NormCase<S> result(x, static_cast<std::size_t>(axis < 0 ? -axis : rank - axis), reference.eps());
  result.data.dy = result.data.x;
  result.data.gamma = parameter<S>(reference, "W");
  result.data.beta = parameter<S>(reference, "B");
  return result;
}

/// The results of an op over the axes of a case, whose tensors have the rank of the file.
template <class S>
struct OpResult {
  std::vector<S> y = {}, dx = {}, dgamma = {}, dbeta = {};
  NormStatistics<S> saved = {};
};

template <class Op, class MakeTensor, class S = typename Op::Scalar>
OpResult<S> run(const NormCase<S>& c, const MakeTensor& tensor) {
  const Data<S>& d = c.data;
  const auto poisoned = [](std::size_t size) { return std::vector<S>(size, poison<S>); };
  OpResult<S> result{.y = poisoned(d.x.size()),
                     .dx = poisoned(d.x.size()),
                     .dgamma = poisoned(d.gamma.size()),
                     .dbeta = poisoned(d.beta.size())};
  OpGradients<S> to{.dx = tensor(result.dx)};
  if (!d.gamma.empty()) to.dgamma = result.dgamma;
  if (!d.beta.empty()) to.dbeta = result.dbeta;
  Op::into(tensor(d.x), tensor(result.y), result.saved, options_of(d, c.axes));
  Op::backward(tensor(d.dy), tensor(d.x), result.saved, options_of(d, c.axes), to);
  return result;
}

template <class Op, class S = typename Op::Scalar>
OpResult<S> run_on_pointers(const NormCase<S>& c) {
  return run<Op>(c, [&]<class Values>(Values& values) { return TensorView(values.data(), c.shape); });
}

template <class Op, int Rank, class S = typename Op::Scalar>
OpResult<S> run_on_eigen_tensor(const NormCase<S>& c) {
  using EigenTensor = Eigen::Tensor<S, Rank, Eigen::RowMajor>;
  typename EigenTensor::Dimensions dimensions;
  for (int axis = 0; axis < Rank; ++axis) dimensions[static_cast<std::size_t>(axis)] = c.shape[axis];
  return run<Op>(c, [&]<class Values>(Values& values) {
    using Target = std::conditional_t<std::is_const_v<Values>, const EigenTensor, EigenTensor>;
    return Eigen::TensorMap<Target>(values.data(), dimensions);
  });
}

template <class Op, class S = typename Op::Scalar>
OpResult<S> run_on_eigen_tensor(const NormCase<S>& c) {
  if (c.shape.rank() == 2) return run_on_eigen_tensor<Op, 2>(c);
  if (c.shape.rank() == 3) return run_on_eigen_tensor<Op, 3>(c);
  if (c.shape.rank() == 4) return run_on_eigen_tensor<Op, 4>(c);
  ADD_FAILURE() << "no tensor of rank " << c.shape.rank();
  return {};
}

/// As rows of features, every kind of tensor gives the same bits as pointers and Eigen's Tensor of the full rank do.
template <class Op, class S = typename Op::Scalar>
void expect_same_for_every_kind(const NormCase<S>& c, const OpResult<S>& expected) {
  const OpResult<S> tensor = run_on_eigen_tensor<Op>(c);
  EXPECT_TRUE(same_bits(tensor.y, expected.y));
  EXPECT_TRUE(same_bits(tensor.dx, expected.dx));
  EXPECT_TRUE(same_bits(tensor.dgamma, expected.dgamma));
  EXPECT_TRUE(!is_centred<Op> || same_bits(tensor.dbeta, expected.dbeta));
  EXPECT_TRUE(same_bits(expected.y, forward<typename Op::Kernel>(c.data).y));
  for_each_kind<RowMajorKinds<S>>([&](auto kind) { expect_like_kernels<Op, decltype(kind)>(c.data); });
  for_each_kind<ColumnMajorKinds<S>>([&](auto kind) { expect_like_kernels<Op, decltype(kind)>(c.data); });
}

/// A row whose elements are all equal gives beta, exactly.
template <class S>
void expect_beta_for_constant_rows(const NormCase<S>& c, const std::vector<S>& y) {
  const Data<S>& d = c.data;
  const std::vector<S> beta = d.beta.empty() ? std::vector<S>(static_cast<std::size_t>(d.features)) : d.beta;
  for (Index i = 0; i < d.rows; ++i) {
    const std::vector<S> row = rows_of(d.x, d.features, i, 1);
    const bool is_constant = row == std::vector<S>(row.size(), row[0]);
    EXPECT_TRUE(!is_constant || rows_of(y, d.features, i, 1) == beta) << "row " << i;
  }
}

template <class Op>
class NormReference : public testing::Test {};
TYPED_TEST_SUITE(NormReference, Ops, OpName);

TYPED_TEST(NormReference, AgreesWithPyTorch) {
  using S = typename TypeParam::Scalar;
  constexpr bool centred = is_centred<TypeParam>;
  int cases = 0;
  for (const ReferenceCase& reference : read_cases("torch", centred ? "layernorm_" : "rmsnorm_")) {
    SCOPED_TRACE(reference.name);
    const auto c = torch_case<S>(reference);
    const auto expect = [](const std::vector<S>& got, const Tensor& expected) {
      EXPECT_TRUE(within(got, expected.data, torch_tolerance<S>(expected)));
    };
    const auto result = run_on_pointers<TypeParam>(c);
    expect(result.y, reference.outputs.at("y"));
    expect(result.saved.rstd, reference.outputs.at("rstd"));
    if (centred) expect(result.saved.mean, reference.outputs.at("mean"));
    expect(result.dx, reference.grads.at("x"));
    if (!c.data.gamma.empty()) expect(result.dgamma, reference.grads.at("gamma"));
    if (!c.data.beta.empty()) expect(result.dbeta, reference.grads.at("beta"));
    if (centred) expect_beta_for_constant_rows(c, result.y);
    expect_same_for_every_kind<TypeParam>(c, result);
    ++cases;
  }
  EXPECT_EQ(cases, centred ? 22 : 23);
}

TYPED_TEST(NormReference, AgreesWithOnnx) {
  using S = typename TypeParam::Scalar;
  constexpr bool centred = is_centred<TypeParam>;
  int cases = 0;
  for (const ReferenceCase& reference : read_cases("onnx", centred ? "layer_normalization_" : "rms_normalization_")) {
    SCOPED_TRACE(reference.name);
    const auto c = onnx_case<S>(reference);
    const auto expect = [&](const std::vector<S>& got, const char* name) {
      const Tensor& expected = reference.outputs.at(name);
      EXPECT_TRUE(within(got, expected.data, onnx_tolerance(expected)));
    };
    const auto result = run_on_pointers<TypeParam>(c);
    expect(result.y, "Y");
    if (centred) expect(result.saved.mean, "Mean");
    if (centred) expect(result.saved.rstd, "InvStdDev");
    expect_same_for_every_kind<TypeParam>(c, result);
    ++cases;
  }
  EXPECT_EQ(cases, 19);
}

}  // namespace
}  // namespace evenkeel_test
