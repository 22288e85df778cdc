// What LayerNorm and RMSNorm refuse: the whole text of each error, and that nothing has been written when it is thrown.
#include "core/error_text.hpp"
#include "ops/op_test.hpp"

namespace evenkeel_test {
namespace {

constexpr auto row_major = StorageOrder::row_major, column_major = StorageOrder::column_major;

/// Tensors [3, 4] that fit together, for tests to break. Outputs hold poison.
template <class Op>
class NormError : public testing::Test {
 protected:
  using Scalar = typename Op::Scalar;
  using View = TensorView<Scalar>;
  using Options = OpOptions<Scalar>;
  using Gradients = OpGradients<Scalar>;
  using Values = std::vector<Scalar>;

  NormError() {
    Values discarded(12);
    Op::into(x(), view(discarded, {3, 4}), saved_);
    save(saved_);
  }

  /// Views of more memory than [3, 4] needs, so that no test reads or writes where nothing is.
  View x() { return view(x_, {3, 4}); }
  View y() { return view(y_, {3, 4}); }
  View dy() { return view(dy_, {3, 4}); }
  View dx() { return view(dx_, {3, 4}); }
  static View view(Values& memory, const Shape& shape, StorageOrder order = row_major) {
    return {memory.data(), shape, order};
  }

  /// What the forward says of x and y, with and without `saved`, after which y and saved are as before.
  std::string forward_text(const View& x, const View& y, const Options& options = {}) {
    const std::string text = error_text<std::invalid_argument>([&] { Op::into(x, y, options); });
    const std::string training_text = error_text<std::invalid_argument>([&] { Op::into(x, y, saved_, options); });
    EXPECT_EQ(training_text, text);
    expect_nothing_written();
    return without_name(text, "_into: ");
  }
  std::string forward_text(const Options& options) { return forward_text(x(), y(), options); }

  template <class Error = std::invalid_argument>
  std::string backward_text(const View& dy, const View& x, const Options& options, const Gradients& to,
                            const Context& context = {}) {
    const std::string text = error_text<Error>([&] { Op::backward(dy, x, saved_, options, to, context); });
    expect_nothing_written();
    return without_name(text, "_backward: ");
  }
  std::string backward_text(const Gradients& to) { return backward_text(dy(), x(), {}, to); }

  /// Every output wanted, but for what a test sets.
  Gradients all_gradients() { return {.dx = dx(), .dgamma = dgamma_, .dbeta = dbeta_}; }

  void expect_nothing_written() {
    for (const Values* output : {&y_, &dx_, &dgamma_, &dbeta_})
      EXPECT_TRUE(same_bits(*output, Values(output->size(), poison<Scalar>)));
    EXPECT_EQ(x_, Values(32, 1));
    EXPECT_EQ(dy_, Values(32, 2));
    EXPECT_EQ(gamma_, Values(4, 3));
    EXPECT_EQ(beta_, Values(4, 4));
    EXPECT_EQ(saved_.shape, saved_before_.shape);
    EXPECT_EQ(saved_.mean, saved_before_.mean);
    EXPECT_EQ(saved_.mean_rest, saved_before_.mean_rest);
    EXPECT_EQ(saved_.rstd, saved_before_.rstd);
  }
  void save(const NormStatistics<Scalar>& saved) { saved_ = saved_before_ = saved; }

  static std::string without_name(const std::string& text, const char* suffix) {
    const std::string start = std::string("evenkeel::") + Op::name + suffix;
    EXPECT_TRUE(text.starts_with(start)) << text;
    return text.substr(std::min(start.size(), text.size()));
  }

  Values x_ = Values(32, 1), dy_ = Values(32, 2), gamma_ = Values(4, 3), beta_ = Values(4, 4);
  Values y_ = Values(32, poison<Scalar>), dx_ = y_, dgamma_ = Values(4, poison<Scalar>), dbeta_ = dgamma_;
  NormStatistics<Scalar> saved_, saved_before_;
};
TYPED_TEST_SUITE(NormError, Ops, OpName);

#define EXPECT_FORWARD_ERROR(text, ...) EXPECT_EQ(this->forward_text(__VA_ARGS__), text)
#define EXPECT_BACKWARD_ERROR(text, ...) EXPECT_EQ(this->backward_text(__VA_ARGS__), text)

// ---------------------------------------------------------------- parameters

// B58
TYPED_TEST(NormError, GammaAndBetaHaveOneElementForEachFeature) {
  std::vector<typename TypeParam::Scalar> five(5), none;
  const char* context = " (normalized axes of shape [4]; x has shape [3, 4])";
  EXPECT_FORWARD_ERROR(std::string("gamma has 5 elements, expected 4") + context, {.gamma = five});
  EXPECT_FORWARD_ERROR(std::string("gamma has 0 elements, expected 4") + context, {.gamma = none});
  EXPECT_BACKWARD_ERROR(std::string("gamma has 5 elements, expected 4") + context, this->dy(), this->x(),
                        {.gamma = five}, this->all_gradients());
  if (!is_centred<TypeParam>) return;
  EXPECT_FORWARD_ERROR(std::string("beta has 5 elements, expected 4") + context, {.beta = five});
  EXPECT_FORWARD_ERROR(std::string("beta has 5 elements, expected 4") + context, {.gamma = this->gamma_, .beta = five});
}

TYPED_TEST(NormError, ParametersOfAnotherSizeNameTheAxisTheyFit) {
  std::vector<typename TypeParam::Scalar> three(3);
  const std::string text =
      " has 3 elements, expected 4 (normalized axes of shape [4]; x has shape [3, 4], whose axis 0 has 3)";
  EXPECT_FORWARD_ERROR("gamma" + text, {.gamma = three});
  EXPECT_BACKWARD_ERROR("gamma" + text, this->dy(), this->x(), {.gamma = three}, this->all_gradients());
  EXPECT_BACKWARD_ERROR("dgamma" + text, {.dx = this->dx(), .dgamma = three});
  if (!is_centred<TypeParam>) return;
  EXPECT_FORWARD_ERROR("beta" + text, {.beta = three});
  EXPECT_BACKWARD_ERROR("dbeta" + text, {.dx = this->dx(), .dgamma = this->dgamma_, .dbeta = three});
}

TYPED_TEST(NormError, ParametersOfRankTwoHaveTheNormalizedShape) {
  using S = typename TypeParam::Scalar;
  std::vector<S> memory(12);
  const TensorView<S> turned(memory.data(), {4, 3});
  const auto view = [&](auto& values) { return this->view(values, {2, 3, 4}); };
  const Axes axes = Axes::last(2);
  const std::string text =
      " has shape [4, 3], expected [3, 4] (normalized axes of shape [3, 4]; x has shape [2, 3, 4])";
  EXPECT_FORWARD_ERROR("gamma" + text, view(this->x_), view(this->y_), {.gamma = turned, .axis = axes});
  if (is_centred<TypeParam>) {
    EXPECT_FORWARD_ERROR("beta" + text, view(this->x_), view(this->y_), {.beta = turned, .axis = axes});
  }
  TypeParam::into(view(this->x_), TensorView<S>(std::vector<S>(24).data(), {2, 3, 4}), this->saved_, {.axis = axes});
  this->save(this->saved_);
  EXPECT_BACKWARD_ERROR("dgamma" + text, view(this->dy_), view(this->x_), {.axis = axes}, {.dgamma = turned});
}

// ---------------------------------------------------------------- shapes and storage orders

TYPED_TEST(NormError, YHasTheShapeOfX) {
  EXPECT_FORWARD_ERROR("y has shape [4, 3], expected [3, 4] (the shape of x)", this->x(), this->view(this->y_, {4, 3}));
  EXPECT_FORWARD_ERROR("y has shape [12], expected [3, 4] (the shape of x)", this->x(), this->view(this->y_, 12));
  EXPECT_FORWARD_ERROR("y has shape [3, 4, 1], expected [3, 4] (the shape of x)", this->x(),
                       this->view(this->y_, {3, 4, 1}));
}

TYPED_TEST(NormError, YHasTheStorageOrderOfX) {
  EXPECT_FORWARD_ERROR("y is column-major, expected row-major as x is (copy into a tensor of that order first)",
                       this->x(), this->view(this->y_, {3, 4}, column_major));
  EXPECT_FORWARD_ERROR("y is row-major, expected column-major as x is (copy into a tensor of that order first)",
                       this->view(this->x_, {3, 4}, column_major), this->y(), {.axis = features_first});
}

TYPED_TEST(NormError, DyAndDxHaveTheShapeOfX) {
  EXPECT_BACKWARD_ERROR("dy has shape [4, 3], expected [3, 4] (the shape of x)", this->view(this->dy_, {4, 3}),
                        this->x(), {}, this->all_gradients());
  EXPECT_BACKWARD_ERROR("dx has shape [4, 3], expected [3, 4] (the shape of x)",
                        {.dx = this->view(this->dx_, {4, 3}), .dgamma = this->dgamma_});
}

TYPED_TEST(NormError, DyAndDxHaveTheStorageOrderOfX) {
  EXPECT_BACKWARD_ERROR("dy is column-major, expected row-major as x is (copy into a tensor of that order first)",
                        this->view(this->dy_, {3, 4}, column_major), this->x(), {}, this->all_gradients());
  EXPECT_BACKWARD_ERROR("dx is column-major, expected row-major as x is (copy into a tensor of that order first)",
                        {.dx = this->view(this->dx_, {3, 4}, column_major), .dgamma = this->dgamma_});
}

TYPED_TEST(NormError, RowsOfSeveralAxesHaveNoGapsAmongThem) {
  using S = typename TypeParam::Scalar;
  const auto gaps = [](auto& values) { return TensorView<S>(values.data(), {2, 2, 3}, {12, 4, 1}, row_major); };
  const auto text = [](const std::string& name) {
    return name + " has stride 12 along axis 0, expected 8: axes that are taken together have no gaps (" + name +
           " has shape [2, 2, 3])";
  };
  EXPECT_FORWARD_ERROR(text("x"), gaps(this->x_), this->view(this->y_, {2, 2, 3}));
  EXPECT_FORWARD_ERROR(text("y"), this->view(this->x_, {2, 2, 3}), gaps(this->y_));
}

// ---------------------------------------------------------------- eps and axis

TYPED_TEST(NormError, EpsIsFiniteAndNotNegative) {
  EXPECT_FORWARD_ERROR("eps is -0.500000, expected a finite number of at least 0", {.eps = -0.5});
  EXPECT_FORWARD_ERROR("eps is nan, expected a finite number of at least 0",
                       {.eps = std::numeric_limits<double>::quiet_NaN()});
  EXPECT_FORWARD_ERROR("eps is inf, expected a finite number of at least 0",
                       {.eps = std::numeric_limits<double>::infinity()});
}

TYPED_TEST(NormError, AxesAreThoseOfX) {
  EXPECT_FORWARD_ERROR("axis is 2, expected -2 to 1 (x has shape [3, 4])", {.axis = 2});
  EXPECT_FORWARD_ERROR("axis is -3, expected -2 to 1 (x has shape [3, 4])", {.axis = -3});
  EXPECT_FORWARD_ERROR("axis is -3, expected -2 to 1 (x has shape [3, 4])", {.axis = Axes::last(3)});
  EXPECT_BACKWARD_ERROR("axis is 2, expected -2 to 1 (x has shape [3, 4])", this->dy(), this->x(), {.axis = 2},
                        this->all_gradients());
}

TYPED_TEST(NormError, AxesAreAdjacentAndAscending) {
  EXPECT_FORWARD_ERROR(
      "axis 2 follows axis 0, expected axis 1: axes are adjacent and ascending (x has shape [2, 3, 4])",
      this->view(this->x_, {2, 3, 4}), this->view(this->y_, {2, 3, 4}), {.axis = {0, 2}});
  EXPECT_BACKWARD_ERROR("axis 0 follows axis 1, expected axis 2: axes are adjacent and ascending (x has shape [3, 4])",
                        this->dy(), this->x(), {.axis = {1, 0}}, this->all_gradients());
}

// ---------------------------------------------------------------- overlap

TYPED_TEST(NormError, YOverlapsXOnlyInPlace) {
  using S = typename TypeParam::Scalar;
  const std::string text = "y overlaps x in memory, expected the identical view or memory of its own";
  const auto shifted = [&](Index by) { return TensorView<S>(this->x_.data() + by, {3, 4}); };
  for (const Index by : {1, 4, 11}) {
    EXPECT_FORWARD_ERROR(text, this->x(), shifted(by));
    EXPECT_FORWARD_ERROR(text, shifted(by), this->x());
  }
  EXPECT_FORWARD_ERROR(text, this->x(), TensorView<S>(this->x_.data(), 3, 4, 5));
}

TYPED_TEST(NormError, OutputsDoNotOverlapThemselves) {
  using S = typename TypeParam::Scalar;
  const TensorView<S> y(this->y_.data(), {3, 4}, {3, 1}, row_major), dx(this->dx_.data(), {3, 4}, {0, 1}, row_major);
  EXPECT_FORWARD_ERROR("y has stride 3 across elements that span 4, expected a place of its own for each element",
                       this->x(), y);
  EXPECT_BACKWARD_ERROR("dx has stride 0 across elements that span 1, expected a place of its own for each element",
                        {.dx = dx});
}

TYPED_TEST(NormError, YDoesNotOverlapParameters) {
  using S = typename TypeParam::Scalar;
  const evenkeel::ParameterView<S> parameters(this->y_.data() + 8, 4);
  EXPECT_FORWARD_ERROR("y overlaps gamma in memory, expected memory of its own", {.gamma = parameters});
  if (is_centred<TypeParam>) {
    EXPECT_FORWARD_ERROR("y overlaps beta in memory, expected memory of its own", {.beta = parameters});
  }
}

TYPED_TEST(NormError, DxOverlapsDyOnlyInPlace) {
  using S = typename TypeParam::Scalar;
  EXPECT_BACKWARD_ERROR("dx overlaps dy in memory, expected the identical view or memory of its own",
                        {.dx = TensorView<S>(this->dy_.data() + 4, {3, 4})});
}

TYPED_TEST(NormError, DxOverlapsNothingElse) {
  using S = typename TypeParam::Scalar;
  const std::string own = " in memory, expected memory of its own";
  const evenkeel::ParameterGradient<S> in_dx(this->dx_.data() + 8, 4);
  EXPECT_BACKWARD_ERROR("dx overlaps x" + own, {.dx = this->x()});
  EXPECT_BACKWARD_ERROR("dx overlaps x" + own, {.dx = TensorView<S>(this->x_.data() + 4, {3, 4})});
  EXPECT_BACKWARD_ERROR("dx overlaps gamma" + own, this->dy(), this->x(), {.gamma = {this->dx_.data() + 8, 4}},
                        {.dx = this->dx()});
  EXPECT_BACKWARD_ERROR("dx overlaps dgamma" + own, {.dx = this->dx(), .dgamma = in_dx});
  if (is_centred<TypeParam>) {
    EXPECT_BACKWARD_ERROR("dx overlaps dbeta" + own, {.dx = this->dx(), .dbeta = in_dx});
  }
}

TYPED_TEST(NormError, ParameterGradientsOverlapNothing) {
  using S = typename TypeParam::Scalar;
  const std::string own = " in memory, expected memory of its own";
  const auto piece = [](std::vector<S>& values) { return evenkeel::ParameterGradient<S>(values.data(), 4); };
  EXPECT_BACKWARD_ERROR("dgamma overlaps dy" + own, {.dgamma = piece(this->dy_)});
  EXPECT_BACKWARD_ERROR("dgamma overlaps x" + own, {.dgamma = piece(this->x_)});
  EXPECT_BACKWARD_ERROR("dgamma overlaps gamma" + own, this->dy(), this->x(), {.gamma = this->gamma_},
                        {.dgamma = piece(this->gamma_)});
  if (!is_centred<TypeParam>) return;
  EXPECT_BACKWARD_ERROR("dgamma overlaps dbeta" + own, {.dgamma = this->dgamma_, .dbeta = piece(this->dgamma_)});
  EXPECT_BACKWARD_ERROR("dbeta overlaps dy" + own, {.dbeta = piece(this->dy_)});
  EXPECT_BACKWARD_ERROR("dbeta overlaps x" + own, {.dbeta = piece(this->x_)});
  EXPECT_BACKWARD_ERROR("dbeta overlaps gamma" + own, this->dy(), this->x(), {.gamma = this->gamma_},
                        {.dbeta = piece(this->gamma_)});
}

// ---------------------------------------------------------------- saved and workspace

TYPED_TEST(NormError, SavedComesFromAForward) {
  this->save({});
  const std::string text =
      this->template backward_text<std::logic_error>(this->dy(), this->x(), {}, this->all_gradients());
  EXPECT_EQ(text, "saved is empty, expected what a forward of x has saved (x has shape [3, 4])");
}

TYPED_TEST(NormError, SavedIsOfTheShapeOfX) {
  using S = typename TypeParam::Scalar;
  const auto save = [&](const Shape& shape) {
    NormStatistics<S> saved;
    std::vector<S> x(static_cast<std::size_t>(shape.size()), S(1));
    TypeParam::into(this->view(x, shape), this->view(x, shape), saved);
    this->save(saved);
  };
  save({4, 4});
  EXPECT_BACKWARD_ERROR("x has shape [3, 4], expected [4, 4] (the shape of the x that was saved)",
                        this->all_gradients());
  save({3, 5});
  EXPECT_BACKWARD_ERROR("x has shape [3, 4], expected [3, 5] (the shape of the x that was saved)",
                        this->all_gradients());
  save({3, 2, 2});
  EXPECT_BACKWARD_ERROR("x has shape [3, 4], expected [3, 2, 2] (the shape of the x that was saved)",
                        this->all_gradients());
}

TYPED_TEST(NormError, SavedIsOfTheSameNorm) {
  using S = typename TypeParam::Scalar;
  using Other = std::conditional_t<is_centred<TypeParam>, RMSNormOp<S>, LayerNormOp<S>>;
  NormStatistics<S> saved;
  std::vector<S> y(12);
  Other::into(this->x(), this->view(y, {3, 4}), saved);
  this->save(saved);
  EXPECT_BACKWARD_ERROR(is_centred<TypeParam>
                            ? "saved has statistics of 3 rows and 0 means, expected 3 and 3 (saved by another norm, or "
                              "along another axis?)"
                            : "saved has statistics of 3 rows and 3 means, expected 3 and 0 (saved by another norm, or "
                              "along another axis?)",
                        this->all_gradients());
}

TYPED_TEST(NormError, SavedIsOfTheSameAxes) {
  using S = typename TypeParam::Scalar;
  NormStatistics<S> saved;
  std::vector<S> y(12);
  TypeParam::into(this->x(), this->view(y, {3, 4}), saved, {.axis = {0, 1}});
  this->save(saved);
  EXPECT_BACKWARD_ERROR(is_centred<TypeParam>
                            ? "saved has statistics of 1 rows and 1 means, expected 3 and 3 (saved by another norm, or "
                              "along another axis?)"
                            : "saved has statistics of 1 rows and 0 means, expected 3 and 0 (saved by another norm, or "
                              "along another axis?)",
                        this->all_gradients());
}

TYPED_TEST(NormError, SavedIsOfTheSameAxesOfASquareTensor) {
  using S = typename TypeParam::Scalar;
  std::vector<S> discarded(16);
  NormStatistics<S> columns;
  const auto square = [&](std::vector<S>& memory) { return this->view(memory, {4, 4}); };
  TypeParam::into(square(this->x_), square(discarded), columns, {.axis = 0});
  this->save(columns);
  EXPECT_BACKWARD_ERROR(
      "saved is of a forward over 1 axis from 0 on, expected 1 axis from 1 on, as the options have it",
      square(this->dy_), square(this->x_), {}, {.dx = square(this->dx_)});
  EXPECT_BACKWARD_ERROR("saved has statistics of 4 rows and " + std::string(is_centred<TypeParam> ? "4" : "0") +
                            " means, expected 1 and " + (is_centred<TypeParam> ? "1" : "0") +
                            " (saved by another norm, or along another axis?)",
                        square(this->dy_), square(this->x_), {.axis = {-2, -1}}, {.dx = square(this->dx_)});
}

TYPED_TEST(NormError, TheWorkspaceIsLargeEnough) {
  using S = typename TypeParam::Scalar;
  const std::size_t needed =
      evenkeel::Scratch::bytes_of(evenkeel::kernels::row_norm_backward_workspace_bytes<S>(3, 4));  // in this layout
  EXPECT_LE(needed, TypeParam::workspace_bytes({3, 4}));
  std::vector<std::byte> workspace(needed - 1);
  EXPECT_BACKWARD_ERROR(
      "workspace has " + std::to_string(needed - 1) + " bytes, expected at least " + std::to_string(needed), this->dy(),
      this->x(), {}, this->all_gradients(), {.workspace = workspace});
}

}  // namespace
}  // namespace evenkeel_test
