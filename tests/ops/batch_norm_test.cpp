// BatchNorm against the oracle: training, inference and frozen statistics, over every shape, axis and memory.
#include "ops/batch_norm_test.hpp"

namespace evenkeel_test {
namespace {

using oracle::widen;

template <class S>
class BatchNormOp : public testing::Test {};
TYPED_TEST_SUITE(BatchNormOp, BatchScalars, ScalarName);

template <class S, class Body>
void for_each_batch(const Body& body) {
  for (const auto& [shape, axis] : batch_shapes()) {
    SCOPED_TRACE(evenkeel::shape_string(shape) + ", axis " + std::to_string(axis));
    const auto d = random_batch<S>(shape, axis, 3);
    for (const Storage& storage : storages()) {
      SCOPED_TRACE(storage.name);
      body(d, storage);
    }
  }
}

TYPED_TEST(BatchNormOp, TrainingAgreesWithTheOracleOnEveryAxisAndInAnyMemory) {
  for_each_batch<TypeParam>([](const auto& d, const Storage& storage) {
    const auto s = d.channels();
    const auto r = train(d, storage);
    const Reals x_hat = oracle::batch_norm(widen(d.x), s, {}, {}, d.eps);
    EXPECT_TRUE(within_ulp(r.y, oracle::batch_norm(widen(d.x), s, widen(d.gamma), widen(d.beta), d.eps), 4,
                           batch_y_scale(d, x_hat)));
    expect_gradients(r, oracle::batch_norm_backward(widen(d.dy), widen(d.x), s, widen(d.gamma), d.eps), s.values());
    const auto statistics = oracle::channel_statistics(widen(d.x), s);
    EXPECT_TRUE(within_ulp(r.saved.mean, statistics.mean, 3));
    EXPECT_TRUE(within_ulp(r.saved.var_biased, statistics.var, 6));  // 4.3 measured: chains of 32 additions
    EXPECT_EQ(r.saved.shape, d.shape);
    EXPECT_TRUE(r.saved.is_of_batch);
  });
}

// B61: whatever the memory, the running statistics are those of the oracle to 1 ulp.
TYPED_TEST(BatchNormOp, RunningStatisticsAreWithinOneUlpInAnyMemory) {
  for (const auto variance : {RunningVariance::unbiased, RunningVariance::biased}) {
    for_each_batch<TypeParam>([&](const auto& d, const Storage& storage) {
      const auto s = d.channels();
      const auto r = train(d, storage, {.average = UpdateRate(0.25), .variance = variance});
      const auto n = static_cast<long double>(s.values());
      const auto batch = oracle::channel_statistics(widen(d.x), s);
      Reals mean, var;
      for (std::size_t c = 0; c < s.channels; ++c) {
        const long double unbiased = batch.var[c] * n / (n - 1);
        mean.push_back(0.75L * d.running_mean[c] + 0.25L * batch.mean[c]);
        var.push_back(0.75L * d.running_var[c] +
                      0.25L * (variance == RunningVariance::unbiased ? unbiased : batch.var[c]));
      }
      EXPECT_TRUE(within_ulp(r.running_mean, mean, 1));
      EXPECT_TRUE(within_ulp(r.running_var, var, 1));
    });
  }
}

TYPED_TEST(BatchNormOp, InferenceAgreesWithTheOracle) {
  for_each_batch<TypeParam>([](const auto& d, const Storage& storage) {
    const auto s = d.channels();
    const Stored<TypeParam> x(d.shape, d.channel_axis, storage, d.x);
    Stored<TypeParam> y(d.shape, d.channel_axis, storage);
    evenkeel::batch_norm_into(x.view(), y.view(), d.running(), d.options());
    const Reals mean = widen(d.running_mean), var = widen(d.running_var);
    const Reals x_hat = oracle::batch_norm_with(widen(d.x), s, mean, var, {}, {}, d.eps);
    EXPECT_TRUE(within_ulp(y.values(),
                           oracle::batch_norm_with(widen(d.x), s, mean, var, widen(d.gamma), widen(d.beta), d.eps), 4,
                           batch_y_scale(d, x_hat)));
    EXPECT_TRUE(y.is_intact_around());
    EXPECT_TRUE(same_bits(x.values(), d.x));
  });
}

TYPED_TEST(BatchNormOp, FrozenStatisticsHaveTheGradientsOfConstants) {
  for_each_batch<TypeParam>([](const auto& d, const Storage& storage) {
    using S = TypeParam;
    const auto s = d.channels();
    BatchResult<S> r{.dgamma = std::vector<S>(s.channels, poison<S>), .dbeta = std::vector<S>(s.channels, poison<S>)};
    const Stored<S> x(d.shape, d.channel_axis, storage, d.x), dy(d.shape, d.channel_axis, storage, d.dy);
    Stored<S> y(d.shape, d.channel_axis, storage), plain(d.shape, d.channel_axis, storage);
    Stored<S> dx(d.shape, d.channel_axis, storage);
    const auto before = d;
    evenkeel::batch_norm_into(x.view(), y.view(), d.running(), r.saved, d.options());
    evenkeel::batch_norm_into(x.view(), plain.view(), d.running(), d.options());
    EXPECT_TRUE(same_bits(y.values(), plain.values()));
    evenkeel::batch_norm_backward(dy.view(), x.view(), r.saved, d.options(),
                                  {.dx = dx.view(), .dgamma = r.dgamma, .dbeta = r.dbeta});
    r.dx = dx.values();
    expect_gradients(r,
                     oracle::batch_norm_with_backward(widen(d.dy), widen(d.x), s, widen(d.running_mean),
                                                      widen(d.running_var), widen(d.gamma), d.eps),
                     s.values());
    EXPECT_FALSE(r.saved.is_of_batch);
    EXPECT_TRUE(same_bits(d.running_mean, before.running_mean));
    EXPECT_TRUE(same_bits(d.running_var, before.running_var));
  });
}

// Both ways of the oracle: closed formulas, used everywhere else, against dual numbers.
TYPED_TEST(BatchNormOp, GradientsMatchDualNumbers) {
  const auto d = random_batch<TypeParam>({3, 2, 2, 2}, 1, 17);
  const auto s = d.channels();
  const std::vector<Reals> inputs = {widen(d.x), widen(d.gamma), widen(d.beta)};
  const auto training = [&](const auto& in) { return oracle::batch_norm(in[0], s, in[1], in[2], d.eps); };
  const auto r = train(d, storages()[0]);
  const auto scales = oracle::batch_norm_backward(widen(d.dy), widen(d.x), s, widen(d.gamma), d.eps);
  EXPECT_TRUE(within_ulp(r.dx, gradient(inputs, 0, training, widen(d.dy)), 4, scales.dx_scale));
  EXPECT_TRUE(within_ulp(r.dgamma, gradient(inputs, 1, training, widen(d.dy)), 8, scales.dgamma_scale));
  EXPECT_TRUE(within_ulp(r.dbeta, gradient(inputs, 2, training, widen(d.dy)), 8, scales.dbeta_scale));

  const Reals mean = widen(d.running_mean), var = widen(d.running_var);
  const auto frozen = [&](const auto& in) { return oracle::batch_norm_with(in[0], s, mean, var, in[1], in[2], d.eps); };
  const auto closed = oracle::batch_norm_with_backward(widen(d.dy), widen(d.x), s, mean, var, widen(d.gamma), d.eps);
  EXPECT_TRUE(within(closed.dx, gradient(inputs, 0, frozen, widen(d.dy)), 1e-17L));
  EXPECT_TRUE(within(closed.dgamma, gradient(inputs, 1, frozen, widen(d.dy)), 1e-17L));
  EXPECT_TRUE(within(closed.dbeta, gradient(inputs, 2, frozen, widen(d.dy)), 1e-17L));
}

// B41
TYPED_TEST(BatchNormOp, GammaAndBetaMayBeAbsent) {
  for (int mask = 0; mask < 4; ++mask) {
    auto d = random_batch<TypeParam>({4, 3, 5}, 1, 23);
    if (mask & 1) d.gamma.clear();
    if (mask & 2) d.beta.clear();
    const auto s = d.channels();
    const auto r = train(d, storages()[1]);
    const Reals x_hat = oracle::batch_norm(widen(d.x), s, {}, {}, d.eps);
    EXPECT_TRUE(within_ulp(r.y, oracle::batch_norm(widen(d.x), s, widen(d.gamma), widen(d.beta), d.eps), 4,
                           batch_y_scale(d, x_hat)));
    expect_gradients(r, oracle::batch_norm_backward(widen(d.dy), widen(d.x), s, widen(d.gamma), d.eps), s.values());
    Stored<TypeParam> y(d.shape, 1, storages()[0]);
    const Stored<TypeParam> x(d.shape, 1, storages()[0], d.x);
    evenkeel::batch_norm_into(x.view(), y.view(), d.running(), d.options());
    EXPECT_TRUE(within_ulp(y.values(),
                           oracle::batch_norm_with(widen(d.x), s, widen(d.running_mean), widen(d.running_var),
                                                   widen(d.gamma), widen(d.beta), d.eps),
                           4, batch_y_scale(d, x_hat)));
  }
}

/// The accuracy contract for every family of inputs, one channel of each.
template <class S>
void expect_contract(Index values, bool channels_last, Index inner = 1) {
  const auto families = input_families<S>();
  for (const double eps : {1e-5, 0.0}) {
    BatchData<S> d{.eps = eps};
    Random random(values);
    std::vector<std::vector<S>> channels;
    for (const auto& family : families) {
      if (family.eps != eps) continue;
      channels.emplace_back(static_cast<std::size_t>(values));
      family.fill(channels.back(), random);
    }
    const auto count = static_cast<Index>(channels.size());
    d.shape = channels_last ? Shape{values, count} : Shape{values / inner, count, inner};
    d.channel_axis = channels_last ? -1 : 1;
    d.x.resize(static_cast<std::size_t>(values * count));
    for (std::size_t c = 0; c < channels.size(); ++c) oracle::set_channel(d.x, d.channels(), c, channels[c]);
    d.dy = normal_vector<S>(d.x.size(), 9);
    d.gamma = normal_vector<S>(channels.size(), 10);
    const auto s = d.channels();
    auto plain = d;
    plain.gamma.clear();
    EXPECT_TRUE(within_ulp(train(plain, storages()[0]).y, oracle::batch_norm(widen(d.x), s, {}, {}, eps), 4));
    expect_gradients(train(d, storages()[0]),
                     oracle::batch_norm_backward(widen(d.dy), widen(d.x), s, widen(d.gamma), eps), s.values());
  }
}

TYPED_TEST(BatchNormOp, KeepsTheAccuracyContractInEachChannel) {
  for (const Index values : {64, 768, 4096}) {
    SCOPED_TRACE(values);
    expect_contract<TypeParam>(values, true);
    for (const Index inner : {values, Index{2}, Index{16}, Index{64}}) expect_contract<TypeParam>(values, false, inner);
  }
}

// The mean is taken off before anything is multiplied.
TYPED_TEST(BatchNormOp, InferenceKeepsTheContractUnderALargeMean) {
  for (const double mean : {0.0, 1e4, 1e6}) {
    auto d = random_batch<TypeParam>({50, 9}, 1, 31, mean);
    d.gamma.clear(), d.beta.clear();
    std::fill(d.running_var.begin(), d.running_var.end(), TypeParam(1));
    const Stored<TypeParam> x(d.shape, 1, storages()[0], d.x);
    Stored<TypeParam> y(d.shape, 1, storages()[0]);
    evenkeel::batch_norm_into(x.view(), y.view(), d.running(), d.options());
    const Reals expected =
        oracle::batch_norm_with(widen(d.x), d.channels(), widen(d.running_mean), widen(d.running_var), {}, {}, d.eps);
    EXPECT_TRUE(within_ulp(y.values(), expected, 4));
  }
}

TYPED_TEST(BatchNormOp, GradientsAreAddedOrAssigned) {  // B57
  using S = TypeParam;
  const auto d = random_batch<S>({4, 3, 5}, 1, 41);
  const auto r = train(d, storages()[0]);
  const Stored<S> x(d.shape, 1, storages()[0], d.x), dy(d.shape, 1, storages()[0], d.dy);
  Stored<S> dx(d.shape, 1, storages()[0], d.x);
  auto dgamma = d.beta, dbeta = d.gamma;
  evenkeel::batch_norm_backward(
      dy.view(), x.view(), r.saved, d.options(),
      {.dx = add_to(dx.view()), .dgamma = evenkeel::add_to(dgamma), .dbeta = evenkeel::add_to(dbeta)});
  const auto sum = [](const auto& a, const auto& b) {
    Reals values = widen(a);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += b[i];
    return values;
  };
  EXPECT_TRUE(within_ulp(dx.values(), sum(d.x, r.dx), 1));
  EXPECT_TRUE(within_ulp(dgamma, sum(d.beta, r.dgamma), 1, {8}));
  EXPECT_TRUE(within_ulp(dbeta, sum(d.gamma, r.dbeta), 1, {8}));
}

TYPED_TEST(BatchNormOp, InPlaceGivesTheSameBits) {
  using S = TypeParam;
  for_each_batch<S>([](const auto& d, const Storage& storage) {
    const auto r = train(d, storage);
    const Stored<S> x(d.shape, d.channel_axis, storage, d.x);
    Stored<S> dx(d.shape, d.channel_axis, storage, d.dy), y(d.shape, d.channel_axis, storage, d.x);
    evenkeel::batch_norm_backward(dx.view(), x.view(), r.saved, d.options(), {.dx = dx.view()});
    EXPECT_TRUE(same_bits(dx.values(), r.dx));
    BatchNormStatistics<S> saved;
    evenkeel::batch_norm_into(y.view(), y.view(), saved, d.options());
    EXPECT_TRUE(same_bits(y.values(), r.y));
    Stored<S> z(d.shape, d.channel_axis, storage, d.x), apart(d.shape, d.channel_axis, storage);
    evenkeel::batch_norm_into(x.view(), apart.view(), d.running(), d.options(), kernels::Relu());
    evenkeel::batch_norm_into(z.view(), z.view(), d.running(), d.options(), kernels::Relu());
    EXPECT_TRUE(same_bits(z.values(), apart.values()));
  });
}

// A matrix whose elements have gaps along both axes.
TYPED_TEST(BatchNormOp, GapsBetweenAllElements) {
  using S = TypeParam;
  for (const auto order : {StorageOrder::row_major, StorageOrder::column_major}) {
    for (const int axis : {0, 1}) {
      const auto d = random_batch<S>({6, 9}, axis, 51);
      const Storage gaps{"gaps", order, 2, 1, 3, 1};
      const auto r = train(d, gaps);
      const auto s = d.channels();
      EXPECT_TRUE(within_ulp(r.y, oracle::batch_norm(widen(d.x), s, widen(d.gamma), widen(d.beta), d.eps), 8));
      expect_gradients(r, oracle::batch_norm_backward(widen(d.dy), widen(d.x), s, widen(d.gamma), d.eps), s.values());
    }
  }
}

TYPED_TEST(BatchNormOp, NaNStaysInItsChannel) {
  using S = TypeParam;
  auto d = random_batch<S>({4, 5, 6}, 1, 61);
  for (const Storage& storage : storages()) {
    const auto clean = train(d, storage);
    auto dirty = d;
    dirty.x[(2 * 5 + 3) * 6 + 1] = std::numeric_limits<S>::quiet_NaN();
    const auto r = train(dirty, storage);
    for (std::size_t c = 0; c < 5; ++c) {
      const auto s = d.channels();
      if (c == 3) {
        for (const S value : oracle::channel_of(r.y, s, c)) EXPECT_NE(value, value);
      } else {
        EXPECT_TRUE(same_bits(oracle::channel_of(r.y, s, c), oracle::channel_of(clean.y, s, c)));
        EXPECT_TRUE(same_bits(oracle::channel_of(r.dx, s, c), oracle::channel_of(clean.dx, s, c)));
      }
    }
  }
}

}  // namespace
}  // namespace evenkeel_test
