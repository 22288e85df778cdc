// Tests of kernels/simd.hpp: what every kernel takes for granted about its vectors.
#include "evenkeel/kernels/simd.hpp"

#include <numeric>

#include "kernels/kernel_test.hpp"

namespace evenkeel_test {
namespace {

template <class C>
class Simd : public testing::Test {
 protected:
  using Scalar = typename C::Scalar;
  using Vector = kernels::Simd<typename C::Arch, Scalar>;
  using Batch = typename Vector::Batch;
  static constexpr Index width = Vector::width;

  /// first, first + step, ...
  static std::vector<Scalar> sequence(Index size, Scalar first = 1, Scalar step = 1) {
    std::vector<Scalar> values;
    for (Index i = 0; i < size; ++i) values.push_back(first + static_cast<Scalar>(i) * step);
    return values;
  }
  static std::vector<Scalar> lanes_of(const Batch& batch) {
    std::vector<Scalar> lanes(static_cast<std::size_t>(width));
    Vector::store(lanes.data(), batch);
    return lanes;
  }
  /// The value all lanes have, of an operation the compiler cannot evaluate itself.
  template <class Operation>
  static Scalar in_all_lanes(const Operation& operation, Scalar a, Scalar b, Scalar c) {
    volatile Scalar in[] = {a, b, c};
    const std::vector<Scalar> lanes =
        lanes_of(operation(Vector::broadcast(in[0]), Vector::broadcast(in[1]), Vector::broadcast(in[2])));
    EXPECT_EQ(std::ranges::count(lanes, lanes[0]), width);
    return lanes[0];
  }
};

TYPED_TEST_SUITE(Simd, ConfigsOf<NoNorm>, ConfigName);

TYPED_TEST(Simd, NativeVectorsFillARegister) {
  if (std::is_same_v<typename TypeParam::Arch, evenkeel::scalar>) {
    EXPECT_EQ(this->width, 1);
  } else {
    EXPECT_GE(sizeof(typename TestFixture::Batch), 16u);
    EXPECT_EQ(sizeof(typename TestFixture::Batch),
              sizeof(typename TypeParam::Scalar) * static_cast<std::size_t>(this->width));
  }
}

TYPED_TEST(Simd, LoadAndStoreMoveEveryLaneAtAnyAddress) {
  using S = typename TestFixture::Vector;
  for (Index offset = 0; offset < 2 * this->width; ++offset) {
    const auto from = this->sequence(offset + this->width);
    auto to = this->sequence(offset, 1);
    to.resize(from.size());
    S::store(to.data() + offset, S::load(from.data() + offset));
    EXPECT_EQ(to, from);
  }
}

TYPED_TEST(Simd, LoadFirstTakesTheFirstLanesAndTheRestFromElsewhere) {
  using S = typename TestFixture::Vector;
  for (Index count = 0; count < this->width; ++count) {
    const auto values = this->sequence(count, 1);  // exactly as long as what may be read
    const auto rest = this->sequence(this->width, -1, -1);
    auto expected = rest;
    std::ranges::copy(values, expected.begin());
    EXPECT_EQ(this->lanes_of(S::load_first(values.data(), count, S::load(rest.data()))), expected) << count;
  }
}

TYPED_TEST(Simd, StoreFirstWritesTheFirstLanesAndNothingElse) {
  using S = typename TestFixture::Vector;
  const auto values = this->sequence(this->width, 1);
  for (Index count = 0; count < this->width; ++count) {
    auto out = this->sequence(this->width, -1, -1), expected = out;
    std::copy_n(values.begin(), count, expected.begin());
    S::store_first(out.data(), S::load(values.data()), count);
    EXPECT_EQ(out, expected) << count;

    out.resize(static_cast<std::size_t>(count));  // exactly as long as what may be written
    out.shrink_to_fit();
    S::store_first(out.data(), S::load(values.data()), count);
    EXPECT_TRUE(std::equal(out.begin(), out.end(), values.begin()));
  }
}

TYPED_TEST(Simd, SumTakesEveryLaneOnce) {
  using S = typename TestFixture::Vector;
  std::vector<typename TypeParam::Scalar> powers(static_cast<std::size_t>(this->width), 1);
  for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = 2 * powers[i - 1];
  EXPECT_EQ(S::sum(S::load(powers.data())), 2 * powers.back() - 1);
}

TYPED_TEST(Simd, FmaRoundsOnceWhereTheMachineCanAndTwiceElsewhere) {
  using S = typename TestFixture::Vector;
  using T = typename TypeParam::Scalar;
  const auto fma = [](auto a, auto b, auto c) { return S::fma(a, b, c); };
  EXPECT_EQ(this->in_all_lanes(fma, 2, 3, 5), 11);
  EXPECT_EQ(this->in_all_lanes(fma, -2, 3, 5), -1);
  // (1 + d) * (1 - d) is 1 - d^2, which rounds to 1.
  const T d = std::numeric_limits<T>::epsilon();
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  EXPECT_EQ(this->in_all_lanes(fma, 1 + d, 1 - d, -1), -d * d);
#else
  EXPECT_EQ(this->in_all_lanes(fma, 1 + d, 1 - d, -1), 0);
#endif
}

TYPED_TEST(Simd, AddIsNotContractedWithTheProductBeforeIt) {
  using T = typename TypeParam::Scalar;
  const T d = std::numeric_limits<T>::epsilon();
  EXPECT_EQ(this->in_all_lanes([](auto a, auto b, auto c) { return kernels::add(a * b, c); }, 1 + d, 1 - d, -1), 0);
  EXPECT_EQ(this->in_all_lanes([](auto a, auto b, auto c) { return kernels::add(c, a * b); }, 1 + d, 1 - d, -1), 0);
}

TYPED_TEST(Simd, KeepStopsReassociation) {
  using T = typename TypeParam::Scalar;
  const T tiny = std::numeric_limits<T>::epsilon() / 4;
  const auto rounded_away = [](auto a, auto b, auto) { return kernels::keep(a + b) - a; };
  EXPECT_EQ(this->in_all_lanes(rounded_away, 1, tiny, 0), 0);
}

template <int Unroll, class C>
void expect_every_column_once(Index n) {
  using T = typename C::Scalar;
  std::vector<Index> starts;
  std::vector<T> seen(static_cast<std::size_t>(n), 0), values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), T(1));
  kernels::for_each_vector<typename C::Arch, T, Unroll>(n, [&](auto k, Index j, auto lanes) {
    static_assert(0 <= k && k < Unroll);
    starts.push_back(j);
    lanes.store(seen.data() + j, lanes.load(seen.data() + j) + lanes.load(values.data() + j));
  });
  EXPECT_EQ(seen, values);
  for (std::size_t i = 0; i < starts.size(); ++i)
    EXPECT_EQ(starts[i], static_cast<Index>(i) * (kernels::Simd<typename C::Arch, T>::width)) << "n = " << n;
}

TYPED_TEST(Simd, ForEachVectorVisitsEveryColumnOnceInOrder) {
  for (Index n = 0; n <= 9 * this->width + 1; ++n) {
    expect_every_column_once<1, TypeParam>(n);
    expect_every_column_once<2, TypeParam>(n);
    expect_every_column_once<4, TypeParam>(n);
  }
}

TYPED_TEST(Simd, LanesOutsideATailAreZeroOrWhatIsAskedFor) {
  using S = typename TestFixture::Vector;
  using T = typename TypeParam::Scalar;
  const auto values = this->sequence(2 * this->width - 1, 10);
  Index columns = 0, vectors = 0;
  T zero_padded = 0, padded = 0;
  kernels::for_each_vector<typename TypeParam::Arch, T, 2>(
      static_cast<Index>(values.size()), [&](auto, Index j, auto lanes) {
        columns = std::max(columns, j);
        ++vectors;
        zero_padded += S::sum(lanes.load(values.data() + j));
        padded += S::sum(lanes.load(values.data() + j, S::broadcast(T(3))));
      });
  const T sum = std::accumulate(values.begin(), values.end(), T(0));
  const Index padding = vectors * this->width - static_cast<Index>(values.size());
  EXPECT_EQ(zero_padded, sum);
  EXPECT_EQ(padded, sum + static_cast<T>(3 * padding));
}

TYPED_TEST(Simd, PowerOfTwoBelowHasANormalInverse) {
  using T = typename TypeParam::Scalar;
  using Limits = std::numeric_limits<T>;
  const T largest = std::ldexp(T(1), Limits::max_exponent - 2);
  for (int exponent = Limits::min_exponent - 1; exponent <= Limits::max_exponent - 2; ++exponent) {
    const T power = std::ldexp(T(1), exponent);
    EXPECT_EQ(kernels::power_of_two_below(power), power);
    EXPECT_EQ(kernels::power_of_two_below(std::nextafter(2 * power, T(0))), power);
    EXPECT_EQ(kernels::power_of_two_below(T(1.5) * power), power);
  }
  EXPECT_EQ(kernels::power_of_two_below(T(0)), Limits::min());
  EXPECT_EQ(kernels::power_of_two_below(Limits::max()), largest);
  EXPECT_EQ(1 / largest, Limits::min());
  EXPECT_EQ(kernels::power_of_two_below(Limits::denorm_min()), Limits::min());
}

TYPED_TEST(Simd, WideSumLosesNothing) {
  using T = typename TypeParam::Scalar;
  const T tiny = std::numeric_limits<T>::epsilon() / 8;  // lost one by one in T
  kernels::WideSum<T> sum;
  sum.add(1);
  for (int i = 0; i < 1000; ++i) sum.add(tiny);
  sum.add(-1);
  EXPECT_NEAR(static_cast<double>(sum.value()), 1000.0 * static_cast<double>(tiny), 1e-12 * static_cast<double>(tiny));
}

TYPED_TEST(Simd, WideSumTakesItsTermsInAnyOrder) {
  using T = typename TypeParam::Scalar;
  kernels::WideSum<T> sum;  // the large term comes after the small ones
  for (int i = 0; i < 1000; ++i) sum.add(T(1));
  sum.add(1 / std::numeric_limits<T>::epsilon());
  sum.add(T(0.25));
  sum.add(-1 / std::numeric_limits<T>::epsilon());
  EXPECT_EQ(sum.value(), 1000.25);
}

}  // namespace
}  // namespace evenkeel_test
