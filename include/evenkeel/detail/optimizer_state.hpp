#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "evenkeel/core/parameter.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// What an optimizer keeps of each parameter of one model, in the order of for_each_parameter: some arrays of the
/// parameter's size, zero at first, and the number of its updates.
template <class Scalar>
class OptimizerState {
 public:
  struct Entry {
    std::string path;
    Shape shape;
    std::int64_t steps = 0;
    std::vector<std::vector<Scalar>> arrays = {};
  };

  explicit OptimizerState(std::size_t arrays) : arrays_(arrays) {}

  /// Calls update(values, gradient, entry) for each parameter that has a gradient, once all of them have been checked.
  template <class Model, class Update>
  void update_each(const char* where, Model& model, const Update& update) {
    prepare(where, model);
    std::size_t i = 0;
    for_each_parameter(model, [&](const std::string&, auto& parameter) {
      Entry& entry = entries_[i++];
      if (!parameter.has_gradient()) return;
      ++entry.steps;
      update(parameter.mutable_values(), parameter.gradient(), entry);
    });
  }

 private:
  /// Everything that can throw, allocation too. The first call takes down which parameters there are.
  template <class Model>
  void prepare(const char* where, Model& model) {
    std::vector<Entry> first;
    std::vector<Entry>& entries = entries_.empty() ? first : entries_;
    std::size_t i = 0;
    for_each_parameter(model, [&](const std::string& path, auto& parameter) {
      static_assert(std::is_same_v<std::remove_cvref_t<decltype(parameter)>, Parameter<Scalar>>,
                    "evenkeel: an optimizer is of the scalar type of the parameters, float or double");
      require_writable(where, path, parameter);
      if (&entries == &first) first.push_back({path, parameter.shape()});
      require_same(where, entries, i, path, parameter.shape());
      auto& arrays = entries[i++].arrays;
      while (parameter.has_gradient() && arrays.size() < arrays_) {
        arrays.emplace_back(static_cast<std::size_t>(parameter.size()));
      }
    });
    if (i < entries.size()) raise_other_parameter(where, i, "none", entry_text(entries[i].path, entries[i].shape));
    if (entries_.empty()) entries_ = std::move(first);
  }

  static void require_writable(const char* where, const std::string& path, const Parameter<Scalar>& parameter) {
    if (parameter.is_writable()) return;
    raise_invalid_argument(where, path +
                                      " is mapped from const memory, expected writable memory (a copy of the model "
                                      "owns its values)");
  }
  static void require_same(const char* where, const std::vector<Entry>& entries, std::size_t i, const std::string& path,
                           const Shape& shape) {
    if (i >= entries.size()) raise_other_parameter(where, i, entry_text(path, shape), "none");
    const Entry& entry = entries[i];
    if (path == entry.path && shape == entry.shape) return;
    raise_other_parameter(where, i, entry_text(path, shape), entry_text(entry.path, entry.shape));
  }
  static std::string entry_text(const std::string& path, const Shape& shape) {
    return path + " of shape " + shape_string(shape);
  }
  [[noreturn]] static void raise_other_parameter(const char* where, std::size_t i, const std::string& what,
                                                 const std::string& expected) {
    raise_invalid_argument(
        where, "parameter " + std::to_string(i) + " is " + what + ", expected " + expected + " (as in the first step)");
  }

  std::size_t arrays_;
  std::vector<Entry> entries_;
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
