// BatchNorm of the library's own storage types, behind pointers: the bits that Eigen's types give.
#include <ostream>

#include "ops/batch_norm_16_bit_data.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {
template <StorageFormat Format>
std::ostream& operator<<(std::ostream& out, const Stored<Format>& value) {
  return out << static_cast<float>(value);
}
}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel

namespace evenkeel_test {

template <>
inline const kernels::bf16 poison<kernels::bf16>{std::numeric_limits<float>::quiet_NaN()};
template <>
inline const kernels::f16 poison<kernels::f16>{std::numeric_limits<float>::quiet_NaN()};

namespace {

template <class A, class B>
bool are_same_bits(const std::vector<A>& a, const std::vector<B>& b) {
  static_assert(sizeof(A) == sizeof(B));
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(A)) == 0;
}

/// The same bits as another type.
template <class S, class From>
std::vector<S> as_stored(const std::vector<From>& values) {
  std::vector<S> result(values.size());
  std::memcpy(result.data(), values.data(), values.size() * sizeof(S));
  return result;
}
template <class S, class From>
BatchData<S> as_stored(const BatchData<From>& d) {
  return {d.shape,
          d.channel_axis,
          as_stored<S>(d.x),
          as_stored<S>(d.dy),
          as_stored<S>(d.gamma),
          as_stored<S>(d.beta),
          d.running_mean,
          d.running_var,
          d.eps};
}

template <class S, class EigenType>
void expect_the_same_bits() {
  for (const auto& [shape, axis] : {std::pair{Shape{40, 65}, 1}, {Shape{2, 3, 4, 5}, 1}, {Shape{2, 4, 5, 3}, -1}}) {
    const auto d = random_batch<EigenType>(shape, axis, 3);
    std::vector<std::uint8_t> mask(d.channels().values(), 1);
    mask[1] = mask.back() = 0;
    for (const auto& flags : {std::vector<std::uint8_t>(), mask}) {
      for (const auto mode : {Batch16Mode::training, Batch16Mode::frozen, Batch16Mode::inference}) {
        const auto r = run_with_mask(as_stored<S>(d), storages()[0], flags, mode, true);
        const auto expected = run_with_mask(d, storages()[0], flags, mode, true);
        EXPECT_TRUE(are_same_bits(r.y, expected.y));
        EXPECT_TRUE(are_same_bits(r.dx, expected.dx));
        EXPECT_TRUE(are_same_bits(r.dgamma, expected.dgamma));
        EXPECT_TRUE(are_same_bits(r.dbeta, expected.dbeta));
      }
    }
  }
}

TEST(BatchNormStorage, StorageTypesHaveTheBitsOfEigens) {
  expect_the_same_bits<kernels::bf16, Eigen::bfloat16>();
  expect_the_same_bits<kernels::f16, Eigen::half>();
}

}  // namespace
}  // namespace evenkeel_test
