// Faults of other libraries' BatchNorm (B60 to B75 and their kind), and the policies on batches of one value or none.
#include "evenkeel/core/eigen_tensor.hpp"
#include "evenkeel/ops/fold_batch_norm.hpp"
#include "ops/batch_norm_test.hpp"

namespace evenkeel_test {
namespace {

template <class S>
using RowMatrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class S>
using ColumnMatrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic>;
template <class S>
using Vector = Eigen::Vector<S, Eigen::Dynamic>;

template <class S>
class BatchNormCases : public testing::Test {};
TYPED_TEST_SUITE(BatchNormCases, BatchScalars, ScalarName);

template <class S>
std::vector<S> vector_of(const Vector<S>& v) {
  return {v.begin(), v.end()};
}

// B60: y takes the biased variance, 9.5; the running one is unbiased, unless asked otherwise.
TYPED_TEST(BatchNormCases, TheRunningVarianceIsUnbiasedUnlessAskedOtherwise) {
  using S = TypeParam;
  const ColumnMatrix<S> x = Vector<S>{{1, 2, 4, 9}};
  for (const auto variance : {RunningVariance::unbiased, RunningVariance::biased}) {
    Vector<S> mean = Vector<S>::Zero(1), var = Vector<S>::Ones(1);
    BatchNormStatistics<S> saved;
    const auto y = evenkeel::batch_norm(x, saved, {}, {.mean = mean, .var = var, .variance = variance});
    EXPECT_TRUE(within(vector_of<S>(y.col(0)), Reals{-0.9733280L, -0.6488853L, 0, 1.6222134L}, seven_digits));
    EXPECT_TRUE(within(vector_of(mean), Reals{0.4L}, seven_digits));
    EXPECT_TRUE(
        within(vector_of(var), Reals{variance == RunningVariance::unbiased ? 2.1666667L : 1.85L}, seven_digits));
  }
}

// B62: the two meanings of momentum are two types.
TYPED_TEST(BatchNormCases, UpdateRateAndDecayAreTheTwoMeaningsOfMomentum) {
  using S = TypeParam;
  static_assert(!std::is_convertible_v<double, UpdateRate> && !std::is_convertible_v<double, Decay>);
  static_assert(!std::is_convertible_v<double, evenkeel::RunningAverage>);
  static_assert(!std::is_constructible_v<UpdateRate, Decay> && !std::is_constructible_v<Decay, UpdateRate>);
  const ColumnMatrix<S> x = Vector<S>{{19, 21}};
  const auto mean_after = [&](const evenkeel::RunningAverage& average) {
    std::vector<S> mean{10};
    BatchNormStatistics<S> saved;
    evenkeel::batch_norm(x, saved, {}, {.mean = mean, .average = average});
    return mean[0];
  };
  EXPECT_EQ(mean_after(UpdateRate(0.1)), S(11));
  EXPECT_EQ(mean_after(Decay(0.9)), S(11));
  EXPECT_EQ(mean_after(UpdateRate(0)), S(10));
  EXPECT_EQ(mean_after(Decay(1)), S(10));
  EXPECT_EQ(mean_after(UpdateRate(1)), S(20));
  EXPECT_EQ(mean_after(Decay(0)), S(20));
}

// A batch of NaN without weight does not touch what is there.
TYPED_TEST(BatchNormCases, ABatchWithoutWeightChangesNoBit) {
  using S = TypeParam;
  const ColumnMatrix<S> x = ColumnMatrix<S>::Constant(4, 3, std::numeric_limits<S>::quiet_NaN());
  std::vector<S> mean{1, 2, 3}, var{4, 5, 6};
  BatchNormStatistics<S> saved;
  evenkeel::batch_norm(x, saved, {}, {.mean = mean, .var = var, .average = UpdateRate(0)});
  EXPECT_EQ(mean, (std::vector<S>{1, 2, 3}));
  EXPECT_EQ(var, (std::vector<S>{4, 5, 6}));
}

TYPED_TEST(BatchNormCases, ACumulativeAverageIsTheMeanOverAllBatches) {
  using S = TypeParam;
  std::vector<S> mean{-100}, var{-100};  // without weight in the first batch
  std::int64_t batches = 0;
  BatchNormStatistics<S> saved;
  for (const S center : {S(1), S(5), S(9)}) {
    const ColumnMatrix<S> x = Vector<S>{{center - 1, center + 1}};
    evenkeel::batch_norm(x, saved, {}, {.mean = mean, .var = var, .average = CumulativeAverage(), .batches = &batches});
  }
  EXPECT_EQ(batches, 3);
  EXPECT_TRUE(within_ulp(mean, Reals{5}, 1));
  EXPECT_TRUE(within_ulp(var, Reals{2}, 1));
}

// B65
TYPED_TEST(BatchNormCases, OneValuePerChannelIsAnErrorBeforeAnythingChanges) {
  using S = TypeParam;
  for (const Shape& shape : {Shape{1, 3}, Shape{1, 3, 1}, Shape{1, 3, 1, 1}, Shape{1, 3, 1, 1, 1}}) {
    const std::vector<S> x{1, 2, 3};
    std::vector<S> y(3, poison<S>), mean{1, 2, 3}, var{4, 5, 6};
    std::int64_t batches = 7;
    BatchNormStatistics<S> saved;
    const auto call = [&] {
      evenkeel::batch_norm_into(TensorView(x.data(), shape), TensorView(y.data(), shape), saved, {},
                                {.mean = mean, .var = var, .batches = &batches});
    };
    EXPECT_EQ(error_text<std::invalid_argument>(call),
              "evenkeel::batch_norm_into: 1 row per channel in training, expected at least 2 (x has shape " +
                  evenkeel::shape_string(shape) + ")");
    EXPECT_TRUE(same_bits(y, std::vector<S>(3, poison<S>)));
    EXPECT_EQ(mean, (std::vector<S>{1, 2, 3}));
    EXPECT_EQ(var, (std::vector<S>{4, 5, 6}));
    EXPECT_EQ(batches, 7);
    EXPECT_TRUE(saved.is_empty());
  }
}

TYPED_TEST(BatchNormCases, OneValuePerChannelGivesBetaWhereItIsAllowed) {
  using S = TypeParam;
  for (const double eps : {1e-5, 0.0}) {
    for (const int axis : {1, -1}) {
      const Shape shape = axis == 1 ? Shape{1, 3, 1, 1} : Shape{1, 3};
      const std::vector<S> x{S(1e6), 2, -3}, dy{1, 2, 3}, gamma{2, S(1e12), 3}, beta{3, 4, 5};
      std::vector<S> y(3), dx(3, poison<S>), dgamma(3), dbeta(3), mean{1, 2, 3}, var{4, 5, 6};
      const BatchNormOptions<S> options{
          .gamma = gamma, .beta = beta, .eps = eps, .channel_axis = axis, .allow_one_value = true};
      BatchNormStatistics<S> saved;
      const TensorView<const S> x_view(x.data(), shape);
      evenkeel::batch_norm_into(x_view, TensorView(y.data(), shape), saved, options,
                                {.mean = mean, .var = var, .average = UpdateRate(0.5)});
      EXPECT_EQ(y, beta);
      EXPECT_EQ(mean, (std::vector<S>{S(500000.5), 2, 0}));
      EXPECT_EQ(var, (std::vector<S>{4, 5, 6}));
      evenkeel::batch_norm_backward(TensorView(dy.data(), shape), x_view, saved, options,
                                    {.dx = TensorView(dx.data(), shape), .dgamma = dgamma, .dbeta = dbeta});
      EXPECT_EQ(dx, std::vector<S>(3, 0));
      EXPECT_EQ(dgamma, std::vector<S>(3, 0));
      EXPECT_EQ(dbeta, dy);
    }
  }
}

TYPED_TEST(BatchNormCases, TwoValuesPerChannelTrainAndOneIsEnoughForInference) {
  using S = TypeParam;
  const std::vector<S> x{1, 2, 3, 4, 5, 6}, zeros(3), ones(3, 1);
  std::vector<S> y(6);
  BatchNormStatistics<S> saved;
  evenkeel::batch_norm_into(TensorView(x.data(), {1, 3, 1, 2}), TensorView(y.data(), {1, 3, 1, 2}), saved, {.eps = 0});
  EXPECT_TRUE(within_ulp(y, Reals{-1, 1, -1, 1, -1, 1}, 1));
  evenkeel::batch_norm_into(TensorView(x.data(), {1, 3}), TensorView(y.data(), {1, 3}), {zeros, ones}, {.eps = 0});
  EXPECT_EQ(std::vector<S>(y.begin(), y.begin() + 3), (std::vector<S>{1, 2, 3}));
}

// B66
TYPED_TEST(BatchNormCases, AnEmptyBatchChangesNoStatisticAndGivesZeroGradients) {
  using S = TypeParam;
  for (const auto& [shape, axis] :
       {std::pair<Shape, int>{{0, 5}, 1}, {{0, 5, 3, 3}, 1}, {{2, 5, 0, 3}, 1}, {{3, 0, 5}, -1}, {{0, 3, 5}, -1}}) {
    SCOPED_TRACE(evenkeel::shape_string(shape));
    std::vector<S> mean(5, S(0.1)), var(5, S(0.3)), dgamma(5, poison<S>), dbeta(5, poison<S>);
    const auto mean_before = mean, var_before = var;
    std::int64_t batches = 7;
    BatchNormStatistics<S> saved;
    const TensorView<const S> x(nullptr, shape);
    const TensorView<S> y(nullptr, shape);
    evenkeel::batch_norm_into(x, y, saved, {.channel_axis = axis}, {.mean = mean, .var = var, .batches = &batches});
    EXPECT_TRUE(same_bits(mean, mean_before));
    EXPECT_TRUE(same_bits(var, var_before));
    EXPECT_EQ(batches, 7);
    EXPECT_EQ(saved.shape, shape);
    evenkeel::batch_norm_backward(x, x, saved, {.channel_axis = axis}, {.dx = y, .dgamma = dgamma, .dbeta = dbeta});
    EXPECT_EQ(dgamma, std::vector<S>(5, 0));
    EXPECT_EQ(dbeta, std::vector<S>(5, 0));
    std::vector<S> kept(5, 2);
    evenkeel::batch_norm_backward(x, x, saved, {.channel_axis = axis}, {.dgamma = evenkeel::add_to(kept)});
    EXPECT_EQ(kept, std::vector<S>(5, 2));
    evenkeel::batch_norm_into(x, y, {mean, var}, {.channel_axis = axis});
    evenkeel::batch_norm_into(x, y, {mean, var}, saved, {.channel_axis = axis});
    evenkeel::batch_norm_backward(x, x, saved, {.channel_axis = axis}, {.dx = y, .dgamma = dgamma, .dbeta = dbeta});
    EXPECT_EQ(dgamma, std::vector<S>(5, 0));
  }
}

// B68: with running statistics, dx is not that of training, which would be 0.
TYPED_TEST(BatchNormCases, TheBackwardOfRunningStatisticsTakesThemAsConstants) {
  using S = TypeParam;
  const ColumnMatrix<S> x = Vector<S>{{1, 3}}, dy = Vector<S>{{1, 1}};
  const std::vector<S> mean{5}, var{4}, gamma{2};
  const BatchNormOptions<S> options{.gamma = gamma, .eps = 0};
  BatchNormStatistics<S> saved;
  evenkeel::batch_norm(x, {mean, var}, saved, options);
  ColumnMatrix<S> dx(2, 1);
  std::vector<S> dgamma(1), dbeta(1);
  evenkeel::batch_norm_backward(dy, x, saved, options, {.dx = dx, .dgamma = dgamma, .dbeta = dbeta});
  EXPECT_EQ(vector_of<S>(dx.col(0)), (std::vector<S>{1, 1}));
  EXPECT_EQ(dgamma, std::vector<S>{-3});
  EXPECT_EQ(dbeta, std::vector<S>{2});
}

// B69: the caller's own buffers change, whatever they are.
TYPED_TEST(BatchNormCases, RunningStatisticsMayLieAnywhere) {
  using S = TypeParam;
  const auto d = random_batch<S>({6, 4}, 1, 3);
  const auto expected = train(d, storages()[0]);
  std::vector<S> memory(20, poison<S>);
  Eigen::Map<Vector<S>, 0, Eigen::InnerStride<3>> strided(memory.data(), 4);
  RowMatrix<S> table = RowMatrix<S>::Constant(4, 2, poison<S>);
  Eigen::Tensor<S, 1> tensor(4);
  for (Index c = 0; c < 4; ++c) {
    strided[c] = tensor(c) = d.running_mean[static_cast<std::size_t>(c)];
    table(c, 1) = d.running_var[static_cast<std::size_t>(c)];
  }
  const Stored<S> x(d.shape, 1, storages()[0], d.x);
  Stored<S> y(d.shape, 1, storages()[0]);
  BatchNormStatistics<S> saved;
  evenkeel::batch_norm_into(x.view(), y.view(), saved, d.options(), {.mean = strided, .var = table.col(1)});
  EXPECT_EQ(vector_of<S>(strided), expected.running_mean);
  EXPECT_EQ(vector_of<S>(table.col(1)), expected.running_var);
  EXPECT_TRUE(same_bits(vector_of<S>(table.col(0)), std::vector<S>(4, poison<S>)));
  for (std::size_t i = 0; i < memory.size(); ++i) {
    EXPECT_TRUE((i % 3 == 0 && i < 12) || same_bits(std::vector<S>{memory[i]}, std::vector<S>{poison<S>}));
  }
  evenkeel::batch_norm_into(x.view(), y.view(), saved, d.options(), {.mean = tensor});
  EXPECT_EQ(std::vector<S>(tensor.data(), tensor.data() + 4), expected.running_mean);

  Stored<S> z(d.shape, 1, storages()[0]);
  evenkeel::batch_norm_into(x.view(), y.view(), {strided, table.col(1)}, d.options());
  evenkeel::batch_norm_into(x.view(), z.view(), {expected.running_mean, expected.running_var}, d.options());
  EXPECT_TRUE(same_bits(y.values(), z.values()));
}

TYPED_TEST(BatchNormCases, AbsentRunningStatisticsAreZeroAndOne) {
  using S = TypeParam;
  const ColumnMatrix<S> x = Vector<S>{{1, 3}};
  EXPECT_EQ(evenkeel::batch_norm(x, RunningStatistics<S>(), {.eps = 0}), x);
}

// B75: the same numbers as row-major NCHW, row-major NHWC and column-major tensors.
TYPED_TEST(BatchNormCases, TheSameNumbersInAnyLayoutOfEigenTensors) {
  using S = TypeParam;
  Eigen::Tensor<S, 4, Eigen::RowMajor> nchw(2, 3, 2, 2);
  for (Index i = 0; i < 24; ++i) nchw.data()[i] = static_cast<S>(i);
  const Eigen::array<Index, 4> to_last{0, 2, 3, 1}, to_first{0, 3, 1, 2}, reversed{3, 2, 1, 0};
  const Eigen::Tensor<S, 4, Eigen::RowMajor> nhwc = nchw.shuffle(to_last);
  const Eigen::Tensor<S, 4> column_major = nchw.swap_layout().shuffle(reversed);
  const auto run = [](const auto& x, int axis) {
    BatchNormStatistics<S> saved;
    auto y = evenkeel::batch_norm(x, saved, {.channel_axis = axis});
    static_assert(std::is_same_v<decltype(y), std::remove_cvref_t<decltype(x)>>);
    return y;
  };
  const auto first = run(nchw, 1);
  const Eigen::Tensor<S, 4, Eigen::RowMajor> last = run(nhwc, -1).shuffle(to_first);
  const Eigen::Tensor<S, 4, Eigen::RowMajor> columns = run(column_major, 1).swap_layout().shuffle(reversed);
  const auto numbers = [](const auto& t) { return std::vector<S>(t.data(), t.data() + t.size()); };
  const auto s = oracle::ChannelShape{2, 3, 4};
  const Reals expected = oracle::batch_norm(oracle::widen(numbers(nchw)), s, {}, {}, 1e-5L);
  EXPECT_TRUE(within_ulp(numbers(first), expected, 2));
  EXPECT_TRUE(within_ulp(numbers(last), expected, 2));
  EXPECT_TRUE(within_ulp(numbers(columns), expected, 2));
}

// B04, B13: a constant channel gives beta exactly, in every layout, also with eps 0.
TYPED_TEST(BatchNormCases, AConstantChannelGivesBeta) {
  using S = TypeParam;
  for (const double eps : {1e-5, 0.0}) {
    for (const Index n : {2, 3, 7, 10, 11, 16, 17, 1000}) {
      for (const S value : {S(1234.567), S(3.0e7), S(0), S(1)}) {
        for (const Storage& storage : storages()) {
          BatchData<S> d{.shape = {n, 3}, .eps = eps};
          d.x.assign(static_cast<std::size_t>(3 * n), value);
          d.dy = normal_vector<S>(d.x.size(), 1);
          d.beta = {S(0.25), -1, 7};
          const auto y = train(d, storage).y;
          for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], d.beta[i % 3]);
        }
      }
    }
  }
}

// B58 and its kind: the texts of errors are in batch_norm_error_test.cpp. B07:
TYPED_TEST(BatchNormCases, ANegativeOrNaNVarianceIsAnErrorThatNamesTheChannel) {
  using S = TypeParam;
  const ColumnMatrix<S> x = ColumnMatrix<S>::Ones(2, 3);
  const std::vector<S> mean(3);
  const auto text = [&](std::vector<S> var) {
    ColumnMatrix<S> y = x;
    BatchNormStatistics<S> saved;
    std::vector<S> scale(3), shift(3);
    const auto inference = error_text<std::invalid_argument>([&] { evenkeel::batch_norm_into(x, y, {mean, var}); });
    EXPECT_EQ(error_text<std::invalid_argument>([&] {
                evenkeel::batch_norm_into(x, y, {mean, var}, saved);
              }),
              inference);
    const auto fold = error_text<std::invalid_argument>([&] {
      evenkeel::fold_into_scale_shift<S>({mean, var}, {}, scale, shift);
    });
    EXPECT_EQ(fold.substr(fold.find(": ")), inference.substr(inference.find(": ")));
    EXPECT_EQ(y, x);
    EXPECT_EQ(scale, std::vector<S>(3));
    return inference;
  };
  EXPECT_EQ(text({1, S(-1e-6), -1}),
            "evenkeel::batch_norm_into: running var of channel 1 is -1e-06, expected at least 0");
  EXPECT_EQ(text({1, 1, std::numeric_limits<S>::quiet_NaN()}),
            "evenkeel::batch_norm_into: running var of channel 2 is nan, expected at least 0");
}

// In inference an activation follows in the same pass, in place on a block.
TYPED_TEST(BatchNormCases, AnActivationInPlaceOnABlock) {
  using S = TypeParam;
  RowMatrix<S> memory = RowMatrix<S>::Random(7, 9), before = memory;
  const std::vector<S> mean{1, 2, S(0.5)}, var{1, 4, 9}, gamma{1, -2, 3};
  const auto expected = [&](Index i, Index j, auto f) {
    const auto c = static_cast<std::size_t>(j);
    return f((static_cast<long double>(before(i + 1, j + 2)) - mean[c]) / std::sqrt(static_cast<long double>(var[c])) *
             gamma[c]);
  };
  evenkeel::batch_norm_into(memory.block(1, 2, 4, 3), memory.block(1, 2, 4, 3), {mean, var}, {.gamma = gamma, .eps = 0},
                            kernels::Relu());
  for (Index i = 0; i < 4; ++i) {
    for (Index j = 0; j < 3; ++j) {
      EXPECT_NEAR(memory(i + 1, j + 2), static_cast<S>(expected(i, j, [](long double v) { return std::max(v, 0.0L); })),
                  8 * std::numeric_limits<S>::epsilon());
    }
  }
  before.block(1, 2, 4, 3) = memory.block(1, 2, 4, 3);
  EXPECT_EQ(memory, before);
  evenkeel::channel_affine_into(memory.block(1, 2, 4, 3), memory.block(1, 2, 4, 3), {.scale = gamma},
                                [](const auto& v) { return v * v; });
  for (Index i = 1; i < 5; ++i) {
    for (Index j = 2; j < 5; ++j) {
      const S product = before(i, j) * gamma[static_cast<std::size_t>(j - 2)];
      EXPECT_EQ(memory(i, j), product * product);
    }
  }
}

TYPED_TEST(BatchNormCases, MoreChannelsThanABlockOfCoefficients) {
  using S = TypeParam;
  const auto d = random_batch<S>({3, 9000}, 1, 77);
  const Stored<S> x(d.shape, 1, storages()[0], d.x);
  Stored<S> y(d.shape, 1, storages()[0]);
  evenkeel::batch_norm_into(x.view(), y.view(), d.running(), d.options());
  const auto s = d.channels();
  using oracle::widen;
  const Reals mean = widen(d.running_mean), var = widen(d.running_var);
  EXPECT_TRUE(within_ulp(y.values(),
                         oracle::batch_norm_with(widen(d.x), s, mean, var, widen(d.gamma), widen(d.beta), d.eps), 4,
                         batch_y_scale(d, oracle::batch_norm_with(widen(d.x), s, mean, var, {}, {}, d.eps))));
}

}  // namespace
}  // namespace evenkeel_test
