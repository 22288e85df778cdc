// What batch_norm, channel_affine and folding refuse: the whole text, and that nothing is written when it is thrown.
#include "evenkeel/ops/fold_batch_norm.hpp"
#include "ops/batch_norm_test.hpp"

namespace evenkeel_test {
namespace {

/// Tensors [3, 4, 2] that fit one another. Outputs hold poison.
template <class S>
class BatchNormError : public testing::Test {
 protected:
  BatchNormError() { evenkeel::batch_norm_into(x(), TensorView<S>(dx_.data(), shape_), saved_); }

  TensorView<const S> x() const { return {x_.data(), shape_}; }
  TensorView<S> y() { return {y_.data(), shape_}; }

  static std::string without_name(const std::string& text, const std::string& name) {
    const std::string start = "evenkeel::" + name + ": ";
    EXPECT_TRUE(text.starts_with(start)) << text;
    return text.substr(std::min(start.size(), text.size()));
  }

  /// What training says; inference and frozen statistics say the same.
  std::string forward_text(const TensorView<const S>& x, const TensorView<S>& y, const BatchNormOptions<S>& o = {}) {
    const auto text = training_text(x, y, o);
    BatchNormStatistics<S> saved;
    const RunningStatistics<S> running;
    EXPECT_EQ(error_text<std::invalid_argument>([&] { evenkeel::batch_norm_into(x, y, running, o); }),
              "evenkeel::batch_norm_into: " + text);
    EXPECT_EQ(error_text<std::invalid_argument>([&] { evenkeel::batch_norm_into(x, y, running, saved, o); }),
              "evenkeel::batch_norm_into: " + text);
    return text;
  }
  std::string training_text(const TensorView<const S>& x, const TensorView<S>& y, const BatchNormOptions<S>& o = {},
                            const RunningUpdate<S>& update = {}) {
    BatchNormStatistics<S> saved;
    const auto text = error_text<std::invalid_argument>([&] { evenkeel::batch_norm_into(x, y, saved, o, update); });
    EXPECT_TRUE(saved.is_empty());
    expect_nothing_written();
    return without_name(text, "batch_norm_into");
  }
  std::string inference_text(const RunningStatistics<S>& running) {
    const auto text = error_text<std::invalid_argument>([&] { evenkeel::batch_norm_into(x(), y(), running); });
    expect_nothing_written();
    return without_name(text, "batch_norm_into");
  }
  template <class Error = std::invalid_argument>
  std::string backward_text(const TensorView<const S>& dy, const BatchNormGradients<S>& to,
                            const BatchNormOptions<S>& o = {}, const Context& context = {}) {
    const auto text = error_text<Error>([&] { evenkeel::batch_norm_backward(dy, x(), saved_, o, to, context); });
    expect_nothing_written();
    return without_name(text, "batch_norm_backward");
  }
  void expect_nothing_written() {
    EXPECT_TRUE(same_bits(y_, std::vector<S>(24, poison<S>)));
    EXPECT_TRUE(same_bits(dgamma_, std::vector<S>(4, poison<S>)));
    EXPECT_TRUE(same_bits(x_, x_before_));
  }

  Shape shape_{3, 4, 2};
  std::vector<S> x_ = normal_vector<S>(24, 1), dy_ = normal_vector<S>(24, 2), gamma_ = normal_vector<S>(4, 3);
  const std::vector<S> x_before_ = x_;
  std::vector<S> y_ = std::vector<S>(24, poison<S>), dx_ = y_, dgamma_ = std::vector<S>(4, poison<S>), dbeta_ = dgamma_;
  BatchNormStatistics<S> saved_;
};
TYPED_TEST_SUITE(BatchNormError, BatchScalars, ScalarName);

TYPED_TEST(BatchNormError, YFitsX) {
  using S = TypeParam;
  EXPECT_EQ(this->forward_text(this->x(), {this->y_.data(), {3, 4}}),
            "y has shape [3, 4], expected [3, 4, 2] (the shape of x)");
  EXPECT_EQ(this->forward_text(this->x(), TensorView<S>(this->y_.data(), {3, 4, 2}, StorageOrder::column_major)),
            "y is column-major, expected row-major as x is (copy into a tensor of that order first)");
}

TYPED_TEST(BatchNormError, ParametersHaveANumberForEachChannel) {  // B58
  const std::vector<TypeParam> two(2), five(5);
  EXPECT_EQ(this->forward_text(this->x(), this->y(), {.gamma = two}),
            "gamma has 2 elements, expected 4 (channels are axis 1; x has shape [3, 4, 2], whose axis 2 has 2)");
  EXPECT_EQ(this->forward_text(this->x(), this->y(), {.beta = five}),
            "beta has 5 elements, expected 4 (channels are axis 1; x has shape [3, 4, 2])");
}

TYPED_TEST(BatchNormError, RunningStatisticsHaveANumberForEachChannel) {
  std::vector<TypeParam> four(4, 1), five(5, 1), three(3, 1);
  const std::string mean = "running mean has 5 elements, expected 4 (channels are axis 1; x has shape [3, 4, 2])";
  const std::string var =
      "running var has 3 elements, expected 4 (channels are axis 1; x has shape [3, 4, 2], whose axis 0 has 3)";
  EXPECT_EQ(this->training_text(this->x(), this->y(), {}, {.mean = five, .var = four}), mean);
  EXPECT_EQ(this->training_text(this->x(), this->y(), {}, {.mean = four, .var = three}), var);
  EXPECT_EQ(this->inference_text({five, four}), mean);
  EXPECT_EQ(this->inference_text({four, three}), var);
}

TYPED_TEST(BatchNormError, TheChannelAxisIsOneOfX) {
  EXPECT_EQ(this->forward_text(this->x(), this->y(), {.channel_axis = 3}),
            "axis is 3, expected -3 to 2 (x has shape [3, 4, 2])");
  EXPECT_EQ(this->forward_text({this->x_.data(), Shape(24)}, {this->y_.data(), Shape(24)}),
            "axis is 1, expected -1 to 0 (x has shape [24])");
  EXPECT_EQ(error_text<std::invalid_argument>([] {
              evenkeel::batch_norm_workspace_bytes<TypeParam>({3, 4}, 2);
            }),
            "evenkeel::batch_norm_workspace_bytes: axis is 2, expected -2 to 1 (x has shape [3, 4])");
}

TYPED_TEST(BatchNormError, EpsIsFiniteAndNotNegative) {
  EXPECT_EQ(this->forward_text(this->x(), this->y(), {.eps = -1}),
            "eps is -1.000000, expected a finite number of at least 0");
  EXPECT_EQ(this->forward_text(this->x(), this->y(), {.eps = std::numeric_limits<double>::quiet_NaN()}),
            "eps is nan, expected a finite number of at least 0");
}

TYPED_TEST(BatchNormError, ElementsAlongTheFastestAxesAreContiguous) {
  using S = TypeParam;
  std::vector<S> memory(100);
  const std::array<Index, evenkeel::max_rank> strides{24, 6, 2};
  EXPECT_EQ(this->forward_text({memory.data(), this->shape_, strides, StorageOrder::row_major}, this->y()),
            "x has stride 2 along its fastest axis, expected contiguous elements (x has shape [3, 4, 2], row-major)");
  const std::array<Index, evenkeel::max_rank> gaps{50, 12, 5, 1};
  EXPECT_EQ(
      this->forward_text({memory.data(), {2, 2, 2, 2}, gaps, StorageOrder::row_major}, {this->y_.data(), {2, 2, 2, 2}}),
      "x has stride 5 along axis 2, expected 2: axes that are taken together have no gaps (x has shape "
      "[2, 2, 2, 2])");
}

TYPED_TEST(BatchNormError, TheRatesAreShares) {
  EXPECT_EQ(error_text<std::invalid_argument>([] { UpdateRate(1.5); }),
            "evenkeel::UpdateRate: rate is 1.500000, expected a number from 0 to 1");
  EXPECT_EQ(error_text<std::invalid_argument>([] { Decay(-0.1); }),
            "evenkeel::Decay: decay is -0.100000, expected a number from 0 to 1");
  EXPECT_EQ(error_text<std::invalid_argument>([] { Decay{std::numeric_limits<double>::quiet_NaN()}; }),
            "evenkeel::Decay: decay is nan, expected a number from 0 to 1");
}

TYPED_TEST(BatchNormError, ACumulativeAverageCounts) {
  std::vector<TypeParam> mean(4);
  std::int64_t batches = -1;
  EXPECT_EQ(this->training_text(this->x(), this->y(), {}, {.mean = mean, .average = CumulativeAverage()}),
            "a cumulative average has no batches, expected a counter of them");
  EXPECT_EQ(this->training_text(this->x(), this->y(), {}, {.mean = mean, .batches = &batches}),
            "batches is -1, expected at least 0");
  EXPECT_EQ(mean, std::vector<TypeParam>(4));
}

TYPED_TEST(BatchNormError, OutputsOverlapNothing) {
  using S = TypeParam;
  const evenkeel::ParameterView<S> in_y(this->y_.data() + 2, 4);
  const TensorView<S> shifted(this->x_.data() + 1, {3, 4, 1}), start(this->x_.data(), {3, 4, 1});
  EXPECT_EQ(this->forward_text(start, shifted),
            "y overlaps x in memory, expected the identical view or memory of its own");
  EXPECT_EQ(this->forward_text(this->x(), this->y(), {.gamma = in_y}),
            "y overlaps gamma in memory, expected memory of its own");
  EXPECT_EQ(this->forward_text(this->x(), this->y(), {.beta = in_y}),
            "y overlaps beta in memory, expected memory of its own");
}

TYPED_TEST(BatchNormError, RunningStatisticsOverlapNothing) {
  using S = TypeParam;
  using View = evenkeel::ChannelView<S>;
  std::vector<S> memory(5, 1), other(4, 1);
  const auto text = [&](const RunningUpdate<S>& update, const BatchNormOptions<S>& o = {}) {
    return this->training_text(this->x(), this->y(), o, update);
  };
  const std::string own = " in memory, expected memory of its own";
  EXPECT_EQ(text({.mean = View(memory.data(), 4), .var = View(memory.data() + 1, 4)}),
            "running mean overlaps running var" + own);
  EXPECT_EQ(text({.mean = View(this->x_.data(), 4)}), "running mean overlaps x" + own);
  EXPECT_EQ(text({.var = View(this->y_.data(), 4)}), "running var overlaps y" + own);
  EXPECT_EQ(text({.var = other}, {.gamma = other}), "running var overlaps gamma" + own);
  EXPECT_EQ(text({.mean = other}, {.beta = other}), "running mean overlaps beta" + own);
  EXPECT_EQ(this->inference_text({View(this->y_.data(), 4).view(), other}), "y overlaps running mean" + own);
  EXPECT_EQ(this->inference_text({other, View(this->y_.data(), 4).view()}), "y overlaps running var" + own);
}

TYPED_TEST(BatchNormError, DyAndDxFitX) {
  using S = TypeParam;
  EXPECT_EQ(this->backward_text({this->dy_.data(), {4, 3, 2}}, {.dx = this->y()}),
            "dy has shape [4, 3, 2], expected [3, 4, 2] (the shape of x)");
  EXPECT_EQ(this->backward_text({this->dy_.data(), {3, 4, 2}, StorageOrder::column_major}, {.dx = this->y()}),
            "dy is column-major, expected row-major as x is (copy into a tensor of that order first)");
  EXPECT_EQ(this->backward_text({this->dy_.data(), {3, 4, 2}}, {.dx = TensorView<S>(this->y_.data(), {3, 4})}),
            "dx has shape [3, 4], expected [3, 4, 2] (the shape of x)");
  EXPECT_EQ(this->backward_text({this->dy_.data(), {3, 4, 2}},
                                {.dx = TensorView<S>(this->y_.data(), {3, 4, 2}, StorageOrder::column_major)}),
            "dx is column-major, expected row-major as x is (copy into a tensor of that order first)");
}

TYPED_TEST(BatchNormError, GradientsHaveANumberForEachChannel) {
  std::vector<TypeParam> five(5);
  const TensorView<const TypeParam> dy(this->dy_.data(), this->shape_);
  EXPECT_EQ(this->backward_text(dy, {.dx = this->y(), .dgamma = five}),
            "dgamma has 5 elements, expected 4 (channels are axis 1; x has shape [3, 4, 2])");
  EXPECT_EQ(this->backward_text(dy, {.dx = this->y(), .dbeta = five}),
            "dbeta has 5 elements, expected 4 (channels are axis 1; x has shape [3, 4, 2])");
  EXPECT_EQ(this->backward_text(dy, {.dx = this->y()}, {.gamma = five}),
            "gamma has 5 elements, expected 4 (channels are axis 1; x has shape [3, 4, 2])");
}

TYPED_TEST(BatchNormError, GradientsOverlapNothing) {
  using S = TypeParam;
  using Gradient = evenkeel::ParameterGradient<S>;
  const TensorView<const S> dy(this->dy_.data(), this->shape_);
  const std::string own = " in memory, expected memory of its own";
  EXPECT_EQ(this->backward_text(dy, {.dx = TensorView<S>(this->x_.data(), this->shape_)}), "dx overlaps x" + own);
  EXPECT_EQ(this->backward_text(dy, {.dx = this->y(), .dgamma = Gradient(this->y_.data(), 4)}),
            "dx overlaps dgamma" + own);
  EXPECT_EQ(this->backward_text(dy, {.dx = this->y(), .dbeta = Gradient(this->y_.data(), 4)}),
            "dx overlaps dbeta" + own);
  EXPECT_EQ(this->backward_text(dy, {.dx = this->y()}, {.gamma = {this->y_.data(), 4}}), "dx overlaps gamma" + own);
  EXPECT_EQ(this->backward_text(dy, {.dgamma = this->dgamma_, .dbeta = this->dgamma_}), "dgamma overlaps dbeta" + own);
  EXPECT_EQ(this->backward_text(dy, {.dgamma = Gradient(this->dy_.data(), 4)}), "dgamma overlaps dy" + own);
  EXPECT_EQ(this->backward_text(dy, {.dbeta = Gradient(this->x_.data(), 4)}), "dbeta overlaps x" + own);
  EXPECT_EQ(this->backward_text(dy, {.dbeta = this->gamma_}, {.gamma = this->gamma_}), "dbeta overlaps gamma" + own);
}

TYPED_TEST(BatchNormError, SavedComesFromAForwardOfX) {
  using S = TypeParam;
  const TensorView<const S> dy(this->dy_.data(), this->shape_);
  EXPECT_EQ(this->backward_text(dy, {.dx = this->y()}, {.channel_axis = -1}),
            "channel axis is 2, expected 1, that of the forward (x has shape [3, 4, 2])");
  this->saved_.shape = {3, 4, 3};
  EXPECT_EQ(this->backward_text(dy, {.dx = this->y()}),
            "x has shape [3, 4, 2], expected [3, 4, 3] (the shape of the x that was saved)");
  this->saved_ = {};
  EXPECT_EQ(this->template backward_text<std::logic_error>(dy, {.dx = this->y()}),
            "saved is empty, expected what a forward of x has saved (x has shape [3, 4, 2])");
}

TYPED_TEST(BatchNormError, TheWorkspaceIsLargeEnough) {
  using S = TypeParam;
  const TensorView<const S> dy(this->dy_.data(), this->shape_);
  const std::size_t needed = evenkeel::batch_norm_workspace_bytes<S>(this->shape_);
  std::vector<std::byte> workspace(needed - 1);
  EXPECT_EQ(this->backward_text(dy, {.dx = this->y(), .dgamma = this->dgamma_}, {}, {.workspace = workspace}),
            "workspace has " + std::to_string(needed - 1) + " bytes, expected at least " + std::to_string(needed));
}

// ---------------------------------------------------------------- affine maps and folding

TYPED_TEST(BatchNormError, CoefficientsOfAnAffineMapFitTheChannels) {
  using S = TypeParam;
  const auto text = [&](const evenkeel::ChannelAffineOptions<S>& o) {
    const auto all = error_text<std::invalid_argument>([&] { evenkeel::channel_affine_into(this->x(), this->y(), o); });
    this->expect_nothing_written();
    return this->without_name(all, "channel_affine_into");
  };
  const std::vector<S> three(3);
  const std::string rest =
      " has 3 elements, expected 4 (channels are axis 1; x has shape [3, 4, 2], whose axis 0 has 3)";
  EXPECT_EQ(text({.center = three}), "center" + rest);
  EXPECT_EQ(text({.scale = three}), "scale" + rest);
  EXPECT_EQ(text({.shift = three}), "shift" + rest);
  EXPECT_EQ(text({.scale = {this->y_.data(), 4}}), "y overlaps scale in memory, expected memory of its own");
}

TYPED_TEST(BatchNormError, FoldedNumbersHaveOneSize) {
  using S = TypeParam;
  std::vector<S> scale(3), shift(3), four(4, 1), weight(12, 1), bias(4);
  const RunningStatistics<S> running{four, four};
  const TensorView<S> w(weight.data(), {4, 3});
  const auto text = [](const auto& call) { return error_text<std::invalid_argument>(call); };
  EXPECT_EQ(text([&] { evenkeel::fold_into_scale_shift<S>(running, {}, scale, four); }),
            "evenkeel::fold_into_scale_shift: shift has 4 elements, expected 3 (the size of scale)");
  EXPECT_EQ(text([&] { evenkeel::fold_into_scale_shift<S>(running, {}, scale, shift); }),
            "evenkeel::fold_into_scale_shift: running mean has 4 elements, expected 3 (the size of scale)");
  EXPECT_EQ(text([&] { evenkeel::fold_into_scale_shift<S>({}, {.eps = -1}, scale, shift); }),
            "evenkeel::fold_into_scale_shift: eps is -1.000000, expected a finite number of at least 0");
  EXPECT_EQ(text([&] { evenkeel::fold_into_scale_shift<S>({}, {}, scale, scale); }),
            "evenkeel::fold_into_scale_shift: shift overlaps scale in memory, expected memory of its own");
  EXPECT_EQ(text([&] { evenkeel::fold_into_preceding_linear(running, {}, w, shift); }),
            "evenkeel::fold_into_preceding_linear: bias has 3 elements, expected 4 (the outputs of weight; zeros for a "
            "layer without a bias)");
  EXPECT_EQ(text([&] { evenkeel::fold_into_preceding_linear(running, {.gamma = scale}, w, bias); }),
            "evenkeel::fold_into_preceding_linear: gamma has 3 elements, expected 4 (the outputs of weight)");
  EXPECT_EQ(text([&] { evenkeel::fold_into_following_linear(running, {}, w, bias); }),
            "evenkeel::fold_into_following_linear: running mean has 4 elements, expected 3 (the inputs of weight)");
  EXPECT_EQ(text([&] {
              evenkeel::fold_into_following_linear(running, {}, TensorView<S>(weight.data(), {4, 3, 1}), bias);
            }),
            "evenkeel::fold_into_following_linear: weight has 3 axes, expected 2 (weight has shape [4, 3, 1])");
  EXPECT_EQ(weight, std::vector<S>(12, 1));
  EXPECT_EQ(bias, std::vector<S>(4));
}

}  // namespace
}  // namespace evenkeel_test
