// The kernel that scales and shifts channels: every way it takes through memory, against long double.
#include "evenkeel/kernels/channel_affine.hpp"

#include "kernels/kernel_test.hpp"

namespace evenkeel_test {
namespace {

/// Where an array [outer, channels, inner] lies: `offset` behind a 64-byte boundary, with gaps behind each run of inner
/// and behind each outer index.
struct Lie {
  Index offset = 0, channel_gap = 0, outer_gap = 0;
};

/// Poison but for its values, and its memory ends where they end.
template <class T>
class Block {
 public:
  Block(Index outer, Index channels, Index inner, Lie lie)
      : channels_(channels),
        inner_(inner),
        channel_stride(inner + lie.channel_gap),
        outer_stride(channels * channel_stride + lie.outer_gap),
        array_(true, 1, size(outer, outer_stride, channels, channel_stride, inner), {.offset = lie.offset},
               std::vector<T>(static_cast<std::size_t>(size(outer, outer_stride, channels, channel_stride, inner)),
                              poison<T>)) {}
  T* data() const { return array_.data(); }
  T& at(Index o, Index c, Index i) const { return data()[o * outer_stride + c * channel_stride + i]; }
  /// Whether position `p` from data() holds a value.
  bool holds(Index p) const {
    return p % outer_stride < channels_ * channel_stride && p % outer_stride % channel_stride < inner_;
  }
  std::vector<T> memory() const { return array_.values(); }
  testing::AssertionResult is_intact_around() const {
    const auto got = memory();
    auto expected = got;
    for (std::size_t p = 0; p < got.size(); ++p) {
      if (!holds(static_cast<Index>(p))) expected[p] = poison<T>;
    }
    return same_bits(got, expected);
  }

 private:
  static Index size(Index outer, Index outer_stride, Index channels, Index channel_stride, Index inner) {
    if (outer * channels * inner == 0) return 0;
    return (outer - 1) * outer_stride + (channels - 1) * channel_stride + inner;
  }
  Index channels_, inner_;

 public:
  Index channel_stride, outer_stride;

 private:
  Array<T> array_;
};

struct Absent {
  bool center = false, scale = false, shift = false;
};

struct Shape3 {
  Index outer, channels, inner;
};

/// Runs the kernel and checks each element, and that nothing else is written.
template <class C, class Activation, class Expected>
void expect_affine(const Shape3& s, Lie x_lie, Lie y_lie, const Absent& absent, const Activation& activation,
                   const Expected& expected_activation, bool in_place = false) {
  using T = typename C::Scalar;
  SCOPED_TRACE(std::to_string(s.outer) + " x " + std::to_string(s.channels) + " x " + std::to_string(s.inner));
  const auto n = static_cast<std::size_t>(s.channels);
  const auto values = normal_vector<T>(static_cast<std::size_t>(s.outer * s.channels * s.inner), 5, 0.5, 2);
  const auto center = normal_vector<T>(n, 1), scale = normal_vector<T>(n, 2), shift = normal_vector<T>(n, 3);
  const Array<T> center_at(!absent.center, 1, s.channels, {.offset = 1}, center);
  const Array<T> scale_at(!absent.scale, 1, s.channels, {.offset = 2}, scale);
  const Array<T> shift_at(!absent.shift, 1, s.channels, {.offset = 3}, shift);
  const Block<T> x(s.outer, s.channels, s.inner, x_lie), other(s.outer, s.channels, s.inner, y_lie);
  const Block<T>& y = in_place ? x : other;
  std::size_t v = 0;
  for (Index o = 0; o < s.outer; ++o)
    for (Index c = 0; c < s.channels; ++c)
      for (Index i = 0; i < s.inner; ++i) x.at(o, c, i) = values[v++];
  const auto before = x.memory();

  kernels::ChannelAffine<T> a;
  a.x = x.data(), a.center = center_at.data(), a.scale = scale_at.data(), a.shift = shift_at.data(), a.y = y.data();
  a.outer = s.outer, a.channels = s.channels, a.inner = s.inner;
  a.x_outer_stride = x.outer_stride, a.x_channel_stride = x.channel_stride;
  a.y_outer_stride = y.outer_stride, a.y_channel_stride = y.channel_stride;
  kernels::channel_affine<typename C::Arch>(a, activation);

  if (s.outer * s.channels * s.inner == 0) return;
  EXPECT_TRUE(y.is_intact_around());
  EXPECT_TRUE(in_place || same_bits(x.memory(), before));
  std::vector<T> got;
  Reals expected, scales;
  v = 0;
  for (Index o = 0; o < s.outer; ++o) {
    for (Index c = 0; c < s.channels; ++c) {
      const auto k = static_cast<std::size_t>(c);
      for (Index i = 0; i < s.inner; ++i) {
        const long double deviation = static_cast<long double>(values[v++]) - (absent.center ? 0.0L : center[k]);
        const long double product = deviation * (absent.scale ? 1.0L : scale[k]);
        got.push_back(y.at(o, c, i));
        expected.push_back(expected_activation(product + (absent.shift ? 0.0L : shift[k])));
        scales.push_back(std::abs(product) + std::abs(product + (absent.shift ? 0.0L : shift[k])));
      }
    }
  }
  // Half an ulp of the deviation, half of the sum, and without a fused multiplication half of the product.
  EXPECT_TRUE(within_ulp(got, expected, 1.01L, scales));
}

struct Same {
  long double operator()(long double v) const { return v; }
};

template <class C>
class ChannelAffine : public testing::Test {};
TYPED_TEST_SUITE(ChannelAffine, ConfigsOf<NoNorm>, ConfigName);

template <class T>
std::vector<Shape3> shapes() {
  const Index w = kernels::Simd<evenkeel::native, T>::width;
  std::vector<Shape3> all = {{0, 3, 4}, {2, 0, 4}, {2, 3, 0}, {1, 1, 1}, {5000, 1, 1}, {3000, 3, 1}, {700, 65, 1}};
  for (const Index channels : {Index{1}, Index{3}, w - 1, w, w + 1, 2 * w + 1, Index{768}, Index{1025}, Index{2049}})
    for (const Index outer : {1, 2, 33}) all.push_back({outer, channels, 1});
  for (const Index inner : {Index{2}, Index{3}, w - 1, w, 2 * w - 1, 2 * w, 2 * w + 1, Index{49}, Index{1001}})
    for (const Index channels : {1, 5, 130}) all.push_back({3, channels, inner});
  all.insert(all.end(), {{2, 700, 7}, {90, 2, 3}, {1, 1500, 2}, {400, 4, 4}});
  return all;
}

TYPED_TEST(ChannelAffine, IsExactToItsRoundings) {
  for (const Shape3& s : shapes<typename TypeParam::Scalar>()) {
    expect_affine<TypeParam>(s, {}, {}, {}, kernels::Identity(), Same());
    expect_affine<TypeParam>(s, {.offset = 1}, {.offset = 5}, {}, kernels::Identity(), Same());
  }
}

TYPED_TEST(ChannelAffine, AnyStridesWithPoisonInTheGaps) {
  for (const Shape3& s : shapes<typename TypeParam::Scalar>()) {
    expect_affine<TypeParam>(s, {.outer_gap = 3}, {.offset = 1, .outer_gap = 7}, {}, kernels::Identity(), Same());
    expect_affine<TypeParam>(s, {.channel_gap = 2}, {.channel_gap = 1, .outer_gap = 1}, {}, kernels::Identity(),
                             Same());
    expect_affine<TypeParam>(s, {}, {.channel_gap = 3}, {}, kernels::Identity(), Same());
  }
}

TYPED_TEST(ChannelAffine, InPlace) {
  for (const Shape3& s : shapes<typename TypeParam::Scalar>()) {
    expect_affine<TypeParam>(s, {}, {}, {}, kernels::Identity(), Same(), true);
    expect_affine<TypeParam>(s, {.channel_gap = 1, .outer_gap = 2}, {}, {}, kernels::Identity(), Same(), true);
  }
}

TYPED_TEST(ChannelAffine, AbsentCoefficientsAreThoseThatChangeNothing) {
  for (const Shape3& s : {Shape3{7, 33, 1}, {100, 3, 1}, {3, 1100, 1}, {2, 5, 100}, {2, 40, 3}})
    for (int mask = 0; mask < 8; ++mask)
      expect_affine<TypeParam>(s, {}, {}, {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0}, kernels::Identity(),
                               Same());
}

TYPED_TEST(ChannelAffine, AnActivationIsAppliedInTheSamePass) {
  const auto relu = [](long double v) { return std::max(v, 0.0L); };
  const auto twice = [](const auto& v) { return v + v; };
  for (const Shape3& s : shapes<typename TypeParam::Scalar>()) {
    expect_affine<TypeParam>(s, {}, {}, {}, kernels::Relu(), relu);
    expect_affine<TypeParam>(s, {.outer_gap = 1}, {}, {}, kernels::Relu(), relu, true);
  }
  using T = typename TypeParam::Scalar;
  std::vector<T> x(100, T(1.5)), scale(4, T(2));
  kernels::ChannelAffine<T> a;
  a.x = a.y = x.data(), a.scale = scale.data(), a.outer = 1, a.channels = 4, a.inner = 25, a.x_channel_stride = 25,
  a.y_channel_stride = 25;
  kernels::channel_affine<typename TypeParam::Arch>(a, twice);
  EXPECT_EQ(x, std::vector<T>(100, T(6)));
}

// A mean that dwarfs the spread, and a huge gamma: the folded form would lose every digit (B08).
TYPED_TEST(ChannelAffine, TheCenterIsTakenOffFirst) {
  using T = typename TypeParam::Scalar;
  T x[] = {T(-3.7), T(1e6), T(1e6) + T(0.5)}, center[] = {T(-3.7), T(1e6), T(1e6)}, scale[] = {T(1e12), 1, 1};
  T shift[] = {-1, 2, 2};
  kernels::ChannelAffine<T> a;
  a.x = a.y = x, a.center = center, a.scale = scale, a.shift = shift, a.outer = 1, a.channels = 3, a.inner = 1;
  a.x_channel_stride = a.y_channel_stride = 1;
  kernels::channel_affine<typename TypeParam::Arch>(a);
  EXPECT_EQ(x[0], -1);
  EXPECT_EQ(x[1], 2);
  EXPECT_EQ(x[2], T(2.5));
}

TYPED_TEST(ChannelAffine, NaNAndInfinityStayInTheirElement) {
  if (fast_math) GTEST_SKIP();
  using T = typename TypeParam::Scalar;
  const T nan = std::numeric_limits<T>::quiet_NaN(), inf = std::numeric_limits<T>::infinity();
  for (const auto& [channels, inner] : {std::pair<Index, Index>{50, 1}, {2, 25}, {1, 50}}) {
    std::vector<T> x(50, T(1)), expected(50, T(1));
    x[7] = expected[7] = nan;
    x[20] = expected[20] = inf;
    x[49] = -inf, expected[49] = 0;
    kernels::ChannelAffine<T> a;
    a.x = a.y = x.data(), a.outer = 1, a.channels = channels, a.inner = inner;
    a.x_channel_stride = a.y_channel_stride = inner;
    kernels::channel_affine<typename TypeParam::Arch>(a, kernels::Relu());
    EXPECT_TRUE(same_bits(x, expected));
  }
}

TYPED_TEST(ChannelAffine, ReluOfNegativeZeroIsZero) {
  using T = typename TypeParam::Scalar;
  std::vector<T> x(40, -T(0));
  kernels::ChannelAffine<T> a;
  a.x = a.y = x.data(), a.outer = 1, a.channels = 1, a.inner = 40;
  kernels::channel_affine<typename TypeParam::Arch>(a, kernels::Relu());
  EXPECT_TRUE(fast_math || same_bits(x, std::vector<T>(40, T(0))));
}

}  // namespace
}  // namespace evenkeel_test
