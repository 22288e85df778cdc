// ops/add_norm.hpp with numbers of 16 bits: the bits of the sum and the norm one after the other, with parameters of
// their type and of float.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "evenkeel/ops/add_norm.hpp"
#include "ops/op_test.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::TensorView;
using Bfloat16 = Eigen::bfloat16;

template <class X>
std::vector<X> rounded(const std::vector<float>& values) {
  std::vector<X> narrow;
  for (const float value : values) narrow.push_back(X(value));
  return narrow;
}

/// The parameters are of type P. With `in_steps` the second half of the rows is masked, and x_hat is rounded too.
template <class P>
void expect_the_bits_of_the_composition(Index rows, Index features, bool in_steps = false) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(features));
  using X = Bfloat16;
  const auto size = static_cast<std::size_t>(rows * features), columns = static_cast<std::size_t>(features);
  const auto numbers = [](std::size_t count, std::uint64_t seed) { return normal_vector<float>(count, seed, 0.25); };
  const auto x = rounded<X>(numbers(size, 1)), h = rounded<X>(numbers(size, 2)), dy = rounded<X>(numbers(size, 3)),
             ds = rounded<X>(numbers(size, 4));
  const auto gamma = rounded<P>(numbers(columns, 5)), beta = rounded<P>(numbers(columns, 6));
  const auto lambdas = rounded<P>(numbers(columns, 7)), bias = rounded<P>(numbers(columns, 8));
  evenkeel::AddLayerNormOptions<X> options;
  options.sum.alpha = 1.5, options.sum.lambdas = lambdas, options.sum.bias = bias;
  options.norm.gamma = gamma, options.norm.beta = beta;
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(rows));
  std::fill_n(mask.begin(), (rows + 1) / 2, std::uint8_t{1});
  if (in_steps) options.norm.mask = mask, options.norm.rounding = evenkeel::Rounding::before_gamma;
  const Shape shape{rows, features};
  const auto in = [&](const std::vector<X>& v) { return TensorView<const X>(v.data(), shape); };
  const auto out = [&](std::vector<X>& v) { return TensorView<X>(v.data(), shape); };

  std::vector<X> s(size), y(size), expected_s(size), expected_y(size);
  NormStatistics<X> saved, expected_saved;
  evenkeel::add_layer_norm_into(in(x), in(h), out(s), out(y), saved, options);
  evenkeel::residual_add_into(in(x), in(h), out(expected_s), options.sum);
  evenkeel::layer_norm_into(in(expected_s), out(expected_y), expected_saved, options.norm);
  EXPECT_TRUE(same_bits(s, expected_s) && same_bits(y, expected_y));
  EXPECT_TRUE(same_bits(saved.mean, expected_saved.mean) && same_bits(saved.rstd, expected_saved.rstd));

  std::vector<X> dx(size), dh(size), total = ds, expected_dx(size), expected_dh(size);
  std::vector<P> dgamma(columns), dbeta(columns), expected_dgamma(columns), expected_dbeta(columns);
  evenkeel::add_layer_norm_backward<X>({.dy = in(dy), .s = in(s), .ds = in(ds)}, saved, options,
                                       {.dx = out(dx), .dh = out(dh), .dgamma = dgamma, .dbeta = dbeta});
  evenkeel::layer_norm_backward(
      in(dy), in(s), saved, options.norm,
      {.dx = evenkeel::add_to(out(total)), .dgamma = expected_dgamma, .dbeta = expected_dbeta});
  for (std::size_t i = 0; i < size; ++i) {
    expected_dx[i] = X(1.5f * static_cast<float>(total[i]));
    expected_dh[i] = X(static_cast<float>(lambdas[i % columns]) * static_cast<float>(total[i]));
  }
  EXPECT_TRUE(same_bits(dx, expected_dx));
  EXPECT_TRUE(same_bits(dh, expected_dh));
  EXPECT_TRUE(same_bits(dgamma, expected_dgamma) && same_bits(dbeta, expected_dbeta));
}

TEST(AddNorm16Bits, GivesTheBitsOfTheComposition) {
  for (const auto& [rows, features] : {std::pair{3, 7}, {140, 33}, {5, 768}, {2, 2500}}) {
    expect_the_bits_of_the_composition<Bfloat16>(rows, features);
    expect_the_bits_of_the_composition<float>(rows, features);
    expect_the_bits_of_the_composition<Bfloat16>(rows, features, true);
    expect_the_bits_of_the_composition<float>(rows, features, true);
  }
}

}  // namespace
}  // namespace evenkeel_test
