// Tests of training/adamw.hpp: ten steps against long double, numbers of PyTorch's formulas, and settings.
#include "evenkeel/training/adamw.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "core/error_text.hpp"
#include "training/optimizer_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::AdamW;
using evenkeel::AdamWSettings;

/// Algorithm 2 of Loshchilov and Hutter with eta = 1, its weight decay times the learning rate as in PyTorch.
class AdamWOracle {
 public:
  AdamWOracle(const AdamWSettings& settings, Reals start) : s_(settings), w(std::move(start)) {}

  template <class Scalar>
  void step(const std::vector<Scalar>& gradient, long double factor) {
    ++t_;
    const long double rate = factor * s_.learning_rate, beta1 = s_.beta1, beta2 = s_.beta2;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const long double g = gradient[i];
      m_[i] = beta1 * m_[i] + (1 - beta1) * g;
      v_[i] = beta2 * v_[i] + (1 - beta2) * g * g;
      const long double m_hat = m_[i] / (1 - std::pow(beta1, t_)), v_hat = v_[i] / (1 - std::pow(beta2, t_));
      w[i] -= rate * (m_hat / (std::sqrt(v_hat) + s_.eps) + s_.weight_decay * w[i]);
    }
  }

 private:
  AdamWSettings s_;

 public:
  Reals w;

 private:
  Reals m_ = Reals(w.size()), v_ = Reals(w.size());
  long double t_ = 0;
};

template <class Scalar>
class AdamWOf : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(AdamWOf, Scalars);

TYPED_TEST(AdamWOf, TenStepsAreThoseOfLongDouble) {
  for (const AdamWSettings& settings :
       {AdamWSettings{},
        AdamWSettings{.learning_rate = 0.1, .beta1 = 0.7, .beta2 = 0.9, .eps = 0.05, .weight_decay = 0.5},
        AdamWSettings{.beta1 = 0, .beta2 = 0, .weight_decay = 0}}) {
    SCOPED_TRACE(settings.learning_rate);
    expect_ten_steps_of<AdamWOracle, TypeParam>(AdamW<TypeParam>(settings), 8);  // measured: 3.7
  }
}

/// torch.optim.AdamW's own sequence of operations, computed in double with Python.
TEST(AdamW, ThreeStepsAreThoseOfPyTorch) {
  const auto train = [](const AdamWSettings& settings) { return after_three_steps(AdamW<double>(settings)); };
  const std::vector<double> defaults = {0.9995679534515004, -2.000106752022981, 0.4977972248131823};
  EXPECT_TRUE(within(train({}), defaults, 1e-15));
  const std::vector<double> others = {0.8259842614440932, -1.7494219415647363, 0.23142503228417083};
  EXPECT_TRUE(within(train({.learning_rate = 0.1, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.5}),
                     others, 1e-15));
}

/// m / (1 - beta1) = g and v / (1 - beta2) = g^2: without either correction of the bias the step would be another.
TEST(AdamW, TheFirstStepIsTheLearningRateWhateverTheGradient) {
  Parameters<double> model;
  model.add("w", {1, -2, 0.5});
  model.set_gradient(0, {1e-3, -7e8, 0});
  AdamW<double>({.learning_rate = 0.25, .eps = 0, .weight_decay = 0}).step(model);
  EXPECT_NEAR(model.values(0)[0], 0.75, 1e-14);
  EXPECT_NEAR(model.values(0)[1], -1.75, 1e-14);
  EXPECT_TRUE(std::isnan(model.values(0)[2])) << "0 / 0, without an eps";
}

/// The decay does not go through the running averages: with a gradient of 0 values shrink by 1 - rate * decay.
TEST(AdamW, DecaysValuesApartFromGradients) {
  Parameters<double> model;
  model.add("w", {8});
  AdamW<double> optimizer({.learning_rate = 0.5, .weight_decay = 0.5});
  for (int step = 0; step < 3; ++step) {
    model.set_gradient(0, {0});
    optimizer.step(model);
  }
  EXPECT_DOUBLE_EQ(model.values(0)[0], 8 * 0.75 * 0.75 * 0.75);
}

/// 1 - 1e-6 is off by 3 % of the decay as a float; the decay is right on average where it is computed in double.
TEST(AdamW, DecaysFloatsByTheRightShare) {
  Parameters<float> model;
  const auto start = normal_vector<float>(1000, 1, 0, 1);
  model.add("w", start);
  model.set_gradient(0, std::vector<float>(1000));
  AdamW<float> optimizer({.learning_rate = 1e-4, .weight_decay = 1e-2});
  double share = 0;
  for (int step = 0; step < 30; ++step) optimizer.step(model);
  for (std::size_t i = 0; i < 1000; ++i) share += 1 - static_cast<double>(model.values(0)[i] / start[i]);
  EXPECT_NEAR(share / 1000 / 30e-6, 1, 0.02);
}

TEST(AdamW, RefusesSettingsOutOfRange) {
  const auto text = [](const AdamWSettings& settings) {
    return error_text<std::invalid_argument>([&] { AdamW<float>{settings}; });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(text({.learning_rate = -0.5}),
            "evenkeel::AdamW: learning_rate is -0.500000, expected a finite number of at least 0");
  EXPECT_EQ(text({.learning_rate = inf}),
            "evenkeel::AdamW: learning_rate is inf, expected a finite number of at least 0");
  EXPECT_EQ(text({.beta1 = 1}), "evenkeel::AdamW: beta1 is 1.000000, expected at least 0 and below 1");
  EXPECT_EQ(text({.beta2 = -0.5}), "evenkeel::AdamW: beta2 is -0.500000, expected at least 0 and below 1");
  EXPECT_EQ(text({.beta2 = nan}), "evenkeel::AdamW: beta2 is nan, expected at least 0 and below 1");
  EXPECT_EQ(text({.eps = nan}), "evenkeel::AdamW: eps is nan, expected a finite number of at least 0");
  EXPECT_EQ(text({.weight_decay = -1}),
            "evenkeel::AdamW: weight_decay is -1.000000, expected a finite number of at least 0");
  EXPECT_EQ(AdamW<float>({.eps = 0.5}).settings().eps, 0.5);
}

}  // namespace
}  // namespace evenkeel_test
