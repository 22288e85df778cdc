// GroupNorm against the oracle and dual numbers, in every layout of images. InstanceNorm: instance_norm_test.cpp.
#include "evenkeel/core/eigen_tensor.hpp"
#include "ops/group_op_test.hpp"

namespace evenkeel_test {
namespace {

template <class S>
class GroupNormOp : public testing::Test {
 protected:
  /// Ranks 2 to 5, groups of one channel and of all, fewer and more pixels than a vector has.
  static std::vector<ImageData<S>> all_data() {
    return {random_images<S>(3, 6, {}, 2, 601),        random_images<S>(2, 4, {1}, 4, 607),
            random_images<S>(2, 6, {5}, 3, 613, 5),    random_images<S>(3, 4, {3, 5}, 2, 617, 1e3),
            random_images<S>(1, 6, {4, 9}, 1, 619),    random_images<S>(20, 4, {2, 2}, 4, 631, 1),
            random_images<S>(2, 35, {7, 7}, 5, 641),   random_images<S>(2, 4, {2, 3, 4}, 2, 643, -2),
            random_images<S>(2, 3, {1, 1, 1}, 3, 647), random_images<S>(2, 9, {17, 1}, 3, 653)};
  }
};
TYPED_TEST_SUITE(GroupNormOp, Scalars, ScalarName);

// B41, B75, B50: with poison in all gaps, and x unchanged.
TYPED_TEST(GroupNormOp, GivesTheOraclesOutputInEveryLayout) {
  using S = TypeParam;
  for (const auto& data : this->all_data()) {
    for (int presence = 0; presence < 4; ++presence) {
      auto d = data;
      if (!(presence & 1)) d.gamma.clear();
      if (!(presence & 2)) d.beta.clear();
      for (const auto& layout : image_layouts()) {
        SCOPED_TRACE(d.text() + ", " + layout.name);
        ImageMemory<S> x(d, layout, d.x), y(d, layout);
        NormStatistics<S> saved;
        evenkeel::group_norm_into(x.view(), y.view(), saved, options_of(d, x));
        EXPECT_TRUE(within_ulp(y.values(), expected_y(d), 4, y_scale(d)));
        EXPECT_EQ(saved.rstd.size(), static_cast<std::size_t>(d.examples * d.groups));
        EXPECT_TRUE(y.is_intact_around());
        EXPECT_EQ(x.values(), d.x);
        ImageMemory<S> inference_y(d, layout);
        evenkeel::group_norm_into(x.view(), inference_y.view(), options_of(d, x));
        EXPECT_EQ(inference_y.values(), y.values());
        evenkeel::group_norm_into(x.view(), x.view(), options_of(d, x));
        EXPECT_EQ(x.values(), y.values());
      }
    }
  }
}

// B41, B44, B45
TYPED_TEST(GroupNormOp, GradientsMatchDualNumbersInEveryLayout) {
  using S = TypeParam;
  for (const auto& d : {random_images<S>(2, 4, {2, 3}, 2, 701, 0.5), random_images<S>(2, 6, {}, 3, 709),
                        random_images<S>(18, 2, {3}, 1, 719), random_images<S>(2, 4, {2, 1, 3}, 4, 727)}) {
    const Reals dx = dual_gradient(d, 0), dgamma = dual_gradient(d, 1), dbeta = dual_gradient(d, 2);
    const auto scales = gradient_scales(d);
    const long double ulps = 4 * std::sqrt(static_cast<long double>(d.examples * d.pixels()));
    for (const auto& layout : image_layouts()) {
      SCOPED_TRACE(d.text() + ", " + layout.name);
      ImageMemory<S> x(d, layout, d.x), dy(d, layout, d.dy), y(d, layout), dx_memory(d, layout);
      const auto options = options_of(d, x);
      NormStatistics<S> saved;
      evenkeel::group_norm_into(x.view(), y.view(), saved, options);
      std::vector<S> got_dgamma(d.gamma.size(), S(-1e30)), got_dbeta(d.gamma.size(), S(-1e30));
      evenkeel::group_norm_backward(dy.view(), x.view(), saved, options,
                                    {.dx = dx_memory.view(), .dgamma = got_dgamma, .dbeta = got_dbeta});
      EXPECT_TRUE(within_ulp(dx_memory.values(), dx, 4, scales.dx_scale));
      EXPECT_TRUE(within_ulp(got_dgamma, dgamma, ulps, scales.dgamma_scale));
      EXPECT_TRUE(within_ulp(got_dbeta, dbeta, ulps, scales.dbeta_scale));
      EXPECT_TRUE(dx_memory.is_intact_around());
      EXPECT_EQ(x.values(), d.x);
      EXPECT_EQ(dy.values(), d.dy);
      evenkeel::group_norm_backward(dy.view(), x.view(), saved, options, {.dx = dy.view()});
      EXPECT_EQ(dy.values(), dx_memory.values());
    }
  }
}

TYPED_TEST(GroupNormOp, GradientsWithoutGammaAreThoseOfOne) {
  using S = TypeParam;
  auto d = random_images<S>(2, 4, {5}, 2, 733);
  d.gamma.clear(), d.beta.clear();
  for (const auto& layout : image_layouts()) {
    ImageMemory<S> x(d, layout, d.x), dy(d, layout, d.dy), y(d, layout), dx(d, layout);
    NormStatistics<S> saved;
    evenkeel::group_norm_into(x.view(), y.view(), saved, options_of(d, x));
    evenkeel::group_norm_backward(dy.view(), x.view(), saved, options_of(d, x), {.dx = dx.view()});
    EXPECT_TRUE(within_ulp(dx.values(), dual_gradient(d, 0), 4, gradient_scales(d).dx_scale)) << layout.name;
  }
}

// B57
TYPED_TEST(GroupNormOp, EachGradientIsAssignedOrAddedToByChoice) {
  using S = TypeParam;
  const auto d = random_images<S>(20, 4, {3, 2}, 2, 739), before = random_images<S>(20, 4, {3, 2}, 2, 743);
  for (const auto& layout : image_layouts()) {
    SCOPED_TRACE(layout.name);
    ImageMemory<S> x(d, layout, d.x), dy(d, layout, d.dy), y(d, layout), dx(d, layout), added(d, layout, before.x);
    const auto options = options_of(d, x);
    NormStatistics<S> saved;
    evenkeel::group_norm_into(x.view(), y.view(), saved, options);
    std::vector<S> dgamma(4), dbeta(4), added_dgamma = before.gamma, added_dbeta = before.beta;
    evenkeel::group_norm_backward(dy.view(), x.view(), saved, options,
                                  {.dx = dx.view(), .dgamma = dgamma, .dbeta = dbeta});
    evenkeel::group_norm_backward(dy.view(), x.view(), saved, options,
                                  {.dx = evenkeel::add_to(added.view()),
                                   .dgamma = evenkeel::add_to(added_dgamma),
                                   .dbeta = evenkeel::add_to(added_dbeta)});
    const auto expect_sum = [](const std::vector<S>& got, const std::vector<S>& a, const std::vector<S>& b) {
      Reals sum, scale;
      for (std::size_t i = 0; i < got.size(); ++i) {
        sum.push_back(static_cast<long double>(a[i]) + b[i]);
        scale.push_back(std::abs(static_cast<long double>(a[i])) + std::abs(static_cast<long double>(b[i])));
      }
      EXPECT_TRUE(within_ulp(got, sum, 2, scale));
    };
    expect_sum(added.values(), dx.values(), before.x);
    expect_sum(added_dgamma, dgamma, before.gamma);
    expect_sum(added_dbeta, dbeta, before.beta);
    std::vector<S> dgamma_alone(4), dbeta_alone(4);
    evenkeel::group_norm_backward(dy.view(), x.view(), saved, options, {.dgamma = dgamma_alone});
    evenkeel::group_norm_backward(dy.view(), x.view(), saved, options, {.dbeta = dbeta_alone});
    EXPECT_EQ(dgamma_alone, dgamma);
    EXPECT_EQ(dbeta_alone, dbeta);
  }
}

// B75
TYPED_TEST(GroupNormOp, EigenTensorsOfBothOrdersGiveTheSameValues) {
  using S = TypeParam;
  auto d = random_images<S>(2, 4, {3, 5}, 2, 751);
  Eigen::Tensor<S, 4, Eigen::RowMajor> rows(2, 4, 3, 5);
  Eigen::Tensor<S, 4> columns(2, 4, 3, 5), last(2, 3, 5, 4);
  std::copy(d.x.begin(), d.x.end(), rows.data());
  const auto for_each = [](const auto& visit) {
    for (Index n = 0; n < 2; ++n)
      for (Index c = 0; c < 4; ++c)
        for (Index h = 0; h < 3; ++h)
          for (Index w = 0; w < 5; ++w) visit(n, c, h, w);
  };
  for_each([&](Index n, Index c, Index h, Index w) { columns(n, c, h, w) = last(n, h, w, c) = rows(n, c, h, w); });
  const evenkeel::GroupNormOptions<S> options{.gamma = d.gamma, .beta = d.beta, .groups = 2};
  auto last_options = options;
  last_options.channel_axis = -1;
  const Eigen::Tensor<S, 4, Eigen::RowMajor> y = evenkeel::group_norm(rows, options);
  const Eigen::Tensor<S, 4> columns_y = evenkeel::group_norm(columns, options);
  const Eigen::Tensor<S, 4> last_y = evenkeel::group_norm(last, last_options);
  EXPECT_TRUE(within_ulp(std::vector<S>(y.data(), y.data() + y.size()), expected_y(d), 4, y_scale(d)));
  const S tolerance = 40 * std::numeric_limits<S>::epsilon();
  for_each([&](Index n, Index c, Index h, Index w) {
    EXPECT_NEAR(columns_y(n, c, h, w), y(n, c, h, w), tolerance);
    EXPECT_NEAR(last_y(n, h, w, c), y(n, c, h, w), tolerance);
  });
}

TYPED_TEST(GroupNormOp, MatricesAndTheirBlocksAreImagesOfOnePixel) {
  using S = TypeParam;
  using RowMatrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto d = random_images<S>(5, 6, {}, 2, 757, 2);
  const evenkeel::GroupNormOptions<S> options{.gamma = d.gamma, .beta = d.beta, .groups = 2};
  const RowMatrix x = Eigen::Map<const RowMatrix>(d.x.data(), 5, 6);
  const Eigen::MatrixX<S> columns = x;
  const auto expect = [&](const RowMatrix& y) {
    EXPECT_TRUE(within_ulp(std::vector<S>(y.data(), y.data() + y.size()), expected_y(d), 4, y_scale(d)));
  };
  expect(evenkeel::group_norm(x, options));
  expect(evenkeel::group_norm(columns, options));
  RowMatrix wide = RowMatrix::Zero(5, 9), result = RowMatrix::Zero(7, 8);
  wide.middleCols(1, 6) = x;
  evenkeel::group_norm_into(wide.middleCols(1, 6), result.block(1, 2, 5, 6), options);
  expect(result.block(1, 2, 5, 6));
  EXPECT_EQ(result.row(0), (RowMatrix::Zero(1, 8)));
}

// B10
TYPED_TEST(GroupNormOp, OneElementInAGroupGivesBetaAndNoGradient) {
  using S = TypeParam;
  auto d = random_images<S>(3, 5, {1, 1}, 5, 761, 100);
  std::vector<S> y(15), dx(15), dgamma(5), dbeta(5);
  const TensorView<const S> x(d.x.data(), {3, 5, 1, 1}), dy(d.dy.data(), {3, 5, 1, 1});
  const TensorView<S> y_view(y.data(), {3, 5, 1, 1}), dx_view(dx.data(), {3, 5, 1, 1});
  const evenkeel::GroupNormOptions<S> options{.gamma = d.gamma, .beta = d.beta, .groups = 5};
  NormStatistics<S> saved;
  evenkeel::group_norm_into(x, y_view, saved, options);
  evenkeel::group_norm_backward(dy, x, saved, options, {.dx = dx_view, .dgamma = dgamma, .dbeta = dbeta});
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(y[i], d.beta[i % 5]);
  for (const S value : dx) EXPECT_EQ(value, 0);
  EXPECT_EQ(dgamma, std::vector<S>(5));
}

// B76
TYPED_TEST(GroupNormOp, ThreeGroupsOfNineChannelsAreThreeLayerNorms) {
  using S = TypeParam;
  auto d = random_images<S>(1, 9, {7}, 3, 769, 1);
  d.gamma.clear(), d.beta.clear();
  std::vector<S> y(63);
  evenkeel::group_norm_into(TensorView<const S>(d.x.data(), {1, 9, 7}), TensorView<S>(y.data(), {1, 9, 7}),
                            {.groups = 3});
  EXPECT_TRUE(within_ulp(y, oracle::layer_norm(oracle::widen(d.x), 3, 21, {}, {}, 1e-5L), 4));
}

// B66
TYPED_TEST(GroupNormOp, OfNothingIsNothingAndItsParametersHaveZeroGradients) {
  using S = TypeParam;
  for (const auto order : {StorageOrder::row_major, StorageOrder::column_major}) {
    for (const Shape& shape : {Shape{0, 4, 3}, Shape{2, 4, 0}, Shape{0, 4}}) {
      const TensorView<const S> x(nullptr, shape, order);
      const TensorView<S> y(nullptr, shape, order);
      NormStatistics<S> saved;
      evenkeel::group_norm_into(x, y, saved, {.groups = 2});
      std::vector<S> dgamma(4, S(1)), dbeta(4, S(1));
      evenkeel::group_norm_backward(x, x, saved, {.groups = 2}, {.dgamma = dgamma, .dbeta = dbeta});
      EXPECT_EQ(dgamma, std::vector<S>(4));
      EXPECT_EQ(dbeta, std::vector<S>(4));
    }
  }
}

TYPED_TEST(GroupNormOp, TheStatedWorkspaceIsEnoughForEveryLayoutAndLessIsRefused) {
  using S = TypeParam;
  const auto d = random_images<S>(20, 4, {3, 2}, 2, 773);
  for (const auto& layout : image_layouts()) {
    ImageMemory<S> x(d, layout, d.x), dy(d, layout, d.dy), y(d, layout), dx(d, layout);
    const auto options = options_of(d, x);
    std::vector<std::byte> memory(
        evenkeel::group_norm_workspace_bytes<S>(x.view().shape(), x.channel_axis(), x.batch_axis()));
    NormStatistics<S> saved;
    std::vector<S> dgamma(4);
    evenkeel::group_norm_into(x.view(), y.view(), saved, options, {.workspace = memory});
    evenkeel::group_norm_backward(dy.view(), x.view(), saved, options, {.dx = dx.view(), .dgamma = dgamma},
                                  {.workspace = memory});
    EXPECT_TRUE(within_ulp(y.values(), expected_y(d), 4, y_scale(d))) << layout.name;
    std::byte one[1];
    EXPECT_THROW(
        evenkeel::group_norm_backward(dy.view(), x.view(), saved, options, {.dgamma = dgamma}, {.workspace = one}),
        std::invalid_argument);
  }
}

}  // namespace
}  // namespace evenkeel_test
