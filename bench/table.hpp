#pragma once

#include <string>
#include <vector>

#include "problems.hpp"

namespace bench {

/// One benchmark, by what it is and who does it: names such as layer_norm/forward/f32/rows:32/features:768/evenkeel.
struct Entry {
  std::string norm, direction, type, by;
  Shape shape;

  std::string name() const { return norm + "/" + direction + "/" + type + "/" + shape.path() + "/" + by; }

  /// Every benchmark that has been registered.
  static std::vector<Entry>& all() {
    static std::vector<Entry> entries;
    return entries;
  }
};

}  // namespace bench
