// Tests of ops/add_norm.hpp: to the last bit what the sum and the norm of it give one after the other.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "ops/add_norm_cases.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;

template <class Op>
class AddNorm : public testing::Test {};
TYPED_TEST_SUITE(AddNorm, AddOps, OpName);

template <class Op, class S = typename Op::Scalar>
Forward<S> unfused(const Case& c, const Values<S>& v, const ResidualSumOptions<S>& sum) {
  Forward<S> f{std::vector<S>(c.memory(), 7), std::vector<S>(c.memory(), 7), {}};
  evenkeel::residual_add_into(c.view(v.x), c.view(v.h), c.view(f.s), sum);
  Op::Alone::into(c.view(std::as_const(f.s)), c.view(f.y), f.saved, v.norm(c));
  return f;
}

TYPED_TEST(AddNorm, ForwardIsTheSumAndTheNormToTheLastBit) {
  using Op = TypeParam;
  using S = typename Op::Scalar;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c);
    const Values<S> v(c);
    for (const auto& sum : v.sums()) {
      const Forward<S> expected = unfused<Op>(c, v, sum);
      const auto options = Op::options(sum, v.norm(c));
      Forward<S> got{std::vector<S>(c.memory(), 7), std::vector<S>(c.memory(), 7), {}};
      Op::into(c.view(v.x), c.view(v.h), c.view(got.s), c.view(got.y), got.saved, options);
      expect_same(got, expected);
      std::vector<S> s(c.memory(), 7), y(c.memory(), 7), y_alone(c.memory(), 7);
      Op::into(c.view(v.x), c.view(v.h), c.view(s), c.view(y), options);
      Op::into(c.view(v.x), c.view(v.h), c.view(y_alone), options);
      EXPECT_TRUE(same_bits(s, expected.s));
      EXPECT_TRUE(same_bits(y, expected.y));
      EXPECT_TRUE(same_bits(y_alone, expected.y));
    }
  }
}

TYPED_TEST(AddNorm, TakesBiasAndLambdasAsByHand) {
  using S = typename TypeParam::Scalar;
  const Case c{{5, 37}};
  const Values<S> v(c);
  std::vector<S> expected(c.memory()), s(c.memory()), y(c.memory());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    volatile S branch = v.h[i] + v.bias[i % 37];
    volatile S product = v.lambdas[i % 37] * branch;
    expected[i] = v.x[i] + product;
  }
  TypeParam::into(c.view(v.x), c.view(v.h), c.view(s), c.view(y),
                  TypeParam::options({.lambdas = v.lambdas, .bias = v.bias}, v.norm(c)));
  EXPECT_TRUE(same_bits(s, expected));
}

TYPED_TEST(AddNorm, WritesOverXOrH) {
  using Op = TypeParam;
  using S = typename Op::Scalar;
  for (const Case& c : {Case{{9, 70}}, Case{{9, 1200}}, Case{{60, 40}, StorageOrder::row_major, 0}}) {
    SCOPED_TRACE(c);
    const Values<S> v(c);
    const auto sum = v.sums().back();
    const auto options = Op::options(sum, v.norm(c));
    const Forward<S> expected = unfused<Op>(c, v, sum);
    std::vector<S> x = v.x, h = v.h, y(c.memory());
    Op::into(c.view(x), c.view(v.h), c.view(x), c.view(y), options);
    EXPECT_TRUE(same_bits(x, expected.s) && same_bits(y, expected.y)) << "s over x";
    Op::into(c.view(v.x), c.view(h), c.view(h), c.view(y), options);
    EXPECT_TRUE(same_bits(h, expected.s) && same_bits(y, expected.y)) << "s over h";
    std::vector<S> s(c.memory());
    x = v.x, h = v.h;
    Op::into(c.view(x), c.view(v.h), c.view(s), c.view(x), options);
    EXPECT_TRUE(same_bits(s, expected.s) && same_bits(x, expected.y)) << "y over x";
    Op::into(c.view(v.x), c.view(h), c.view(h), options);
    EXPECT_TRUE(same_bits(h, expected.y)) << "y alone, over h";
    x = v.x, h = v.h;
    Op::into(c.view(x), c.view(h), c.view(x), c.view(h), options);
    EXPECT_TRUE(same_bits(x, expected.s) && same_bits(h, expected.y)) << "s over x, y over h";
  }
}

TYPED_TEST(AddNorm, NaNStaysInItsRow) {
  using Op = TypeParam;
  using S = typename Op::Scalar;
  for (const Index features : {Index{9}, Index{64}, Index{1100}}) {
    const Case c{{7, features}};
    Values<S> v(c);
    const auto options = Op::options(v.sums()[1], v.norm(c));
    std::vector<S> clean(c.memory()), y(c.memory());
    Op::into(c.view(v.x), c.view(v.h), c.view(clean), options);
    v.x[static_cast<std::size_t>(2 * features + features / 2)] = std::numeric_limits<S>::quiet_NaN();
    v.h[static_cast<std::size_t>(5 * features)] = std::numeric_limits<S>::infinity();
    Op::into(c.view(v.x), c.view(v.h), c.view(y), options);
    for (Index i = 0; i < 7; ++i) {
      const auto row = rows_of(y, features, i, 1);
      const bool is_hit = i == 2 || i == 5;
      EXPECT_EQ(is_hit, !same_bits(row, rows_of(clean, features, i, 1))) << "row " << i;
      EXPECT_EQ(is_hit, std::isnan(row[static_cast<std::size_t>(i == 2 ? features / 2 : 0)]));
    }
  }
}

// ---------------------------------------------------------------- backward

/// The norm's backward, then those of the sum: written with residual_add_into, each step over all of memory. dlambda is
/// that of a Residual, and is compared where there is no bias, which a Residual has not; dbias is not compared.
template <class Op, class S = typename Op::Scalar>
Results<S> unfused_backward(const Case& c, const Values<S>& v, const Forward<S>& f, const ResidualSumOptions<S>& sum,
                            const SumWanted& w) {
  Results<S> r = before(v, sum.lambdas.is_given());
  std::vector<S> total = w.ds ? v.ds : std::vector<S>(c.memory(), 0);
  OpGradients<S> to;
  if (w.ds) {
    to.dx = add_to(c.view(total));
  } else {
    to.dx = c.view(total);
  }
  if (w.parameters && w.add_parameters) {
    to.dgamma = add_to(r.dgamma), to.dbeta = add_to(r.dbeta);
  } else if (w.parameters) {
    to.dgamma = r.dgamma, to.dbeta = r.dbeta;
  }
  Op::Alone::backward(c.view(v.dy), c.view(f.s), f.saved, v.norm(c), to);
  const auto g = c.view(std::as_const(total));
  const evenkeel::detail::BranchFactor<S> factor(static_cast<S>(sum.lambda), sum.lambdas.data());
  const auto add = [&](double alpha, const TensorView<const S>& x, const evenkeel::detail::BranchFactor<S>& lambda,
                       const TensorView<const S>& d, std::vector<S>& out) {
    evenkeel::detail::residual_add<S>("unfused", {}, alpha, x, lambda, d, c.view(out));
  };
  if (w.dx) add(sum.alpha, g, 1, w.add_dx ? c.view(std::as_const(r.dx)) : TensorView<const S>(), r.dx);
  if (w.dh) add(1, w.add_dh ? c.view(std::as_const(r.dh)) : TensorView<const S>(), factor, g, r.dh);
  if (w.parameters) {
    if (!w.add_parameters) std::fill(r.dlambda.begin(), r.dlambda.end(), S(0));
    evenkeel::detail::add_branch_factor_gradient<S>("unfused", g, c.view(v.h), !sum.lambdas.is_given(), r.dlambda, {});
  }
  return r;
}

TYPED_TEST(AddNorm, BackwardIsThatOfTheNormAndOfTheSumToTheLastBit) {
  using Op = TypeParam;
  using S = typename Op::Scalar;
  const std::vector<SumWanted> wanted = {{},
                                         {.ds = false},
                                         {.dh = false},
                                         {.dx = false, .ds = false},
                                         {.parameters = false},
                                         {.parameters = false, .add_dx = true},
                                         {.add_dx = true, .add_dh = true, .add_parameters = true},
                                         {.ds = false, .add_dh = true},
                                         {.dx = false, .dh = false}};
  for (const Case& c : cases()) {
    SCOPED_TRACE(c);
    const Values<S> v(c);
    for (const auto& sum : v.sums()) {
      const Forward<S> f = unfused<Op>(c, v, sum);
      for (const SumWanted& w : wanted) {
        Results<S> expected = unfused_backward<Op>(c, v, f, sum, w);
        const Results<S> got = fused_backward<Op>(c, v, f, sum, w);
        if (sum.bias.is_given()) expected.dlambda = got.dlambda;
        if (!Op::centred) expected.dbeta = got.dbeta;
        expect_same(got, expected);
      }
    }
  }
}

TYPED_TEST(AddNorm, DxMayBeDsOrDy) {
  using Op = TypeParam;
  using S = typename Op::Scalar;
  for (const Case& c : {Case{{40, 70}}, Case{{60, 40}, StorageOrder::row_major, 0}}) {
    SCOPED_TRACE(c);
    const Values<S> v(c);
    const auto sum = v.sums()[1];
    const Forward<S> f = unfused<Op>(c, v, sum);
    const auto options = Op::options(sum, v.norm(c));
    Results<S> expected = fused_backward<Op>(c, v, f, sum, {.parameters = false});
    std::vector<S> ds = v.ds, dy = v.dy, dh(c.memory());
    Op::backward({.dy = c.view(v.dy), .s = c.view(f.s), .ds = c.view(ds)}, f.saved, options,
                 {.dx = c.view(ds), .dh = c.view(dh)});
    EXPECT_TRUE(same_bits(ds, expected.dx) && same_bits(dh, expected.dh));
    expected = fused_backward<Op>(c, v, f, sum, {.parameters = false, .ds = false});
    Op::backward({.dy = c.view(dy), .s = c.view(f.s)}, f.saved, options, {.dx = c.view(dy), .dh = c.view(dh)});
    EXPECT_TRUE(same_bits(dy, expected.dx) && same_bits(dh, expected.dh));
  }
}

TYPED_TEST(AddNorm, TakesNoMoreThanItsWorkspace) {
  using Op = TypeParam;
  using S = typename Op::Scalar;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c);
    const Values<S> v(c);
    const auto sum = v.sums().back();
    const Forward<S> f = unfused<Op>(c, v, sum);
    const auto options = Op::options(sum, v.norm(c));
    std::vector<std::byte> memory(Op::workspace_bytes(c.shape, c.axis));
    const Context context{.workspace = memory};
    Results<S> r = before(v, true);
    std::vector<S> y(c.memory());
    EXPECT_NO_THROW(Op::into(c.view(v.x), c.view(v.h), c.view(y), options, context));
    EXPECT_NO_THROW(Op::backward({.dy = c.view(v.dy), .s = c.view(f.s), .ds = c.view(v.ds), .h = c.view(v.h)}, f.saved,
                                 options,
                                 {.dx = add_to(c.view(r.dx)),
                                  .dh = add_to(c.view(r.dh)),
                                  .dgamma = r.dgamma,
                                  .dbeta = r.dbeta,
                                  .dlambda = r.dlambda,
                                  .dbias = r.dbias},
                                 context));
  }
}

TYPED_TEST(AddNorm, TakesMatricesAsTheyAre) {
  using Op = TypeParam;
  using S = typename Op::Scalar;
  using Matrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Case c{{5, 12}};
  const Values<S> v(c);
  const auto options = Op::options({.alpha = 2}, v.norm(c));
  const auto matrix = [](const std::vector<S>& values) { return Matrix(Matrix::Map(values.data(), 5, 12)); };
  Matrix s(5, 12), y(5, 12), dx(5, 12);
  NormStatistics<S> saved;
  Op::into(matrix(v.x), matrix(v.h), s, y, saved, options);
  Op::backward({.dy = matrix(v.dy), .s = s, .ds = matrix(v.ds)}, saved, options, {.dx = dx});

  const Forward<S> expected = unfused<Op>(c, v, options.sum);
  EXPECT_EQ(y, matrix(expected.y));
  std::vector<S> expected_dx(c.memory());
  Op::backward({.dy = c.view(v.dy), .s = c.view(expected.s), .ds = c.view(v.ds)}, expected.saved, options,
               {.dx = c.view(expected_dx)});
  EXPECT_EQ(dx, matrix(expected_dx));
}

}  // namespace
}  // namespace evenkeel_test
