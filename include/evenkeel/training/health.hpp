#pragma once

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/blocks/stack_observer.hpp"
#include "evenkeel/training/gradient_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// What one block does to stream and gradient. NaN where nothing has been seen.
struct BlockHealth {
  static constexpr double unseen = std::numeric_limits<double>::quiet_NaN();
  double stream_rms = unseen, stream_mean = unseen;  ///< of the stream that it leaves
  double branch_rms = unseen, branch_mean = unseen;  ///< of what it adds, N_branch(F(N_in(x))), before its factor
  double input_gradient_norm = unseen;               ///< of the gradient at its input
  double parameter_gradient_norm = unseen;           ///< of its parameters' gradients, as they have added up
};

/// An observer of a Stack that measures every block in the latest training forward, and in the backwards after it.
///
/// A stream that grows from block to block, a branch that is lost in it, and gradients that fade or explode towards
/// the input can be seen here long before the loss shows them.
/// @code
///   Health health;
///   stack.forward_into(x, y, saved, {}, health);
///   stack.backward_into(dy, saved, dx, {}, health);
///   std::cout << health.table();
/// @endcode
///
/// Cost      stream, branch and gradient of every block are read once or twice more; allocates in the first forward.
class Health : public NoObserver {
 public:
  /// From the first block to the last; empty before a forward.
  std::span<const BlockHealth> blocks() const noexcept { return blocks_; }

  template <class Scalar>
  void on_branch(std::size_t i, const TensorView<const Scalar>& branch) {
    if (i == 0) blocks_.clear();
    blocks_.emplace_back();
    measure(branch, blocks_[i].branch_rms, blocks_[i].branch_mean);
  }
  template <class Scalar>
  void on_stream(std::size_t i, const TensorView<const Scalar>& stream) {
    measure(stream, blocks_[i].stream_rms, blocks_[i].stream_mean);
  }
  template <class Scalar, class Block>
  void on_gradient(std::size_t i, const TensorView<const Scalar>& dx, Block& block) {
    if (i >= blocks_.size()) blocks_.resize(i + 1);
    blocks_[i].input_gradient_norm = detail::euclidean_norm(numbers(dx));
    blocks_[i].parameter_gradient_norm = gradient_norm(block);
  }

  /// As text: a line for each block, behind one that names the columns.
  std::string table() const {
    std::string text = "block   stream rms      mean  branch rms      mean   |dx|      |dparameters|\n";
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const BlockHealth& b = blocks_[i];
      char line[128];
      std::snprintf(line, sizeof line, "%5zu  %11.3g %9.2g %11.3g %9.2g   %-9.3g %-9.3g\n", i, b.stream_rms,
                    b.stream_mean, b.branch_rms, b.branch_mean, b.input_gradient_norm, b.parameter_gradient_norm);
      text += line;
    }
    return text;
  }

 private:
  template <class Scalar>
  static std::span<const Scalar> numbers(const TensorView<const Scalar>& dense) {
    return {dense.data(), static_cast<std::size_t>(dense.size())};
  }
  template <class Scalar>
  static void measure(const TensorView<const Scalar>& view, double& rms, double& mean) {
    const std::span<const Scalar> values = numbers(view);
    const auto count = static_cast<double>(values.size());
    rms = detail::euclidean_norm(values) / std::sqrt(count);
    mean = detail::sum_in_double(values, [](double v) { return v; }) / count;
  }

  std::vector<BlockHealth> blocks_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
