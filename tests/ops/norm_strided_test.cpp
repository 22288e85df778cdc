// Norms over any axis, in any storage order, with any strides: each against the oracle of the rows that lie along it.
#include "ops/op_test.hpp"

namespace evenkeel_test {
namespace {

/// How a tensor lies in memory, and which of its axes are normalized.
struct StridedCase {
  const char* name;
  Shape shape;
  std::array<Index, evenkeel::max_rank> strides;
  StorageOrder order;
  int first_axis, axis_count = 1;
};
constexpr auto row_major = StorageOrder::row_major, column_major = StorageOrder::column_major;

const StridedCase cases[] = {
    {"tokens in rows of a column-major matrix", {40, 12}, {1, 40}, column_major, 1},
    {"the same with a gap between columns", {40, 12}, {1, 47}, column_major, 1},
    {"one token in a column-major matrix", {1, 12}, {1, 3}, column_major, 1},
    {"tokens in columns of a row-major matrix", {12, 33}, {40, 1}, row_major, 0},
    {"a vector with gaps", {17}, {3}, row_major, 0},
    {"a row-major matrix with gaps between all elements", {5, 300}, {700, 2}, row_major, 1},
    {"a column-major matrix with gaps between all elements", {5, 300}, {2, 11}, column_major, 1},
    {"the first axis of three", {9, 4, 7}, {28, 7, 1}, row_major, 0},
    {"the middle axis of three", {3, 9, 21}, {189, 21, 1}, row_major, 1},
    {"the middle axis of three, column-major", {21, 9, 3}, {1, 21, 189}, column_major, 1},
    {"the last axis of three, column-major", {3, 5, 9}, {1, 3, 15}, column_major, 2},
    {"channels of an image", {2, 64, 5, 7}, {2240, 35, 7, 1}, row_major, 1},
    {"an axis in the middle of five", {2, 3, 6, 2, 5}, {180, 60, 10, 5, 1}, row_major, 2},
    {"an axis of one element", {4, 1, 9}, {9, 9, 1}, row_major, 1},
    {"two axes in the middle", {2, 3, 4, 19}, {228, 76, 19, 1}, row_major, 1, 2},
    {"two axes in the middle, column-major", {19, 3, 4, 2}, {1, 19, 57, 228}, column_major, 1, 2},
    {"the first two axes, column-major", {3, 4, 9}, {1, 3, 12}, column_major, 0, 2},
    {"the last three axes, column-major", {9, 2, 3, 4}, {1, 9, 18, 54}, column_major, 1, 3},
};

/// Calls body(row, feature, offset in memory) for every element: features in row-major order of the normalized axes.
template <class Body>
void for_each_element(const StridedCase& c, const Body& body) {
  for (Index i = 0; i < c.shape.size(); ++i) {
    Index rest = i, row = 0, feature = 0, offset = 0, row_step = 1, feature_step = 1;
    for (int axis = c.shape.rank() - 1; axis >= 0; --axis) {
      const Index at = rest % c.shape[axis];
      rest /= c.shape[axis];
      offset += at * c.strides[static_cast<std::size_t>(axis)];
      const bool is_normalized = axis >= c.first_axis && axis < c.first_axis + c.axis_count;
      Index& index = is_normalized ? feature : row;
      Index& step = is_normalized ? feature_step : row_step;
      index += at * step;
      step *= c.shape[axis];
    }
    body(row, feature, offset);
  }
}

Index features_of(const StridedCase& c) {
  Index features = 1;
  for (int k = 0; k < c.axis_count; ++k) features *= c.shape[c.first_axis + k];
  return features;
}
Axes axes_of(const StridedCase& c) {
  switch (c.axis_count) {
    case 1:
      return c.first_axis;
    case 2:
      return {c.first_axis, c.first_axis + 1};
    default:
      return {c.first_axis, c.first_axis + 1, c.first_axis + 2};
  }
}

/// A tensor whose memory ends with its last element, filled with rows, or with poison; poison in its gaps.
template <class S>
class StridedTensor {
 public:
  explicit StridedTensor(const StridedCase& c, const std::vector<S>& rows = {}) : case_(c) {
    Index span = 1;
    for (int axis = 0; axis < c.shape.rank(); ++axis) {
      span += (c.shape[axis] - 1) * c.strides[static_cast<std::size_t>(axis)];
    }
    memory_.assign(static_cast<std::size_t>(span), poison<S>);
    const Index features = features_of(c);
    for_each_element(c, [&](Index row, Index feature, Index offset) {
      if (!rows.empty()) at(offset) = rows[static_cast<std::size_t>(row * features + feature)];
    });
  }
  TensorView<S> view() { return {memory_.data(), case_.shape, case_.strides, case_.order}; }
  std::vector<S> rows() const {
    std::vector<S> rows(static_cast<std::size_t>(case_.shape.size()));
    const Index features = features_of(case_);
    for_each_element(case_, [&](Index row, Index feature, Index offset) {
      rows[static_cast<std::size_t>(row * features + feature)] = memory_[static_cast<std::size_t>(offset)];
    });
    return rows;
  }
  testing::AssertionResult has_intact_gaps() const {
    auto memory = memory_;
    for_each_element(case_, [&](Index, Index, Index offset) { memory[static_cast<std::size_t>(offset)] = poison<S>; });
    return same_bits(memory, std::vector<S>(memory.size(), poison<S>));
  }

 private:
  S& at(Index offset) { return memory_[static_cast<std::size_t>(offset)]; }
  StridedCase case_;
  std::vector<S> memory_;
};

/// The same tensor without gaps.
StridedCase dense(const StridedCase& c) {
  StridedCase result = c;
  result.strides = TensorView<float>(nullptr, c.shape, c.order).strides();
  return result;
}

template <class S>
Data<S> data_of(const StridedCase& c, std::uint64_t seed) {
  return random_data<S>(c.shape.size() / features_of(c), features_of(c), seed, 0.5);
}

template <class Op>
class NormStrided : public testing::Test {
 protected:
  using Scalar = typename Op::Scalar;
  using Kernel = typename Op::Kernel;

  static void expect_gradients(const Data<Scalar>& d, const Gradients<Scalar>& got) {
    const auto expected = expected_gradients<Kernel>(d);
    const long double parameter_ulps = 4 * std::sqrt(static_cast<long double>(d.rows));
    EXPECT_TRUE(within_ulp(got.dx, expected.dx, 4, expected.dx_scale));
    EXPECT_TRUE(within_ulp(got.dgamma, expected.dgamma, parameter_ulps, expected.dgamma_scale));
    if (is_centred<Op>) {
      EXPECT_TRUE(within_ulp(got.dbeta, expected.dbeta, parameter_ulps, expected.dbeta_scale));
    }
  }

  /// Forward and backward, x and dy in layout `in`, y and dx in layout `out`.
  static void expect_right(const StridedCase& in, const StridedCase& out) {
    const auto d = data_of<Scalar>(in, 401);
    StridedTensor<Scalar> x(in, d.x), dy(in, d.dy), y(out), dx(out);
    NormStatistics<Scalar> saved;
    const auto options = options_of(d, axes_of(in));
    Op::into(x.view(), y.view(), saved, options);
    EXPECT_TRUE(within_ulp(y.rows(), expected_y<Kernel>(d), 4, y_scale<Kernel>(d)));
    Gradients<Scalar> got{{}, std::vector<Scalar>(d.gamma.size()), std::vector<Scalar>(d.gamma.size())};
    Op::backward(dy.view(), x.view(), saved, options, {.dx = dx.view(), .dgamma = got.dgamma, .dbeta = got.dbeta});
    got.dx = dx.rows();
    expect_gradients(d, got);
    EXPECT_TRUE(y.has_intact_gaps());
    EXPECT_TRUE(dx.has_intact_gaps());
    EXPECT_TRUE(same_bits(x.rows(), d.x));
    EXPECT_TRUE(same_bits(dy.rows(), d.dy));
  }
};
TYPED_TEST_SUITE(NormStrided, Ops, OpName);

// B45, B50
TYPED_TEST(NormStrided, EveryLayoutGivesTheNormOfItsRows) {
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    this->expect_right(c, c);
    this->expect_right(c, dense(c));
    this->expect_right(dense(c), c);
  }
}

TYPED_TEST(NormStrided, InPlaceAndAddingAreDoneWhereTheTensorIs) {
  using S = typename TypeParam::Scalar;
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const auto d = data_of<S>(c, 403);
    const auto options = options_of(d, axes_of(c));
    StridedTensor<S> x(c, d.x), y(c), dx(c), dy(c, d.dy);
    NormStatistics<S> saved;
    TypeParam::into(x.view(), y.view(), saved, options);
    StridedTensor<S> in_place(c, d.x);
    TypeParam::into(in_place.view(), in_place.view(), options);
    EXPECT_TRUE(same_bits(in_place.rows(), y.rows()));

    std::vector<S> dgamma(d.gamma.size()), added_dgamma = d.gamma;
    TypeParam::backward(dy.view(), x.view(), saved, options, {.dx = dx.view(), .dgamma = dgamma});
    StridedTensor<S> added(c, d.x);
    TypeParam::backward(dy.view(), x.view(), saved, options,
                        {.dx = evenkeel::add_to(added.view()), .dgamma = evenkeel::add_to(added_dgamma)});
    TypeParam::backward(dy.view(), x.view(), saved, options, {.dx = dy.view()});
    EXPECT_TRUE(same_bits(dy.rows(), dx.rows()));
    const auto sum = added.rows(), alone = dx.rows();
    const auto expect_sum = [](S got, S a, S b) {
      EXPECT_NEAR(got, a + b, 8 * std::numeric_limits<S>::epsilon() * (std::abs(a) + std::abs(b) + 1));
    };
    for (std::size_t i = 0; i < sum.size(); ++i) expect_sum(sum[i], alone[i], d.x[i]);
    for (std::size_t i = 0; i < dgamma.size(); ++i) expect_sum(added_dgamma[i], dgamma[i], d.gamma[i]);
  }
}

TYPED_TEST(NormStrided, AWorkspaceOfTheNamedSizeIsEnough) {
  using S = typename TypeParam::Scalar;
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const auto d = data_of<S>(c, 405);
    const auto options = options_of(d, axes_of(c));
    StridedTensor<S> x(c, d.x), y(c), dx(c), dy(c, d.dy), other_dx(c);
    NormStatistics<S> saved;
    TypeParam::into(x.view(), y.view(), saved, options);
    std::vector<std::byte> memory(TypeParam::workspace_bytes(c.shape, axes_of(c)));
    std::vector<S> dgamma(d.gamma.size()), other_dgamma(d.gamma.size());
    TypeParam::backward(dy.view(), x.view(), saved, options, {.dx = dx.view(), .dgamma = dgamma});
    TypeParam::backward(dy.view(), x.view(), saved, options, {.dx = other_dx.view(), .dgamma = other_dgamma},
                        Context{.workspace = memory});
    EXPECT_TRUE(same_bits(other_dx.rows(), dx.rows()));
    EXPECT_TRUE(same_bits(other_dgamma, dgamma));
  }
}

/// Parameters of the other order than x's are as good as flat ones.
TYPED_TEST(NormStrided, ParametersOverSeveralAxesAreOfEitherOrder) {
  using S = typename TypeParam::Scalar;
  for (const auto& c : cases) {
    if (c.axis_count < 2) continue;
    SCOPED_TRACE(c.name);
    const auto d = data_of<S>(c, 407);
    Shape parameters;
    for (int k = 0; k < c.axis_count; ++k) parameters.append(c.shape[c.first_axis + k]);
    StridedCase flat{"",        parameters, TensorView<S>(nullptr, parameters, row_major).strides(),
                     row_major, 0,          c.axis_count};
    StridedCase turned = flat;
    turned.order = column_major;
    turned.strides = TensorView<S>(nullptr, parameters, column_major).strides();

    StridedTensor<S> x(c, d.x), dy(c, d.dy), y(c), y_turned(c), dx(c), gamma(turned, d.gamma), beta(turned, d.beta);
    NormStatistics<S> saved;
    const auto options = options_of(d, axes_of(c));
    auto turned_options = options;
    turned_options.gamma = gamma.view(), turned_options.beta = beta.view();
    TypeParam::into(x.view(), y.view(), saved, options);
    TypeParam::into(x.view(), y_turned.view(), turned_options);
    EXPECT_TRUE(same_bits(y_turned.rows(), y.rows()));

    std::vector<S> dgamma(d.gamma.size()), dbeta(d.gamma.size());
    TypeParam::backward(dy.view(), x.view(), saved, options, {.dx = dx.view(), .dgamma = dgamma, .dbeta = dbeta});
    StridedTensor<S> dx_turned(c), dgamma_turned(turned, d.gamma), dbeta_turned(turned, d.gamma);
    auto added = d.gamma;
    TypeParam::backward(dy.view(), x.view(), saved, turned_options,
                        {.dx = dx_turned.view(), .dgamma = dgamma_turned.view(), .dbeta = dbeta_turned.view()});
    EXPECT_TRUE(same_bits(dx_turned.rows(), dx.rows()));
    EXPECT_TRUE(same_bits(dgamma_turned.rows(), dgamma));
    EXPECT_TRUE(!is_centred<TypeParam> || same_bits(dbeta_turned.rows(), dbeta));
    TypeParam::backward(dy.view(), x.view(), saved, options, {.dgamma = evenkeel::add_to(added)});
    StridedTensor<S> added_turned(turned, d.gamma);
    TypeParam::backward(dy.view(), x.view(), saved, options, {.dgamma = evenkeel::add_to(added_turned.view())});
    EXPECT_TRUE(same_bits(added_turned.rows(), added));
  }
}

}  // namespace
}  // namespace evenkeel_test
