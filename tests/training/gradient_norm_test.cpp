// Tests of training/gradient_norm.hpp: the norm against long double, magnitudes at both ends, and clipping.
#include "evenkeel/training/gradient_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "core/error_text.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"
#include "training/parameters.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::clip_gradient_norm;
using evenkeel::gradient_norm;
using evenkeel::Parameter;
using evenkeel::Shape;

template <class Scalar>
Parameters<Scalar> model_of(const std::vector<std::vector<Scalar>>& gradients) {
  Parameters<Scalar> model;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    model.add("p" + std::to_string(i), std::vector<Scalar>(gradients[i].size(), Scalar(1)));
    model.set_gradient(i, gradients[i]);
  }
  return model;
}

template <class Scalar>
long double exact_norm(const Parameters<Scalar>& model) {
  long double sum = 0;
  for (const auto& [path, parameter] : model.all) {
    for (const Scalar g : parameter.gradient()) sum += static_cast<long double>(g) * static_cast<long double>(g);
  }
  return std::sqrt(sum);
}

template <class Scalar>
double norm_of(const std::vector<std::vector<Scalar>>& gradients) {
  const auto model = model_of<Scalar>(gradients);
  return gradient_norm(model);
}

/// Sizes around the number of chains of the sum.
template <class Scalar>
std::vector<std::vector<Scalar>> random_gradients() {
  std::vector<std::vector<Scalar>> gradients;
  std::uint64_t seed = 1;
  for (const std::size_t size : {1, 7, 8, 9, 17, 0, 1001}) {
    gradients.push_back(normal_vector<Scalar>(size, seed, 0.1, static_cast<double>(seed)));
    ++seed;
  }
  return gradients;
}

template <class Scalar>
class GradientNorm : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(GradientNorm, Scalars);

TYPED_TEST(GradientNorm, IsThatOfAllGradientsTogether) {
  const auto model = model_of<TypeParam>(random_gradients<TypeParam>());
  EXPECT_NEAR(gradient_norm(model), static_cast<double>(exact_norm(model)), 4e-16 * 200);  // the norm is 210
  auto mutable_model = model;
  EXPECT_EQ(gradient_norm(mutable_model), gradient_norm(model));
}

TYPED_TEST(GradientNorm, CountsEveryNumberOnce) {
  for (std::size_t size = 1; size < 20; ++size) {
    std::vector<TypeParam> gradient(size);
    double squares = 0;
    for (std::size_t i = 0; i < size; ++i) {
      gradient[i] = static_cast<TypeParam>(i + 3);
      squares += static_cast<double>((i + 3) * (i + 3));
    }
    EXPECT_EQ(norm_of<TypeParam>({gradient}), std::sqrt(squares));
  }
}

TYPED_TEST(GradientNorm, IsZeroWithoutGradients) {
  Parameters<TypeParam> model;
  EXPECT_EQ(gradient_norm(model), 0);
  model.add("p", {1, 2});
  EXPECT_EQ(gradient_norm(model), 0) << "no gradient yet";
  model.set_gradient(0, {0, 0});
  EXPECT_EQ(gradient_norm(model), 0);
}

/// Squares beyond the range of the type, and for double of everything that the processor computes with.
TYPED_TEST(GradientNorm, DoesNotOverflowOrVanish) {
  const bool is_float = sizeof(TypeParam) == sizeof(float);
  const auto large = static_cast<TypeParam>(is_float ? 1e30 : 1e300), small = 1 / large;
  for (const TypeParam g :
       {large, small, std::numeric_limits<TypeParam>::max() / 8, std::numeric_limits<TypeParam>::denorm_min()}) {
    const auto model = model_of<TypeParam>({{3 * g, 0}, {}, {0, 4 * (g / 2), -4 * (g / 2)}});
    const double expected = static_cast<double>(exact_norm(model));
    EXPECT_NEAR(gradient_norm(model) / expected, 1, 4e-16) << g;
  }
  const auto both = model_of<TypeParam>({{small}, {3 * large, 4 * large}});
  EXPECT_NEAR(gradient_norm(both) / static_cast<double>(large), 5, 5e-7) << "the small one counts nothing";
}

TYPED_TEST(GradientNorm, OfNaNIsNaNAndOfInfinityInfinite) {
  const TypeParam nan = std::numeric_limits<TypeParam>::quiet_NaN(), inf = std::numeric_limits<TypeParam>::infinity();
  for (const bool is_first : {true, false}) {
    const auto with = [&](TypeParam a, TypeParam b) {
      return is_first ? norm_of<TypeParam>({{1, a}, {b, 2}}) : norm_of<TypeParam>({{b, 2}, {1, a}});
    };
    EXPECT_TRUE(std::isnan(with(nan, 1)));
    EXPECT_TRUE(std::isnan(with(nan, inf)));
    EXPECT_EQ(with(-inf, 1), std::numeric_limits<double>::infinity());
  }
}

// ---------------------------------------------------------------- clipping

/// Coefficient max_norm / (norm + 1e-6), as in torch.nn.utils.clip_grad_norm_.
TYPED_TEST(GradientNorm, IsClippedByOneFactor) {
  auto model = model_of<TypeParam>(random_gradients<TypeParam>());
  const auto before = random_gradients<TypeParam>();
  const double norm = gradient_norm(model);
  EXPECT_EQ(clip_gradient_norm(model, 0.75), norm) << "the norm before";
  const long double factor = 0.75L / (exact_norm(model_of<TypeParam>(before)) + 1e-6L);
  for (std::size_t i = 0; i < before.size(); ++i) {
    std::vector<long double> expected, scale;
    for (const TypeParam g : before[i]) {
      expected.push_back(factor * static_cast<long double>(g));
      scale.push_back(std::abs(expected.back()));
    }
    EXPECT_TRUE(within_ulp(model.gradient(i), expected, 1.01, scale)) << i;
  }
  EXPECT_NEAR(gradient_norm(model), 0.75, 1e-8);
}

/// A norm as small as the 1e-6 shows which side of the division that stands on.
TEST(ClipGradientNorm, AddsAMillionthToTheNorm) {
  auto model = model_of<double>({{3e-6}, {4e-6}});
  EXPECT_DOUBLE_EQ(clip_gradient_norm(model, 3e-6), 5e-6);
  EXPECT_DOUBLE_EQ(model.gradient(0)[0], 1.5e-6);
  EXPECT_DOUBLE_EQ(model.gradient(1)[0], 2e-6);
  auto not_above = model_of<double>({{3e-6, 4e-6}});
  EXPECT_DOUBLE_EQ(clip_gradient_norm(not_above, 5.5e-6), 5e-6);
  EXPECT_DOUBLE_EQ(not_above.gradient(0)[0], 3e-6 * (5.5 / 6)) << "as PyTorch does: 5.5e-6 / (5e-6 + 1e-6) is below 1";
}

TYPED_TEST(GradientNorm, LeavesGradientsWithinTheBoundAsTheyAre) {
  const auto before = random_gradients<TypeParam>();
  auto model = model_of<TypeParam>(before);
  for (const double max_norm : {1e4, 1e300, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(clip_gradient_norm(model, max_norm), gradient_norm(model));
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(model.gradient(i), before[i]);
  }
}

TEST(ClipGradientNorm, ToZeroSetsGradientsToZero) {
  auto model = model_of<float>({{3, 4}});
  EXPECT_EQ(clip_gradient_norm(model, 0), 5);
  EXPECT_EQ(model.gradient(0), (std::vector<float>{0, 0}));
  EXPECT_EQ(clip_gradient_norm(model, 0), 0) << "of zeros";
}

TEST(ClipGradientNorm, LeavesGradientsWithoutAFiniteNormAsTheyAre) {
  const float inf = std::numeric_limits<float>::infinity();
  auto model = model_of<float>({{3, inf}, {4}});
  EXPECT_EQ(clip_gradient_norm(model, 1), std::numeric_limits<double>::infinity());
  EXPECT_EQ(model.gradient(0), (std::vector<float>{3, inf}));
  EXPECT_EQ(model.gradient(1), (std::vector<float>{4}));
  model.set_gradient(0, {3, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_TRUE(std::isnan(clip_gradient_norm(model, 1)));
  EXPECT_EQ(model.gradient(0)[0], 3);
  EXPECT_EQ(model.gradient(1)[0], 4);
}

/// Clipping writes gradients, which a parameter owns whatever its value is.
TEST(ClipGradientNorm, TakesParametersMappedFromConstMemory) {
  const float values[] = {1, 2};
  Parameters<float> model;
  model.all.emplace_back("p", Parameter<float>::map(values, Shape{2}));
  model.set_gradient(0, {3, 4});
  EXPECT_EQ(clip_gradient_norm(model, 1), 5);
  EXPECT_FLOAT_EQ(model.gradient(0)[0], 0.6f);
}

TEST(ClipGradientNorm, SixteenBits) {
  auto model = Parameters<Eigen::bfloat16>();
  model.add("p", std::vector<Eigen::bfloat16>(2));
  model.set_gradient(0, {Eigen::bfloat16(3), Eigen::bfloat16(-4)});
  EXPECT_EQ(gradient_norm(model), 5);
  EXPECT_EQ(clip_gradient_norm(model, 2.5), 5);
  EXPECT_EQ(static_cast<float>(model.gradient(0)[0]), 1.5f);
  EXPECT_EQ(static_cast<float>(model.gradient(0)[1]), -2);
}

TEST(ClipGradientNorm, RefusesANormThatIsNegativeOrNaN) {
  auto model = model_of<float>({{3, 4}});
  EXPECT_EQ(error_text<std::invalid_argument>([&] { clip_gradient_norm(model, -0.5); }),
            "evenkeel::clip_gradient_norm: max_norm is -0.500000, expected a number of at least 0");
  EXPECT_EQ(
      error_text<std::invalid_argument>([&] { clip_gradient_norm(model, std::numeric_limits<double>::quiet_NaN()); }),
      "evenkeel::clip_gradient_norm: max_norm is nan, expected a number of at least 0");
  EXPECT_EQ(model.gradient(0), (std::vector<float>{3, 4}));
}

}  // namespace
}  // namespace evenkeel_test
