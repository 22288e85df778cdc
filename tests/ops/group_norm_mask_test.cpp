// GroupNorm and InstanceNorm with masked pixels, against an oracle that never sees them: in every layout, NaN in the
// padding.
#include "core/error_text.hpp"
#include "ops/group_op_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::add_to;
using evenkeel::MaskView;

using Flags = std::vector<std::uint8_t>;

/// Of [examples, pixels]: padding that is longer in each example, which in the last leaves nothing.
template <class S>
Flags padding(const ImageData<S>& d) {
  Flags flags;
  for (Index n = 0; n < d.examples; ++n) {
    for (Index p = 0; p < d.pixels(); ++p) flags.push_back(p < d.pixels() * (d.examples - 1 - n) / d.examples ? 1 : 0);
  }
  return flags;
}
template <class S>
Flags random_flags(const ImageData<S>& d) {
  Random generator(5);
  Flags flags(static_cast<std::size_t>(d.examples * d.pixels()));
  for (std::uint8_t& flag : flags) flag = generator.next() % 2 ? 40 : 0;
  return flags;
}

/// Whether element i of x, in logical order, is valid.
template <class S>
bool is_valid(const ImageData<S>& d, const Flags& flags, std::size_t i) {
  const auto pixels = static_cast<std::size_t>(d.pixels()), example = static_cast<std::size_t>(d.channels) * pixels;
  return flags[i / example * pixels + i % pixels] != 0;
}
template <class S>
ImageData<S> with_nan(ImageData<S> d, const Flags& flags) {
  for (std::size_t i = 0; i < d.x.size(); ++i) {
    if (!is_valid(d, flags, i)) d.x[i] = d.dy[i] = std::numeric_limits<S>::quiet_NaN();
  }
  return d;
}
template <class S>
bool is_where_masked(const ImageData<S>& d, const Flags& flags, const std::vector<S>& values, S expected) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!is_valid(d, flags, i) && values[i] != expected) return false;
  }
  return true;
}

/// The valid pixels of one example, as images of their own, and those of results.
template <class S>
struct Example {
  ImageData<S> data;
  std::vector<S> y, dx;
};
template <class S>
Example<S> valid_pixels(const ImageData<S>& d, const Flags& flags, Index n, const std::vector<S>& y,
                        const std::vector<S>& dx) {
  Example<S> e{.data = d, .y = {}, .dx = {}};
  e.data.x.clear(), e.data.dy.clear();
  const auto size = d.x.size() / static_cast<std::size_t>(d.examples);
  for (std::size_t i = static_cast<std::size_t>(n) * size; i < static_cast<std::size_t>(n + 1) * size; ++i) {
    if (!is_valid(d, flags, i)) continue;
    e.data.x.push_back(d.x[i]), e.data.dy.push_back(d.dy[i]);
    e.y.push_back(y[i]), e.dx.push_back(dx[i]);
  }
  e.data.examples = 1;
  e.data.pixel_shape = {static_cast<Index>(e.data.x.size()) / d.channels};
  return e;
}

template <class S>
struct MaskedResult {
  std::vector<S> y = {}, dx = {}, dgamma = {}, dbeta = {};
  NormStatistics<S> saved = {};
};

/// Forward and backward; outputs that are added to hold 2.
template <class S>
MaskedResult<S> run_masked(const ImageData<S>& d, const ImageLayout& layout, const Flags& flags, bool adds = false) {
  const S start = adds ? S(2) : std::numeric_limits<S>::quiet_NaN();
  const std::vector<S> before(d.x.size(), start);
  ImageMemory<S> x(d, layout, d.x), dy(d, layout, d.dy), y(d, layout, before), dx(d, layout, before);
  MaskedResult<S> r{.dgamma = std::vector<S>(d.gamma.size(), start), .dbeta = std::vector<S>(d.beta.size(), start)};
  r.saved.mean.assign(1000, start), r.saved.rstd.assign(3, start);
  auto options = options_of(d, x);
  // As x has them: flags of [examples, pixels], or of the pixels first.
  ImageData<S> without_channels = d;
  without_channels.channels = 1;
  std::vector<S> numbers(flags.begin(), flags.end());
  ImageMemory<S> mask(without_channels, {"", layout.channels_last, layout.mirrored, layout.order}, numbers);
  Shape shape;
  std::array<Index, evenkeel::max_rank> strides{};
  for (int axis = 0; axis < mask.view().rank(); ++axis) {
    if (axis == mask.channel_axis()) continue;
    strides[static_cast<std::size_t>(shape.rank())] = mask.view().stride(axis);
    shape.append(mask.view().shape()[axis]);
  }
  if (shape.rank() == 1) strides[0] = 1;
  options.mask = TensorView<S>(mask.view().data(), shape, strides, layout.order);
  std::vector<std::byte> workspace(
      evenkeel::group_norm_workspace_bytes<S>(x.view().shape(), x.channel_axis(), x.batch_axis()));
  evenkeel::group_norm_into(x.view(), y.view(), r.saved, options, {.workspace = workspace});
  evenkeel::GroupNormGradients<S> to{.dx = dx.view(), .dgamma = r.dgamma, .dbeta = r.dbeta};
  if (adds) to = {.dx = add_to(dx.view()), .dgamma = add_to(r.dgamma), .dbeta = add_to(r.dbeta)};
  evenkeel::group_norm_backward(dy.view(), x.view(), r.saved, options, to, {.workspace = workspace});
  for (const auto* t : {&x, &dy, &y, &dx}) EXPECT_TRUE(t->is_intact_around());
  r.y = y.values(), r.dx = dx.values();
  return r;
}

template <class S, class Body>
void for_each_case(const Body& body) {
  const ImageData<S> all[] = {random_images<S>(3, 6, {4, 5}, 2, 81, 0.5), random_images<S>(3, 4, {7}, 4, 82),
                              random_images<S>(2, 8, {}, 2, 83), random_images<S>(2, 2, {2, 3, 2}, 1, 84, 100)};
  for (const auto& d : all) {
    for (const ImageLayout& layout : image_layouts()) {
      if (layout.gap_axis >= static_cast<int>(d.pixel_shape.size()) + 2) continue;
      for (const Flags& flags : {padding(d), random_flags(d)}) {
        SCOPED_TRACE(d.text() + ", " + layout.name);
        body(d, layout, flags);
      }
    }
  }
}

template <class S>
class GroupNormMask : public testing::Test {};
TYPED_TEST_SUITE(GroupNormMask, Scalars, ScalarName);

TYPED_TEST(GroupNormMask, MaskedPixelsAreLeftOutInEveryLayout) {
  using S = TypeParam;
  for_each_case<S>([](const ImageData<S>& d, const ImageLayout& layout, const Flags& flags) {
    const auto got = run_masked(with_nan(d, flags), layout, flags);
    EXPECT_TRUE(is_where_masked(d, flags, got.y, S(0)) && is_where_masked(d, flags, got.dx, S(0)));
    Reals dgamma(d.gamma.size()), dbeta(d.beta.size());
    long double dgamma_scale = 0, dbeta_scale = 0;
    for (Index n = 0; n < d.examples; ++n) {
      const auto e = valid_pixels(d, flags, n, got.y, got.dx);
      if (e.data.pixels() == 0) {
        for (Index g = n * d.groups; g < (n + 1) * d.groups; ++g) {
          for (const auto* statistics : {&got.saved.mean, &got.saved.mean_rest, &got.saved.rstd})
            EXPECT_EQ(statistics->at(static_cast<std::size_t>(g)), 0);
        }
        continue;
      }
      EXPECT_TRUE(within_ulp(e.y, expected_y(e.data), 4, y_scale(e.data)));
      const auto scales = gradient_scales(e.data);
      EXPECT_TRUE(within_ulp(e.dx, dual_gradient(e.data, 0), 4, scales.dx_scale));
      const Reals of_gamma = dual_gradient(e.data, 1), of_beta = dual_gradient(e.data, 2);
      for (std::size_t c = 0; c < dgamma.size(); ++c) dgamma[c] += of_gamma[c], dbeta[c] += of_beta[c];
      dgamma_scale = std::max(dgamma_scale, scales.dgamma_scale[0]);
      dbeta_scale = std::max(dbeta_scale, scales.dbeta_scale[0]);
    }
    const auto count = static_cast<long double>(d.examples * d.pixels());
    EXPECT_TRUE(within_ulp(got.dgamma, dgamma, 4 * std::sqrt(count), {dgamma_scale}));
    EXPECT_TRUE(within_ulp(got.dbeta, dbeta, 4 * std::sqrt(count), {dbeta_scale}));
  });
}

TYPED_TEST(GroupNormMask, GradientsAreAddedToWherePixelsAreValid) {
  using S = TypeParam;
  for_each_case<S>([](const ImageData<S>& d, const ImageLayout& layout, const Flags& flags) {
    const auto alone = run_masked(with_nan(d, flags), layout, flags);
    const auto added = run_masked(with_nan(d, flags), layout, flags, true);
    EXPECT_TRUE(is_where_masked(d, flags, added.dx, S(2)));
    constexpr int ulps = 4;  // of a rounding for each example
    EXPECT_TRUE(is_added_to(2, alone.dx, added.dx, ulps));
    EXPECT_TRUE(is_added_to(2, alone.dgamma, added.dgamma, ulps));
    EXPECT_TRUE(is_added_to(2, alone.dbeta, added.dbeta, ulps));
  });
}

TYPED_TEST(GroupNormMask, InPlaceAndAsInstanceNorm) {
  using S = TypeParam;
  const auto d = random_images<S>(3, 4, {7}, 4, 85);
  const Flags flags = padding(d);
  const auto layout = image_layouts()[0];
  const auto expected = run_masked(with_nan(d, flags), layout, flags);
  ImageMemory<S> x(d, layout, with_nan(d, flags).x), y(d, layout, with_nan(d, flags).x);
  ImageMemory<S> dx(d, layout, with_nan(d, flags).dy);
  const evenkeel::InstanceNormOptions<S> options{.gamma = d.gamma, .beta = d.beta, .eps = d.eps, .mask = flags};
  NormStatistics<S> saved;
  evenkeel::instance_norm_into(y.view(), y.view(), saved, options);
  evenkeel::instance_norm_backward(dx.view(), x.view(), saved, options, {.dx = dx.view()});
  EXPECT_EQ(y.values(), expected.y);
  EXPECT_EQ(dx.values(), expected.dx);
  EXPECT_EQ(saved.rstd, expected.saved.rstd);
}

TYPED_TEST(GroupNormMask, OfNoExamplesTheGradientsOfParametersAreZero) {
  using S = TypeParam;
  const TensorView<const S> none(nullptr, {0, 4, 7});
  const evenkeel::GroupNormOptions<S> options{.groups = 2, .mask = MaskView(Eigen::Array<bool, 0, 7>())};
  NormStatistics<S> saved;
  evenkeel::group_norm_into(none, TensorView<S>(nullptr, {0, 4, 7}), saved, options);
  std::vector<S> dgamma(4, 3), dbeta(4, 3);
  evenkeel::group_norm_backward(none, none, saved, options, {.dgamma = dgamma, .dbeta = dbeta});
  EXPECT_EQ(dgamma, std::vector<S>(4, 0));
  EXPECT_EQ(dbeta, std::vector<S>(4, 0));
}

TYPED_TEST(GroupNormMask, OfTheWrongShapeIsRefused) {
  using S = TypeParam;
  const auto d = random_images<S>(3, 4, {7}, 2, 87);
  std::vector<S> memory(84, 5), discarded(84);
  const TensorView<const S> x(d.x.data(), {3, 4, 7});
  const TensorView<S> y(memory.data(), {3, 4, 7});
  NormStatistics<S> saved;
  evenkeel::group_norm_into(x, TensorView<S>(discarded.data(), {3, 4, 7}), saved, {.groups = 2});
  const Eigen::Array<bool, 3, 4> of_channels = Eigen::Array<bool, 3, 4>::Constant(true);
  const std::pair<MaskView, std::string> cases[] = {
      {Flags(3), ": mask has 3 elements, expected 21 (one for each position of [3, 7]; x has shape [3, 4, 7])"},
      {of_channels, ": mask has shape [3, 4], expected [3, 7] (one element for each position; x has shape [3, 4, 7])"},
      {MaskView(memory.data() + 40, 21), ": y overlaps mask in memory, expected memory of its own"}};
  for (const auto& [mask, text] : cases) {
    const evenkeel::GroupNormOptions<S> o{.groups = 2, .mask = mask};
    EXPECT_EQ(error_text<std::invalid_argument>([&] { evenkeel::group_norm_into(x, y, o); }),
              "evenkeel::group_norm_into" + text);
    const std::string of_dx = text.substr(0, 3) == ": y" ? ": dx" + text.substr(3) : text;
    EXPECT_EQ(error_text<std::invalid_argument>([&] { evenkeel::group_norm_backward(x, x, saved, o, {.dx = y}); }),
              "evenkeel::group_norm_backward" + of_dx);
    EXPECT_EQ(memory, std::vector<S>(84, 5));
  }
}

}  // namespace
}  // namespace evenkeel_test
