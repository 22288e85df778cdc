// InstanceNorm is GroupNorm with a group for each channel: its options, in every layout of images.
#include "evenkeel/core/eigen_tensor.hpp"
#include "ops/group_op_test.hpp"

namespace evenkeel_test {
namespace {

template <class S>
class InstanceNormOp : public testing::Test {
 protected:
  static evenkeel::InstanceNormOptions<S> instance_options(const ImageData<S>& d, const ImageMemory<S>& x) {
    const auto o = options_of(d, x);
    return {o.gamma, o.beta, o.eps, o.channel_axis, o.batch_axis};
  }
};
TYPED_TEST_SUITE(InstanceNormOp, Scalars, ScalarName);

TYPED_TEST(InstanceNormOp, GivesTheOraclesOutputInEveryLayout) {
  using S = TypeParam;
  for (const auto& d : {random_images<S>(2, 3, {4, 5}, 3, 801, 7), random_images<S>(3, 70, {5}, 70, 809),
                        random_images<S>(2, 3, {17, 3, 2}, 3, 811), random_images<S>(2, 2, {}, 2, 821)}) {
    for (const auto& layout : image_layouts()) {
      SCOPED_TRACE(d.text() + ", " + layout.name);
      ImageMemory<S> x(d, layout, d.x), y(d, layout), inference_y(d, layout);
      const auto options = this->instance_options(d, x);
      NormStatistics<S> saved;
      evenkeel::instance_norm_into(x.view(), y.view(), saved, options);
      EXPECT_TRUE(within_ulp(y.values(), expected_y(d), 4, y_scale(d)));
      EXPECT_EQ(saved.mean.size(), static_cast<std::size_t>(d.examples * d.channels));
      evenkeel::instance_norm_into(x.view(), inference_y.view(), options);
      EXPECT_EQ(inference_y.values(), y.values());
      EXPECT_TRUE(y.is_intact_around());
    }
  }
}

TYPED_TEST(InstanceNormOp, GradientsMatchDualNumbersInEveryLayout) {
  using S = TypeParam;
  const auto d = random_images<S>(2, 3, {2, 5}, 3, 823, 0.5);
  const Reals dx = dual_gradient(d, 0), dgamma = dual_gradient(d, 1), dbeta = dual_gradient(d, 2);
  const auto scales = gradient_scales(d);
  for (const auto& layout : image_layouts()) {
    SCOPED_TRACE(layout.name);
    ImageMemory<S> x(d, layout, d.x), dy(d, layout, d.dy), y(d, layout), got_dx(d, layout);
    const auto options = this->instance_options(d, x);
    NormStatistics<S> saved;
    std::vector<S> got_dgamma(3), got_dbeta(3);
    evenkeel::instance_norm_into(x.view(), y.view(), saved, options);
    evenkeel::instance_norm_backward(dy.view(), x.view(), saved, options,
                                     {.dx = got_dx.view(), .dgamma = got_dgamma, .dbeta = got_dbeta});
    const long double ulps = 4 * std::sqrt(20.0L);
    EXPECT_TRUE(within_ulp(got_dx.values(), dx, 4, scales.dx_scale));
    EXPECT_TRUE(within_ulp(got_dgamma, dgamma, ulps, scales.dgamma_scale));
    EXPECT_TRUE(within_ulp(got_dbeta, dbeta, ulps, scales.dbeta_scale));
  }
}

TYPED_TEST(InstanceNormOp, TheReturnedTensorIsThatOfGroupNormWithAGroupForEachChannel) {
  using S = TypeParam;
  Eigen::Tensor<S, 3, Eigen::RowMajor> x(2, 3, 11);
  const auto values = normal_vector<S>(66, 827);
  std::copy(values.begin(), values.end(), x.data());
  NormStatistics<S> saved;
  const Eigen::Tensor<S, 3, Eigen::RowMajor> y = evenkeel::instance_norm(x),
                                             trained = evenkeel::instance_norm(x, saved);
  const Eigen::Tensor<S, 3, Eigen::RowMajor> groups = evenkeel::group_norm(x, {.groups = 3});
  for (Index i = 0; i < 66; ++i) {
    EXPECT_EQ(y.data()[i], groups.data()[i]);
    EXPECT_EQ(trained.data()[i], groups.data()[i]);
  }
  EXPECT_EQ(evenkeel::instance_norm_workspace_bytes<S>({2, 3, 11}),
            evenkeel::group_norm_workspace_bytes<S>({2, 3, 11}));
}

}  // namespace
}  // namespace evenkeel_test
