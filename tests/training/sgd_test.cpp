// Tests of training/sgd.hpp: ten steps against long double, numbers of PyTorch's formulas, and settings.
#include "evenkeel/training/sgd.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <vector>

#include "core/error_text.hpp"
#include "training/optimizer_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::SGD;
using evenkeel::SGDSettings;

/// The algorithm in the documentation of torch.optim.SGD, without dampening.
class SGDOracle {
 public:
  SGDOracle(const SGDSettings& settings, Reals start) : s_(settings), w(std::move(start)) {}

  template <class Scalar>
  void step(const std::vector<Scalar>& gradient, long double factor) {
    for (std::size_t i = 0; i < w.size(); ++i) {
      long double g = gradient[i] + s_.weight_decay * w[i];
      if (s_.momentum != 0) {
        b_[i] = is_first_ ? g : s_.momentum * b_[i] + g;
        g = s_.nesterov ? g + s_.momentum * b_[i] : b_[i];
      }
      w[i] -= factor * s_.learning_rate * g;
    }
    is_first_ = false;
  }

 private:
  SGDSettings s_;

 public:
  Reals w;

 private:
  Reals b_ = Reals(w.size());
  bool is_first_ = true;
};

template <class Scalar>
class SGDOf : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(SGDOf, Scalars);

TYPED_TEST(SGDOf, TenStepsAreThoseOfLongDouble) {
  for (const SGDSettings& settings :
       {SGDSettings{}, SGDSettings{.learning_rate = 0.1, .weight_decay = 0.25},
        SGDSettings{.learning_rate = 0.1, .momentum = 0.75, .weight_decay = 0.25},
        SGDSettings{.learning_rate = 0.1, .momentum = 0.75, .weight_decay = 0.25, .nesterov = true}}) {
    SCOPED_TRACE(settings.momentum);
    expect_ten_steps_of<SGDOracle, TypeParam>(SGD<TypeParam>(settings), 4);  // measured: 2.1
  }
}

/// torch.optim.SGD's own sequence of operations, computed in double with Python.
TEST(SGD, ThreeStepsAreThoseOfPyTorch) {
  const auto train = [](const SGDSettings& settings) { return after_three_steps(SGD<double>(settings)); };
  using Values = std::vector<double>;
  EXPECT_TRUE(within(train({.learning_rate = 0.1}), Values{1.005, -2.13, 0.2001}, 1e-15));
  EXPECT_TRUE(within(train({.learning_rate = 0.1, .momentum = 0.9}), Values{1.0239, -2.1408, -0.3129}, 1e-15));
  EXPECT_TRUE(within(train({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}),
                     Values{1.018292789, -2.129615578, -0.3145629005}, 1e-15));
  EXPECT_TRUE(within(train({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}),
                     Values{1.018433412551, -2.240675125102, -0.5324402071295}, 1e-15));
}

TEST(SGD, RefusesSettingsOutOfRange) {
  const auto text = [](const SGDSettings& settings) {
    return error_text<std::invalid_argument>([&] { SGD<float>{settings}; });
  };
  EXPECT_EQ(text({.learning_rate = -0.5}),
            "evenkeel::SGD: learning_rate is -0.500000, expected a finite number of at least 0");
  EXPECT_EQ(text({.momentum = 1}), "evenkeel::SGD: momentum is 1.000000, expected at least 0 and below 1");
  EXPECT_EQ(text({.weight_decay = std::numeric_limits<double>::infinity()}),
            "evenkeel::SGD: weight_decay is inf, expected a finite number of at least 0");
  EXPECT_EQ(text({.nesterov = true}), "evenkeel::SGD: momentum is 0, expected more with nesterov");
  EXPECT_EQ(SGD<float>({.momentum = 0.5}).settings().momentum, 0.5);
}

}  // namespace
}  // namespace evenkeel_test
