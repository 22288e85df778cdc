// What each channel measures, merged from parts as several processes would, and how it enters running statistics.
#include "evenkeel/ops/channel_moments.hpp"
#include "evenkeel/ops/update_running_statistics.hpp"
#include "ops/batch_norm_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::channel_moments;
using evenkeel::Moments;

template <class S>
class ChannelMoments : public testing::Test {};
TYPED_TEST_SUITE(ChannelMoments, BatchScalars, ScalarName);

TYPED_TEST(ChannelMoments, MatchTheOracleInEveryLayout) {
  using S = TypeParam;
  for (const auto& [shape, axis] : batch_shapes()) {
    for (const double mean : {0.5, 1e4}) {
      const auto d = random_batch<S>(shape, axis, 101, mean);
      const auto expected = oracle::channel_statistics(oracle::widen(d.x), d.channels());
      for (const Storage& storage : storages()) {
        SCOPED_TRACE(evenkeel::shape_string(shape) + " channels " + std::to_string(axis) + ", " + storage.name);
        const Stored<S> x(shape, axis, storage, d.x);
        const auto moments = channel_moments(x.view(), {.channel_axis = axis});
        ASSERT_EQ(moments.size(), expected.mean.size());
        for (std::size_t c = 0; c < moments.size(); ++c) {
          EXPECT_EQ(moments[c].count, static_cast<std::int64_t>(d.channels().values()));
          const double spread = std::sqrt(static_cast<double>(expected.var[c]));  // not the size of the mean
          EXPECT_NEAR(moments[c].mean, static_cast<double>(expected.mean[c]),
                      spread * static_cast<double>(ulp<S>()) + 1e-15 * mean);
          EXPECT_NEAR(moments[c].var_biased(), static_cast<double>(expected.var[c]),
                      4 * static_cast<double>(ulp<S>() * expected.var[c]));
        }
      }
    }
  }
}

/// Two parts of a batch, the second padded, normalize and update what the whole does.
TYPED_TEST(ChannelMoments, OfPartsMakeThoseOfTheWhole) {
  using S = TypeParam;
  const auto d = random_batch<S>({6, 3, 5}, 1, 103);
  const TensorView<const S> whole(d.x.data(), d.shape);
  auto second_values = std::vector<S>(d.x.begin() + 60, d.x.end());  // [2, 3, 5], as [2, 3, 7] with NaN at the end
  std::vector<S> padded;
  for (std::size_t i = 0; i < 30; ++i) {
    padded.push_back(second_values[i]);
    if (i % 5 == 4) padded.insert(padded.end(), 2, std::numeric_limits<S>::quiet_NaN());
  }
  const std::vector<std::uint8_t> mask = {1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0};
  std::vector<std::byte> workspace(evenkeel::batch_norm_workspace_bytes<S>({2, 3, 7}, 1, true));
  auto all = channel_moments(TensorView<const S>(d.x.data(), {4, 3, 5}));
  const auto second =
      channel_moments(TensorView<const S>(padded.data(), {2, 3, 7}), {.mask = mask}, {.workspace = workspace});
  for (std::size_t c = 0; c < 3; ++c) all[c].merge(second[c]);

  std::vector<S> y(90), mean(3, 2), var(3, 5), merged_mean(3, 2), merged_var(3, 5);
  std::int64_t batches = 4, merged_batches = 4;
  BatchNormStatistics<S> saved;
  evenkeel::batch_norm_into(whole, TensorView<S>(y.data(), d.shape), saved, d.options(),
                            {.mean = mean, .var = var, .average = CumulativeAverage(), .batches = &batches});
  evenkeel::update_running_statistics<S>(
      {.mean = merged_mean, .var = merged_var, .average = CumulativeAverage(), .batches = &merged_batches}, all);
  EXPECT_TRUE(within_ulp(merged_mean, oracle::widen(mean), 1));
  EXPECT_TRUE(within_ulp(merged_var, oracle::widen(var), 2));
  EXPECT_EQ(merged_batches, 5);

  std::vector<S> of_mean, of_var, merged_y(90);
  for (const Moments& m : all) of_mean.push_back(S(m.mean)), of_var.push_back(S(m.var_biased()));
  evenkeel::batch_norm_into(whole, TensorView<S>(merged_y.data(), d.shape), RunningStatistics<S>{of_mean, of_var},
                            d.options());
  EXPECT_TRUE(within_ulp(merged_y, oracle::widen(y), 4));
}

TYPED_TEST(ChannelMoments, OfNothingAreEmpty) {
  using S = TypeParam;
  const std::vector<S> x(12, std::numeric_limits<S>::quiet_NaN());
  const std::vector<std::uint8_t> none(4, 0);
  for (const auto& moments : {channel_moments(TensorView<const S>(x.data(), {4, 3}), {.mask = none}),
                              channel_moments(TensorView<const S>(x.data(), {0, 3}))}) {
    ASSERT_EQ(moments.size(), 3u);
    for (const Moments& m : moments) EXPECT_TRUE(m.count == 0 && m.mean == 0 && m.m2 == 0);
    std::vector<S> mean(3, 2), var(3, 5);
    std::int64_t batches = 4;
    evenkeel::update_running_statistics<S>({.mean = mean, .var = var, .batches = &batches}, moments);
    EXPECT_TRUE(mean == std::vector<S>(3, 2) && var == std::vector<S>(3, 5) && batches == 4);
  }
}

TYPED_TEST(ChannelMoments, OneValueUpdatesTheMeanAlone) {
  using S = TypeParam;
  std::vector<S> mean(2, 2), var(2, 5);
  const Moments batch[] = {{1, 4, 0}, {4, 3, 6}};
  evenkeel::update_running_statistics<S>(
      {.mean = mean, .var = var, .average = UpdateRate(0.5), .variance = RunningVariance::biased}, batch);
  EXPECT_EQ(mean, (std::vector<S>{3, S(2.5)}));
  EXPECT_EQ(var, (std::vector<S>{5, S(3.25)}));
  evenkeel::update_running_statistics<S>({.var = var, .average = UpdateRate(1)}, batch);
  EXPECT_EQ(var, (std::vector<S>{5, 2}));
}

TYPED_TEST(ChannelMoments, ErrorsNameWhatIsWrong) {
  using S = TypeParam;
  const std::vector<S> x(12, 1);
  const std::vector<std::uint8_t> mask(3);
  EXPECT_EQ(
      error_text<std::invalid_argument>([&] {
        channel_moments(TensorView<const S>(x.data(), {4, 3}), {.mask = mask});
      }),
      "evenkeel::channel_moments: mask has 3 elements, expected 4 (one for each position of [4]; x has shape [4, 3])");
  EXPECT_EQ(error_text<std::invalid_argument>([&] {
              channel_moments(TensorView<const S>(x.data(), {4, 3}), {.channel_axis = 2});
            }),
            "evenkeel::channel_moments: axis is 2, expected -2 to 1 (x has shape [4, 3])");
  const std::string name = "evenkeel::update_running_statistics: ";
  std::vector<S> mean(2, 2), var(3, 5);
  const Moments batch[2] = {{2, 1, 1}, {2, 1, 1}};
  std::int64_t batches = -1;
  const auto text = [&](const RunningUpdate<S>& update) {
    return error_text<std::invalid_argument>([&] { evenkeel::update_running_statistics(update, std::span(batch)); });
  };
  EXPECT_EQ(text({.mean = mean, .var = var}), name + "running var has 3 elements, expected 2 (those of batch)");
  EXPECT_EQ(text({.mean = mean, .batches = &batches}), name + "batches is -1, expected at least 0");
  EXPECT_EQ(text({.mean = mean, .average = CumulativeAverage()}),
            name + "a cumulative average has no batches, expected a counter of them");
  EXPECT_EQ(text({.mean = mean, .var = mean}),
            name + "running mean overlaps running var in memory, expected memory of its own");
  EXPECT_EQ(mean, std::vector<S>(2, 2));
}

}  // namespace
}  // namespace evenkeel_test
