// Norms of channels of 16 bits: the types of a call, and results that are those of floats, rounded.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel_test.hpp"
#include "support/rounded_once.hpp"

namespace evenkeel_test {

template <>
inline const Eigen::half poison<Eigen::half>{std::numeric_limits<float>::quiet_NaN()};
template <>
inline const Eigen::bfloat16 poison<Eigen::bfloat16>{std::numeric_limits<float>::quiet_NaN()};

template <class ScalarType, class P>
struct ChannelNorm16Config {
  using Scalar = ScalarType;
  using Parameter = P;
};
template <class S>
using ChannelNorm16Configs = testing::Types<ChannelNorm16Config<S, S>, ChannelNorm16Config<S, float>>;
struct ChannelNorm16Name {
  template <class C>
  static std::string GetName(int) {
    return std::is_same_v<typename C::Parameter, float> ? "float" : "same";
  }
};

template <class Values>
std::vector<float> as_floats(const Values& values) {
  return std::vector<float>(values.begin(), values.end());
}

/// All that is computed of floats, bit for bit, rounded where it is stored in 16 bits.
template <class S>
testing::AssertionResult is_rounded(const std::vector<S>& got, const std::vector<float>& of_floats) {
  std::vector<S> expected;
  for (const float value : of_floats) expected.push_back(S(value));
  return same_bits(got, expected);
}

}  // namespace evenkeel_test
