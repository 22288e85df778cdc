// Every gradient of ops/add_norm.hpp, in every input and parameter, against dual numbers through the oracle; and what
// it refuses, by the text of each error.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "core/error_text.hpp"
#include "ops/add_norm_test.hpp"

namespace evenkeel_test {
namespace {

template <class Op>
class AddNormGradient : public testing::Test {};
using DoubleAddOps = testing::Types<AddLayerNormOp<double>, AddRMSNormOp<double>>;
TYPED_TEST_SUITE(AddNormGradient, DoubleAddOps);

/// The oracle's s and y, one after the other, of x, h, gamma, beta, lambda and bias.
template <class Op>
struct SumAndNorm {
  std::size_t rows, features;
  double alpha, eps;
  evenkeel::DropoutMask drop;

  template <class Inputs>
  auto operator()(const Inputs& in) const {
    auto s = in[0];
    for (std::size_t i = 0; i < s.size(); ++i) {
      const auto& lambda = in[4][in[4].size() == 1 ? 0 : i % features];
      const long double kept = drop.keeps(i) ? 1 / (1 - static_cast<long double>(drop.p())) : 0;
      s[i] = static_cast<long double>(alpha) * s[i] + lambda * (kept * (in[1][i] + in[5][i % features]));
    }
    auto both = Op::Alone::Kernel::Norm::y(s, rows, features, in[2], in[3], static_cast<long double>(eps));
    both.insert(both.begin(), s.begin(), s.end());
    return both;
  }
};

TYPED_TEST(AddNormGradient, MatchesDualNumbersInEveryInputAndParameter) {
  using Op = TypeParam;
  for (const auto& [has_vector, p] : {std::pair{false, 0.0}, {true, 0.0}, {false, 0.375}, {true, 0.375}}) {
    for (const auto& [rows, features] : {std::pair{3, 7}, {35, 4}, {2, 17}}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(features) + ", p = " + std::to_string(p));
      const auto size = static_cast<std::size_t>(rows * features), columns = static_cast<std::size_t>(features);
      const Shape shape{rows, features};
      std::vector<std::vector<double>> in;
      for (const std::size_t count : {size, size, columns, columns, has_vector ? columns : 1, columns}) {
        in.push_back(normal_vector<double>(count, 50 + in.size(), 0.5));
      }
      const auto dy = normal_vector<double>(size, 60), ds = normal_vector<double>(size, 61);
      ResidualSumOptions<double> sum;
      sum.alpha = -1.25;
      sum.bias = in[5];
      sum.drop = evenkeel::DropoutMask(p, {8}, 1);
      if (has_vector) {
        sum.lambdas = in[4];
      } else {
        sum.lambda = in[4][0];
      }
      const auto options = Op::options(sum, {.gamma = in[2], .beta = in[3], .eps = 0.01, .axis = -1});
      const auto view = [&](const std::vector<double>& v) { return TensorView<const double>(v.data(), shape); };
      std::vector<double> s(size), y(size);
      std::vector<std::vector<double>> got;
      for (const auto& input : in) got.emplace_back(input.size());
      NormStatistics<double> saved;
      Op::into(view(in[0]), view(in[1]), TensorView<double>(s.data(), shape), TensorView<double>(y.data(), shape),
               saved, options);
      AddGradients<double> to;
      to.dx = TensorView<double>(got[0].data(), shape), to.dh = TensorView<double>(got[1].data(), shape);
      to.dgamma = got[2], to.dbeta = got[3], to.dlambda = got[4], to.dbias = got[5];
      Op::backward({.dy = view(dy), .s = view(s), .ds = view(ds), .h = view(in[1])}, saved, options, to);

      std::vector<Reals> wide;
      for (const auto& input : in) wide.push_back(oracle::widen(input));
      Reals upstream = oracle::widen(ds);
      for (const double value : dy) upstream.push_back(value);
      const SumAndNorm<Op> function{static_cast<std::size_t>(rows), columns, sum.alpha, 0.01, sum.drop};
      for (std::size_t input = 0; input < in.size(); ++input) {
        if (input == 3 && !Op::centred) continue;
        const Reals expected = gradient(wide, input, function, upstream);
        // Measured: 5.5 at most, of dlambda, which is a sum over all elements.
        const long double scale = 1 + oracle::largest_magnitude(expected);
        EXPECT_TRUE(within_ulp(got[input], expected, 12, Reals(expected.size(), scale))) << "input " << input;
      }
    }
  }
}

template <class Op>
class AddNormError : public testing::Test {
 protected:
  using Scalar = typename Op::Scalar;
  using View = TensorView<Scalar>;
  std::vector<Scalar> x_ = std::vector<Scalar>(60, Scalar(1)), h_ = x_, s_ = x_, y_ = x_, dy_ = x_, dx_ = x_, dh_ = x_;
  NormStatistics<Scalar> saved_;

  AddNormError() {
    x_[3] = 2;
    Op::into(view(x_), view(h_), view(s_), view(y_), saved_);
  }
  static View view(std::vector<Scalar>& memory, const Shape& shape = {3, 4},
                   StorageOrder order = StorageOrder::row_major) {
    return {memory.data(), shape, order};
  }
  static std::string where(const std::string& rest) { return "evenkeel::" + std::string(Op::name) + rest; }
  std::string into_text(const View& x, const View& h, const View& s, const View& y,
                        const ResidualSumOptions<Scalar>& sum = {}) {
    const auto before = std::pair(s_, y_);
    const std::string text = error_text<std::invalid_argument>([&] { Op::into(x, h, s, y, Op::options(sum, {})); });
    EXPECT_EQ(std::pair(s_, y_), before);
    return text;
  }
  std::string backward_text(const AddNormInputs<Scalar>& from, const AddGradients<Scalar>& to,
                            const ResidualSumOptions<Scalar>& sum = {}) {
    return error_text<std::invalid_argument>([&] { Op::backward(from, saved_, Op::options(sum, {}), to); });
  }
  AddNormInputs<Scalar> inputs() { return {.dy = view(dy_), .s = view(s_)}; }
};
using FloatAddOps = testing::Types<AddLayerNormOp<float>, AddRMSNormOp<float>>;
TYPED_TEST_SUITE(AddNormError, FloatAddOps);

TYPED_TEST(AddNormError, OfTensorsThatDoNotFit) {
  const auto v = [this](auto& memory, const Shape& shape = {3, 4}) { return this->view(memory, shape); };
  EXPECT_EQ(this->into_text(v(this->x_), v(this->h_, {3, 5}), v(this->s_), v(this->y_)),
            this->where("_into: h has shape [3, 5], expected [3, 4] (the shape of x)"));
  EXPECT_EQ(this->into_text(v(this->x_), v(this->h_), v(this->s_, {4, 4}), v(this->y_)),
            this->where("_into: s has shape [4, 4], expected [3, 4] (the shape of x)"));
  EXPECT_EQ(this->into_text(v(this->x_), v(this->h_), v(this->s_), v(this->y_, {3, 1})),
            this->where("_into: y has shape [3, 1], expected [3, 4] (the shape of x)"));
  EXPECT_EQ(
      this->into_text(v(this->x_), this->view(this->h_, {3, 4}, StorageOrder::column_major), v(this->s_), v(this->y_)),
      this->where("_into: h is column-major, expected row-major as x is (copy into a tensor of that order first)"));
}

TYPED_TEST(AddNormError, OfMemoryThatOverlaps) {
  using S = typename TypeParam::Scalar;
  const TensorView<S> shifted(this->x_.data() + 1, {3, 4}), shifted_s(this->s_.data() + 2, {3, 4});
  EXPECT_EQ(this->into_text(this->view(this->x_), this->view(this->h_), shifted, this->view(this->y_)),
            this->where("_into: s overlaps x in memory, expected the identical view or memory of its own"));
  EXPECT_EQ(this->into_text(this->view(this->x_), this->view(this->h_), this->view(this->s_), shifted_s),
            this->where("_into: y overlaps s in memory, expected memory of its own"));
  auto from = this->inputs();
  EXPECT_EQ(this->backward_text(from, {.dx = this->view(this->s_)}),
            this->where("_backward: dx overlaps s in memory, expected memory of its own"));
  EXPECT_EQ(this->backward_text(from, {.dx = this->view(this->dx_), .dh = this->view(this->dx_)}),
            this->where("_backward: dh overlaps dx in memory, expected memory of its own"));
  from.ds = this->view(this->dh_);
  EXPECT_EQ(this->backward_text(from, {.dx = this->view(this->dy_)}),
            this->where("_backward: dx overlaps dy in memory, expected memory of its own"));
}

TYPED_TEST(AddNormError, OfParametersOfTheSum) {
  using S = typename TypeParam::Scalar;
  const std::vector<S> three(3, S(1)), four(4, S(1));
  ResidualSumOptions<S> sum;
  sum.lambdas = three;
  const std::string context = " (normalized axes of shape [4]; x has shape [3, 4], whose axis 0 has 3)";
  EXPECT_EQ(
      this->into_text(this->view(this->x_), this->view(this->h_), this->view(this->s_), this->view(this->y_), sum),
      this->where("_into: lambdas has 3 elements, expected 4" + context));
  sum.lambdas = {};
  sum.bias = three;
  EXPECT_EQ(
      this->into_text(this->view(this->x_), this->view(this->h_), this->view(this->s_), this->view(this->y_), sum),
      this->where("_into: bias has 3 elements, expected 4" + context));
  std::vector<S> dlambda(4), dbias(3);
  auto from = this->inputs();
  EXPECT_EQ(this->backward_text(from, {.dlambda = dlambda}),
            this->where("_backward: h has no memory, expected the h of the forward, which dlambda takes"));
  from.h = this->view(this->h_);
  EXPECT_EQ(this->backward_text(from, {.dlambda = dlambda}),
            this->where("_backward: dlambda has 4 elements, expected 1 (lambdas are not given: lambda is one number)"));
  EXPECT_EQ(this->backward_text(from, {.dbias = dbias}),
            this->where("_backward: dbias has 3 elements, expected 4" + context));
}

TYPED_TEST(AddNormError, OfSAndYInOnePlace) {
  EXPECT_EQ(this->into_text(this->view(this->x_), this->view(this->h_), this->view(this->s_), this->view(this->s_)),
            this->where("_into: y overlaps s in memory, expected memory of its own"));
}

TYPED_TEST(AddNormError, OfFactorsThatAreNotFinite) {
  ResidualSumOptions<typename TypeParam::Scalar> sum;
  sum.alpha = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(
      this->into_text(this->view(this->x_), this->view(this->h_), this->view(this->s_), this->view(this->y_), sum),
      this->where("_into: alpha is nan, expected a finite number"));
}

TYPED_TEST(AddNormError, OfABackwardWithoutS) {
  auto from = this->inputs();
  from.s = {};
  EXPECT_EQ(this->backward_text(from, {}), this->where("_backward: s is not given, expected the s of the forward"));
}

TYPED_TEST(AddNormError, OfAWorkspaceThatIsTooSmall) {
  using S = typename TypeParam::Scalar;
  std::byte memory[8];
  AddGradients<S> to;
  to.dx = evenkeel::add_to(this->view(this->dx_));
  const std::string text = error_text<std::invalid_argument>(
      [&] { TypeParam::backward(this->inputs(), this->saved_, {}, to, {.workspace = memory}); });
  EXPECT_EQ(text, this->where("_backward: workspace has 8 bytes, expected at least 111"));
}

}  // namespace
}  // namespace evenkeel_test
