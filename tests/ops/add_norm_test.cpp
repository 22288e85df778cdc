// Tests of ops/add_norm.hpp: to the last bit what the sum and the norm of it give one after the other.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "ops/add_norm_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;

/// Where the tensors are, and what is normalized.
struct Case {
  Shape shape;
  StorageOrder order = StorageOrder::row_major;
  Axes axis = -1;
  Index gap = 0;  // elements between rows of the slowest axis

  Index features() const { return evenkeel::detail::normalized_shape("Case", shape, axis).size(); }
  Index last() const { return shape[shape.rank() - 1]; }
  std::size_t memory() const {
    const int slow = order == StorageOrder::row_major ? 0 : shape.rank() - 1;
    return static_cast<std::size_t>(shape.size() + gap * shape[slow]);
  }
  template <class S>
  TensorView<S> view(S* data) const {
    auto strides = TensorView<S>(data, shape, order).strides();
    strides[static_cast<std::size_t>(order == StorageOrder::row_major ? 0 : shape.rank() - 1)] += gap;
    return {data, shape, strides, order};
  }
  template <class S>
  TensorView<S> view(std::vector<S>& values) const {
    return view(values.data());
  }
  template <class S>
  TensorView<const S> view(const std::vector<S>& values) const {
    return view(values.data());
  }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << evenkeel::shape_string(c.shape) << " " << evenkeel::order_string(c.order) << ", " << c.features()
             << " features, gap " << c.gap;
}

/// Rows of every kind of length, in blocks and beyond them; then other axes and orders.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Index features : {1, 2, 7, 15, 16, 17, 33, 64, 500, 768, 1025, 4100}) all.push_back({{3, features}});
  for (const Index rows : {1, 2, 8, 9, 31, 33, 127, 129, 300}) all.push_back({{rows, 40}});
  all.push_back({{12, 9001}});  // rows of more than 32 KiB
  all.push_back({{37, 100}, StorageOrder::row_major, -1, 5});
  all.push_back({{100, 37}, StorageOrder::column_major, 0, 3});
  all.push_back({{50, 37}, StorageOrder::column_major, -1});
  all.push_back({{50, 37}, StorageOrder::row_major, 0, 2});
  all.push_back({{4, 30, 21}, StorageOrder::row_major, 1});
  all.push_back({{4, 6, 21}, StorageOrder::row_major, {-2, -1}});
  all.push_back({{4, 30, 21}, StorageOrder::column_major, 2});
  all.push_back({{19}});
  return all;
}

/// Random values for all that a call takes.
template <class S>
struct Values {
  std::vector<S> x, h, dy, ds, dx, dh, gamma, beta, lambdas, bias;

  explicit Values(const Case& c, std::uint64_t seed = 1) {
    for (auto* tensor : {&x, &h, &dy, &ds, &dx, &dh}) *tensor = normal_vector<S>(c.memory(), seed++, 0.5);
    for (auto* parameter : {&gamma, &beta})
      *parameter = normal_vector<S>(static_cast<std::size_t>(c.features()), seed++);
    for (auto* parameter : {&lambdas, &bias}) *parameter = normal_vector<S>(static_cast<std::size_t>(c.last()), seed++);
  }
  OpOptions<S> norm(const Case& c) const { return {.gamma = gamma, .beta = beta, .eps = 1e-3, .axis = c.axis}; }
  /// Sums of every kind: factors of 1, others, vectors, a bias, all of it.
  std::vector<ResidualSumOptions<S>> sums() const {
    std::vector<ResidualSumOptions<S>> all(5);
    all[1].alpha = 1.75, all[1].lambda = -0.3;
    all[2].lambdas = lambdas;
    all[3].lambda = 0.7, all[3].bias = bias;
    all[4].alpha = -0.4, all[4].lambdas = lambdas, all[4].bias = bias;
    return all;
  }
};

template <class Op>
class AddNorm : public testing::Test {};
TYPED_TEST_SUITE(AddNorm, AddOps, OpName);

/// y, s and the statistics.
template <class S>
struct Forward {
  std::vector<S> s, y;
  NormStatistics<S> saved;
};

template <class Op, class S = typename Op::Scalar>
Forward<S> unfused(const Case& c, const Values<S>& v, const ResidualSumOptions<S>& sum) {
  Forward<S> f{std::vector<S>(c.memory(), 7), std::vector<S>(c.memory(), 7), {}};
  evenkeel::residual_add_into(c.view(v.x), c.view(v.h), c.view(f.s), sum);
  Op::Alone::into(c.view(std::as_const(f.s)), c.view(f.y), f.saved, v.norm(c));
  return f;
}

template <class S>
void expect_same(const Forward<S>& got, const Forward<S>& expected) {
  EXPECT_TRUE(same_bits(got.s, expected.s));
  EXPECT_TRUE(same_bits(got.y, expected.y));
  EXPECT_TRUE(same_bits(got.saved.mean, expected.saved.mean));
  EXPECT_TRUE(same_bits(got.saved.mean_rest, expected.saved.mean_rest));
  EXPECT_TRUE(same_bits(got.saved.rstd, expected.saved.rstd));
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

/// Which of the outputs are wanted, and which are added to.
struct Wanted {
  bool dx = true, dh = true, parameters = true, ds = true;
  bool add_dx = false, add_dh = false, add_parameters = false;
};

template <class S>
struct Results {
  std::vector<S> dx, dh, dgamma, dbeta, dlambda, dbias;
};

template <class S>
void expect_same(const Results<S>& got, const Results<S>& expected) {
  EXPECT_TRUE(same_bits(got.dx, expected.dx)) << "dx";
  EXPECT_TRUE(same_bits(got.dh, expected.dh)) << "dh";
  EXPECT_TRUE(same_bits(got.dgamma, expected.dgamma)) << "dgamma";
  EXPECT_TRUE(same_bits(got.dbeta, expected.dbeta)) << "dbeta";
  EXPECT_TRUE(same_bits(got.dlambda, expected.dlambda)) << "dlambda";
}

/// What is there before.
template <class S>
Results<S> before(const Values<S>& v, bool has_vector) {
  return {v.dx, v.dh, v.gamma, v.beta, has_vector ? v.lambdas : std::vector<S>{v.lambdas[0]}, v.bias};
}

template <class Op, class S = typename Op::Scalar>
Results<S> fused_backward(const Case& c, const Values<S>& v, const Forward<S>& f, const ResidualSumOptions<S>& sum,
                          const Wanted& w) {
  Results<S> r = before(v, sum.lambdas.is_given());
  AddGradients<S> to;
  if (w.dx) to.dx = c.view(r.dx);
  if (w.dx && w.add_dx) to.dx = add_to(c.view(r.dx));
  if (w.dh) to.dh = c.view(r.dh);
  if (w.dh && w.add_dh) to.dh = add_to(c.view(r.dh));
  if (w.parameters && w.add_parameters) {
    to.dgamma = add_to(r.dgamma), to.dbeta = add_to(r.dbeta), to.dlambda = add_to(r.dlambda),
    to.dbias = add_to(r.dbias);
  } else if (w.parameters) {
    to.dgamma = r.dgamma, to.dbeta = r.dbeta, to.dlambda = r.dlambda, to.dbias = r.dbias;
  }
  AddNormInputs<S> from{.dy = c.view(v.dy), .s = c.view(f.s), .h = c.view(v.h)};
  if (w.ds) from.ds = c.view(v.ds);
  Op::backward(from, f.saved, Op::options(sum, v.norm(c)), to);
  return r;
}

/// The norm's backward, then those of the sum: written with residual_add_into, each step over all of memory. dlambda is
/// that of a Residual, and is compared where there is no bias, which a Residual has not; dbias is not compared.
template <class Op, class S = typename Op::Scalar>
Results<S> unfused_backward(const Case& c, const Values<S>& v, const Forward<S>& f, const ResidualSumOptions<S>& sum,
                            const Wanted& w) {
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
  const std::vector<Wanted> wanted = {{},
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
      for (const Wanted& w : wanted) {
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
