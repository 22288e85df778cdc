// Tests of sublayers/gated_feed_forward.hpp.
#include "evenkeel/sublayers/gated_feed_forward.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "core/error_text.hpp"
#include "sublayers/activation_oracle.hpp"
#include "sublayers/attention_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Activation;
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index rows = 3, d_model = 4, d_ff = 5;

template <class T>
void expect_formula_of(Activation activation, bool with_bias) {
  auto f = randomized(evenkeel::GatedFeedForward<T>(d_model, d_ff, {.activation = activation, .with_bias = with_bias}));
  const auto x = normal_vector<T>(rows * d_model, 1), dy = normal_vector<T>(rows * d_model, 2);
  const NamedInputs inputs = named_inputs(x, f);
  const auto formula = [&](const auto& in) {
    using U = typename std::remove_cvref_t<decltype(in[0])>::value_type;
    return oracle::gated_feed_forward(in[0], rows, d_model, d_ff, oracle::activation_of<U>(activation),
                                      inputs.lookup(in));
  };
  expect_formula(f, Shape{rows, d_model}, x, dy, {}, inputs, formula, 8, 16);
}

template <class T>
class GatedFeedForwardOf : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(GatedFeedForwardOf, Scalars);

TYPED_TEST(GatedFeedForwardOf, ValuesAndGradientsMatchTheFormula) {
  expect_formula_of<TypeParam>(Activation::silu, false);
  expect_formula_of<TypeParam>(Activation::gelu, true);
  expect_formula_of<TypeParam>(Activation::gelu_tanh, false);
  expect_formula_of<TypeParam>(Activation::relu, true);
}

class GatedFeedForward : public testing::Test {
 protected:
  using F = evenkeel::GatedFeedForward<double>;
  F f = randomized(F(d_model, d_ff));
  F::Saved saved;
  RowMatrix x = RowMatrix::Random(rows, d_model), dy = RowMatrix::Random(rows, d_model);
};

TEST_F(GatedFeedForward, IsSwiGluWithoutBiasByDefaultAndNamesItsParameters) {
  std::vector<std::string> paths;
  for_each_parameter(f, [&](const std::string& path, const auto&) { paths.push_back(path); });
  EXPECT_EQ(paths, (std::vector<std::string>{"gate.weight", "up.weight", "down.weight"}));
  F silu(d_model, d_ff, {.activation = Activation::silu, .with_bias = false});
  silu.gate() = f.gate(), silu.up() = f.up(), silu.down() = f.down();
  EXPECT_TRUE(f.forward(x).isApprox(silu.forward(x), 1e-14));
}

TEST_F(GatedFeedForward, AddsToDxWhereAskedAndWorksInAWorkspaceOfTheSizeItNames) {
  std::vector<std::byte> memory(f.workspace_bytes(Shape{rows, d_model}));
  const Context context{.workspace = memory};
  f.forward(x, saved, context);
  const RowMatrix dx = f.backward(dy, saved, context);
  RowMatrix added = x;
  f.backward_into(dy, saved, evenkeel::add_to(added), context);
  EXPECT_TRUE(added.isApprox(x + dx, 1e-14));
  EXPECT_TRUE(f.forward(x, context).isApprox(f.forward(x), 1e-14));
}

TEST_F(GatedFeedForward, RefusesWhatDoesNotFit) {
  const std::string forward = "evenkeel::GatedFeedForward::forward: ",
                    backward = "evenkeel::GatedFeedForward::backward: ";
  const RowMatrix wide(rows, d_model + 1);
  RowMatrix y = RowMatrix::Constant(rows - 1, d_model, 7);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { f.forward(wide); }),
            forward + "x has shape [3, 5], expected [3, 4] (the shape of the input)");
  EXPECT_EQ(error_text<std::invalid_argument>([&] { f.forward_into(x, y); }),
            forward + "y has shape [2, 4], expected [3, 4] (the shape of x)");
  EXPECT_TRUE((y.array() == 7).all());
  EXPECT_EQ(error_text<std::invalid_argument>([&] { f.forward_into(x, x, saved); }),
            forward + "y overlaps x, which backward reads again, in memory, expected memory of its own");
  EXPECT_EQ(error_text<std::logic_error>([&] { f.backward(dy, saved); }),
            backward + "saved is empty, expected the Saved of a forward(x, saved) call");
  f.forward(x, saved);
  EXPECT_EQ(error_text<std::invalid_argument>([&] { f.backward(RowMatrix(dy.topRows(2)), saved); }),
            backward + "dy has shape [2, 4], expected [3, 4] (the shape of the x that was saved)");
}

}  // namespace
}  // namespace evenkeel_test
