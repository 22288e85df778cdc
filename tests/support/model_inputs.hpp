// Models with random parameters, and what an oracle of a model takes: x and every parameter, by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "evenkeel/core/parameter.hpp"
#include "support/oracle.hpp"
#include "support/random.hpp"

namespace evenkeel_test {

/// The same model with every parameter drawn anew.
template <class Model>
Model randomized(Model model, double std = 0.7, std::uint64_t seed = 100) {
  for_each_parameter(model, [&](const std::string&, auto& parameter) {
    using T = std::remove_cvref_t<decltype(parameter.values()[0])>;
    const auto values = normal_vector<T>(static_cast<std::size_t>(parameter.size()), seed++, 0, std);
    parameter.load(values.data(), parameter.size());
  });
  return model;
}

/// x and every parameter, with the places that they have in `values`.
struct NamedInputs {
  std::vector<Reals> values;
  std::map<std::string, std::size_t> index;

  /// at(name) of the given inputs; empty for an absent parameter.
  template <class T>
  auto lookup(const std::vector<std::vector<T>>& in, const std::string& prefix = "") const {
    return [&in, this, prefix](const std::string& name) {
      const auto place = index.find(prefix + name);
      return place == index.end() ? std::vector<T>() : in[place->second];
    };
  }
};

template <class T, class Model>
NamedInputs named_inputs(const std::vector<T>& x, const Model& model) {
  NamedInputs inputs{.values = {oracle::widen(x)}, .index = {{"x", 0}}};
  for_each_parameter(model, [&](const std::string& path, const auto& parameter) {
    inputs.index[path] = inputs.values.size();
    inputs.values.push_back(oracle::widen(parameter.values()));
  });
  return inputs;
}

}  // namespace evenkeel_test
