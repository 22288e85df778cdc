// BatchNorm with masked positions, against an oracle that never sees them: in every layout, NaN in the padding.
#include <functional>

#include "ops/batch_norm_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;
using evenkeel::MaskView;

using Flags = std::vector<std::uint8_t>;

/// Flags for all positions of x, in row-major order of its axes without the channels'.
template <class S>
std::vector<std::pair<const char*, Flags>> masks_of(const BatchData<S>& d) {
  const std::size_t positions = d.channels().values();
  Flags padded(positions, 1), alternating(positions), random(positions);
  for (std::size_t i = 0; i < positions; ++i) {
    if (i % 4 == 3 || i + 3 > positions) padded[i] = 0;
    alternating[i] = i % 2 ? 0 : 7;
  }
  Random generator(11);
  for (std::uint8_t& flag : random) flag = generator.next() % 3 ? 1 : 0;
  return {{"padded", padded}, {"alternating", alternating}, {"random", random}};
}

/// body(index of x, its channel, its position) for every element, in row-major order.
template <class S, class Body>
void for_each_element(const BatchData<S>& d, const Body& body) {
  const auto [outer, channels, inner] = d.channels();
  std::size_t i = 0;
  for (std::size_t o = 0; o < outer; ++o)
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t k = 0; k < inner; ++k) body(i++, c, o * inner + k);
}

template <class S, class T>
std::vector<T> valid_only(const BatchData<S>& d, const std::vector<T>& values, const Flags& mask) {
  std::vector<T> by_position(values.size()), valid;
  const std::size_t channels = d.channels().channels;
  for_each_element(d, [&](std::size_t i, std::size_t c, std::size_t p) { by_position[p * channels + c] = values[i]; });
  for (std::size_t i = 0; i < by_position.size(); ++i)
    if (mask[i / channels]) valid.push_back(by_position[i]);
  return valid;
}

/// The valid positions alone, as rows [positions, channels].
template <class S>
BatchData<S> valid_only(const BatchData<S>& d, const Flags& mask) {
  BatchData<S> valid = d;
  valid.x = valid_only(d, d.x, mask), valid.dy = valid_only(d, d.dy, mask);
  const auto channels = static_cast<Index>(d.channels().channels);
  valid.shape = Shape{static_cast<Index>(valid.x.size()) / channels, channels};
  valid.channel_axis = 1;
  return valid;
}
template <class S>
BatchData<S> with_nan(BatchData<S> d, const Flags& mask) {
  const BatchData<S> shape = d;
  for_each_element(shape, [&](std::size_t i, std::size_t, std::size_t p) {
    if (!mask[p]) d.x[i] = d.dy[i] = std::numeric_limits<S>::quiet_NaN();
  });
  return d;
}
template <class S>
bool is_where_masked(const BatchData<S>& d, const std::vector<S>& values, const Flags& mask, S expected) {
  bool all = true;
  for_each_element(d,
                   [&](std::size_t i, std::size_t, std::size_t p) { all = all && (mask[p] || values[i] == expected); });
  return all;
}

/// How a forward is called: with the statistics of the batch, or with running ones.
enum class Mode { training, frozen };

template <class S>
BatchResult<S> run_masked(const BatchData<S>& d, const Storage& storage, const MaskView& mask, Mode mode,
                          bool adds = false) {
  const S start = adds ? S(2) : poison<S>;
  const std::size_t channels = d.channels().channels;
  BatchResult<S> r{.dgamma = std::vector<S>(channels, start), .dbeta = std::vector<S>(channels, start)};
  r.running_mean = d.running_mean, r.running_var = d.running_var;
  const Stored<S> x(d.shape, d.channel_axis, storage, d.x), dy(d.shape, d.channel_axis, storage, d.dy);
  const std::vector<S> before(d.x.size(), start);
  Stored<S> y(d.shape, d.channel_axis, storage, before), dx(d.shape, d.channel_axis, storage, before);
  auto options = d.options();
  options.mask = mask;
  std::vector<std::byte> workspace(evenkeel::batch_norm_workspace_bytes<S>(d.shape, d.channel_axis, true));
  const Context context{.workspace = workspace};
  if (mode == Mode::training) {
    evenkeel::batch_norm_into(x.view(), y.view(), r.saved, options, {.mean = r.running_mean, .var = r.running_var},
                              context);
  } else {
    evenkeel::batch_norm_into(x.view(), y.view(), d.running(), r.saved, options, context);
  }
  BatchNormGradients<S> to{.dx = dx.view(), .dgamma = r.dgamma, .dbeta = r.dbeta};
  if (adds) to = {.dx = add_to(dx.view()), .dgamma = add_to(r.dgamma), .dbeta = add_to(r.dbeta)};
  evenkeel::batch_norm_backward(dy.view(), x.view(), r.saved, options, to, context);
  r.y = y.values(), r.dx = dx.values();
  for (const Stored<S>* t : {&x, &dy, static_cast<const Stored<S>*>(&y), static_cast<const Stored<S>*>(&dx)})
    EXPECT_TRUE(t->is_intact_around());
  return r;
}

/// body(data, storage, mask) for shapes of every rank, storages, and masks with at least 2 valid positions.
template <class S, class Body>
void for_each_case(const Body& body) {
  for (const auto& [shape, axis] : batch_shapes()) {
    const auto d = random_batch<S>(shape, axis, 61, 1e3);  // a mean with more digits than one number holds
    for (const Storage& storage : storages()) {
      for (const auto& [name, mask] : masks_of(d)) {
        if (std::count(mask.begin(), mask.end(), 0) + 2 > static_cast<std::ptrdiff_t>(mask.size())) continue;
        SCOPED_TRACE(evenkeel::shape_string(shape) + " channels " + std::to_string(axis) + ", " + storage.name + ", " +
                     name);
        body(d, storage, mask);
      }
    }
  }
}

template <class S>
class BatchNormMask : public testing::Test {};
TYPED_TEST_SUITE(BatchNormMask, BatchScalars, ScalarName);

TYPED_TEST(BatchNormMask, MaskedPositionsAreLeftOutInTraining) {
  using S = TypeParam;
  for_each_case<S>([](const BatchData<S>& d, const Storage& storage, const Flags& mask) {
    auto got = run_masked(with_nan(d, mask), storage, mask, Mode::training);
    EXPECT_TRUE(is_where_masked(d, got.y, mask, S(0)) && is_where_masked(d, got.dx, mask, S(0)));
    got.y = valid_only(d, got.y, mask), got.dx = valid_only(d, got.dx, mask);

    const BatchData<S> valid = valid_only(d, mask);
    const auto s = valid.channels();
    const Reals x = oracle::widen(valid.x), gamma = oracle::widen(d.gamma), beta = oracle::widen(d.beta);
    const Reals x_hat = oracle::batch_norm(x, s, {}, {}, d.eps);
    EXPECT_TRUE(within_ulp(got.y, oracle::batch_norm(x, s, gamma, beta, d.eps), 4, batch_y_scale(valid, x_hat)));
    expect_gradients(got, oracle::batch_norm_backward(oracle::widen(valid.dy), x, s, gamma, d.eps), s.values());

    const auto batch = oracle::channel_statistics(x, s);
    const auto n = static_cast<long double>(s.values());
    Reals mean, var;
    for (std::size_t c = 0; c < s.channels; ++c) {
      mean.push_back(0.9L * d.running_mean[c] + 0.1L * batch.mean[c]);
      var.push_back(0.9L * d.running_var[c] + 0.1L * batch.var[c] * n / (n - 1));
    }
    EXPECT_TRUE(within_ulp(got.running_mean, mean, 4));
    EXPECT_TRUE(within_ulp(got.running_var, var, 4));
  });
}

TYPED_TEST(BatchNormMask, MaskedPositionsAreLeftOutWithFrozenStatistics) {
  using S = TypeParam;
  for_each_case<S>([](BatchData<S> d, const Storage& storage, const Flags& mask) {
    for (S& var : d.running_var) var = std::abs(var);
    auto got = run_masked(with_nan(d, mask), storage, mask, Mode::frozen);
    EXPECT_TRUE(is_where_masked(d, got.y, mask, S(0)) && is_where_masked(d, got.dx, mask, S(0)));
    const Stored<S> x(d.shape, d.channel_axis, storage, with_nan(d, mask).x);
    Stored<S> inference(d.shape, d.channel_axis, storage);
    auto options = d.options();
    options.mask = mask;
    evenkeel::batch_norm_into(x.view(), inference.view(), d.running(), options);
    EXPECT_TRUE(same_bits(inference.values(), got.y));

    const BatchData<S> valid = valid_only(d, mask);
    const auto s = valid.channels();
    const Reals wide_x = oracle::widen(valid.x), gamma = oracle::widen(d.gamma), beta = oracle::widen(d.beta);
    const Reals mean = oracle::widen(d.running_mean), var = oracle::widen(d.running_var);
    const Reals x_hat = oracle::batch_norm_with(wide_x, s, mean, var, {}, {}, d.eps);
    got.y = valid_only(d, got.y, mask), got.dx = valid_only(d, got.dx, mask);
    EXPECT_TRUE(within_ulp(got.y, oracle::batch_norm_with(wide_x, s, mean, var, gamma, beta, d.eps), 4,
                           batch_y_scale(valid, x_hat)));
    expect_gradients(got, oracle::batch_norm_with_backward(oracle::widen(valid.dy), wide_x, s, mean, var, gamma, d.eps),
                     s.values());
  });
}

TYPED_TEST(BatchNormMask, GradientsAreAddedToWherePositionsAreValid) {
  using S = TypeParam;
  for_each_case<S>([](const BatchData<S>& d, const Storage& storage, const Flags& mask) {
    const auto alone = run_masked(with_nan(d, mask), storage, mask, Mode::training);
    const auto added = run_masked(with_nan(d, mask), storage, mask, Mode::training, true);
    EXPECT_TRUE(is_where_masked(d, added.dx, mask, S(2)));
    constexpr int ulps = 2;  // of two roundings
    EXPECT_TRUE(is_added_to(2, alone.dx, added.dx, ulps));
    EXPECT_TRUE(is_added_to(2, alone.dgamma, added.dgamma, ulps));
    EXPECT_TRUE(is_added_to(2, alone.dbeta, added.dbeta, ulps));
  });
}

TYPED_TEST(BatchNormMask, OfAllPositionsIsLikeNone) {
  using S = TypeParam;
  const auto d = random_batch<S>({4, 5, 6}, 1, 63);
  for (const Storage& storage : storages()) {
    const auto got = run_masked(d, storage, Flags(24, 1), Mode::training);
    const auto expected = run_masked(d, storage, {}, Mode::training);
    EXPECT_TRUE(same_bits(got.y, expected.y) && same_bits(got.dx, expected.dx));
    EXPECT_TRUE(same_bits(got.dgamma, expected.dgamma) && same_bits(got.running_var, expected.running_var));
  }
}

TYPED_TEST(BatchNormMask, WithoutAValidPositionItIsAnEmptyBatch) {
  using S = TypeParam;
  const Flags none(24, 0);
  const auto d = with_nan(random_batch<S>({4, 5, 6}, 1, 65), none);
  for (const Storage& storage : storages()) {
    const auto got = run_masked(d, storage, none, Mode::training);
    for (const auto* zeros : {&got.y, &got.dx, &got.dgamma, &got.dbeta, &got.saved.rstd, &got.saved.mean})
      EXPECT_EQ(*zeros, std::vector<S>(zeros->size(), 0));
    EXPECT_EQ(got.running_mean, d.running_mean);
    EXPECT_EQ(got.running_var, d.running_var);
  }
  std::vector<S> y(120), mean(5, 3), var(5, 4);
  std::int64_t batches = 8;
  BatchNormStatistics<S> saved;
  evenkeel::batch_norm_into(TensorView<const S>(d.x.data(), d.shape), TensorView<S>(y.data(), d.shape), saved,
                            {.mask = none}, {.mean = mean, .var = var, .batches = &batches});
  EXPECT_EQ(batches, 8);
}

TYPED_TEST(BatchNormMask, OneValidPositionIsAnErrorInTraining) {
  using S = TypeParam;
  Flags one(24, 0);
  one[13] = 1;
  const auto d = random_batch<S>({4, 5, 6}, 1, 67);
  std::vector<S> y(120, poison<S>), mean(5, 3), var(5, 4);
  std::int64_t batches = 8;
  BatchNormStatistics<S> saved;
  const RunningUpdate<S> update{.mean = mean, .var = var, .batches = &batches};
  const TensorView<const S> x(d.x.data(), d.shape);
  const auto train_on_it = [&](bool allow) {
    evenkeel::batch_norm_into(x, TensorView<S>(y.data(), d.shape), saved, {.allow_one_value = allow, .mask = one},
                              update);
  };
  EXPECT_EQ(error_text<std::invalid_argument>([&] { train_on_it(false); }),
            "evenkeel::batch_norm_into: 1 row per channel in training, expected at least 2 (x has shape [4, 5, 6])");
  EXPECT_TRUE(same_bits(y, std::vector<S>(120, poison<S>)) && saved.is_empty());
  EXPECT_EQ(mean, std::vector<S>(5, 3));
  EXPECT_EQ(batches, 8);
  train_on_it(true);
  EXPECT_EQ(y, std::vector<S>(120, 0));
  EXPECT_EQ(var, std::vector<S>(5, 4));
  EXPECT_EQ(batches, 9);
}

/// Padded sequences x [examples, features, length] with a mask [examples, length] that lies in either order.
TYPED_TEST(BatchNormMask, OfAnyTypeAndOrder) {
  using S = TypeParam;
  const auto d = random_batch<S>({4, 5, 6}, 1, 69);
  const Flags flags = masks_of(d)[0].second;
  Eigen::Array<bool, 4, 6> columns;
  Eigen::Array<float, 4, 6, Eigen::RowMajor> rows;
  for (Index i = 0; i < 24; ++i) {
    columns(i / 6, i % 6) = flags[static_cast<std::size_t>(i)] != 0;
    rows(i / 6, i % 6) = flags[static_cast<std::size_t>(i)];
  }
  for (const Storage& storage : storages()) {
    const auto expected = run_masked(d, storage, flags, Mode::training);
    for (const MaskView& mask : {MaskView(columns), MaskView(rows), MaskView(rows.data(), 24)}) {
      const auto got = run_masked(d, storage, mask, Mode::training);
      EXPECT_TRUE(same_bits(got.y, expected.y) && same_bits(got.dx, expected.dx));
    }
  }
}

TYPED_TEST(BatchNormMask, OfTheWrongShapeIsRefused) {
  using S = TypeParam;
  const auto d = random_batch<S>({4, 5, 6}, 1, 71);
  std::vector<S> memory(120, poison<S>), discarded(120);
  const TensorView<const S> x(d.x.data(), d.shape);
  const TensorView<S> y(memory.data(), d.shape);
  BatchNormStatistics<S> saved, kept;
  evenkeel::batch_norm_into(x, TensorView<S>(discarded.data(), d.shape), kept);
  const Eigen::Array<bool, 6, 4> swapped = Eigen::Array<bool, 6, 4>::Constant(true);
  const Flags short_by_one(23);
  const std::pair<MaskView, std::string> cases[] = {
      {short_by_one, ": mask has 23 elements, expected 24 (one for each position of [4, 6]; x has shape [4, 5, 6])"},
      {swapped, ": mask has shape [6, 4], expected [4, 6] (one element for each position; x has shape [4, 5, 6])"},
      {MaskView(memory.data(), 24), ": y overlaps mask in memory, expected memory of its own"}};
  for (const auto& [mask, text] : cases) {
    const BatchNormOptions<S> o{.mask = mask};
    const std::function<void()> calls[] = {[&] { evenkeel::batch_norm_into(x, y, saved, o); },
                                           [&] { evenkeel::batch_norm_into(x, y, RunningStatistics<S>{}, o); },
                                           [&] { evenkeel::batch_norm_into(x, y, RunningStatistics<S>{}, saved, o); }};
    for (const auto& call : calls)
      EXPECT_EQ(error_text<std::invalid_argument>(call), "evenkeel::batch_norm_into" + text);
    const std::string of_dx = text.substr(0, 3) == ": y" ? ": dx" + text.substr(3) : text;
    EXPECT_EQ(error_text<std::invalid_argument>([&] { evenkeel::batch_norm_backward(x, x, kept, o, {.dx = y}); }),
              "evenkeel::batch_norm_backward" + of_dx);
    EXPECT_TRUE(same_bits(memory, std::vector<S>(120, poison<S>)) && saved.is_empty());
  }
}

}  // namespace
}  // namespace evenkeel_test
