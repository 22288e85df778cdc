// Tests of ops/add_norm.hpp with a drop: to the last bit what the sum h + bias, Dropout, and the sum and norm without a
// drop give one after the other, forward and backward, in types of 16 bits too.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "evenkeel/sublayers/dropout.hpp"
#include "ops/add_norm_cases.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;
using evenkeel::Dropout;
using evenkeel::DropoutKind;
using evenkeel::DropoutMask;

const DropoutMask per_element(0.3, {5}, 11), per_sample(0.3, {5}, 11, DropoutKind::per_sample);

template <class Op>
class AddNormDrop : public testing::Test {};
using DropOps = testing::Types<AddLayerNormOp<float>, AddLayerNormOp<double>, AddRMSNormOp<float>, AddRMSNormOp<double>,
                               AddLayerNormOp<Eigen::bfloat16>, AddRMSNormOp<Eigen::half>>;
TYPED_TEST_SUITE(AddNormDrop, DropOps);

/// h + bias and its dropout, as they are without a fused operation.
template <class S>
struct DroppedBranch {
  Dropout<S> dropout;
  typename Dropout<S>::Saved saved;
  std::vector<S> d;

  DroppedBranch(const Case& c, const Values<S>& v, const ResidualSumOptions<S>& sum)
      : dropout(sum.drop.p(), sum.drop.key(), sum.drop.kind()), d(v.h) {
    if (sum.bias.is_given()) {
      evenkeel::residual_add_into(c.view(v.h), c.view(v.h), c.view(d), {.alpha = 0, .bias = sum.bias});
    }
    dropout.set_step(sum.drop.step());
    dropout.forward_into(c.view(std::as_const(d)), c.view(d), saved);
  }
};

template <class S>
ResidualSumOptions<S> without_drop(ResidualSumOptions<S> sum) {
  sum.bias = {};
  sum.drop = {};
  return sum;
}

template <class Op, class S = typename Op::Scalar>
Forward<S> unfused(const Case& c, const Values<S>& v, const ResidualSumOptions<S>& sum) {
  const DroppedBranch<S> branch(c, v, sum);
  Forward<S> f{std::vector<S>(c.memory(), S(7)), std::vector<S>(c.memory(), S(7)), {}};
  evenkeel::residual_add_into(c.view(v.x), c.view(branch.d), c.view(f.s), without_drop(sum));
  Op::Alone::into(c.view(std::as_const(f.s)), c.view(f.y), f.saved, v.norm(c));
  return f;
}

/// The backward without a drop, which is compared with that of its parts elsewhere, then that of Dropout. The gradient
/// of the bias is the sum of what comes out.
template <class Op, class S = typename Op::Scalar>
Results<S> unfused_backward(const Case& c, Values<S> v, const Forward<S>& f, const ResidualSumOptions<S>& sum,
                            const SumWanted& w) {
  using T = evenkeel::kernels::Compute<S>;
  DroppedBranch<S> branch(c, v, sum);
  const std::vector<S> dh_before = v.dh, bias_before = v.bias;
  v.h = branch.d;
  SumWanted overwritten = w;
  overwritten.dh = true, overwritten.add_dh = false;
  Results<S> r = fused_backward<Op>(c, v, f, without_drop(sum), overwritten);
  std::vector<S> at_branch = r.dh;
  branch.dropout.backward_into(c.view(std::as_const(r.dh)), branch.saved, c.view(at_branch));
  std::vector<S> dh = dh_before;
  if (w.dh && w.add_dh) {
    branch.dropout.backward_into(c.view(std::as_const(r.dh)), branch.saved, add_to(c.view(dh)));
  } else if (w.dh) {
    branch.dropout.backward_into(c.view(std::as_const(r.dh)), branch.saved, c.view(dh));
  }
  r.dh = dh;
  std::vector<T> dbias(bias_before.size(), T(0));
  const std::vector<S> ones(c.memory(), S(1));
  evenkeel::detail::add_branch_factor_gradient<S>("unfused", c.view(std::as_const(at_branch)), c.view(ones), false,
                                                  dbias, {});
  r.dbias = bias_before;
  for (std::size_t k = 0; w.parameters && k < dbias.size(); ++k) {
    r.dbias[k] = S(w.add_parameters ? T(T(bias_before[k]) + dbias[k]) : dbias[k]);
  }
  return r;
}

std::vector<DropoutMask> masks(const Case& c) {
  if (c.shape.size() > 2000) return {per_element};
  return {per_element, per_sample};
}

TYPED_TEST(AddNormDrop, ForwardIsTheCompositionToTheLastBit) {
  using Op = TypeParam;
  using S = typename Op::Scalar;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c);
    const Values<S> v(c);
    for (auto sum : v.sums()) {
      for (const DropoutMask& mask : masks(c)) {
        sum.drop = mask;
        const Forward<S> expected = unfused<Op>(c, v, sum);
        const auto options = Op::options(sum, v.norm(c));
        Forward<S> got{std::vector<S>(c.memory(), S(7)), std::vector<S>(c.memory(), S(7)), {}};
        Op::into(c.view(v.x), c.view(v.h), c.view(got.s), c.view(got.y), got.saved, options);
        expect_same(got, expected);
        std::vector<S> s(c.memory(), S(7)), y(c.memory(), S(7));
        Op::into(c.view(v.x), c.view(v.h), c.view(y), options);
        EXPECT_TRUE(same_bits(y, expected.y));
        evenkeel::residual_add_into(c.view(v.x), c.view(v.h), c.view(s), sum);
        EXPECT_TRUE(same_bits(s, expected.s)) << "the sum alone";
      }
    }
  }
}

TYPED_TEST(AddNormDrop, BackwardIsThatOfTheCompositionToTheLastBit) {
  using Op = TypeParam;
  using S = typename Op::Scalar;
  const std::vector<SumWanted> wanted = {{},
                                         {.ds = false},
                                         {.dh = false},
                                         {.dx = false, .ds = false},
                                         {.parameters = false},
                                         {.parameters = false, .add_dx = true},
                                         {.parameters = false, .ds = false, .add_dh = true},
                                         {.add_dx = true, .add_dh = true, .add_parameters = true},
                                         {.dx = false, .dh = false}};
  for (const Case& c : cases()) {
    SCOPED_TRACE(c);
    const Values<S> v(c);
    for (auto sum : v.sums()) {
      for (const DropoutMask& mask : masks(c)) {
        sum.drop = mask;
        const Forward<S> f = unfused<Op>(c, v, sum);
        for (const SumWanted& w : wanted) {
          Results<S> expected = unfused_backward<Op>(c, v, f, sum, w);
          const Results<S> got = fused_backward<Op>(c, v, f, sum, w);
          if (!Op::centred) expected.dbeta = got.dbeta;
          expect_same(got, expected);
          EXPECT_TRUE(same_bits(got.dbias, expected.dbias)) << "dbias";
        }
      }
    }
  }
}

TYPED_TEST(AddNormDrop, WritesOverXOrH) {
  using Op = TypeParam;
  using S = typename Op::Scalar;
  for (const Case& c : {Case{{9, 70}}, Case{{9, 1200}}, Case{{60, 40}, StorageOrder::row_major, 0},
                        Case{{60, 40}, StorageOrder::column_major, -1, 3}}) {
    SCOPED_TRACE(c);
    const Values<S> v(c);
    for (const DropoutMask& mask : {per_element, per_sample}) {
      auto sum = v.sums().back();
      sum.drop = mask;
      const auto options = Op::options(sum, v.norm(c));
      const Forward<S> expected = unfused<Op>(c, v, sum);
      std::vector<S> x = v.x, h = v.h, y = expected.y;
      Op::into(c.view(x), c.view(v.h), c.view(x), c.view(y), options);
      const auto same = [&](std::vector<S>& got, const std::vector<S>& wanted) {
        for (Index i = 0; i < c.shape[0]; ++i) {
          for (Index j = 0; j < c.shape[1]; ++j) {
            const Index at = i * c.view(got).stride(0) + j * c.view(got).stride(1);
            if (!(got[static_cast<std::size_t>(at)] == wanted[static_cast<std::size_t>(at)])) return false;
          }
        }
        return true;
      };
      EXPECT_TRUE(same(x, expected.s) && same(y, expected.y)) << "s over x";
      Op::into(c.view(v.x), c.view(h), c.view(h), c.view(y), options);
      EXPECT_TRUE(same(h, expected.s) && same(y, expected.y)) << "s over h";
      x = v.x, h = v.h;
      Op::into(c.view(x), c.view(v.h), c.view(x), options);
      EXPECT_TRUE(same(x, expected.y)) << "y alone, over x";
      Op::into(c.view(v.x), c.view(h), c.view(h), options);
      EXPECT_TRUE(same(h, expected.y)) << "y alone, over h";
      x = v.x, h = v.h;
      Op::into(c.view(x), c.view(h), c.view(x), c.view(h), options);
      EXPECT_TRUE(same(x, expected.s) && same(h, expected.y)) << "s over x, y over h";
    }
  }
}

TYPED_TEST(AddNormDrop, TakesNoMoreThanItsWorkspace) {
  using Op = TypeParam;
  using S = typename Op::Scalar;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c);
    const Values<S> v(c);
    for (const DropoutMask& mask : masks(c)) {
      auto sum = v.sums().back();
      sum.drop = mask;
      const Forward<S> f = unfused<Op>(c, v, sum);
      const auto options = Op::options(sum, v.norm(c));
      std::vector<std::byte> memory(Op::workspace_bytes(c.shape, c.axis));
      const Context context{.workspace = memory};
      Results<S> r = before(v, true);
      std::vector<S> x = v.x;
      EXPECT_NO_THROW(Op::into(c.view(x), c.view(v.h), c.view(x), options, context));
      EXPECT_NO_THROW(Op::backward({.dy = c.view(v.dy), .s = c.view(f.s), .ds = c.view(v.ds), .h = c.view(v.h)},
                                   f.saved, options,
                                   {.dx = add_to(c.view(r.dx)),
                                    .dh = add_to(c.view(r.dh)),
                                    .dgamma = r.dgamma,
                                    .dbeta = r.dbeta,
                                    .dlambda = r.dlambda,
                                    .dbias = r.dbias},
                                   context));
    }
  }
}

TYPED_TEST(AddNormDrop, WhatIsDroppedCountsAsZeroWhateverItIs) {
  using Op = TypeParam;
  using S = typename Op::Scalar;
  const Case c{{6, 150}};
  Values<S> v(c);
  ResidualSumOptions<S> sum;
  sum.lambda = 0.5, sum.drop = per_element;
  const auto options = Op::options(sum, v.norm(c));
  const Forward<S> expected = unfused<Op>(c, v, sum);
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < v.h.size(); ++i) {
    if (per_element.keeps(i)) continue;
    v.h[i] = S(i % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity());
    ++dropped;
  }
  EXPECT_GT(dropped, v.h.size() / 5);
  Forward<S> got{v.x, v.x, {}};
  Op::into(c.view(v.x), c.view(v.h), c.view(got.s), c.view(got.y), got.saved, options);
  expect_same(got, expected);
  std::vector<S> dlambda(1), expected_dlambda(1);
  Op::backward({.dy = c.view(v.dy), .s = c.view(got.s), .h = c.view(v.h)}, got.saved, options, {.dlambda = dlambda});
  EXPECT_TRUE(std::isfinite(static_cast<double>(dlambda[0])));
}

TYPED_TEST(AddNormDrop, WithPOfOneTheBranchIsZero) {
  using Op = TypeParam;
  using S = typename Op::Scalar;
  const Case c{{6, 50}};
  Values<S> v(c);
  ResidualSumOptions<S> sum;
  sum.alpha = -1.5, sum.drop = DropoutMask(1, {5}, 0);
  std::vector<S> s(c.memory()), y(c.memory()), expected;
  Op::into(c.view(v.x), c.view(v.h), c.view(s), c.view(y), Op::options(sum, v.norm(c)));
  for (const S x : v.x) expected.push_back(S(evenkeel::kernels::Compute<S>(-1.5) * x));
  EXPECT_TRUE(same_bits(s, expected));
}

}  // namespace
}  // namespace evenkeel_test
