// Tests of what every optimizer does with the parameters of a model: which it updates, and which it refuses.
#include "evenkeel/detail/optimizer_state.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "core/error_text.hpp"
#include "evenkeel/training/adamw.hpp"
#include "evenkeel/training/sgd.hpp"
#include "training/parameters.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Parameter;
using evenkeel::Shape;
using Values = std::vector<float>;

struct AdamWForTest : evenkeel::AdamW<float> {
  static constexpr const char* name = "AdamW";
};
struct SGDForTest : evenkeel::SGD<float> {
  static constexpr const char* name = "SGD";
  SGDForTest() : SGD<float>({.momentum = 0.9}) {}
};

template <class Optimizer>
class AnyOptimizer : public testing::Test {
 protected:
  Parameters<float> two() {
    Parameters<float> model;
    model.add("first", {1, 2});
    model.add("second", {3, 4, 5});
    for (const std::size_t i : {0, 1}) model.set_gradient(i, Values(model.values(i).size(), 0.5f));
    return model;
  }
  /// What the step is refused with; nothing must have been written.
  std::string refused(Optimizer& optimizer, Parameters<float>& model) {
    std::vector<Values> before;
    for (std::size_t i = 0; i < model.all.size(); ++i) before.push_back(model.values(i));
    const std::string text = error_text<std::invalid_argument>([&] { optimizer.step(model); });
    for (std::size_t i = 0; i < model.all.size(); ++i) EXPECT_EQ(model.values(i), before[i]) << i;
    return text;
  }
  std::string where = "evenkeel::" + std::string(Optimizer::name) + "::step: ";
};
using Optimizers = testing::Types<AdamWForTest, SGDForTest>;
TYPED_TEST_SUITE(AnyOptimizer, Optimizers);

TYPED_TEST(AnyOptimizer, UpdatesEveryParameter) {
  TypeParam optimizer;
  auto model = this->two();
  optimizer.step(model);
  for (const std::size_t i : {0, 1}) {
    for (std::size_t k = 0; k < model.values(i).size(); ++k) EXPECT_LT(model.values(i)[k], this->two().values(i)[k]);
  }
}

TYPED_TEST(AnyOptimizer, KeepsAStateForEachParameter) {
  TypeParam both, alone;
  auto model = this->two();
  Parameters<float> second;
  second.add("second", model.values(1));
  for (const float g : {0.5f, -2.0f, 0.25f}) {
    model.set_gradient(0, Values(2, 100 * g));
    model.set_gradient(1, Values(3, g));
    second.set_gradient(0, Values(3, g));
    both.step(model);
    alone.step(second);
  }
  EXPECT_EQ(model.values(1), second.values(0));
}

/// And its steps do not count: its first update is as that of a new optimizer.
TYPED_TEST(AnyOptimizer, LeavesOutParametersWithoutAGradient) {
  TypeParam optimizer;
  auto model = this->two();
  model.all[1].second = Parameter<float>(Shape{3}, 7);
  for (int step = 0; step < 3; ++step) optimizer.step(model);
  EXPECT_NE(model.values(0), (Values{1, 2}));
  EXPECT_EQ(model.values(1), Values(3, 7));
  model.set_gradient(1, {1, 2, -3});
  optimizer.step(model);
  Parameters<float> fresh;
  fresh.add("second", Values(3, 7));
  fresh.set_gradient(0, {1, 2, -3});
  TypeParam().step(fresh);
  EXPECT_EQ(model.values(1), fresh.values(0));
}

TYPED_TEST(AnyOptimizer, OfAModelWithoutParametersDoesNothing) {
  TypeParam optimizer;
  Parameters<float> empty;
  optimizer.step(empty);
}

TYPED_TEST(AnyOptimizer, WritesToMappedMemory) {
  TypeParam optimizer;
  Values memory = {1, 2};
  Parameters<float> model;
  model.all.emplace_back("w", Parameter<float>::map(memory.data(), Shape{2}));
  model.set_gradient(0, {1, -1});
  optimizer.step(model);
  EXPECT_LT(memory[0], 1);
  EXPECT_GT(memory[1], 1.99f);
  EXPECT_NE(memory[1], 2);
}

TYPED_TEST(AnyOptimizer, AFactorOfZeroChangesNoValue) {
  TypeParam optimizer;
  auto model = this->two();
  optimizer.step(model, 0);
  for (const std::size_t i : {0, 1}) EXPECT_EQ(model.values(i), this->two().values(i));
}

/// After the first parameter, so that a check that comes too late would have written that.
TYPED_TEST(AnyOptimizer, RefusesConstMemoryByName) {
  const Values memory = {3, 4, 5};
  for (const bool has_gradient : {true, false}) {
    TypeParam optimizer;
    auto model = this->two();
    model.all[1].second = Parameter<float>::map(memory.data(), Shape{3});
    if (has_gradient) model.set_gradient(1, {1, 1, 1});
    EXPECT_EQ(this->refused(optimizer, model), this->where +
                                                   "second is mapped from const memory, expected writable "
                                                   "memory (a copy of the model owns its values)");
    Parameters<float> copy = model;
    optimizer.step(copy);
  }
  EXPECT_EQ(memory, (Values{3, 4, 5}));
}

TYPED_TEST(AnyOptimizer, RefusesAnotherModelThanBefore) {
  TypeParam optimizer;
  auto model = this->two();
  optimizer.step(model);
  auto renamed = model, resized = model, longer = model, shorter = model;
  renamed.all[1].first = "third";
  resized.all[1].second = Parameter<float>(Shape{3, 1});
  longer.add("third", {1});
  shorter.all.pop_back();
  EXPECT_EQ(this->refused(optimizer, renamed), this->where +
                                                   "parameter 1 is third of shape [3], expected second of "
                                                   "shape [3] (as in the first step)");
  EXPECT_EQ(this->refused(optimizer, resized), this->where +
                                                   "parameter 1 is second of shape [3, 1], expected second "
                                                   "of shape [3] (as in the first step)");
  EXPECT_EQ(this->refused(optimizer, longer), this->where +
                                                  "parameter 2 is third of shape [1], expected none (as in "
                                                  "the first step)");
  EXPECT_EQ(this->refused(optimizer, shorter), this->where +
                                                   "parameter 1 is none, expected second of shape [3] (as in "
                                                   "the first step)");
  const auto before = model.values(1);
  optimizer.step(model);
  EXPECT_NE(model.values(1), before) << "goes on";
}

/// A refused step is no step: the state is that of the steps before.
TYPED_TEST(AnyOptimizer, ARefusedStepLeavesTheStateAsItWas) {
  TypeParam optimizer, other;
  auto model = this->two(), same = this->two();
  optimizer.step(model);
  other.step(same);
  auto longer = model;
  longer.add("third", {1});
  this->refused(optimizer, longer);
  optimizer.step(model);
  other.step(same);
  EXPECT_EQ(model.values(0), same.values(0));
  EXPECT_EQ(model.values(1), same.values(1));
}

TYPED_TEST(AnyOptimizer, RefusesAFactorThatIsNegative) {
  TypeParam optimizer;
  auto model = this->two();
  EXPECT_EQ(error_text<std::invalid_argument>([&] { optimizer.step(model, -0.5); }),
            this->where + "rate_factor is -0.500000, expected a finite number of at least 0");
  EXPECT_EQ(model.values(0), (Values{1, 2}));
}

}  // namespace
}  // namespace evenkeel_test
