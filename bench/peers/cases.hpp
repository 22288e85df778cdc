#pragma once

#include <string>
#include <vector>

#include "problems.hpp"

/// What is computed by every library: the norms, directions and shapes.
namespace bench {

enum class Norm { layer, rms, batch_training, batch_inference };

/// One line of the table.
struct Case {
  Norm norm;
  bool is_backward;
  Shape shape;                  ///< of rows and features; of examples and channels for BatchNorm
  Index height = 1, width = 1;  ///< of an image of each example and channel

  std::string operation() const;
  std::string shape_name() const;
  /// Of x: [rows, features], or [examples, channels, height, width].
  std::vector<Index> extents() const;
  Index inner() const { return height * width; }
  Index size() const { return shape.rows * shape.features * inner(); }
  /// That have to be moved: x read and y written, or x and dy read and dx written.
  double bytes() const { return static_cast<double>((is_backward ? 3 : 2) * size()) * sizeof(float); }

  /// The arrays; rows and features as in `shape`. Valid until the next call.
  Problem<float> problem() const;
};

/// Variances of the channels of a BatchNorm in inference; their means are Problem::beta.
const std::vector<float>& running_variances();

/// Every shape of `shapes()` for LayerNorm and RMSNorm, and of BatchNorm a matrix and images.
std::vector<Case> table_cases();

/// Rows of 768 features, from those that fit the L1 cache to those that fit none.
std::vector<Case> size_cases();

}  // namespace bench
