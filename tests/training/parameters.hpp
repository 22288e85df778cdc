// A model that is nothing but parameters, for tests of what visits them.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/core/parameter.hpp"

namespace evenkeel_test {

template <class Scalar>
struct Parameters {
  std::vector<std::pair<std::string, evenkeel::Parameter<Scalar>>> all;

  void add(const std::string& path, const std::vector<Scalar>& values) {
    evenkeel::Parameter<Scalar> parameter(static_cast<evenkeel::Index>(values.size()));
    parameter.load(values.data(), parameter.size());
    all.emplace_back(path, std::move(parameter));
  }
  std::vector<Scalar> values(std::size_t i) const {
    const auto values = all[i].second.values();
    return {values.begin(), values.end()};
  }
  std::vector<Scalar> gradient(std::size_t i) const {
    const auto gradient = all[i].second.gradient();
    return {gradient.begin(), gradient.end()};
  }
  /// As a backward leaves it.
  void set_gradient(std::size_t i, const std::vector<Scalar>& gradient) {
    std::copy(gradient.begin(), gradient.end(), all[i].second.gradient_to_add_to());
    all[i].second.commit_gradient();
  }

  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& prefix) {
    for (auto& [path, parameter] : self.all) visit(prefix + path, parameter);
  }
};

}  // namespace evenkeel_test
