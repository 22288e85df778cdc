// The layer BatchNorm: modes, running statistics, copies, and what it refuses. Numbers: batch_norm_reference_test.cpp.
#include "evenkeel/layers/batch_norm.hpp"

#include <thread>

#include "evenkeel/core/concepts.hpp"
#include "evenkeel/core/eigen_tensor.hpp"
#include "ops/batch_norm_test.hpp"
#include "support/matrix.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::BatchNorm;
using evenkeel::Parameter;

static_assert(evenkeel::Norm<BatchNorm<float>> && evenkeel::Norm<BatchNorm<double>>);

template <class S>
using RowMatrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class S>
RowMatrix<S> random_matrix(Index rows, Index columns, std::uint64_t seed) {
  return normal_matrix<S>(rows, columns, seed, 0.5);
}
template <class S>
std::vector<S> values_of(const Parameter<S>& p) {
  return {p.values().begin(), p.values().end()};
}
template <class S>
std::vector<S> gradient_of(const Parameter<S>& p) {
  return {p.gradient().begin(), p.gradient().end()};
}

/// Parameters and running statistics that are not those it starts with.
template <class S>
BatchNorm<S> trained_layer(Index channels, const evenkeel::BatchNormSettings& settings = {}) {
  BatchNorm<S> layer(channels, settings);
  std::uint64_t seed = 71;
  const auto randomize = [&](const std::string&, Parameter<S>& p) {
    p.load(normal_vector<S>(static_cast<std::size_t>(channels), seed++, 8).data(), channels);
  };
  evenkeel::for_each_parameter(layer, randomize);
  evenkeel::for_each_buffer(layer, randomize);
  return layer;
}

template <class S>
class BatchNormLayer : public testing::Test {};
TYPED_TEST_SUITE(BatchNormLayer, BatchScalars, ScalarName);

TYPED_TEST(BatchNormLayer, DoesWhatTheOpDoes) {
  using S = TypeParam;
  auto layer = trained_layer<S>(4, {.eps = 1e-3, .average = Decay(0.75), .variance = RunningVariance::biased});
  const auto x = random_matrix<S>(6, 4, 1), dy = random_matrix<S>(6, 4, 2);
  auto mean = values_of(layer.running_mean()), var = values_of(layer.running_var());
  const auto gamma = values_of(layer.gamma()), beta = values_of(layer.beta());
  const BatchNormOptions<S> options{.gamma = gamma, .beta = beta, .eps = 1e-3};
  EXPECT_EQ(layer.forward(x), evenkeel::batch_norm(x, {mean, var}, options));

  typename BatchNorm<S>::Saved saved;
  BatchNormStatistics<S> op_saved;
  const RowMatrix<S> y = layer.forward(x, saved);
  const RunningUpdate<S> update{.mean = mean, .var = var, .average = Decay(0.75), .variance = RunningVariance::biased};
  EXPECT_EQ(y, evenkeel::batch_norm(x, op_saved, options, update));
  EXPECT_EQ(values_of(layer.running_mean()), mean);
  EXPECT_EQ(values_of(layer.running_var()), var);
  EXPECT_EQ(saved.statistics().rstd, op_saved.rstd);

  RowMatrix<S> dx(6, 4);
  std::vector<S> dgamma(4), dbeta(4);
  evenkeel::batch_norm_backward(dy, x, op_saved, options, {.dx = dx, .dgamma = dgamma, .dbeta = dbeta});
  EXPECT_EQ(layer.backward(dy, saved), dx);
  EXPECT_EQ(gradient_of(layer.gamma()), dgamma);
  EXPECT_EQ(gradient_of(layer.beta()), dbeta);
  layer.backward(dy, saved);
  for (std::size_t c = 0; c < 4; ++c)
    EXPECT_NEAR(layer.gamma().gradient()[c], 2 * dgamma[c], 1e-5 * std::abs(dgamma[c]));
}

TYPED_TEST(BatchNormLayer, StartsAsTheIdentityOfStandardizedData) {
  const BatchNorm<TypeParam> layer(3);
  EXPECT_EQ(values_of(layer.gamma()), std::vector<TypeParam>(3, 1));
  EXPECT_EQ(values_of(layer.beta()), std::vector<TypeParam>(3, 0));
  EXPECT_EQ(values_of(layer.running_mean()), std::vector<TypeParam>(3, 0));
  EXPECT_EQ(values_of(layer.running_var()), std::vector<TypeParam>(3, 1));
  EXPECT_EQ(layer.batches(), 0);
}

TYPED_TEST(BatchNormLayer, InferenceChangesNothing) {  // B69
  using S = TypeParam;
  const auto layer = trained_layer<S>(3);
  const auto mean = values_of(layer.running_mean()), var = values_of(layer.running_var());
  layer.forward(random_matrix<S>(5, 3, 1));
  EXPECT_EQ(values_of(layer.running_mean()), mean);
  EXPECT_EQ(values_of(layer.running_var()), var);
  EXPECT_EQ(layer.batches(), 0);
}

TYPED_TEST(BatchNormLayer, FrozenStatisticsStayAndGammaAndBetaLearn) {
  using S = TypeParam;
  auto layer = trained_layer<S>(3);
  layer.freeze_statistics();
  const auto mean = values_of(layer.running_mean()), var = values_of(layer.running_var());
  const auto x = random_matrix<S>(5, 3, 1), dy = random_matrix<S>(5, 3, 2);
  typename BatchNorm<S>::Saved saved;
  EXPECT_EQ(layer.forward(x, saved), layer.forward(x));
  const RowMatrix<S> dx = layer.backward(dy, saved);
  EXPECT_TRUE(same_bits(values_of(layer.running_mean()), mean));
  EXPECT_TRUE(same_bits(values_of(layer.running_var()), var));
  EXPECT_EQ(layer.batches(), 0);
  for (Index c = 0; c < 3; ++c) {
    const auto i = static_cast<std::size_t>(c);
    const S slope = layer.gamma().values()[i] / std::sqrt(var[i] + S(1e-5));
    for (Index r = 0; r < 5; ++r) EXPECT_NEAR(dx(r, c), dy(r, c) * slope, 1e-6 * std::abs(dx(r, c)));
    EXPECT_NEAR(layer.beta().gradient()[i], dy.col(c).sum(), 1e-5);
  }
  layer.freeze_statistics(false);
  layer.forward(x, saved);
  EXPECT_NE(values_of(layer.running_mean()), mean);
  EXPECT_EQ(layer.batches(), 1);
}

TYPED_TEST(BatchNormLayer, WithoutTrackedStatisticsInferenceUsesTheBatch) {
  using S = TypeParam;
  BatchNorm<S> layer(3, {.track_statistics = false});
  const auto x = random_matrix<S>(5, 3, 1);
  typename BatchNorm<S>::Saved saved;
  EXPECT_TRUE(layer.forward(x).isApprox(layer.forward(x, saved), 4 * std::numeric_limits<S>::epsilon()));
  EXPECT_TRUE(layer.running_mean().is_absent());
  int buffers = 0;
  evenkeel::for_each_buffer(layer, [&](const std::string&, auto&) { ++buffers; });
  EXPECT_EQ(buffers, 0);
  const RowMatrix<S> none(0, 3);
  EXPECT_EQ(layer.forward(none).rows(), 0);
}

TYPED_TEST(BatchNormLayer, CumulativeAveragesCountInSixtyFourBits) {
  using S = TypeParam;
  BatchNorm<S> layer(1, {.average = CumulativeAverage()});
  layer.set_batches(std::int64_t{3} << 32);
  layer.running_mean().mutable_values()[0] = 2;
  typename BatchNorm<S>::Saved saved;
  layer.forward(RowMatrix<S>(Eigen::Vector<S, 2>(1, 5)), saved);
  EXPECT_EQ(layer.batches(), (std::int64_t{3} << 32) + 1);
  EXPECT_NEAR(layer.running_mean().values()[0], 2, 1e-6);
  layer.forward(RowMatrix<S>(0, 1), saved);
  EXPECT_EQ(layer.batches(), (std::int64_t{3} << 32) + 1);
}

// B70
TYPED_TEST(BatchNormLayer, ACopyHasStatisticsOfItsOwn) {
  using S = TypeParam;
  auto layer = trained_layer<S>(3);
  layer.set_batches(5);
  const auto mean = values_of(layer.running_mean()), var = values_of(layer.running_var());
  auto copy = layer;
  typename BatchNorm<S>::Saved saved;
  const auto x = random_matrix<S>(5, 3, 1);
  copy.forward(x, saved);
  EXPECT_EQ(copy.batches(), 6);
  EXPECT_NE(values_of(copy.running_mean()), mean);
  EXPECT_EQ(values_of(layer.running_mean()), mean);
  EXPECT_EQ(values_of(layer.running_var()), var);
  EXPECT_EQ(layer.batches(), 5);
  const auto y = layer.forward(x);
  const auto moved = std::move(layer);
  EXPECT_EQ(moved.forward(x), y);
  layer = copy;  // NOLINT(bugprone-use-after-move): what is moved from can be assigned to
  EXPECT_EQ(layer.forward(x), copy.forward(x));
}

TYPED_TEST(BatchNormLayer, MappedStatisticsAreTheCallersOwn) {
  using S = TypeParam;
  std::vector<S> mean{1, 2}, var{3, 4};
  BatchNorm<S> layer(2);
  layer.running_mean() = Parameter<S>::map(mean.data(), 2);
  layer.running_var() = Parameter<S>::map(var.data(), 2);
  typename BatchNorm<S>::Saved saved;
  layer.forward(random_matrix<S>(4, 2, 1), saved);
  EXPECT_NE(mean, (std::vector<S>{1, 2}));
  EXPECT_NE(var, (std::vector<S>{3, 4}));
  const auto before = mean;
  auto copy = layer;
  copy.forward(random_matrix<S>(4, 2, 1), saved);
  EXPECT_EQ(mean, before);
}

TYPED_TEST(BatchNormLayer, FreshOnesStartAnew) {
  using S = TypeParam;
  const auto layer = trained_layer<S>(3, {.eps = 0.25, .with_beta = false, .channel_axis = -1});
  const auto fresh = layer.fresh();
  EXPECT_EQ(values_of(fresh.running_var()), std::vector<S>(3, 1));
  EXPECT_EQ(fresh.eps(), 0.25);
  EXPECT_TRUE(fresh.beta().is_absent());
  EXPECT_EQ(fresh.settings().channel_axis, -1);
}

TYPED_TEST(BatchNormLayer, VisitsParametersAndBuffersApart) {
  auto layer = trained_layer<TypeParam>(3);
  std::vector<std::string> parameters, buffers;
  evenkeel::for_each_parameter(
      layer, [&](const std::string& path, auto&) { parameters.push_back(path); }, "n.");
  evenkeel::for_each_buffer(
      std::as_const(layer), [&](const std::string& path, const auto&) { buffers.push_back(path); }, "n.");
  EXPECT_EQ(parameters, (std::vector<std::string>{"n.gamma", "n.beta"}));
  EXPECT_EQ(buffers, (std::vector<std::string>{"n.running_mean", "n.running_var"}));
}

TYPED_TEST(BatchNormLayer, TakesImagesOfEitherLayout) {
  using S = TypeParam;
  auto first = trained_layer<S>(3), last = trained_layer<S>(3, {.channel_axis = -1});
  Eigen::Tensor<S, 4, Eigen::RowMajor> x(2, 3, 4, 5);
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<S>(std::sin(static_cast<double>(i)));
  const Eigen::Tensor<S, 4, Eigen::RowMajor> x_last = x.shuffle(Eigen::array<Index, 4>{0, 2, 3, 1});
  typename BatchNorm<S>::Saved saved, saved_last;
  const auto y = first.forward(x, saved);
  const Eigen::Tensor<S, 4, Eigen::RowMajor> y_last =
      last.forward(x_last, saved_last).shuffle(Eigen::array<Index, 4>{0, 3, 1, 2});
  for (Index i = 0; i < y.size(); ++i)
    EXPECT_NEAR(y.data()[i], y_last.data()[i], 100 * std::numeric_limits<S>::epsilon());
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(first.running_var().values()[c], last.running_var().values()[c],
                16 * std::numeric_limits<S>::epsilon());
  }
}

TYPED_TEST(BatchNormLayer, AMovedInXLivesInSaved) {
  using S = TypeParam;
  auto layer = trained_layer<S>(3), other = layer;
  const auto x = random_matrix<S>(5, 3, 1), dy = random_matrix<S>(5, 3, 2);
  typename BatchNorm<S>::Saved saved, kept;
  layer.forward(RowMatrix<S>(x), kept);
  other.forward(x, saved);
  EXPECT_EQ(layer.backward(dy, kept), other.backward(dy, saved));
}

TYPED_TEST(BatchNormLayer, AnActivationFollowsInInference) {
  using S = TypeParam;
  const auto layer = trained_layer<S>(3);
  RowMatrix<S> x = random_matrix<S>(5, 3, 1);
  const RowMatrix<S> expected = layer.forward(x).cwiseMax(S(0));
  layer.forward_into(x.topRows(5), x.topRows(5), kernels::Relu());
  EXPECT_EQ(x, expected);
}

// B88
TYPED_TEST(BatchNormLayer, InferenceIsSafeFromSeveralThreads) {
  using S = TypeParam;
  const auto layer = trained_layer<S>(65);
  const auto x = random_matrix<S>(50, 65, 1);
  const RowMatrix<S> expected = layer.forward(x);
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 50; ++repeat) count += layer.forward(x) != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

// ---------------------------------------------------------------- what it refuses

TYPED_TEST(BatchNormLayer, ConstructorsCheckTheirSettings) {
  using Layer = BatchNorm<TypeParam>;
  const auto text = [](const auto& make) { return error_text<std::invalid_argument>(make); };
  EXPECT_EQ(text([] { Layer(0); }), "evenkeel::BatchNorm: channels is 0, expected at least 1");
  EXPECT_EQ(text([] { Layer(3, {.eps = -1}); }),
            "evenkeel::BatchNorm: eps is -1.000000, expected a finite number of at least 0");
  EXPECT_EQ(text([] { Layer(3, {.track_statistics = false, .freeze_statistics = true}); }),
            "evenkeel::BatchNorm: statistics are frozen but not tracked, expected tracked ones to freeze");
  EXPECT_EQ(text([] { Layer(3).set_batches(-2); }),
            "evenkeel::BatchNorm::set_batches: batches is -2, expected at least 0");
}

TYPED_TEST(BatchNormLayer, UntrackedStatisticsCannotBeUsed) {
  BatchNorm<TypeParam> layer(3, {.track_statistics = false});
  RowMatrix<TypeParam> x(2, 3);
  EXPECT_EQ(error_text<std::logic_error>([&] { layer.freeze_statistics(); }),
            "evenkeel::BatchNorm::freeze_statistics: statistics are not tracked, expected running ones");
  EXPECT_EQ(error_text<std::logic_error>([&] { layer.running_statistics(); }),
            "evenkeel::BatchNorm::running_statistics: statistics are not tracked, expected running ones");
  EXPECT_EQ(error_text<std::logic_error>([&] { layer.forward_into(x, x, kernels::Relu()); }),
            "evenkeel::BatchNorm::forward: statistics are not tracked, expected running ones");
}

TYPED_TEST(BatchNormLayer, XHasTheChannels) {
  auto layer = trained_layer<TypeParam>(4);
  typename BatchNorm<TypeParam>::Saved saved;
  const std::string text = "evenkeel::BatchNorm::forward: axis 1 of x has 5 channels, expected 4 (x has shape [3, 5])";
  EXPECT_EQ(error_text<std::invalid_argument>([&] { layer.forward(RowMatrix<TypeParam>(3, 5)); }), text);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { layer.forward(RowMatrix<TypeParam>(3, 5), saved); }), text);
}

TYPED_TEST(BatchNormLayer, OneValuePerChannelIsAnErrorInTrainingOnly) {  // B65
  using S = TypeParam;
  auto layer = trained_layer<S>(3);
  const auto mean = values_of(layer.running_mean());
  typename BatchNorm<S>::Saved saved;
  EXPECT_EQ(error_text<std::invalid_argument>([&] { layer.forward(random_matrix<S>(1, 3, 1), saved); }),
            "evenkeel::BatchNorm::forward: 1 row per channel in training, expected at least 2 (x has shape [1, 3])");
  EXPECT_EQ(values_of(layer.running_mean()), mean);
  EXPECT_EQ(layer.batches(), 0);
  layer.forward(random_matrix<S>(1, 3, 1));
}

TYPED_TEST(BatchNormLayer, ALoadedNegativeVarianceIsAnErrorThatNamesTheChannel) {  // B07
  using S = TypeParam;
  auto layer = trained_layer<S>(3);
  layer.running_var().mutable_values()[2] = S(-1e-6);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { layer.forward(random_matrix<S>(4, 3, 1)); }),
            "evenkeel::BatchNorm::forward: running var of channel 2 is -1e-06, expected at least 0");
}

TYPED_TEST(BatchNormLayer, StatisticsInConstMemoryAreNotTrained) {
  using S = TypeParam;
  const std::vector<S> ones(3, 1);
  auto layer = trained_layer<S>(3);
  const auto mean = values_of(layer.running_mean());
  layer.running_var() = Parameter<S>::map(ones.data(), 3);
  typename BatchNorm<S>::Saved saved;
  const auto x = random_matrix<S>(4, 3, 1);
  EXPECT_EQ(
      error_text<std::logic_error>([&] { layer.forward(x, saved); }),
      "evenkeel::BatchNorm::forward: running var is mapped from const memory, expected writable memory, or frozen "
      "statistics");
  EXPECT_EQ(values_of(layer.running_mean()), mean);
  layer.forward(x);
  layer.freeze_statistics();
  layer.forward(x, saved);
}

TYPED_TEST(BatchNormLayer, TrainingIsNotInPlace) {
  using S = TypeParam;
  auto layer = trained_layer<S>(3);
  RowMatrix<S> x = random_matrix<S>(4, 3, 1);
  const RowMatrix<S> before = x;
  typename BatchNorm<S>::Saved saved;
  EXPECT_EQ(
      error_text<std::invalid_argument>([&] { layer.forward_into(x, x, saved); }),
      "evenkeel::BatchNorm::forward: y overlaps x, which backward reads again, in memory, expected memory of its own");
  EXPECT_EQ(x, before);
}

TYPED_TEST(BatchNormLayer, BackwardFollowsAForward) {
  using S = TypeParam;
  auto layer = trained_layer<S>(3);
  typename BatchNorm<S>::Saved saved;
  EXPECT_EQ(error_text<std::logic_error>([&] { layer.backward(RowMatrix<S>(4, 3), saved); }),
            "evenkeel::BatchNorm::backward: saved is empty, expected the Saved of a forward(x, saved) call");
  const auto x = random_matrix<S>(4, 3, 1);
  layer.forward(x, saved);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { layer.backward(RowMatrix<S>(5, 3), saved); }),
            "evenkeel::BatchNorm::backward: dy has shape [5, 3], expected [4, 3] (the shape of the x that was saved)");
  EXPECT_FALSE(layer.gamma().has_gradient());
}

}  // namespace
}  // namespace evenkeel_test
