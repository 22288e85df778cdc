// Checks blocks/ against PyTorch's autograd: every block_* case of tests/data/torch. Two files use it,
// one for float and one for double, to keep each short to compile.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "evenkeel/blocks/deep_norm.hpp"
#include "evenkeel/blocks/peri_norm.hpp"
#include "evenkeel/blocks/plain_residual.hpp"
#include "evenkeel/blocks/post_norm.hpp"
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/blocks/res_post_norm.hpp"
#include "evenkeel/blocks/sandwich_norm.hpp"
#include "evenkeel/blocks/skip_norm.hpp"
#include "evenkeel/core/eigen_tensor.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/layers/rms_norm.hpp"
#include "evenkeel/sublayers/feed_forward.hpp"
#include "support/reference_case.hpp"
#include "support/tolerance.hpp"

namespace evenkeel_test {

using evenkeel::Index;
using evenkeel::Parameter;

template <class T>
using RowTensor = Eigen::Tensor<T, 3, Eigen::RowMajor>;

template <class T>
RowTensor<T> eigen_tensor(const Tensor& tensor) {
  const auto extent = [&](std::size_t axis) { return static_cast<Index>(tensor.shape.at(axis)); };
  const std::vector<T> data = tensor.as<T>();
  return Eigen::TensorMap<const RowTensor<T>>(data.data(), extent(0), extent(1), extent(2));
}

/// The place of each norm of a placement, by the name of its parameters in the files.
inline std::map<std::string, std::string> places_of(const std::string& placement) {
  const std::map<std::string, std::map<std::string, std::string>> places = {
      {"plain", {}},
      {"pre", {{"norm_in", "norm"}}},
      {"post", {{"norm_trunk", "norm"}}},
      {"sandwich", {{"norm_in", "norm_in"}, {"norm_trunk", "norm_out"}}},
      {"branch_sandwich", {{"norm_in", "norm_in"}, {"norm_branch", "norm_out"}}},
      {"res_post", {{"norm_branch", "norm"}}},
      {"skip_norm", {{"norm_skip", "norm"}}},
      {"deepnorm", {{"norm_trunk", "norm"}}},
  };
  return places.at(placement);
}

/// A block of a case's placement with its parameters, and the name that each parameter has in the file.
template <class N>
struct CaseBlock {
  using Scalar = typename N::Scalar;
  using Block = evenkeel::Residual<N, evenkeel::FeedForward<Scalar>>;

  explicit CaseBlock(const ReferenceCase& reference)
      : names({{"sublayer.up.weight", "w1"},
               {"sublayer.up.bias", "b1"},
               {"sublayer.down.weight", "w2"},
               {"sublayer.down.bias", "b2"}}),
        block(make(reference)) {
    for_each_parameter(block, [&](const std::string& path, Parameter<Scalar>& parameter) {
      const auto dot = path.find('.');
      if (names.count(path) == 0) names[path] = places.at(path.substr(0, dot)) + path.substr(dot);
      const auto values = reference.inputs.at(names.at(path)).template as<Scalar>();
      parameter.load(values.data(), static_cast<Index>(values.size()));
    });
  }

  Block make(const ReferenceCase& reference) {
    const std::string placement = reference.attributes.at("placement");
    places = places_of(placement);
    const auto hidden = static_cast<Index>(reference.inputs.at("w1").shape[0]);
    const auto features = static_cast<Index>(reference.inputs.at("w1").shape[1]);
    const evenkeel::FeedForward<Scalar> f(features, hidden);
    const N norm(features, {.eps = placement == "plain" ? 0 : reference.eps()});
    if (placement == "plain") return evenkeel::PlainResidual<N, evenkeel::FeedForward<Scalar>>(f);
    if (placement == "pre") return evenkeel::PreNorm(norm, f);
    if (placement == "post") return evenkeel::PostNorm(norm, f);
    if (placement == "sandwich") return evenkeel::SandwichNorm(norm, norm, f);
    if (placement == "branch_sandwich") return evenkeel::PeriNorm(norm, norm, f);
    if (placement == "res_post") return evenkeel::ResPostNorm(norm, f);
    if (placement == "skip_norm") return evenkeel::SkipNorm(norm, f);
    return evenkeel::DeepNorm(norm, f, reference.attributes.at("alpha").get<double>());
  }

  std::map<std::string, std::string> places, names;
  Block block;
};

template <class T>
testing::AssertionResult matches(const RowTensor<T>& got, const Tensor& expected) {
  return within(std::vector<T>(got.data(), got.data() + got.size()), expected.data, torch_tolerance<T>(expected));
}

template <class N>
void expect_pytorchs_result(const ReferenceCase& reference) {
  SCOPED_TRACE(reference.name);
  using T = typename N::Scalar;
  CaseBlock<N> made(reference);
  auto& block = made.block;
  const RowTensor<T> x = eigen_tensor<T>(reference.inputs.at("x")), dy = eigen_tensor<T>(reference.grad_output);

  const RowTensor<T> entered = block.enter(x);
  const RowTensor<T> returned = std::as_const(block.sublayer()).forward(entered);
  EXPECT_TRUE(matches(entered, reference.outputs.at("sublayer_input")));
  EXPECT_TRUE(matches(returned, reference.outputs.at("sublayer_output")));
  EXPECT_TRUE(matches(std::as_const(block).forward(x), reference.outputs.at("y")));

  typename CaseBlock<N>::Block::Saved saved;
  EXPECT_TRUE(matches(block.forward(x, saved), reference.outputs.at("y")));
  EXPECT_TRUE(matches(block.backward(dy, saved), reference.grads.at("x")));
  std::size_t checked = 1;
  for_each_parameter(block, [&](const std::string& path, const Parameter<T>& parameter) {
    const Tensor& expected = reference.grads.at(made.names.at(path));
    EXPECT_TRUE(within(parameter.gradient(), expected.data, torch_tolerance<T>(expected))) << path;
    ++checked;
  });
  EXPECT_EQ(checked, reference.grads.size());
}

template <class T>
void expect_pytorchs_results() {
  const auto cases = read_cases("torch", "block_");
  EXPECT_EQ(cases.size(), 11u);
  for (const ReferenceCase& reference : cases) {
    if (reference.attributes.at("norm") == "RMSNorm") {
      expect_pytorchs_result<evenkeel::RMSNorm<T>>(reference);
    } else {
      expect_pytorchs_result<evenkeel::LayerNorm<T>>(reference);
    }
  }
}

}  // namespace evenkeel_test
