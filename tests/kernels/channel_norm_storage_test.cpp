// The kernels of channels and groups for numbers of 16 bits: what they give of floats, bit for bit, rounded once.
#include "evenkeel/kernels/channel_affine.hpp"
#include "evenkeel/kernels/group_lanes_backward.hpp"
#include "evenkeel/kernels/group_lanes_forward.hpp"
#include "evenkeel/kernels/segment_norm_backward.hpp"
#include "evenkeel/kernels/segment_norm_forward.hpp"
#include "evenkeel/kernels/short_run_norm.hpp"
#include "kernels/kernel_test.hpp"

namespace evenkeel_test {
namespace {

template <class C>
class ChannelNormStorage : public testing::Test {};
using StorageConfigs =
    testing::Types<Config<NoNorm, evenkeel::native, kernels::bf16>, Config<NoNorm, evenkeel::native, kernels::f16>,
                   Config<NoNorm, evenkeel::scalar, kernels::bf16>, Config<NoNorm, evenkeel::scalar, kernels::f16>>;
struct StorageName {
  template <class C>
  static std::string GetName(int) {
    return std::string(std::is_same_v<typename C::Scalar, kernels::bf16> ? "bf16" : "f16") +
           (std::is_same_v<typename C::Arch, evenkeel::scalar> ? "_scalar" : "_native");
  }
};
TYPED_TEST_SUITE(ChannelNormStorage, StorageConfigs, StorageName);

template <class X>
std::vector<X> narrowed(const std::vector<float>& values) {
  std::vector<X> result;
  for (const float value : values) result.push_back(X(value));
  return result;
}
template <class X>
std::vector<float> widened(const std::vector<X>& values) {
  std::vector<float> result;
  for (const X& value : values) result.push_back(static_cast<float>(value));
  return result;
}
template <class X>
std::vector<X> random_storage(Index size, std::uint64_t seed, float mean = 0, float spread = 1) {
  auto values = normal_vector<float>(static_cast<std::size_t>(size), seed, mean);
  for (float& value : values) value *= spread;
  return narrowed<X>(values);
}

/// Of floats; the compiler may sum otherwise in each kernel with -ffast-math: then within an ulp or two.
testing::AssertionResult same(const std::vector<float>& got, const std::vector<float>& expected) {
  if (!fast_math) return same_bits(got, expected);
  Reals scale;
  for (const float value : expected) scale.push_back(std::abs(value) + 1);
  return within_ulp(got, Reals(expected.begin(), expected.end()), 64, scale);
}
/// Of what is stored in 16 bits: all of a memory, gaps included.
template <class X>
testing::AssertionResult same_rounded(const std::vector<X>& got, const std::vector<float>& expected) {
  const auto wide = widened(got), rounded = widened(narrowed<X>(expected));
  for (std::size_t i = 0; i < wide.size(); ++i) {
    const bool is_same = std::memcmp(&wide[i], &rounded[i], sizeof(float)) == 0;
    const bool is_near = fast_math && std::abs(wide[i] - rounded[i]) <= 0x1p-6f * (std::abs(rounded[i]) + 0x1p-6f);
    if (!is_same && !is_near)
      return testing::AssertionFailure() << "element " << i << " is " << wide[i] << ", expected " << rounded[i];
  }
  return testing::AssertionSuccess();
}

/// Memory of tensors [outer, groups, segments, columns], and what a call of X and one of float make of it.
struct Extents {
  Index outer, groups, segments, columns, gap = 0;  // elements behind each segment
  bool per_column = false;                          // parameters of columns, not of groups and segments
  float spread = 1;
  double eps = 1e-5;

  Index segment() const { return columns + gap; }
  Index size() const { return outer * groups * segments * segment(); }
  std::string text() const {
    return std::to_string(outer) + " x " + std::to_string(groups) + " x " + std::to_string(segments) + " x " +
           std::to_string(columns) + (per_column ? " by columns" : "") + ", " + std::to_string(spread);
  }
};

struct Numbers {
  explicit Numbers(Index count) : mean(at(count)), mean_rest(mean), rstd(mean), var(mean) {}
  static std::vector<float> at(Index count) { return std::vector<float>(static_cast<std::size_t>(count), -77.f); }
  std::vector<float> mean, mean_rest, rstd, var;

  testing::AssertionResult is(const Numbers& other) const {
    for (const auto part : {&Numbers::mean, &Numbers::mean_rest, &Numbers::rstd, &Numbers::var}) {
      const auto result = same(this->*part, other.*part);
      if (!result) return result;
    }
    return testing::AssertionSuccess();
  }
};

template <class Args>
void set_extents(Args& a, const Extents& e) {
  a.outer = e.outer, a.groups = e.groups, a.segments = e.segments, a.columns = e.columns;
  a.x_segment_stride = e.segment(), a.x_group_stride = e.segments * e.segment();
  a.x_outer_stride = e.groups * a.x_group_stride;
  a.parameter_group_step = e.per_column ? e.columns : 1, a.parameter_column_step = e.per_column ? 1 : 0;
}

template <class X>
kernels::SegmentNormForward<X> forward_of(const Extents& e, const std::vector<X>& x, std::vector<X>& y,
                                          const std::vector<float>& gamma, const std::vector<float>& beta,
                                          Numbers& saved) {
  kernels::SegmentNormForward<X> a;
  set_extents(a, e);
  a.x = x.data(), a.y = y.data(), a.gamma = gamma.data(), a.beta = beta.data(), a.eps = e.eps;
  a.mean = saved.mean.data(), a.mean_rest = saved.mean_rest.data(), a.rstd = saved.rstd.data();
  a.var = saved.var.data();
  a.y_segment_stride = a.x_segment_stride, a.y_group_stride = a.x_group_stride, a.y_outer_stride = a.x_outer_stride;
  return a;
}

template <class X>
kernels::SegmentNormBackward<X> backward_of(const Extents& e, const std::vector<X>& dy, const std::vector<X>& x,
                                            std::vector<X>& dx, const std::vector<float>& gamma, const Numbers& saved,
                                            std::vector<float>& dgamma, std::vector<float>& dbeta,
                                            std::vector<char>& workspace) {
  kernels::SegmentNormBackward<X> a;
  set_extents(a, e);
  a.dy = dy.data(), a.x = x.data(), a.dx = dx.data(), a.gamma = gamma.data();
  a.dgamma = dgamma.data(), a.dbeta = dbeta.data();
  a.mean = saved.mean.data(), a.mean_rest = saved.mean_rest.data(), a.rstd = saved.rstd.data();
  a.dy_segment_stride = a.dx_segment_stride = a.x_segment_stride;
  a.dy_group_stride = a.dx_group_stride = a.x_group_stride;
  a.dy_outer_stride = a.dx_outer_stride = a.x_outer_stride;
  workspace.resize(kernels::segment_norm_backward_workspace_bytes<X>(static_cast<Index>(dgamma.size())));
  a.workspace = workspace.data();
  return a;
}

/// Forward and backward by kernels of 16 bits, `forward(args)` and `backward(args)`, as by those of float.
template <class X, class Forward, class Backward>
void expect_as_of_floats(const Extents& e, const Forward& forward, const Backward& backward) {
  SCOPED_TRACE(e.text());
  const Index parameters = e.groups * (e.per_column ? e.columns : 1);
  const auto x = random_storage<X>(e.size(), 1, 0.5f, e.spread), dy = random_storage<X>(e.size(), 2);
  const auto gamma = normal_vector<float>(static_cast<std::size_t>(parameters), 3);
  const auto beta = normal_vector<float>(static_cast<std::size_t>(parameters), 4);
  const auto wide_x = widened(x), wide_dy = widened(dy);

  auto y = random_storage<X>(e.size(), 5);  // stays in the gaps
  auto wide_y = widened(y);
  Numbers saved(e.outer * e.groups), expected(e.outer * e.groups);
  forward(forward_of(e, x, y, gamma, beta, saved));
  forward(forward_of(e, wide_x, wide_y, gamma, beta, expected));
  EXPECT_TRUE(same_rounded(y, wide_y));
  EXPECT_TRUE(saved.is(expected));

  for (const bool adds : {false, true}) {
    auto dx = random_storage<X>(e.size(), 6);
    auto wide_dx = widened(dx);
    std::vector<float> dgamma(static_cast<std::size_t>(parameters), 3), dbeta(dgamma), wide_dgamma(dgamma),
        wide_dbeta(dgamma);
    std::vector<char> workspace;
    auto got = backward_of(e, dy, x, dx, gamma, expected, dgamma, dbeta, workspace);
    got.add_dx = got.add_dgamma = got.add_dbeta = adds;
    backward(got);
    auto wide = backward_of(e, wide_dy, wide_x, wide_dx, gamma, expected, wide_dgamma, wide_dbeta, workspace);
    wide.add_dx = wide.add_dgamma = wide.add_dbeta = adds;
    backward(wide);
    EXPECT_TRUE(same_rounded(dx, wide_dx));
    EXPECT_TRUE(same(dgamma, wide_dgamma));
    EXPECT_TRUE(same(dbeta, wide_dbeta));
  }
}

/// Sizes around a vector's and a block's, gaps, parameters of columns, and groups outside the ordinary range.
TYPED_TEST(ChannelNormStorage, SegmentsGiveWhatFloatsGive) {
  using Arch = typename TypeParam::Arch;
  using X = typename TypeParam::Scalar;
  const Index w = kernels::Simd<evenkeel::native, float>::width;
  std::vector<Extents> all = {
      {2, 3, 1, 1}, {1, 2, 5, 2, 3}, {2, 70, 3, 7}, {1, 2, 3, 1025, 1}, {2, 2, 40, 33, 1, true}};
  for (const Index columns : {w - 1, w, w + 1, 2 * w + 1}) all.push_back({2, 3, 4, columns, 2});
  all.push_back({2, 3, 9, 17, 0, false, 0x1p-24f, 0});  // rstd beyond 2^20
  all.push_back({2, 3, 9, 17, 0, true, 0x1p-24f, 0});
  for (const Extents& e : all) {
    if (fast_math && e.eps == 0) continue;
    expect_as_of_floats<X>(
        e, [](const auto& a) { kernels::segment_norm_forward<Arch>(a); },
        [](const auto& a) { kernels::segment_norm_backward<Arch>(a); });
  }
}

/// BatchNorm of [rows, channels, inner]: here a segment is a row's run of a channel.
TYPED_TEST(ChannelNormStorage, ShortRunsGiveWhatFloatsGive) {
  using Arch = typename TypeParam::Arch;
  using X = typename TypeParam::Scalar;
  const auto as_rows = [](auto a) {
    const Index run = a.columns, row = a.groups * run;
    a.x_group_stride = run, a.x_segment_stride = row;
    return a;
  };
  for (const Extents& e : {Extents{1, 3, 7, 2}, {1, 5, 64, 3}, {1, 700, 12, 4}, {1, 3, 96, 1}, {1, 1, 128, 31}}) {
    expect_as_of_floats<X>(
        e,
        [&](auto a) {
          a = as_rows(a), a.y_group_stride = a.x_group_stride, a.y_segment_stride = a.x_segment_stride;
          kernels::short_run_norm_forward<Arch>(a);
        },
        [&](auto a) {
          a = as_rows(a), a.dy_group_stride = a.dx_group_stride = a.x_group_stride;
          a.dy_segment_stride = a.dx_segment_stride = a.x_segment_stride;
          EXPECT_TRUE(kernels::short_run_norm_backward<Arch>(a));
        });
  }
}

/// Groups [segments of channels] of which each element is a lane: [outer, columns as length, groups x segments].
TYPED_TEST(ChannelNormStorage, GroupsOfLanesGiveWhatFloatsGive) {
  using Arch = typename TypeParam::Arch;
  using X = typename TypeParam::Scalar;
  std::vector<char> workspace(1 << 20);
  const auto take = [&](const auto& from, auto& to) {
    to.x = from.x, to.gamma = from.gamma, to.mean = from.mean, to.mean_rest = from.mean_rest, to.rstd = from.rstd;
    to.lanes = {from.groups, from.columns, 1, from.segments}, to.outer = from.outer, to.workspace = workspace.data();
    const Index row = from.groups * from.x_segment_stride;
    to.x_stride = row, to.x_outer_stride = row * from.segments;
    return row;
  };
  for (Extents e : {Extents{2, 3, 5, 4}, {1, 2, 40, 3}, {2, 4, 17, 8}, {1, 5, 9, 2, 0, true, 0x1p-24f, 0}}) {
    if (fast_math && e.eps == 0) continue;
    e.per_column = true;
    expect_as_of_floats<X>(
        e,
        [&](const auto& a) {
          kernels::GroupLanesForward<std::remove_const_t<std::remove_pointer_t<decltype(a.y)>>> to;
          const Index row = take(a, to);
          to.y = a.y, to.beta = a.beta, to.eps = a.eps, to.y_stride = row, to.y_outer_stride = to.x_outer_stride;
          kernels::group_lanes_forward<Arch>(to);
        },
        [&](const auto& a) {
          kernels::GroupLanesBackward<std::remove_const_t<std::remove_pointer_t<decltype(a.dx)>>> to;
          to.dy_stride = to.dx_stride = take(a, to), to.dy_outer_stride = to.dx_outer_stride = to.x_outer_stride;
          to.dy = a.dy, to.dx = a.dx, to.dgamma = a.dgamma, to.dbeta = a.dbeta;
          to.add_dx = a.add_dx, to.add_dgamma = a.add_dgamma, to.add_dbeta = a.add_dbeta;
          kernels::group_lanes_backward<Arch>(to);
        });
  }
}

TYPED_TEST(ChannelNormStorage, ScaledAndShiftedAsFloatsAre) {
  using Arch = typename TypeParam::Arch;
  using X = typename TypeParam::Scalar;
  struct Lie {
    Index outer, channels, inner, gap = 0;
  };
  for (const Lie& s : {Lie{3, 5, 1}, {9, 33, 1}, {2, 1100, 1}, {90, 2, 3}, {2, 40, 7}, {3, 4, 100}, {2, 3, 50, 3}}) {
    SCOPED_TRACE(std::to_string(s.outer) + " x " + std::to_string(s.channels) + " x " + std::to_string(s.inner));
    const auto run = [&](const auto& x, auto& y) {
      kernels::ChannelAffine<typename std::remove_reference_t<decltype(y)>::value_type> a;
      const auto channels = static_cast<std::size_t>(s.channels);
      const auto center = normal_vector<float>(channels, 1), scale = normal_vector<float>(channels, 2);
      const auto shift = normal_vector<float>(channels, 3);
      a.x = x.data(), a.y = y.data(), a.center = center.data(), a.scale = scale.data(), a.shift = shift.data();
      a.outer = s.outer, a.channels = s.channels, a.inner = s.inner;
      a.x_channel_stride = a.y_channel_stride = s.inner + s.gap;
      a.x_outer_stride = a.y_outer_stride = s.channels * (s.inner + s.gap);
      kernels::channel_affine<Arch>(a, kernels::Relu());
    };
    const auto x = random_storage<X>(s.outer * s.channels * (s.inner + s.gap), 4, 0.5f);
    auto y = random_storage<X>(static_cast<Index>(x.size()), 5);
    auto wide_y = widened(y);
    run(x, y);
    run(widened(x), wide_y);
    EXPECT_TRUE(same_rounded(y, wide_y));
  }
}

}  // namespace
}  // namespace evenkeel_test
