// In place, pieces of larger tensors, nothing at all, NaN, and the workspace: LayerNorm and RMSNorm.
#include "core/allocation_count.hpp"
#include "core/error_text.hpp"
#include "ops/op_test.hpp"

namespace evenkeel_test {
namespace {

template <class Op>
class NormEdge : public testing::Test {};
TYPED_TEST_SUITE(NormEdge, Ops, OpName);

template <class S>
TensorView<const S> view_of(const Data<S>& d, const std::vector<S>& values) {
  return {values.data(), {d.rows, d.features}};
}
template <class S>
TensorView<S> view_of(const Data<S>& d, std::vector<S>& values) {
  return {values.data(), {d.rows, d.features}};
}

// ---------------------------------------------------------------- in place

TYPED_TEST(NormEdge, YMayBeX) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(5, 9, 7);
  const auto expected = forward<typename TypeParam::Kernel>(d);
  for_each_kind<RowMajorKinds<S>>([&](auto kind) {
    const Array<S> x = array_for<decltype(kind)>(d, d.x);
    NormStatistics<S> saved;
    TypeParam::into(kind.tensor(x, 5, 9), kind.tensor(x, 5, 9), saved, options_of(d));
    expect_same_bits(result_of(x, saved), expected);
    EXPECT_TRUE(x.is_intact_around());
  });
}

TYPED_TEST(NormEdge, DxMayBeDy) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(5, 9, 7);
  const auto saved = forward<typename TypeParam::Kernel>(d);
  const auto expected = backward<typename TypeParam::Kernel>(d, saved);
  for_each_kind<RowMajorKinds<S>>([&](auto kind) {
    const Array<S> dy = array_for<decltype(kind)>(d, d.dy), x = array_for<decltype(kind)>(d, d.x);
    NormStatistics<S> statistics{{5, 9}, saved.mean, saved.mean_rest, saved.rstd};
    std::vector<S> dgamma(9);
    TypeParam::backward(kind.tensor(dy, 5, 9), kind.tensor(x, 5, 9), statistics, options_of(d),
                        {.dx = kind.tensor(dy, 5, 9), .dgamma = dgamma});
    EXPECT_TRUE(same_bits(dy.values(), expected.dx));
    EXPECT_TRUE(same_bits(dgamma, expected.dgamma));
    EXPECT_TRUE(dy.is_intact_around());
  });
}

// The backward of x + norm(x), in place: dx = dy + the norm's.
TYPED_TEST(NormEdge, DxMayBeAddedToDyInPlace) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(5, 9, 7);
  const auto saved = forward<typename TypeParam::Kernel>(d);
  const auto expected = backward<typename TypeParam::Kernel>(
      d, saved, {.wanted = {.dgamma = false, .dbeta = false}, .add_to = {.dx = d.dy}});
  std::vector<S> dy = d.dy;
  const NormStatistics<S> statistics{{5, 9}, saved.mean, saved.mean_rest, saved.rstd};
  TypeParam::backward(view_of(d, dy), view_of(d, d.x), statistics, options_of(d),
                      {.dx = evenkeel::add_to(view_of(d, dy))});
  EXPECT_TRUE(same_bits(dy, expected.dx));
}

// A row whose rstd leaves the ordinary range is scaled; the row beside it, which would overflow then, is not.
TYPED_TEST(NormEdge, ALargeRowHasTheSameBitsBesideAnExtremeOne) {
  using S = typename TypeParam::Scalar;
  constexpr Index rows = 3, features = 40;
  const S largest = std::numeric_limits<S>::max();
  auto d = random_data<S>(rows, features, 8);
  for (std::size_t j = 0; j < features; ++j) {
    d.x[j] = largest * S(j % 2 ? 0.9 : -0.9);
    d.x[features + j] = largest / 100;
  }
  for (const auto order : {StorageOrder::row_major, StorageOrder::column_major}) {
    const auto run = [&](Index first, Index count) {
      std::vector<S> y(d.x.size()), dx(d.x.size());
      const auto part = [&](auto& values) {
        auto* data = values.data() + (order == StorageOrder::row_major ? first * features : first);
        const TensorView<std::remove_reference_t<decltype(*data)>> all(data, {rows, features}, order);
        return TensorView<std::remove_reference_t<decltype(*data)>>(data, {count, features}, all.strides(), order);
      };
      std::vector<S> x(d.x), dy(d.dy);
      if (order == StorageOrder::column_major) {
        for (std::size_t i = 0; i < x.size(); ++i) {
          const std::size_t from = i % rows * features + i / rows;
          x[i] = d.x[from], dy[i] = d.dy[from];
        }
      }
      NormStatistics<S> saved;
      TypeParam::into(part(std::as_const(x)), part(y), saved, {.gamma = d.gamma});
      TypeParam::backward(part(std::as_const(dy)), part(std::as_const(x)), saved, {.gamma = d.gamma}, {.dx = part(dx)});
      std::vector<S> second;
      for (std::size_t j = 0; j < features; ++j) {
        const std::size_t at = order == StorageOrder::row_major ? features + j : j * rows + 1;
        second.push_back(y[at]), second.push_back(dx[at]);
      }
      return second;
    };
    const auto alone = run(1, 1), beside = run(0, rows);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_TRUE(std::isfinite(beside[i]));
      if (order == StorageOrder::row_major) {
        EXPECT_EQ(beside[i], alone[i]);
      }
    }
  }
}

// B48: a dy that is one row repeated is read as it is.
TYPED_TEST(NormEdge, DyMayBeOneRowForAllRows) {
  using S = typename TypeParam::Scalar;
  auto d = random_data<S>(5, 9, 7);
  const std::vector<S> row = rows_of(d.dy, 9, 0, 1);
  for (Index i = 0; i < 5; ++i) std::copy(row.begin(), row.end(), d.dy.begin() + i * 9);
  const auto saved = forward<typename TypeParam::Kernel>(d);
  const auto expected = backward<typename TypeParam::Kernel>(d, saved);
  std::vector<S> dx(45), dgamma(9);
  const NormStatistics<S> statistics{{5, 9}, saved.mean, saved.mean_rest, saved.rstd};
  TypeParam::backward(TensorView<const S>(row.data(), 5, 9, 0), view_of(d, d.x), statistics, options_of(d),
                      {.dx = view_of(d, dx), .dgamma = dgamma});
  EXPECT_TRUE(same_bits(dx, expected.dx));
  EXPECT_TRUE(same_bits(dgamma, expected.dgamma));
}

// ---------------------------------------------------------------- pieces of larger tensors

TYPED_TEST(NormEdge, OutputsAreWrittenIntoColumnsOfALargerMatrix) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(5, 9, 11);
  const auto expected = forward<typename TypeParam::Kernel>(d);
  const auto expected_gradients = backward<typename TypeParam::Kernel>(d, expected);
  const RowMatrix<S> x = Eigen::Map<const RowMatrix<S>>(d.x.data(), 5, 9);
  const RowMatrix<S> dy = Eigen::Map<const RowMatrix<S>>(d.dy.data(), 5, 9);
  RowMatrix<S> wide = RowMatrix<S>::Constant(5, 20, poison<S>);
  NormStatistics<S> saved;
  TypeParam::into(x, wide.leftCols(9), saved, options_of(d));
  TypeParam::backward(dy, x, saved, options_of(d), {.dx = wide.rightCols(9)});
  EXPECT_TRUE(same_bits(values_of(wide.leftCols(9)), expected.y));
  EXPECT_TRUE(same_bits(values_of(wide.rightCols(9)), expected_gradients.dx));
  EXPECT_TRUE(same_bits(values_of(wide.middleCols(9, 2)), std::vector<S>(10, poison<S>)));
}

// x, y, dy and dx side by side in one matrix: neighbours, no overlap.
TYPED_TEST(NormEdge, InputsAndOutputsMayBeColumnsOfOneMatrix) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(5, 4, 13);
  const auto expected = forward<typename TypeParam::Kernel>(d);
  const auto expected_gradients = backward<typename TypeParam::Kernel>(d, expected);
  RowMatrix<S> all(5, 16);
  all.leftCols(4) = Eigen::Map<const RowMatrix<S>>(d.x.data(), 5, 4);
  all.middleCols(8, 4) = Eigen::Map<const RowMatrix<S>>(d.dy.data(), 5, 4);
  NormStatistics<S> saved;
  TypeParam::into(all.leftCols(4), all.middleCols(4, 4), saved, options_of(d));
  TypeParam::backward(all.middleCols(8, 4), all.leftCols(4), saved, options_of(d), {.dx = all.rightCols(4)});
  EXPECT_TRUE(same_bits(values_of(all.middleCols(4, 4)), expected.y));
  EXPECT_TRUE(same_bits(values_of(all.rightCols(4)), expected_gradients.dx));
}

// ---------------------------------------------------------------- nothing

// B66
TYPED_TEST(NormEdge, ZeroRowsTouchNoMemory) {
  using S = typename TypeParam::Scalar;
  const TensorView<S> nothing(nullptr, {0, 8});
  NormStatistics<S> saved;
  TypeParam::into(nothing, nothing, saved);
  EXPECT_TRUE(saved.rstd.empty());
  EXPECT_EQ(saved.shape, (Shape{0, 8}));
  const std::vector<S> gamma(8, S(2)), beta(8, S(3));
  std::vector<S> dgamma(8, poison<S>), dbeta(8, poison<S>);
  TypeParam::into(nothing, nothing, saved, {.gamma = gamma, .beta = beta});
  TypeParam::backward(nothing, nothing, saved, {.gamma = gamma}, {.dx = nothing, .dgamma = dgamma, .dbeta = dbeta});
  EXPECT_EQ(dgamma, std::vector<S>(8));
  EXPECT_TRUE(!is_centred<TypeParam> || dbeta == std::vector<S>(8));
}

TYPED_TEST(NormEdge, ZeroRowsAddNothing) {
  using S = typename TypeParam::Scalar;
  const RowMatrix<S> x(0, 8);
  NormStatistics<S> saved;
  TypeParam::of(x, saved);
  std::vector<S> dgamma(8, S(7)), dbeta(8, S(7));
  TypeParam::backward(x, x, saved, {}, {.dgamma = evenkeel::add_to(dgamma), .dbeta = evenkeel::add_to(dbeta)});
  EXPECT_EQ(dgamma, std::vector<S>(8, S(7)));
  EXPECT_EQ(dbeta, std::vector<S>(8, S(7)));
}

TYPED_TEST(NormEdge, ZeroFeaturesTouchNoMemory) {
  using S = typename TypeParam::Scalar;
  for (const Shape& shape : {Shape{4, 0}, Shape{0}, Shape{2, 3, 0}, Shape{0, 0}, Shape{4, 0, 8}, Shape{0, 3, 8}}) {
    const TensorView<S> nothing(nullptr, shape);
    NormStatistics<S> saved;
    TypeParam::into(nothing, nothing, saved);
    TypeParam::backward(nothing, nothing, saved, {}, {.dx = nothing});
  }
  const RowMatrix<S> rows(4, 0);
  const ColumnMatrix<S> columns(0, 4);
  EXPECT_EQ(TypeParam::of(rows).rows(), 4);
  EXPECT_EQ(TypeParam::of(columns, {.axis = features_first}).cols(), 4);
  const std::vector<S> none;
  EXPECT_NO_THROW(TypeParam::of(rows, {.gamma = none, .beta = none}));
}

TYPED_TEST(NormEdge, APieceWithoutColumnsTouchesNoMemory) {
  using S = typename TypeParam::Scalar;
  RowMatrix<S> x = RowMatrix<S>::Ones(4, 5);
  NormStatistics<S> saved;
  TypeParam::into(x.leftCols(0), x.rightCols(0), saved);
  TypeParam::into(x.topRows(0), x.topRows(0), saved);
  EXPECT_EQ(values_of(x), std::vector<S>(20, 1));
}

// ---------------------------------------------------------------- NaN and infinity

TYPED_TEST(NormEdge, NaNAndInfinityStayInTheirRow) {
  using S = typename TypeParam::Scalar;
  const auto clean = random_data<S>(7, 9, 17);
  const auto expected = forward<typename TypeParam::Kernel>(clean);
  const auto expected_dx = backward<typename TypeParam::Kernel>(clean, expected).dx;
  for (const S bad : {std::numeric_limits<S>::quiet_NaN(), std::numeric_limits<S>::infinity()}) {
    auto d = clean;
    d.x[3 * 9 + 4] = bad;
    std::vector<S> y(63), dx(63);
    NormStatistics<S> saved;
    TypeParam::into(view_of(d, d.x), view_of(d, y), saved, options_of(d));
    TypeParam::backward(view_of(d, d.dy), view_of(d, d.x), saved, options_of(d), {.dx = view_of(d, dx)});
    for (Index i = 0; i < 7; ++i) {
      if (i == 3) continue;
      EXPECT_TRUE(same_bits(rows_of(y, 9, i, 1), rows_of(expected.y, 9, i, 1))) << "row " << i;
      EXPECT_TRUE(same_bits(rows_of(dx, 9, i, 1), rows_of(expected_dx, 9, i, 1))) << "row " << i;
    }
    EXPECT_TRUE(std::isnan(y[3 * 9 + 4]));
    if (!is_centred<TypeParam>) continue;
    for (Index j = 0; j < 9; ++j) EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(27 + j)])) << "feature " << j;
  }
}

TYPED_TEST(NormEdge, NaNInTheUpstreamGradientStaysInItsRow) {
  using S = typename TypeParam::Scalar;
  auto d = random_data<S>(7, 9, 19);
  const auto saved = forward<typename TypeParam::Kernel>(d);
  const auto expected = backward<typename TypeParam::Kernel>(d, saved).dx;
  d.dy[3 * 9 + 4] = poison<S>;
  std::vector<S> dx(63);
  const NormStatistics<S> statistics{{7, 9}, saved.mean, saved.mean_rest, saved.rstd};
  TypeParam::backward(view_of(d, d.dy), view_of(d, d.x), statistics, options_of(d), {.dx = view_of(d, dx)});
  for (Index i = 0; i < 7; ++i)
    EXPECT_EQ(static_cast<bool>(same_bits(rows_of(dx, 9, i, 1), rows_of(expected, 9, i, 1))), i != 3) << "row " << i;
}

// ---------------------------------------------------------------- statistics

TYPED_TEST(NormEdge, SavedIsUsedAgainWithoutAllocation) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(50, 9, 23);
  std::vector<S> y(d.x.size());
  NormStatistics<S> saved;
  TypeParam::into(view_of(d, d.x), view_of(d, y), saved, options_of(d));
  const S* rstd = saved.rstd.data();
  const AllocationCount count;
  TypeParam::into(view_of(d, d.x), view_of(d, y), saved, options_of(d));
  EXPECT_EQ(count.allocations(), 0);
  EXPECT_EQ(saved.rstd.data(), rstd);
}

TYPED_TEST(NormEdge, SavedTakesTheShapeOfTheLastForward) {
  using S = typename TypeParam::Scalar;
  NormStatistics<S> saved;
  EXPECT_TRUE(saved.is_empty());
  for (const Index rows : {7, 3, 5}) {
    const auto d = random_data<S>(rows, 9, 29);
    std::vector<S> y(d.x.size());
    TypeParam::into(view_of(d, d.x), view_of(d, y), saved, options_of(d));
    EXPECT_FALSE(saved.is_empty());
    EXPECT_EQ(saved.shape, (Shape{rows, 9}));
    expect_same_bits(ForwardResult<S>{y, saved.mean, saved.mean_rest, saved.rstd},
                     forward<typename TypeParam::Kernel>(d));
  }
}

// DESIGN.md 12: who has only the mean gets ordinary accuracy.
TYPED_TEST(NormEdge, SavedMayComeWithoutTheRestOfTheMean) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(5, 9, 31);
  auto saved = forward<typename TypeParam::Kernel>(d);
  saved.mean_rest.clear();
  const auto expected = backward<typename TypeParam::Kernel>(d, saved);
  NormStatistics<S> statistics{{5, 9}, saved.mean, {}, saved.rstd};
  std::vector<S> dx(45);
  TypeParam::backward(view_of(d, d.dy), view_of(d, d.x), statistics, options_of(d), {.dx = view_of(d, dx)});
  EXPECT_TRUE(same_bits(dx, expected.dx));
  statistics.mean_rest.assign(5, poison<S>);
  statistics.mean_rest.clear();  // empty, but with memory that must not be read
  TypeParam::backward(view_of(d, d.dy), view_of(d, d.x), statistics, options_of(d), {.dx = view_of(d, dx)});
  EXPECT_TRUE(same_bits(dx, expected.dx));
}

// ---------------------------------------------------------------- workspace

template <class Op, class S = typename Op::Scalar>
void expect_no_allocation(Index rows, Index features) {
  const auto d = random_data<S>(rows, features, 37);
  const auto options = options_of(d);
  std::vector<S> y(d.x.size()), dx(d.x.size()), dgamma(d.gamma.size()), dbeta(d.gamma.size());
  NormStatistics<S> saved;
  Op::into(view_of(d, d.x), view_of(d, y), saved, options);
  std::vector<std::byte> workspace(Op::workspace_bytes({rows, features}));
  const AllocationCount count;
  Op::into(view_of(d, d.x), view_of(d, y), options);
  Op::into(view_of(d, d.x), view_of(d, y), saved, options);
  Op::backward(view_of(d, d.dy), view_of(d, d.x), saved, options,
               {.dx = view_of(d, dx), .dgamma = dgamma, .dbeta = dbeta}, {.workspace = workspace});
  EXPECT_EQ(count.allocations(), 0) << rows << " x " << features;
}

TYPED_TEST(NormEdge, NothingIsAllocatedWithAWorkspace) {
  for (const Index rows : {0, 1, 5, 129, 1000})
    for (const Index features : {1, 9, 300}) expect_no_allocation<TypeParam>(rows, features);
}

TYPED_TEST(NormEdge, InputGradientsAloneNeedNoWorkspace) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(200, 9, 41);
  std::vector<S> y(d.x.size()), dx(d.x.size());
  NormStatistics<S> saved;
  TypeParam::into(view_of(d, d.x), view_of(d, y), saved, options_of(d));
  const AllocationCount count;
  TypeParam::backward(view_of(d, d.dy), view_of(d, d.x), saved, options_of(d), {.dx = view_of(d, dx)});
  EXPECT_EQ(count.allocations(), 0);
}

TYPED_TEST(NormEdge, TheWorkspaceMayLieAnywhereAndHoldAnything) {
  using S = typename TypeParam::Scalar;
  const auto d = random_data<S>(200, 9, 43);
  const auto saved = forward<typename TypeParam::Kernel>(d);
  const auto expected = backward<typename TypeParam::Kernel>(d, saved);
  const NormStatistics<S> statistics{{200, 9}, saved.mean, saved.mean_rest, saved.rstd};
  const std::size_t bytes = TypeParam::workspace_bytes({200, 9});
  for (std::size_t offset = 0; offset < 64; offset += 7) {
    std::vector<std::byte> memory(offset + bytes, std::byte{0xFF});  // NaN; it ends where the memory ends
    std::vector<S> dx(d.x.size()), dgamma(9), dbeta(9);
    TypeParam::backward(view_of(d, d.dy), view_of(d, d.x), statistics, options_of(d),
                        {.dx = view_of(d, dx), .dgamma = dgamma, .dbeta = dbeta},
                        {.workspace = std::span(memory).subspan(offset)});
    EXPECT_TRUE(same_bits(dgamma, expected.dgamma)) << "offset " << offset;
    EXPECT_TRUE(!is_centred<TypeParam> || same_bits(dbeta, expected.dbeta)) << "offset " << offset;
    for (std::size_t i = 0; i < offset; ++i) EXPECT_EQ(memory[i], std::byte{0xFF});
  }
}

TYPED_TEST(NormEdge, TheWorkspaceIsOfTheShapeAndTheAxes) {
  EXPECT_GE(TypeParam::workspace_bytes({2, 3, 4}, {1, 2}),
            TypeParam::workspace_bytes({2, 12}));  // copies of parameters
  EXPECT_EQ(TypeParam::workspace_bytes({4, 6}, features_first), TypeParam::workspace_bytes({6, 4}));
  EXPECT_EQ(error_text<std::invalid_argument>([] {
              TypeParam::workspace_bytes({2, 3}, 2);
            }),
            std::string("evenkeel::") + TypeParam::name +
                "_workspace_bytes: axis is 2, expected -2 to 1 (x has shape [2, 3])");
}

}  // namespace
}  // namespace evenkeel_test
