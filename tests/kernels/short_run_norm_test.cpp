// BatchNorm of short runs against the kernel of segments, which has tests of its own against the oracle.
#include "evenkeel/kernels/short_run_norm.hpp"

#include "kernels/kernel_test.hpp"

namespace evenkeel_test {
namespace {

template <class T>
struct Statistics {
  explicit Statistics(std::size_t channels) : mean(channels), mean_rest(channels), rstd(channels), var(channels) {}
  std::vector<T> mean, mean_rest, rstd, var;
};

struct Runs {
  Index rows, channels, inner, gap = 0;  // elements between rows
};

template <class C>
class ShortRunNorm : public testing::Test {};
TYPED_TEST_SUITE(ShortRunNorm, ConfigsOf<NoNorm>, ConfigName);

template <class T>
struct Problem {
  explicit Problem(const Runs& r)
      : runs(r),
        row(r.channels * r.inner + r.gap),
        x(normal_vector<T>(static_cast<std::size_t>(r.rows * row), 1, 0.5)),
        dy(normal_vector<T>(x.size(), 2)),
        gamma(normal_vector<T>(static_cast<std::size_t>(r.channels), 3)),
        beta(normal_vector<T>(static_cast<std::size_t>(r.channels), 4)) {}

  template <class Args>
  Args args() const {
    Args a;
    a.x = x.data(), a.gamma = gamma.data();
    a.outer = 1, a.groups = runs.channels, a.segments = runs.rows, a.columns = runs.inner;
    a.x_group_stride = runs.inner, a.x_segment_stride = row, a.parameter_group_step = 1;
    return a;
  }
  kernels::SegmentNormForward<T> forward(std::vector<T>& y, Statistics<T>& s) const {
    auto a = args<kernels::SegmentNormForward<T>>();
    y.assign(x.size(), poison<T>);
    a.y = y.data(), a.beta = beta.data(), a.y_group_stride = runs.inner, a.y_segment_stride = row, a.eps = 1e-5;
    a.mean = s.mean.data(), a.mean_rest = s.mean_rest.data(), a.rstd = s.rstd.data(), a.var = s.var.data();
    return a;
  }
  kernels::SegmentNormBackward<T> backward(std::vector<T>& dx, std::vector<T>& dgamma, std::vector<T>& dbeta,
                                           const Statistics<T>& s, void* workspace) const {
    auto a = args<kernels::SegmentNormBackward<T>>();
    a.dy = dy.data(), a.dy_group_stride = runs.inner, a.dy_segment_stride = row;
    a.dx = dx.data(), a.dx_group_stride = runs.inner, a.dx_segment_stride = row;
    a.mean = s.mean.data(), a.mean_rest = s.mean_rest.data(), a.rstd = s.rstd.data();
    a.dgamma = dgamma.data(), a.dbeta = dbeta.data(), a.workspace = workspace;
    return a;
  }

  Runs runs;
  Index row;
  std::vector<T> x, dy, gamma, beta;
};

/// `got` is near `expected`, and has no other number where that has poison.
template <class T>
void expect_near(const std::vector<T>& got, const std::vector<T>& expected, long double ulps, long double scale) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (same_bits(std::vector<T>{got[i]}, std::vector<T>{expected[i]})) continue;
    ASSERT_LE(std::abs(static_cast<long double>(got[i]) - expected[i]), ulps * ulp<T>() * scale) << "element " << i;
  }
}

const Runs examples[] = {{1, 3, 2},       {2, 1, 5},    {7, 5, 3},       {64, 3, 1},   {64, 3, 1, 2},   {96, 5, 4},
                         {33, 130, 7, 3}, {12, 700, 4}, {128, 1, 31, 1}, {1024, 2, 1}, {40, 2100, 2, 1}};

TYPED_TEST(ShortRunNorm, GivesWhatTheKernelOfSegmentsGives) {
  using T = typename TypeParam::Scalar;
  using Arch = typename TypeParam::Arch;
  for (const Runs& runs : examples) {
    SCOPED_TRACE(std::to_string(runs.rows) + " x " + std::to_string(runs.channels) + " x " +
                 std::to_string(runs.inner));
    const Problem<T> p(runs);
    const auto channels = static_cast<std::size_t>(runs.channels);
    Statistics<T> s(channels), expected_s(channels);
    std::vector<T> y, expected_y;
    kernels::segment_norm_forward<Arch>(p.forward(expected_y, expected_s));
    kernels::short_run_norm_forward<Arch>(p.forward(y, s));
    const long double slack = fast_math ? 4 : 1;
    expect_near(y, expected_y, 8 * slack, 8);
    expect_near(s.mean, expected_s.mean, 8, 1);
    expect_near(s.var, expected_s.var, 8 * slack, 4);

    for (const bool constant : {false, true}) {
      for (const bool adds : {false, true}) {
        std::vector<T> dx = adds ? p.x : std::vector<T>(p.x.size(), poison<T>), expected_dx = dx;
        std::vector<T> dgamma(channels, 2), dbeta(channels, 3), expected_dgamma = dgamma, expected_dbeta = dbeta;
        std::vector<char> workspace(kernels::segment_norm_backward_workspace_bytes<T>(runs.channels));
        auto expected = p.backward(expected_dx, expected_dgamma, expected_dbeta, expected_s, workspace.data());
        auto got = p.backward(dx, dgamma, dbeta, expected_s, nullptr);
        expected.constant_statistics = got.constant_statistics = constant;
        expected.add_dx = got.add_dx = expected.add_dgamma = got.add_dgamma = expected.add_dbeta = got.add_dbeta = adds;
        kernels::segment_norm_backward<Arch>(expected);
        ASSERT_TRUE(kernels::short_run_norm_backward<Arch>(got));
        long double steepest = 1;
        for (const T rstd : expected_s.rstd) steepest = std::max<long double>(steepest, rstd);
        expect_near(dx, expected_dx, 8 * slack, 16 * steepest);
        const long double root = std::sqrt(static_cast<long double>(runs.rows * runs.inner));
        expect_near(dgamma, expected_dgamma, 4 * root, 16);
        expect_near(dbeta, expected_dbeta, 4 * root, 16);
      }
    }
  }
}

TYPED_TEST(ShortRunNorm, ChannelsThatAreNotOrdinaryDoNotChangeTheOthers) {
  if (fast_math) GTEST_SKIP();
  using T = typename TypeParam::Scalar;
  using Arch = typename TypeParam::Arch;
  const Problem<T> clean({24, 6, 4});
  auto dirty = clean;
  const auto set = [&](Index channel, T value) {
    for (Index r = 0; r < 24; ++r)
      for (Index i = 0; i < 4; ++i) dirty.x[static_cast<std::size_t>(r * 24 + channel * 4 + i)] *= value;
  };
  set(0, std::numeric_limits<T>::max() / 16);
  set(3, std::numeric_limits<T>::quiet_NaN());
  set(4, std::numeric_limits<T>::min());
  Statistics<T> s(6), clean_s(6);
  std::vector<T> y, clean_y;
  kernels::short_run_norm_forward<Arch>(clean.forward(clean_y, clean_s));
  kernels::short_run_norm_forward<Arch>(dirty.forward(y, s));
  for (std::size_t k = 0; k < y.size(); ++k) {
    const std::size_t channel = k / 4 % 6;
    if (channel == 3) {
      EXPECT_NE(y[k], y[k]);
    } else if (channel == 0) {
      EXPECT_NEAR(y[k], clean_y[k], 1e-4 * (1 + std::abs(clean_y[k])));
    } else if (channel != 4) {
      EXPECT_TRUE(same_bits(std::vector<T>{y[k]}, std::vector<T>{clean_y[k]}));
    }
  }
}

}  // namespace
}  // namespace evenkeel_test
