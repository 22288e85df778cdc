#include "evenkeel/core/parameter.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "core/error_text.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::for_each_parameter;
using evenkeel::Parameter;
using evenkeel::Shape;
using evenkeel::zero_gradients;

using Values = std::vector<float>;

Values values_of(const Parameter<float>& parameter) { return {parameter.values().begin(), parameter.values().end()}; }
Values gradient_of(const Parameter<float>& parameter) {
  return {parameter.gradient().begin(), parameter.gradient().end()};
}

/// As a backward does.
void add_gradient(Parameter<float>& parameter, float amount) {
  float* gradient = parameter.gradient_to_add_to();
  for (evenkeel::Index i = 0; i < parameter.size(); ++i) gradient[i] += amount;
  parameter.commit_gradient();
}

TEST(Parameter, IsAbsentUnlessMade) {
  Parameter<float> parameter;
  EXPECT_TRUE(parameter.is_absent());
  EXPECT_TRUE(parameter.is_writable());
  EXPECT_EQ(parameter.size(), 0);
  EXPECT_TRUE(parameter.values().empty());
  EXPECT_TRUE(parameter.mutable_values().empty());
  EXPECT_FALSE(parameter.has_gradient());
}

TEST(Parameter, ThatIsAbsentHasNoGradientAfterABackward) {
  Parameter<float> parameter;
  parameter.gradient_to_add_to();
  parameter.commit_gradient();
  EXPECT_FALSE(parameter.has_gradient());
}

TEST(Parameter, OwnsAValueThatStartsFilled) {
  const Parameter<float> parameter({2, 3}, 1.5f);
  EXPECT_FALSE(parameter.is_absent());
  EXPECT_TRUE(parameter.is_writable());
  EXPECT_EQ(parameter.shape(), (Shape{2, 3}));
  EXPECT_EQ(parameter.size(), 6);
  EXPECT_EQ(values_of(parameter), Values(6, 1.5f));
  EXPECT_EQ(parameter.view().data(), parameter.data());
  EXPECT_EQ(parameter.view().shape(), parameter.shape());
  EXPECT_EQ(values_of(Parameter<float>(3)), Values(3, 0.0f));
}

TEST(Parameter, OfNoElementsIsThere) {
  const Parameter<float> parameter(Shape{0});
  EXPECT_FALSE(parameter.is_absent());
  EXPECT_TRUE(parameter.is_writable());
  EXPECT_TRUE(parameter.values().empty());
}

TEST(Parameter, IsLoadedFromAPointer) {
  Parameter<float> parameter(3);
  const float source[] = {1, 2, 3};
  parameter.load(source, 3);
  EXPECT_EQ(values_of(parameter), (Values{1, 2, 3}));
}

TEST(Parameter, IsNotLoadedFromAnotherNumberOfNumbers) {
  Parameter<float> parameter({2, 3}, 7);
  const Values source(5);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { parameter.load(source.data(), 5); }),
            "evenkeel::Parameter::load: 5 numbers, expected 6 (the parameter has shape [2, 3])");
  EXPECT_EQ(values_of(parameter), Values(6, 7));
}

TEST(Parameter, IsWrittenThroughItsMutableValues) {
  Parameter<float> parameter(2);
  parameter.mutable_values()[1] = 5;
  EXPECT_EQ(values_of(parameter), (Values{0, 5}));
}

// ---------------------------------------------------------------- mapped

TEST(Parameter, MapsMemoryOfTheCallers) {
  Values memory = {1, 2, 3};
  auto parameter = Parameter<float>::map(memory.data(), 3);
  EXPECT_EQ(parameter.data(), memory.data());
  EXPECT_TRUE(parameter.is_writable());
  memory[0] = 9;
  EXPECT_EQ(values_of(parameter), (Values{9, 2, 3}));
  parameter.mutable_values()[1] = 8;
  EXPECT_EQ(memory, (Values{9, 8, 3}));
  const Values source = {4, 5, 6};
  parameter.load(source.data(), 3);
  EXPECT_EQ(memory, source);
}

TEST(Parameter, MapsConstMemoryAndNeverWritesToIt) {
  const Values memory = {1, 2, 3};
  auto parameter = Parameter<float>::map(memory.data(), 3);
  EXPECT_FALSE(parameter.is_writable());
  EXPECT_EQ(values_of(parameter), memory);
  const char* text = "evenkeel::Parameter: value is mapped from const memory, expected writable memory";
  EXPECT_EQ(error_text<std::logic_error>([&] { parameter.mutable_values(); }), text);
  EXPECT_EQ(error_text<std::logic_error>([&] { parameter.load(memory.data(), 3); }), text);
  EXPECT_EQ(memory, (Values{1, 2, 3}));
}

TEST(Parameter, MappedFromConstMemoryHasAGradientOfItsOwn) {
  const Values memory = {1, 2, 3};
  auto parameter = Parameter<float>::map(memory.data(), 3);
  add_gradient(parameter, 2);
  EXPECT_EQ(gradient_of(parameter), Values(3, 2));
  EXPECT_EQ(memory, (Values{1, 2, 3}));
}

// ---------------------------------------------------------------- copies and moves

TEST(Parameter, CopiesOwnTheirValue) {
  Parameter<float> original(3, 1);
  add_gradient(original, 2);
  Parameter<float> copy = original;
  original.mutable_values()[0] = 9;
  original.mutable_gradient()[0] = 9;
  EXPECT_EQ(values_of(copy), Values(3, 1));
  EXPECT_EQ(gradient_of(copy), Values(3, 2));
  EXPECT_EQ(copy.shape(), original.shape());
}

TEST(Parameter, CopiesOfAMapOwnTheirValue) {
  Values memory = {1, 2, 3};
  const Values constant = memory;
  for (const auto& mapped : {Parameter<float>::map(memory.data(), 3), Parameter<float>::map(constant.data(), 3)}) {
    Parameter<float> copy = mapped;
    EXPECT_TRUE(copy.is_writable());
    copy.mutable_values()[0] = 9;
    EXPECT_EQ(values_of(copy), (Values{9, 2, 3}));
  }
  EXPECT_EQ(memory, constant);
}

TEST(Parameter, CopiesOfAnAbsentOneAreAbsent) {
  const Parameter<float> absent;
  const Parameter<float> copy = absent;
  EXPECT_TRUE(copy.is_absent());
}

TEST(Parameter, MovesKeepTheMap) {
  Values memory = {1, 2, 3};
  auto original = Parameter<float>::map(memory.data(), 3);
  Parameter<float> moved = std::move(original);
  EXPECT_EQ(moved.data(), memory.data());
  Parameter<float> assigned;
  assigned = std::move(moved);
  EXPECT_EQ(assigned.data(), memory.data());
  assigned.mutable_values()[0] = 9;
  EXPECT_EQ(memory[0], 9);
}

TEST(Parameter, MovesKeepTheMemoryAndTheGradient) {
  Parameter<float> original(3, 1);
  add_gradient(original, 2);
  const float* data = original.data();
  Parameter<float> moved = std::move(original);
  EXPECT_EQ(moved.data(), data);
  moved.mutable_values()[2] = 5;
  EXPECT_EQ(values_of(moved), (Values{1, 1, 5}));
  EXPECT_EQ(gradient_of(moved), Values(3, 2));
}

TEST(Parameter, ThatWasMovedFromIsAbsent) {
  Parameter<float> original(3, 1);
  const Parameter<float> moved = std::move(original);
  EXPECT_TRUE(original.is_absent());  // NOLINT(bugprone-use-after-move): this is what is tested
}

TEST(Parameter, AssignsByValue) {
  Values memory = {1, 2, 3};
  Parameter<float> target = Parameter<float>::map(memory.data(), 3);
  const Parameter<float> source(2, 7);
  target = source;
  EXPECT_EQ(values_of(target), Values(2, 7));
  EXPECT_NE(target.data(), source.data());
  EXPECT_EQ(memory, (Values{1, 2, 3}));
  const auto& same = target;
  target = same;
  EXPECT_EQ(values_of(target), Values(2, 7));
}

// ---------------------------------------------------------------- gradient

TEST(Parameter, HasNoGradientUntilTheFirstBackward) {
  Parameter<float> parameter(3, 1);
  EXPECT_FALSE(parameter.has_gradient());
  EXPECT_TRUE(parameter.gradient().empty());
  EXPECT_TRUE(parameter.mutable_gradient().empty());
  parameter.gradient_to_add_to()[0] = 5;  // by a backward that then throws
  EXPECT_FALSE(parameter.has_gradient());
  EXPECT_TRUE(parameter.gradient().empty());
}

TEST(Parameter, GradientsAddUp) {
  Parameter<float> parameter(3, 1);
  add_gradient(parameter, 2);
  EXPECT_EQ(gradient_of(parameter), Values(3, 2));
  add_gradient(parameter, 3);
  EXPECT_EQ(gradient_of(parameter), Values(3, 5));
}

TEST(Parameter, GradientsStartAtZeroAfterABackwardThatFailed) {
  Parameter<float> parameter(3, 1);
  parameter.gradient_to_add_to()[0] = 5;
  add_gradient(parameter, 2);
  EXPECT_EQ(gradient_of(parameter), Values(3, 2));
}

TEST(Parameter, GradientsAreSetToZero) {
  Parameter<float> parameter(3, 1);
  parameter.zero_gradient();
  EXPECT_FALSE(parameter.has_gradient());
  add_gradient(parameter, 2);
  parameter.zero_gradient();
  EXPECT_TRUE(parameter.has_gradient());
  EXPECT_EQ(gradient_of(parameter), Values(3, 0));
  EXPECT_EQ(values_of(parameter), Values(3, 1));
}

// ---------------------------------------------------------------- visiting

struct TwoParameters {
  Parameter<float> first{2}, second{3};

  template <class Visit>
  void visit_parameters(Visit& visit, const std::string& prefix) {
    visit(prefix + "first", first);
    visit(prefix + "second", second);
  }
  template <class Visit>
  void visit_parameters(Visit& visit, const std::string& prefix) const {
    visit(prefix + "first", first);
    visit(prefix + "second", second);
  }
};

TEST(ForEachParameter, VisitsWithPaths) {
  TwoParameters model;
  std::vector<std::string> paths;
  for_each_parameter(model, [&](const std::string& path, Parameter<float>& parameter) {
    paths.push_back(path);
    parameter.mutable_values()[0] = 4;
  });
  EXPECT_EQ(paths, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(model.second.values()[0], 4);
}

TEST(ForEachParameter, VisitsAConstModel) {
  const TwoParameters model;
  std::vector<std::string> paths;
  for_each_parameter(
      model, [&](const std::string& path, const Parameter<float>&) { paths.push_back(path); }, "blocks.3.");
  EXPECT_EQ(paths, (std::vector<std::string>{"blocks.3.first", "blocks.3.second"}));
}

/// The same in one function for const and mutable models.
struct OneParameter {
  Parameter<float> only{2};

  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& prefix) {
    visit(prefix + "only", self.only);
  }
};

TEST(ForEachParameter, VisitsByAStaticFunctionToo) {
  OneParameter model;
  for_each_parameter(model, [](const std::string& path, Parameter<float>& parameter) {
    EXPECT_EQ(path, "only");
    parameter.mutable_values()[0] = 4;
  });
  const OneParameter& constant = model;
  int visited = 0;
  for_each_parameter(constant, [&](const std::string&, const Parameter<float>& parameter) {
    EXPECT_EQ(parameter.values()[0], 4);
    ++visited;
  });
  EXPECT_EQ(visited, 1);
}

TEST(ForEachParameter, LeavesOutAModelWithoutParameters) {
  struct Nothing {
  } model;
  for_each_parameter(model, [](const std::string&, auto&) { FAIL(); });
}

TEST(ZeroGradients, SetsEveryGradientToZero) {
  TwoParameters model;
  add_gradient(model.first, 1);
  add_gradient(model.second, 2);
  zero_gradients(model);
  EXPECT_EQ(gradient_of(model.first), Values(2, 0));
  EXPECT_EQ(gradient_of(model.second), Values(3, 0));
}

}  // namespace
}  // namespace evenkeel_test
