// A table in which every two values of {norm, data type, parameter type, gamma, beta, layout} come together, forward
// and backward, against the oracle.
#include <set>
#include <tuple>

#include "ops/norm_16_bit_data.hpp"

namespace evenkeel_test {
namespace {

enum class Layout { rows, lanes, rows_with_gaps, gathered };
enum class Type { f32, f64, half, bfloat16 };

struct PairRow {
  bool is_layer_norm;
  Type data;
  bool is_wide;  // float parameters beside 16 bits; beside float and double there is one type of parameters
  bool with_gamma, with_beta;
  Layout layout;

  /// Its values, as numbers, in the order of the members.
  std::vector<int> values() const {
    return {is_layer_norm, static_cast<int>(data), is_wide, with_gamma, with_beta, static_cast<int>(layout)};
  }
};

using enum Layout;
using enum Type;
constexpr PairRow table[] = {
    {true, f32, false, true, true, rows},
    {true, f64, false, false, false, lanes},
    {true, half, true, true, false, rows_with_gaps},
    {true, bfloat16, true, false, true, gathered},
    {false, f32, false, false, false, rows_with_gaps},
    {false, f64, false, true, false, gathered},
    {false, half, false, false, false, rows},
    {false, bfloat16, false, true, false, lanes},
    {true, f32, false, true, false, lanes},
    {true, f64, false, false, true, rows},
    {true, half, false, true, true, gathered},
    {true, bfloat16, false, true, true, rows_with_gaps},
    {false, half, true, true, false, lanes},
    {false, bfloat16, true, true, false, rows},
    {true, f32, false, false, true, gathered},
    {true, f64, false, true, true, rows_with_gaps},
    {true, half, true, false, true, lanes},
    {true, bfloat16, false, false, false, rows},
    {false, f32, false, true, false, rows},
    {false, f64, false, false, false, rows_with_gaps},
    {false, half, true, false, false, gathered},
    {false, bfloat16, false, false, false, gathered},
};

/// Memory of rows in a layout; what is between them is NaN.
template <class X>
class LaidOut {
 public:
  LaidOut(Index rows, Index features, Layout layout, const std::vector<X>& values)
      : features_(features), shape_{rows, features} {
    if (layout == Layout::rows) strides_ = {features, 1};
    if (layout == lanes) strides_ = {1, rows};
    if (layout == rows_with_gaps) strides_ = {features + 3, 1};
    if (layout == gathered) strides_ = {2 * features + 1, 2};
    order_ = layout == lanes ? StorageOrder::column_major : StorageOrder::row_major;
    memory_.assign(static_cast<std::size_t>(2 * (rows + 1) * (features + 3)), X(nan));
    for (std::size_t i = 0; i < values.size(); ++i) memory_[at(i)] = values[i];
  }
  TensorView<X> view() { return {memory_.data(), shape_, strides_, order_}; }
  std::vector<X> values() const {
    std::vector<X> values;
    for (std::size_t i = 0; i < static_cast<std::size_t>(shape_.size()); ++i) values.push_back(memory_[at(i)]);
    return values;
  }
  bool is_intact_around() const {
    std::vector<bool> inside(memory_.size());
    for (std::size_t i = 0; i < static_cast<std::size_t>(shape_.size()); ++i) inside[at(i)] = true;
    bool intact = true;
    for (std::size_t i = 0; i < memory_.size(); ++i) intact &= inside[i] || std::isnan(static_cast<double>(memory_[i]));
    return intact;
  }

 private:
  static constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  std::size_t at(std::size_t i) const {
    const auto index = static_cast<Index>(i);
    return static_cast<std::size_t>(index / features_ * strides_[0] + index % features_ * strides_[1]);
  }
  Index features_;
  Shape shape_;
  std::array<Index, evenkeel::max_rank> strides_{};
  StorageOrder order_ = StorageOrder::row_major;
  std::vector<X> memory_;
};

/// In a type of 16 bits within half a unit of it, in float or double within 4 of theirs, both beside what computing
/// costs.
template <class T>
testing::AssertionResult as_accurate(const std::vector<T>& got, const Reals& expected, long double ulps,
                                     const Reals& scale) {
  if constexpr (kernels::is_16_bit<T>) {
    return rounded_once(got, expected, ulps, scale);
  } else {
    return within_ulp(got, expected, ulps, scale);
  }
}

template <class X>
Reals exact(const std::vector<X>& values) {
  Reals wide;
  for (const X& value : values) wide.push_back(static_cast<double>(value));
  return wide;
}
template <class X>
std::vector<X> random_values(Index size, std::uint64_t seed, double mean = 0) {
  std::vector<X> values;
  for (const double value : normal_vector<double>(static_cast<std::size_t>(size), seed, mean))
    values.push_back(X(static_cast<kernels::Compute<X>>(value)));
  return values;
}

template <class Op, class P, class X = typename Op::Scalar>
void check(const PairRow& row, Index rows, Index features) {
  using Norm = typename Op::Kernel::Norm;
  const auto n = static_cast<std::size_t>(features);
  const auto x = random_values<X>(rows * features, 201, 0.5), dy = random_values<X>(rows * features, 202);
  const auto gamma = random_values<P>(row.with_gamma ? features : 0, 203);
  const auto beta = random_values<P>(row.with_beta ? features : 0, 204);
  LaidOut<X> in(rows, features, row.layout, x), out(rows, features, row.layout, {});
  LaidOut<X> upstream(rows, features, row.layout, dy), dx(rows, features, row.layout, {});
  std::vector<P> dgamma(n), dbeta(row.is_layer_norm ? n : 0);
  OpOptions<X> options;
  if (row.with_gamma) options.gamma = gamma;
  if (row.with_beta) options.beta = beta;
  NormStatistics<X> saved;
  Op::into(in.view(), out.view(), saved, options);
  OpGradients<X> to{.dx = dx.view(), .dgamma = dgamma};
  if (row.is_layer_norm) to.dbeta = dbeta;
  Op::backward(upstream.view(), in.view(), saved, options, to);
  for (const auto* t : {&in, &out, &upstream, &dx}) EXPECT_TRUE(t->is_intact_around());

  const auto r = static_cast<std::size_t>(rows);
  Reals scale = output_scale(Norm::y(exact(x), r, n, Reals(), Reals(), 1e-5));
  for (std::size_t i = 0; i < scale.size(); ++i) {
    if (row.with_gamma) scale[i] *= std::abs(exact(gamma)[i % n]);
    if (row.with_beta) scale[i] += std::abs(exact(beta)[i % n]);
  }
  EXPECT_TRUE(as_accurate(out.values(), Norm::y(exact(x), r, n, exact(gamma), exact(beta), 1e-5), 4, scale));
  const auto expected = Norm::gradients(exact(dy), exact(x), r, n, exact(gamma), 1e-5);
  const long double column = 4 * std::sqrt(static_cast<long double>(rows));
  EXPECT_TRUE(as_accurate(dx.values(), expected.dx, 4, expected.dx_scale));
  EXPECT_TRUE(as_accurate(dgamma, expected.dgamma, column, expected.dgamma_scale));
  EXPECT_TRUE(dbeta.empty() || as_accurate(dbeta, expected.dbeta, column, expected.dbeta_scale));
}

template <template <class> class Op>
void check_types(const PairRow& row, Index rows, Index features) {
  switch (row.data) {
    case f32:
      return check<Op<float>, float>(row, rows, features);
    case f64:
      return check<Op<double>, double>(row, rows, features);
    case half:
      return row.is_wide ? check<Op<Eigen::half>, float>(row, rows, features)
                         : check<Op<Eigen::half>, Eigen::half>(row, rows, features);
    case bfloat16:
      return row.is_wide ? check<Op<Eigen::bfloat16>, float>(row, rows, features)
                         : check<Op<Eigen::bfloat16>, Eigen::bfloat16>(row, rows, features);
  }
}

TEST(NormPairs, EveryRowOfTheTableMatchesTheOracle) {
  for (std::size_t i = 0; i < std::size(table); ++i) {
    for (const auto& [rows, features] : {std::pair<Index, Index>{5, 37}, {130, 16}, {1, 1}}) {
      SCOPED_TRACE("row " + std::to_string(i) + ", " + std::to_string(rows) + " x " + std::to_string(features));
      table[i].is_layer_norm ? check_types<LayerNormOp>(table[i], rows, features)
                             : check_types<RMSNormOp>(table[i], rows, features);
    }
  }
}

/// Values that exclude each other: RMSNorm has no beta; beside float and double no other type of parameters.
bool is_possible(std::size_t a, int of_a, std::size_t b, int of_b) {
  const auto is = [&](std::size_t member, int value) {
    return (a == member && of_a == value) || (b == member && of_b == value);
  };
  if (is(0, 0) && is(4, 1)) return false;
  return !(is(2, 1) && (is(1, static_cast<int>(f32)) || is(1, static_cast<int>(f64))));
}

TEST(NormPairs, AreAllInTheTable) {
  std::set<std::tuple<std::size_t, int, std::size_t, int>> pairs;
  for (const PairRow& row : table) {
    const auto values = row.values();
    for (std::size_t a = 0; a < values.size(); ++a)
      for (std::size_t b = a + 1; b < values.size(); ++b) pairs.insert({a, values[a], b, values[b]});
  }
  const int counts[] = {2, 4, 2, 2, 2, 4};
  for (std::size_t a = 0; a < 6; ++a) {
    for (std::size_t b = a + 1; b < 6; ++b) {
      for (int of_a = 0; of_a < counts[a]; ++of_a) {
        for (int of_b = 0; of_b < counts[b]; ++of_b) {
          EXPECT_EQ(pairs.contains({a, of_a, b, of_b}), is_possible(a, of_a, b, of_b))
              << "members " << a << ", " << b << ": " << of_a << ", " << of_b;
        }
      }
    }
  }
}

}  // namespace
}  // namespace evenkeel_test
