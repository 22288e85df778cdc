// The tensors and sums that the tests of ops/add_norm.hpp go through, and what comes of them.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <vector>

#include "ops/add_norm_test.hpp"

namespace evenkeel_test {

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

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << evenkeel::shape_string(c.shape) << " " << evenkeel::order_string(c.order) << ", " << c.features()
             << " features, gap " << c.gap;
}

/// Rows of every kind of length, in blocks and beyond them; then other axes and orders.
inline std::vector<Case> cases() {
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

/// y, s and the statistics.
template <class S>
struct Forward {
  std::vector<S> s, y;
  NormStatistics<S> saved;
};

template <class S>
void expect_same(const Forward<S>& got, const Forward<S>& expected) {
  EXPECT_TRUE(same_bits(got.s, expected.s));
  EXPECT_TRUE(same_bits(got.y, expected.y));
  EXPECT_TRUE(same_bits(got.saved.mean, expected.saved.mean));
  EXPECT_TRUE(same_bits(got.saved.mean_rest, expected.saved.mean_rest));
  EXPECT_TRUE(same_bits(got.saved.rstd, expected.saved.rstd));
}

/// Which of the outputs are wanted, and which are added to.
struct SumWanted {
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
                          const SumWanted& w) {
  Results<S> r = before(v, sum.lambdas.is_given());
  AddGradients<S> to;
  if (w.dx) to.dx = c.view(r.dx);
  if (w.dx && w.add_dx) to.dx = evenkeel::add_to(c.view(r.dx));
  if (w.dh) to.dh = c.view(r.dh);
  if (w.dh && w.add_dh) to.dh = evenkeel::add_to(c.view(r.dh));
  if (w.parameters && w.add_parameters) {
    to.dgamma = evenkeel::add_to(r.dgamma), to.dbeta = evenkeel::add_to(r.dbeta),
    to.dlambda = evenkeel::add_to(r.dlambda), to.dbias = evenkeel::add_to(r.dbias);
  } else if (w.parameters) {
    to.dgamma = r.dgamma, to.dbeta = r.dbeta, to.dlambda = r.dlambda, to.dbias = r.dbias;
  }
  AddNormInputs<S> from{.dy = c.view(v.dy), .s = c.view(f.s), .h = c.view(v.h)};
  if (w.ds) from.ds = c.view(v.ds);
  Op::backward(from, f.saved, Op::options(sum, v.norm(c)), to);
  return r;
}

}  // namespace evenkeel_test
