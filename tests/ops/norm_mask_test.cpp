// LayerNorm and RMSNorm with masked rows, against an oracle that never sees them: in every layout, NaN in the padding.
#include <array>

#include "core/error_text.hpp"
#include "ops/op_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;
using evenkeel::MaskView;

/// Rows [a, b], which are logical axes of x, and its features along `axis` of the three.
struct Placement {
  const char* name;
  StorageOrder order;
  int axis;
  Index step;  // distance of neighbours in memory: rows are gathered where it is not 1
};
constexpr auto row_major = StorageOrder::row_major, column_major = StorageOrder::column_major;
constexpr Placement placements[] = {
    {"rows", row_major, 2, 1},
    {"lanes", row_major, 0, 1},
    {"lanes inside", row_major, 1, 1},
    {"rows with gaps", row_major, 2, 2},
    {"column-major rows", column_major, 0, 1},
    {"column-major lanes", column_major, 2, 1},
    {"column-major lanes inside", column_major, 1, 1},
    {"column-major with gaps", column_major, 2, 3},
};

constexpr Index a_rows = 3, b_rows = 5, all_rows = a_rows * b_rows;

/// x in memory of its own: values in logical order [a, b, features].
template <class S>
class Placed {
 public:
  Placed(const Placement& place, Index features, const std::vector<S>& values) : features_(features), place_(place) {
    std::vector<Index> extents = {a_rows, b_rows};
    extents.insert(extents.begin() + place.axis, features);
    const Shape shape{extents[0], extents[1], extents[2]};
    const TensorView<S> dense(nullptr, shape, place.order);
    auto strides = dense.strides();
    for (Index& stride : strides) stride *= place.step;
    memory_.assign(static_cast<std::size_t>(shape.size() * place.step), poison<S>);
    view_ = {memory_.data(), shape, strides, place.order};
    for (std::size_t i = 0; i < values.size(); ++i) memory_[at(i)] = values[i];
  }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

  TensorView<S> view() const { return view_; }
  std::vector<S> values() const {
    std::vector<S> values;
    for (std::size_t i = 0; i < static_cast<std::size_t>(view_.size()); ++i) values.push_back(memory_[at(i)]);
    return values;
  }
  bool is_intact_around() const {
    std::vector<S> around = memory_;
    for (std::size_t i = 0; i < static_cast<std::size_t>(view_.size()); ++i) around[at(i)] = poison<S>;
    return static_cast<bool>(same_bits(around, std::vector<S>(around.size(), poison<S>)));
  }

 private:
  std::size_t at(std::size_t i) const {
    const auto index = static_cast<Index>(i), row = index / features_;
    std::vector<Index> coordinates = {row / b_rows, row % b_rows};
    coordinates.insert(coordinates.begin() + place_.axis, index % features_);
    Index offset = 0;
    for (int axis = 0; axis < 3; ++axis) offset += coordinates[static_cast<std::size_t>(axis)] * view_.stride(axis);
    return static_cast<std::size_t>(offset);
  }

  Index features_;
  Placement place_;
  std::vector<S> memory_;
  TensorView<S> view_;
};

using Flags = std::vector<std::uint8_t>;
/// Every mask that a test runs with: padding at the end of each a, every other row, one row, all but one.
std::vector<Flags> masks() {
  Flags padded(all_rows), alternating(all_rows), one(all_rows), all_but_one(all_rows, 1);
  for (std::size_t i = 0; i < all_rows; ++i) {
    padded[i] = i % b_rows < 4 - i / b_rows;
    alternating[i] = i % 2 ? 200 : 0;
  }
  one[7] = 1, all_but_one[6] = 0;
  return {padded, alternating, one, all_but_one, Flags(all_rows, 0)};
}

/// NaN in masked rows.
template <class S>
std::vector<S> padded(std::vector<S> values, const Flags& mask) {
  const std::size_t features = values.size() / mask.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!mask[i / features]) values[i] = std::numeric_limits<S>::quiet_NaN();
  }
  return values;
}
/// The rows that are valid.
template <class T>
std::vector<T> valid_rows(const std::vector<T>& values, const Flags& mask) {
  const std::size_t features = values.size() / mask.size();
  std::vector<T> valid;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (mask[i / features]) valid.push_back(values[i]);
  }
  return valid;
}
template <class S>
bool is_zero_where_masked(const std::vector<S>& values, const Flags& mask, S expected = 0) {
  const std::size_t features = values.size() / mask.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!mask[i / features] && values[i] != expected) return false;
  }
  return true;
}

template <class S>
struct MaskResult {
  std::vector<S> y = {}, dx = {}, dgamma = {}, dbeta = {};
  NormStatistics<S> saved = {};
};

/// Forward and backward; outputs that are added to hold 2.
template <class Op, class S = typename Op::Scalar>
MaskResult<S> run_masked(const Data<S>& d, const Placement& place, const MaskView& mask, bool adds = false) {
  const Placed<S> x(place, d.features, d.x), dy(place, d.features, d.dy);
  const std::vector<S> start(d.x.size(), adds ? S(2) : poison<S>);
  const Placed<S> y(place, d.features, start), dx(place, d.features, start);
  const auto features = static_cast<std::size_t>(d.features);
  MaskResult<S> r{.dgamma = std::vector<S>(features, start[0]), .dbeta = std::vector<S>(features, start[0])};
  r.saved.mean.assign(7, poison<S>), r.saved.rstd.assign(100, poison<S>);
  const OpOptions<S> options{.gamma = d.gamma, .beta = d.beta, .eps = d.eps, .axis = place.axis, .mask = mask};
  Op::into(x.view(), y.view(), r.saved, options);
  OpGradients<S> to{.dx = dx.view(), .dgamma = r.dgamma, .dbeta = r.dbeta};
  if (adds) to = {.dx = add_to(dx.view()), .dgamma = add_to(r.dgamma), .dbeta = add_to(r.dbeta)};
  std::vector<std::byte> workspace(Op::workspace_bytes(x.view().shape(), place.axis));
  Op::backward(dy.view(), x.view(), r.saved, options, to, {.workspace = workspace});
  for (const Placed<S>* t : {&x, &y, &dy, &dx}) EXPECT_TRUE(t->is_intact_around());
  r.y = y.values(), r.dx = dx.values();
  return r;
}

template <class Op>
class NormMask : public testing::Test {};
TYPED_TEST_SUITE(NormMask, Ops, OpName);

TYPED_TEST(NormMask, MaskedRowsAreLeftOutInEveryLayout) {
  using S = typename TypeParam::Scalar;
  using Norm = typename TypeParam::Kernel::Norm;
  for (const Index features : {1, 7, 40}) {
    const auto d = random_data<S>(all_rows, features, 31, 0.5);
    const auto n = static_cast<std::size_t>(features);
    for (const Placement& place : placements) {
      for (const Flags& mask : masks()) {
        SCOPED_TRACE(std::string(place.name) + ", " + std::to_string(features) + " features");
        auto nan = d;
        nan.x = padded(d.x, mask), nan.dy = padded(d.dy, mask);
        const auto got = run_masked<TypeParam>(nan, place, mask);
        const Reals x = oracle::widen(valid_rows(d.x, mask)), dy = oracle::widen(valid_rows(d.dy, mask));
        const Reals gamma = oracle::widen(d.gamma), beta = oracle::widen(d.beta);
        const std::size_t rows = x.size() / n;
        Reals scale = output_scale(Norm::y(x, rows, n, Reals(), Reals(), d.eps));
        for (std::size_t i = 0; i < scale.size(); ++i)
          scale[i] = scale[i] * std::abs(gamma[i % n]) + std::abs(beta[i % n]);
        EXPECT_TRUE(is_zero_where_masked(got.y, mask) && is_zero_where_masked(got.dx, mask));
        const auto expected = Norm::gradients(dy, x, rows, n, gamma, d.eps);
        if (rows > 0) {
          EXPECT_TRUE(within_ulp(valid_rows(got.y, mask), Norm::y(x, rows, n, gamma, beta, d.eps), 4, scale));
          EXPECT_TRUE(within_ulp(valid_rows(got.dx, mask), expected.dx, 4, expected.dx_scale));
        }
        const long double ulps = 4 * std::sqrt(static_cast<long double>(rows));
        EXPECT_TRUE(within_ulp(got.dgamma, expected.dgamma, ulps, expected.dgamma_scale));
        EXPECT_TRUE(!is_centred<TypeParam> || within_ulp(got.dbeta, expected.dbeta, ulps, expected.dbeta_scale));
      }
    }
  }
}

TYPED_TEST(NormMask, GradientsAreAddedToWhereRowsAreValid) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(all_rows, 19, 41);
  for (const Placement& place : placements) {
    for (const Flags& mask : masks()) {
      SCOPED_TRACE(place.name);
      auto nan = d;
      nan.x = padded(d.x, mask), nan.dy = padded(d.dy, mask);
      const auto alone = run_masked<TypeParam>(nan, place, mask), added = run_masked<TypeParam>(nan, place, mask, true);
      EXPECT_TRUE(is_zero_where_masked(added.dx, mask, S(2)));
      constexpr int ulps = 8;  // of a rounding for each run; measured: 4.0
      EXPECT_TRUE(is_added_to(2, alone.dx, added.dx, ulps));
      EXPECT_TRUE(is_added_to(2, alone.dgamma, added.dgamma, ulps));
      if (is_centred<TypeParam>) {
        EXPECT_TRUE(is_added_to(2, alone.dbeta, added.dbeta, ulps));
      }
    }
  }
}

TYPED_TEST(NormMask, StatisticsOfMaskedRowsAreZero) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(all_rows, 9, 43, 3);
  for (const Flags& mask : masks()) {
    const auto got = run_masked<TypeParam>(d, placements[0], mask), all = run_masked<TypeParam>(d, placements[0], {});
    ASSERT_EQ(got.saved.rstd.size(), all_rows);
    for (std::size_t i = 0; i < all_rows; ++i) {
      EXPECT_EQ(got.saved.rstd[i], mask[i] ? all.saved.rstd[i] : S(0));
      if (!is_centred<TypeParam>) continue;
      EXPECT_EQ(got.saved.mean[i], mask[i] ? all.saved.mean[i] : S(0));
      EXPECT_EQ(got.saved.mean_rest[i], mask[i] ? all.saved.mean_rest[i] : S(0));
    }
  }
}

TYPED_TEST(NormMask, OfAllRowsIsLikeNone) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(all_rows, 40, 45);
  for (const Placement& place : placements) {
    const auto got = run_masked<TypeParam>(d, place, Flags(all_rows, 3)),
               expected = run_masked<TypeParam>(d, place, {});
    EXPECT_TRUE(same_bits(got.y, expected.y) && same_bits(got.dx, expected.dx));
    EXPECT_TRUE(same_bits(got.dgamma, expected.dgamma));
  }
}

TYPED_TEST(NormMask, InPlace) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(all_rows, 40, 47);
  for (const Placement& place : placements) {
    const Flags mask = masks()[0];
    const auto expected = run_masked<TypeParam>(d, place, mask);
    const OpOptions<S> options{.gamma = d.gamma, .beta = d.beta, .eps = d.eps, .axis = place.axis, .mask = mask};
    const Placed<S> x(place, 40, d.x), x_and_y(place, 40, d.x), dy_and_dx(place, 40, d.dy);
    TypeParam::into(x_and_y.view(), x_and_y.view(), options);
    TypeParam::backward(dy_and_dx.view(), x.view(), expected.saved, options, {.dx = dy_and_dx.view()});
    EXPECT_TRUE(same_bits(x_and_y.values(), expected.y));
    EXPECT_TRUE(is_zero_where_masked(dy_and_dx.values(), mask));
    EXPECT_TRUE(within_ulp(dy_and_dx.values(), oracle::widen(expected.dx), 4));  // without dgamma, sums are others
  }
}

/// Flat masks are in row-major order, whatever the order of x; others have an order of their own.
TYPED_TEST(NormMask, OfAnyTypeAndOrder) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(all_rows, 8, 49);
  const Flags flags = masks()[0];
  std::array<bool, all_rows> bools{};
  std::vector<float> floats;
  std::vector<int> ints;
  Eigen::Array<bool, Eigen::Dynamic, Eigen::Dynamic> columns(a_rows, b_rows);
  Eigen::Array<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows(a_rows, 2 * b_rows);
  rows.setConstant(7);
  Eigen::Array<bool, Eigen::Dynamic, 1> vector(2 * all_rows);
  for (Index i = 0; i < all_rows; ++i) {
    const bool valid = flags[static_cast<std::size_t>(i)] != 0;
    bools[static_cast<std::size_t>(i)] = columns(i / b_rows, i % b_rows) = valid;
    rows(i / b_rows, i % b_rows) = valid ? -0.5 : 0.0;
    floats.push_back(valid ? std::numeric_limits<float>::denorm_min() : -0.f);
    ints.push_back(valid ? 256 : 0);  // 0 in its lowest byte
    vector(2 * i) = valid, vector(2 * i + 1) = !valid;
  }
  const Eigen::Map<const Eigen::Array<bool, Eigen::Dynamic, 1>, 0, Eigen::InnerStride<>> strided(
      vector.data(), all_rows, Eigen::InnerStride<>(2));
  const std::pair<const char*, MaskView> all[] = {{"bool", bools},
                                                  {"float", floats},
                                                  {"int", ints},
                                                  {"pointer", {bools.data(), all_rows}},
                                                  {"column-major matrix", columns},
                                                  {"strided vector", strided},
                                                  {"block of double", rows.leftCols(b_rows)}};
  for (const Placement& place : placements) {
    const auto expected = run_masked<TypeParam>(d, place, flags);
    for (const auto& [name, mask] : all) {
      SCOPED_TRACE(std::string(place.name) + ", " + name);
      EXPECT_TRUE(same_bits(run_masked<TypeParam>(d, place, mask).y, expected.y));
      EXPECT_TRUE(same_bits(run_masked<TypeParam>(d, place, mask).dgamma, expected.dgamma));
    }
  }
}

TYPED_TEST(NormMask, OfAVectorIsOneFlag) {
  using S = typename TypeParam::Scalar;
  const std::vector<S> x = normal_vector<S>(12, 3);
  std::vector<S> y(12, poison<S>);
  const Flags masked(1, 0);
  TypeParam::into(TensorView<const S>(x.data(), {12}), TensorView<S>(y.data(), {12}), {.mask = masked});
  EXPECT_EQ(y, std::vector<S>(12, 0));
}

TYPED_TEST(NormMask, OfTheWrongShapeIsRefused) {
  using S = typename TypeParam::Scalar;
  const std::vector<S> memory(24, 1);
  std::vector<S> output(24, poison<S>), dgamma(4, poison<S>);
  const TensorView<const S> x(memory.data(), {2, 3, 4});
  const TensorView<S> y(output.data(), {2, 3, 4});
  NormStatistics<S> saved;
  std::vector<S> discarded(24);
  TypeParam::into(x, TensorView<S>(discarded.data(), {2, 3, 4}), saved);
  const auto text = [&](const MaskView& mask) {
    const std::string forward = error_text<std::invalid_argument>([&] { TypeParam::into(x, y, {.mask = mask}); });
    const std::string backward = error_text<std::invalid_argument>(
        [&] { TypeParam::backward(x, x, saved, {.mask = mask}, {.dx = y, .dgamma = dgamma}); });
    EXPECT_EQ(forward.substr(forward.find(": ")), backward.substr(backward.find(": ")));
    EXPECT_TRUE(same_bits(output, std::vector<S>(24, poison<S>)) && same_bits(dgamma, std::vector<S>(4, poison<S>)));
    return forward;
  };
  const std::string where = std::string("evenkeel::") + TypeParam::name + "_into: ";
  EXPECT_EQ(text(Flags(5)),
            where + "mask has 5 elements, expected 6 (one for each position of [2, 3]; x has shape [2, 3, 4])");
  EXPECT_EQ(text(Eigen::Array<bool, 3, 2>()),
            where + "mask has shape [3, 2], expected [2, 3] (one element for each position; x has shape [2, 3, 4])");
}

TYPED_TEST(NormMask, InTheMemoryOfAnOutputIsRefused) {
  using S = typename TypeParam::Scalar;
  std::vector<S> memory(24, 1), other(24, 1);
  const TensorView<S> x(other.data(), {6, 4}), y(memory.data(), {6, 4});
  NormStatistics<S> saved;
  std::vector<S> discarded(24);
  TypeParam::into(x, TensorView<S>(discarded.data(), {6, 4}), saved);
  const MaskView mask(memory.data() + 3, 6);
  const std::string text = " overlaps mask in memory, expected memory of its own";
  EXPECT_EQ(error_text<std::invalid_argument>([&] { TypeParam::into(x, y, {.mask = mask}); }),
            std::string("evenkeel::") + TypeParam::name + "_into: y" + text);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { TypeParam::backward(x, x, saved, {.mask = mask}, {.dx = y}); }),
            std::string("evenkeel::") + TypeParam::name + "_backward: dx" + text);
}

}  // namespace
}  // namespace evenkeel_test
