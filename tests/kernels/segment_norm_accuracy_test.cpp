// The accuracy contract for groups of segments: every kind of group, however it is cut into segments.
#include "kernels/segment_norm_test.hpp"

namespace evenkeel_test {
namespace {

template <class C>
class SegmentNormAccuracy : public testing::Test {
 protected:
  using Scalar = typename C::Scalar;

  /// With -ffast-math subnormal numbers are zeros, in x and in the dx of the largest groups.
  static std::vector<InputFamily<Scalar>> families() {
    auto families = input_families<Scalar>();
    if (fast_math) {
      const bool is_float = std::is_same_v<Scalar, float>;
      std::erase_if(families, [&](const auto& family) {
        return family.name.starts_with(is_float ? "1e30 " : "1e300 ") ||
               (is_float && family.name.starts_with("1e-38 "));
      });
    }
    return families;
  }

  static SegmentData<Scalar> data(const InputFamily<Scalar>& family, const SegmentShape& shape) {
    auto d = random_segments<Scalar>(shape, 401);
    d.x = family_rows(family, static_cast<std::size_t>(shape.outer * shape.groups),
                      static_cast<std::size_t>(shape.group_size()), 409);
    d.eps = family.eps;
    for (Scalar& value : d.dy) value /= 64;  // so that no dx overflows, though rstd be 1e38
    return d;
  }
};
TYPED_TEST_SUITE(SegmentNormAccuracy, ConfigsOf<NoNorm>, ConfigName);

TYPED_TEST(SegmentNormAccuracy, HoldsForEveryInputFamilyHoweverItIsCut) {
  for (const auto& family : this->families()) {
    for (const auto& [segments, columns] : {std::pair{1, 7}, {5, 1}, {40, 3}, {33, 17}, {2, 3136}, {49, 64}}) {
      for (const auto& shape : layouts_of({.segments = segments, .columns = columns})) {
        SCOPED_TRACE(family.name + ", " + shape.text());
        auto d = this->data(family, shape);
        expect_contract<TypeParam>(d);
        d.gamma.clear(), d.beta.clear();
        EXPECT_TRUE(within_ulp(forward<TypeParam>(d).rows.y, expected_y(d), contract_ulps));
      }
    }
  }
}

TYPED_TEST(SegmentNormAccuracy, HoldsForLargeGroups) {
  for (const auto& family : this->families()) {
    for (const auto& [segments, columns] : {std::pair{1, 65536}, {22000, 3}, {70, 1000}}) {
      SegmentShape shape{.outer = 1, .groups = 1, .segments = segments, .columns = columns};
      shape.per = segments == 70 ? Per::group : Per::segment;
      if (segments == 22000) shape.per = Per::column;
      SCOPED_TRACE(family.name + ", " + shape.text());
      expect_contract<TypeParam>(this->data(family, shape));
    }
  }
}

// With terms of one sign, so that the sums grow with the number of elements, not with its root.
TYPED_TEST(SegmentNormAccuracy, ParameterGradientsOfManyElementsAreWithinAMillionthOfTheLargest) {
  using T = typename TypeParam::Scalar;
  for (const auto& shape : layouts_of({.outer = 50, .groups = 2, .segments = 40, .columns = 25})) {
    SCOPED_TRACE(shape.text());
    auto d = random_segments<T>(shape, 419, 1);
    d.dy = d.x;
    const auto got = gradients<TypeParam>(d, {.wanted = {.dx = false}});
    const auto expected = expected_gradients(d);
    const long double tolerance = 1e-6L * ulp<T>() / ulp<float>();
    EXPECT_TRUE(within(got.dgamma, expected.dgamma, tolerance * oracle::largest_magnitude(expected.dgamma)));
    EXPECT_TRUE(within(got.dbeta, expected.dbeta, tolerance * oracle::largest_magnitude(expected.dbeta)));
  }
}

}  // namespace
}  // namespace evenkeel_test
