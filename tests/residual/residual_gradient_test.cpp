// Tests of residual/residual.hpp: the one formula, with every combination of its norms and every kind of lambda,
// against the oracle's.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/layers/rms_norm.hpp"
#include "evenkeel/residual/residual.hpp"
#include "evenkeel/sublayers/feed_forward.hpp"
#include "support/gradient_check.hpp"
#include "support/model_inputs.hpp"
#include "support/oracle.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Index;
using evenkeel::Parameter;
using evenkeel::TensorView;
using FeedForward = evenkeel::FeedForward<double>;

constexpr Index rows = 3, features = 4, d_ff = 5;
constexpr std::size_t size = rows * features;
constexpr double eps = 0.01;  // large enough to be missed where it is lost

enum class Kind { constant, scalar, vector };
enum class Drop { none, elements, samples };
constexpr double p = 0.4;
const evenkeel::RandomKey key = evenkeel::random_key(1, "drop");

/// Which of the four places have a norm, and the factors.
struct Setting {
  bool in, branch, skip, trunk;
  double alpha, lambda;
  Kind kind = Kind::constant;
  double in_scale = 1;
  Drop drop = Drop::none;

  std::string name() const {
    const char *kinds[] = {"constant", "scalar", "vector"}, *drops[] = {"nothing", "elements", "samples"};
    return std::string(in ? "in " : "") + (branch ? "branch " : "") + (skip ? "skip " : "") + (trunk ? "trunk " : "") +
           "alpha " + std::to_string(alpha) + " lambda " + std::to_string(lambda) + " " +
           kinds[static_cast<int>(kind)] + " in_scale " + std::to_string(in_scale) + " drop " +
           drops[static_cast<int>(drop)];
  }
  evenkeel::DropoutMask mask() const {
    return {p, key, 0, drop == Drop::samples ? evenkeel::DropoutKind::per_sample : evenkeel::DropoutKind::per_element};
  }
  /// What each element of the branch is multiplied by in the first training forward.
  std::vector<double> drop_factors() const {
    std::vector<double> factors;
    for (std::size_t i = 0; i < size && drop != Drop::none; ++i) {
      factors.push_back(mask().keeps(drop == Drop::samples ? i / features : i) ? 1 / (1 - p) : 0);
    }
    return factors;
  }
  evenkeel::ResidualSettings<double> settings() const {
    evenkeel::ResidualSettings<double> made = factors();
    if (drop != Drop::none) made.drop.emplace(p, key, mask().kind());
    return made;
  }
  evenkeel::ResidualSettings<double> factors() const {
    using Lambda = evenkeel::Lambda<double>;
    return {.alpha = alpha,
            .lambda = kind == Kind::constant ? Lambda(lambda)
                      : kind == Kind::scalar ? Lambda::learned_scalar(lambda)
                                             : Lambda::learned_vector(features, lambda),
            .in_scale = in_scale};
  }
};

/// All 16 combinations of norms, each with factors of its own of every kind and what is dropped, and with none.
std::vector<Setting> settings() {
  std::vector<Setting> all;
  Random random(17);
  for (int slots = 0; slots < 16; ++slots) {
    const bool in = slots & 1, branch = slots & 2, skip = slots & 4, trunk = slots & 8;
    all.push_back({in, branch, skip, trunk, 1.5 + random.normal() / 8, -0.75 + random.normal() / 8});
    all.push_back({in, branch, skip, trunk, 1, 1});
    all.push_back({in, branch, skip, trunk, 1.25, 0, Kind::scalar, 0.625, slots % 2 ? Drop::samples : Drop::none});
    all.push_back({in, branch, skip, trunk, 1, 0, Kind::vector, slots % 3 ? -0.875 : 1, Drop::elements});
    all.push_back({in, branch, skip, trunk, 1, 0.5, Kind::constant, 1, slots % 3 ? Drop::elements : Drop::samples});
  }
  return all;
}

template <class N>
using BlockOf = evenkeel::Residual<N, FeedForward>;

template <class N>
BlockOf<N> random_block(const Setting& s) {
  evenkeel::ResidualNorms<N> norms;
  for (const auto& [wanted, place] : {std::pair{s.in, &norms.in}, std::pair{s.branch, &norms.branch},
                                      std::pair{s.skip, &norms.skip}, std::pair{s.trunk, &norms.trunk}}) {
    if (wanted) place->emplace(features, typename N::Settings{.eps = eps});
  }
  BlockOf<N> block(FeedForward(features, d_ff), norms, s.settings());
  std::uint64_t seed = 100;
  for_each_parameter(block, [&](const std::string&, Parameter<double>& parameter) {
    parameter.load(normal_vector<double>(static_cast<std::size_t>(parameter.size()), seed++).data(), parameter.size());
  });
  return block;
}

/// The oracle's residual formula as a function of x and the parameters, in inference or with what is dropped.
auto oracle_of(const Setting& s, const std::map<std::string, std::size_t>& index, bool is_training) {
  return [s, index, is_training](const auto& in) {
    using Vector = std::remove_cvref_t<decltype(in[0])>;
    using T = typename Vector::value_type;
    using Function = typename oracle::Residual<T>::Function;
    const auto at = [&](const std::string& path) { return in[index.at(path)]; };
    const auto norm = [&](bool is_there, const std::string& path) -> Function {
      if (!is_there) return {};
      const Vector gamma = at(path + ".gamma");
      if (index.count(path + ".beta") == 0)
        return [=](const Vector& v) { return oracle::rms_norm(v, rows, features, gamma, eps); };
      return [=, beta = at(path + ".beta")](const Vector& v) {
        return oracle::layer_norm(v, rows, features, gamma, beta, eps);
      };
    };
    const Vector lambda = s.kind == Kind::constant ? Vector{T(s.lambda)} : at("lambda");
    const auto f = [&](const Vector& v) {
      return oracle::feed_forward(v, rows, features, d_ff, at("sublayer.up.weight"), at("sublayer.up.bias"),
                                  at("sublayer.down.weight"), at("sublayer.down.bias"));
    };
    return oracle::Residual<T>{.sublayer = f,
                               .norm_in = norm(s.in, "norm_in"),
                               .norm_branch = norm(s.branch, "norm_branch"),
                               .norm_skip = norm(s.skip, "norm_skip"),
                               .norm_trunk = norm(s.trunk, "norm_trunk"),
                               .alpha = T(s.alpha),
                               .lambda = lambda,
                               .in_scale = T(s.in_scale),
                               .drop = is_training ? oracle::widen<T>(s.drop_factors()) : Vector()}(in[0]);
  };
}

TensorView<double> matrix(std::vector<double>& values) { return {values.data(), {rows, features}}; }
TensorView<const double> matrix(const std::vector<double>& values) { return {values.data(), {rows, features}}; }

/// Errors are measured by the largest entry.
template <class Got>
testing::AssertionResult near(const Got& got, const Reals& expected, double ulps) {
  return within_ulp(got, expected, ulps, {oracle::largest_magnitude(expected)});
}

template <class N>
class ResidualFormula : public testing::Test {
 protected:
  const std::vector<double> x = normal_vector<double>(size, 1, 0.5, 2), dy = normal_vector<double>(size, 2);
};
using Norms = testing::Types<evenkeel::LayerNorm<double>, evenkeel::RMSNorm<double>>;
TYPED_TEST_SUITE(ResidualFormula, Norms);

TYPED_TEST(ResidualFormula, InferenceMatchesTheOracleWithEveryCombinationOfSettings) {
  for (const Setting& s : settings()) {
    const auto block = random_block<TypeParam>(s);
    const NamedInputs inputs = named_inputs(this->x, block);
    std::vector<double> y(size);
    block.forward_into(matrix(this->x), matrix(y));
    EXPECT_TRUE(near(y, oracle_of(s, inputs.index, false)(inputs.values), 8)) << s.name();  // measured: 3.1
  }
}

TYPED_TEST(ResidualFormula, TrainingAndEveryGradientMatchDualNumbersWithEveryCombinationOfSettings) {
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.name());
    auto block = random_block<TypeParam>(s);
    typename BlockOf<TypeParam>::Saved saved;
    const NamedInputs inputs = named_inputs(this->x, block);
    const auto formula = oracle_of(s, inputs.index, true);
    const auto expected = [&](const std::string& of) {
      return gradient(inputs.values, inputs.index.at(of), formula, oracle::widen(this->dy));
    };
    std::vector<double> y(size), dx(size);
    block.forward_into(matrix(this->x), matrix(y), saved);
    block.backward_into(matrix(this->dy), saved, matrix(dx));
    EXPECT_TRUE(near(y, formula(inputs.values), 8));  // measured: 3.1
    EXPECT_TRUE(near(dx, expected("x"), 32));         // measured: 9.4
    for_each_parameter(block, [&](const std::string& path, const auto& parameter) {
      const Reals wanted = expected(path);
      // One number is the sum of all that there is, terms of about 1, and may be small.
      const long double scale = wanted.size() == 1 ? 1 : oracle::largest_magnitude(wanted);
      EXPECT_TRUE(within_ulp(parameter.gradient(), wanted, 64, {scale})) << path;  // measured: 30.7
    });
  }
}

TYPED_TEST(ResidualFormula, ParametersAreVisitedInTheOrderOfTheirUse) {
  const auto block = random_block<TypeParam>({true, true, true, true, 1, 1, Kind::vector});
  std::vector<std::string> paths, expected;
  for_each_parameter(
      block, [&](const std::string& path, const auto&) { paths.push_back(path); }, "b.");
  const bool has_beta = std::is_same_v<TypeParam, evenkeel::LayerNorm<double>>;
  const auto norm = [&](const std::string& name) {
    expected.push_back("b." + name + ".gamma");
    if (has_beta) expected.push_back("b." + name + ".beta");
  };
  norm("norm_in");
  for (const char* name : {"up.weight", "up.bias", "down.weight", "down.bias"})
    expected.push_back("b.sublayer." + std::string(name));
  norm("norm_branch");
  expected.push_back("b.lambda");
  norm("norm_skip"), norm("norm_trunk");
  EXPECT_EQ(paths, expected);
}

}  // namespace
}  // namespace evenkeel_test
