// GroupNorm and InstanceNorm of numbers of 16 bits: what is tested for each type, with parameters of its type and of
// float.
#pragma once

#include "core/error_text.hpp"
#include "ops/channel_norm_16_bit.hpp"
#include "ops/group_op_test.hpp"

namespace evenkeel_test {

using evenkeel::add_to;

/// The same data in float: exactly.
template <class S, class P>
ImageData<float> in_float(const ImageData<S, P>& d) {
  return {d.examples,      d.channels,         d.pixel_shape,     d.groups, as_floats(d.x),
          as_floats(d.dy), as_floats(d.gamma), as_floats(d.beta), d.eps};
}

template <class S, class P>
struct GroupResult {
  std::vector<S> y = {}, dx = {};
  std::vector<P> dgamma = {}, dbeta = {};
  NormStatistics<S> saved = {};
};

/// Forward and backward in some layout, within the workspace that is asked for.
template <class S, class P>
GroupResult<S, P> run_groups(const ImageData<S, P>& d, const ImageLayout& layout,
                             const std::vector<std::uint8_t>& mask = {}, bool adds = false) {
  ImageMemory<S> x(d, layout, d.x), dy(d, layout, d.dy), y(d, layout);
  ImageMemory<S> dx(d, layout, std::vector<S>(d.x.size(), S(2)));
  GroupResult<S, P> r{.dgamma = std::vector<P>(static_cast<std::size_t>(d.channels), P(2)),
                      .dbeta = std::vector<P>(static_cast<std::size_t>(d.channels), P(2))};
  auto options = options_of(d, x);
  if (!mask.empty()) options.mask = mask;
  std::vector<std::byte> workspace(
      evenkeel::group_norm_workspace_bytes<S>(x.view().shape(), x.channel_axis(), x.batch_axis()));
  const evenkeel::Context context{.workspace = workspace};
  evenkeel::group_norm_into(x.view(), y.view(), r.saved, options, context);
  evenkeel::GroupNormGradients<S> to{.dx = dx.view(), .dgamma = r.dgamma, .dbeta = r.dbeta};
  if (adds) to = {.dx = add_to(dx.view()), .dgamma = add_to(r.dgamma), .dbeta = add_to(r.dbeta)};
  evenkeel::group_norm_backward(dy.view(), x.view(), r.saved, options, to, context);
  EXPECT_TRUE(y.is_intact_around() && dx.is_intact_around());
  r.y = y.values(), r.dx = dx.values();
  return r;
}

template <class C>
class GroupNorm16 : public testing::Test {};
TYPED_TEST_SUITE_P(GroupNorm16);

TYPED_TEST_P(GroupNorm16, OutputIsRoundedOnceInEveryLayout) {
  using S = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  for (const auto& data : {random_images<S, P>(3, 6, {}, 2, 601), random_images<S, P>(2, 6, {5}, 3, 613, 5),
                           random_images<S, P>(3, 4, {3, 5}, 2, 617, 1e3), random_images<S, P>(20, 4, {2, 2}, 4, 631),
                           random_images<S, P>(2, 35, {7, 7}, 5, 641), random_images<S, P>(2, 9, {17, 1}, 1, 653)}) {
    for (int presence = 0; presence < 4; ++presence) {
      auto d = data;
      if (!(presence & 1)) d.gamma.clear();
      if (!(presence & 2)) d.beta.clear();
      for (const auto& layout : image_layouts()) {
        SCOPED_TRACE(d.text() + ", " + layout.name);
        ImageMemory<S> x(d, layout, d.x), y(d, layout);
        evenkeel::group_norm_into(x.view(), y.view(), options_of(d, x));
        EXPECT_TRUE(rounded_once(y.values(), expected_y(in_float(d)), 4, y_scale(in_float(d))));
      }
    }
  }
}

TYPED_TEST_P(GroupNorm16, GradientsAreRoundedOnceInEveryLayout) {
  using S = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  for (const auto& d : {random_images<S, P>(2, 4, {2, 3}, 2, 701, 0.5), random_images<S, P>(2, 6, {}, 3, 709),
                        random_images<S, P>(18, 2, {3}, 1, 719), random_images<S, P>(2, 4, {2, 1, 3}, 4, 727)}) {
    const auto wide = in_float(d);
    const Reals dx = dual_gradient(wide, 0), dgamma = dual_gradient(wide, 1), dbeta = dual_gradient(wide, 2);
    const auto scales = gradient_scales(wide);
    const long double ulps = 4 * std::sqrt(static_cast<long double>(d.examples * d.pixels()));
    for (const auto& layout : image_layouts()) {
      SCOPED_TRACE(d.text() + ", " + layout.name);
      const auto r = run_groups(d, layout);
      EXPECT_TRUE(rounded_once(r.dx, dx, 4, scales.dx_scale));
      EXPECT_TRUE(rounded_once(r.dgamma, dgamma, ulps, scales.dgamma_scale));
      EXPECT_TRUE(rounded_once(r.dbeta, dbeta, ulps, scales.dbeta_scale));
    }
  }
}

/// Masks and gradients that are added to: as for floats, which have tests of their own.
TYPED_TEST_P(GroupNorm16, GivesWhatFloatsGive) {
  using S = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  for (const auto& d : {random_images<S, P>(3, 6, {4, 5}, 2, 761, 1), random_images<S, P>(19, 4, {3}, 4, 769),
                        random_images<S, P>(2, 66, {9}, 1, 773), random_images<S, P>(2, 40, {2, 2}, 40, 787)}) {
    std::vector<std::uint8_t> mask(static_cast<std::size_t>(d.examples * d.pixels()), 1);
    for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 5 != 2 && i > 3;
    for (const auto& layout : image_layouts()) {
      SCOPED_TRACE(d.text() + ", " + layout.name);
      for (const auto& flags : {std::vector<std::uint8_t>(), mask}) {
        for (const bool adds : {false, true}) {
          const auto r = run_groups(d, layout, flags, adds);
          const auto expected = run_groups(in_float(d), layout, flags, adds);
          EXPECT_TRUE(is_rounded(r.y, expected.y));
          EXPECT_TRUE(is_rounded(r.dx, expected.dx));
          EXPECT_TRUE(is_rounded(r.dgamma, expected.dgamma));
          EXPECT_TRUE(is_rounded(r.dbeta, expected.dbeta));
          EXPECT_TRUE(same_bits(r.saved.mean, expected.saved.mean));
          EXPECT_TRUE(same_bits(r.saved.mean_rest, expected.saved.mean_rest));
          EXPECT_TRUE(same_bits(r.saved.rstd, expected.saved.rstd));
        }
      }
    }
  }
}

/// Sums of parameter gradients in 16 bits would stop at 256 or 2048; those of parts that are copied too.
TYPED_TEST_P(GroupNorm16, ParameterGradientsAreSummedInFloatOrWider) {
  using S = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  auto d = random_images<S, P>(64, 4, {8, 8}, 2, 797);
  for (std::size_t i = 0; i < d.x.size(); ++i) d.x[i] = d.dy[i] = S(i % 2 ? 1.0f : -1.0f);
  const std::vector<std::uint8_t> half_of_them = [] {
    std::vector<std::uint8_t> mask(64 * 64);
    for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 4 < 2;
    return mask;
  }();
  for (const auto& layout : image_layouts()) {
    SCOPED_TRACE(layout.name);
    for (const P& dgamma : run_groups(d, layout).dgamma) EXPECT_NEAR(static_cast<float>(dgamma), 4096, 0.1);
    if (layout.channels_last || layout.mirrored) continue;  // the mask is in the order of x's pixels
    for (const P& dgamma : run_groups(d, layout, half_of_them).dgamma)
      EXPECT_NEAR(static_cast<float>(dgamma), 2048, 0.1);
  }
}

TYPED_TEST_P(GroupNorm16, OfNoExamplesTheGradientsOfParametersAreZero) {
  using P = typename TypeParam::Parameter;
  const auto none = random_images<typename TypeParam::Scalar, P>(0, 4, {3}, 2, 803);
  for (const auto& layout : image_layouts()) EXPECT_EQ(run_groups(none, layout).dgamma, std::vector<P>(4, P(0)));
}

TYPED_TEST_P(GroupNorm16, InstanceNormIsGroupNormOfEachChannel) {
  using S = typename TypeParam::Scalar;
  const auto d = random_images<S, typename TypeParam::Parameter>(3, 5, {4, 3}, 5, 809);
  for (const auto& layout : image_layouts()) {
    SCOPED_TRACE(layout.name);
    ImageMemory<S> x(d, layout, d.x), dy(d, layout, d.dy), y(d, layout), dx(d, layout);
    const evenkeel::InstanceNormOptions<S> options{
        .gamma = d.gamma, .beta = d.beta, .channel_axis = x.channel_axis(), .batch_axis = x.batch_axis()};
    NormStatistics<S> saved;
    auto dgamma = d.gamma, dbeta = d.beta;
    evenkeel::instance_norm_into(x.view(), y.view(), saved, options);
    evenkeel::instance_norm_backward(dy.view(), x.view(), saved, options,
                                     {.dx = dx.view(), .dgamma = dgamma, .dbeta = dbeta});
    const auto expected = run_groups(d, layout);
    EXPECT_TRUE(same_bits(y.values(), expected.y));
    EXPECT_TRUE(same_bits(dx.values(), expected.dx));
    EXPECT_TRUE(same_bits(dgamma, expected.dgamma));
    EXPECT_TRUE(same_bits(dbeta, expected.dbeta));
  }
}

/// Of float parameters beside 16 bits all bytes count.
TYPED_TEST_P(GroupNorm16, AnOverlapWithTheLastParametersIsAnError) {
  using S = typename TypeParam::Scalar;
  using P = typename TypeParam::Parameter;
  std::vector<P> memory(64, P(1.0f));
  std::vector<S> values(32, S(1.0f)), free(32);
  const Shape shape{2, 16};
  const TensorView<const S> x(values.data(), shape);
  const auto at = [&](P* p) { return TensorView<S>(reinterpret_cast<S*>(p), shape); };
  const evenkeel::GroupNormOptions<S> options{.gamma = {memory.data(), 16}, .groups = 4};
  NormStatistics<S> saved;
  const auto text = [](const auto& call) { return error_text<std::invalid_argument>(call); };
  EXPECT_EQ(text([&] { evenkeel::group_norm_into(x, at(memory.data() + 15), options); }),
            "evenkeel::group_norm_into: y overlaps gamma in memory, expected memory of its own");
  evenkeel::group_norm_into(x, TensorView<S>(free.data(), shape), saved, options);
  EXPECT_EQ(text([&] {
              evenkeel::group_norm_backward(x, x, saved, options, {.dgamma = {memory.data() + 15, 16}});
            }),
            "evenkeel::group_norm_backward: dgamma overlaps gamma in memory, expected memory of its own");
}

REGISTER_TYPED_TEST_SUITE_P(GroupNorm16, OutputIsRoundedOnceInEveryLayout, GradientsAreRoundedOnceInEveryLayout,
                            GivesWhatFloatsGive, ParameterGradientsAreSummedInFloatOrWider,
                            OfNoExamplesTheGradientsOfParametersAreZero, InstanceNormIsGroupNormOfEachChannel,
                            AnOverlapWithTheLastParametersIsAnError);

}  // namespace evenkeel_test
