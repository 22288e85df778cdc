#pragma once

#include <algorithm>

#include "evenkeel/core/axis_view.hpp"
#include "evenkeel/core/context.hpp"
#include "evenkeel/detail/in_blocks.hpp"
#include "evenkeel/kernels/lane_norm_backward.hpp"
#include "evenkeel/kernels/row_norm_backward.hpp"
#include "evenkeel/kernels/row_norm_forward.hpp"

/// Which kernel normalizes a tensor over an axis: rows, lanes, or rows that are gathered first. Decided here alone.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// A tensor of a norm: its first element and where the others are.
template <class Scalar>
struct NormOperand {
  Scalar* data = nullptr;
  AxisView at = {};

  Index rows() const noexcept { return at.outer.extent * at.inner.extent; }
  Index features() const noexcept { return at.length.extent; }
  /// The features of a row are contiguous, and rows are a constant distance apart.
  bool is_rows() const noexcept { return at.inner.extent == 1 && (at.length.extent <= 1 || at.length.stride == 1); }
  /// Neighbouring rows lie side by side, of a type that has vectors.
  bool is_lanes() const noexcept {
    return kernels::is_vectorized<std::remove_const_t<Scalar>> && at.inner.extent > 1 && at.inner.stride == 1;
  }
  Scalar* row(Index i) const noexcept {
    return data + i / at.inner.extent * at.outer.stride + i % at.inner.extent * at.inner.stride;
  }
  /// `count` rows from `first` on, which have the same outer index if there is more than one inner.
  NormOperand part(Index first, Index count) const noexcept {
    if (!data) return *this;
    if (at.inner.extent == 1) return {row(first), {{count, at.outer.stride}, at.length, at.inner}};
    return {row(first), {{1, at.outer.stride}, at.length, {count, at.inner.stride}}};
  }
};

/// Rows that are copied together where no kernel takes the tensor as it is.
template <class Scalar>
class GatheredRows {
 public:
  /// As many as make 4 KiB, at least one.
  static Index at_once(Index features) noexcept {
    return std::max<Index>(1, 4096 / (std::max<Index>(features, 1) * static_cast<Index>(sizeof(Scalar))));
  }
  static std::size_t bytes(Index features) noexcept {
    return static_cast<std::size_t>(at_once(features) * features) * sizeof(Scalar);
  }

  static Scalar* take(Index features, Scratch& scratch) { return scratch.take<Scalar>(at_once(features) * features); }

  static void read(const NormOperand<const Scalar>& from, Index first, Index count, Scalar* rows) noexcept {
    for_each(from, first, count, rows, [](const Scalar& element, Scalar& copy) { copy = element; });
  }
  static void write(const NormOperand<Scalar>& to, Index first, Index count, Scalar* rows) noexcept {
    for_each(to, first, count, rows, [](Scalar& element, const Scalar& copy) { element = copy; });
  }

 private:
  template <class Operand, class Copy>
  static void for_each(const Operand& operand, Index first, Index count, Scalar* rows, const Copy& copy) noexcept {
    const Index features = operand.features();
    for (Index i = 0; i < count; ++i) {
      auto* element = operand.row(first + i);
      for (Index j = 0; j < features; ++j) copy(element[j * operand.at.length.stride], rows[i * features + j]);
    }
  }
};

template <class Scalar, class P>
kernels::LaneNormForward<Scalar, P> lane_arguments(const kernels::RowNormForward<Scalar, P>& a,
                                                   const NormOperand<const Scalar>& x, const NormOperand<Scalar>& y) {
  return {.x = x.data,
          .gamma = a.gamma,
          .beta = a.beta,
          .y = y.data,
          .mean = a.mean,
          .mean_rest = a.mean_rest,
          .rstd = a.rstd,
          .outer = x.at.outer.extent,
          .length = x.at.length.extent,
          .lanes = x.at.inner.extent,
          .x_outer_stride = x.at.outer.stride,
          .x_stride = x.at.length.stride,
          .y_outer_stride = y.at.outer.stride,
          .y_stride = y.at.length.stride,
          .eps = a.eps};
}

/// What run_norm takes of a workspace.
template <class Scalar>
std::size_t norm_workspace_bytes(const NormOperand<const Scalar>& x, const NormOperand<Scalar>& y) noexcept {
  const bool are_taken_as_they_are = (x.is_lanes() && y.is_lanes()) || (x.is_rows() && y.is_rows());
  return are_taken_as_they_are ? 0 : Scratch::bytes_of(GatheredRows<Scalar>::bytes(x.features()));
}

/// Forward of a norm: `a` has what does not depend on where x and y are. Rows that are gathered share memory, and are
/// taken one after another.
template <template <class, class, bool> class NormRow, class Scalar, class P>
void run_norm(const Executor& executor, const NormOperand<const Scalar>& x, const NormOperand<Scalar>& y,
              kernels::RowNormForward<Scalar, P> a, Scratch& scratch) {
  a.rows = x.rows();
  a.features = x.features();
  const InBlocks run(executor);
  if constexpr (kernels::is_vectorized<Scalar>) {
    if (x.is_lanes() && y.is_lanes()) return kernels::lane_norm_forward<native, NormRow>(lane_arguments(a, x, y), run);
  }
  if (x.is_rows() && y.is_rows()) {
    a.x = x.data, a.x_stride = x.at.outer.stride;
    a.y = y.data, a.y_stride = y.at.outer.stride;
    return kernels::row_norm_forward<native, NormRow>(a, run);
  }
  if (a.features == 0) return;
  using Gathered = GatheredRows<Scalar>;
  auto* rows = Gathered::take(a.features, scratch);
  a.x = a.y = rows;
  a.x_stride = a.y_stride = a.features;
  for (Index first = 0, all = x.rows(); first < all; first += a.rows) {
    a.rows = std::min(Gathered::at_once(a.features), all - first);
    Gathered::read(x, first, a.rows, rows);
    kernels::row_norm_forward<native, NormRow>(a, InBlocks(Executor()));
    Gathered::write(y, first, a.rows, rows);
    for (kernels::Compute<Scalar>** statistic : {&a.mean, &a.mean_rest, &a.rstd}) {
      if (*statistic) *statistic += a.rows;
    }
  }
}

template <class Scalar>
struct NormBackwardOperands {
  NormOperand<const Scalar> dy, x;
  NormOperand<Scalar> dx;  ///< no data: not wanted

  bool are_lanes() const noexcept { return dy.is_lanes() && x.is_lanes() && (!dx.data || dx.is_lanes()); }
  bool are_rows() const noexcept { return dy.is_rows() && x.is_rows() && (!dx.data || dx.is_rows()); }
};

template <class Scalar, class P>
kernels::LaneNormBackward<Scalar, P> lane_arguments(const kernels::RowNormBackward<Scalar, P>& a,
                                                    const NormBackwardOperands<Scalar>& t) {
  return {.dy = t.dy.data,
          .x = t.x.data,
          .gamma = a.gamma,
          .mean = a.mean,
          .mean_rest = a.mean_rest,
          .rstd = a.rstd,
          .dx = t.dx.data,
          .dgamma = a.dgamma,
          .dbeta = a.dbeta,
          .add_dx = a.add_dx,
          .add_dgamma = a.add_dgamma,
          .add_dbeta = a.add_dbeta,
          .outer = t.x.at.outer.extent,
          .length = t.x.at.length.extent,
          .lanes = t.x.at.inner.extent,
          .dy_outer_stride = t.dy.at.outer.stride,
          .dy_stride = t.dy.at.length.stride,
          .x_outer_stride = t.x.at.outer.stride,
          .x_stride = t.x.at.length.stride,
          .dx_outer_stride = t.dx.at.outer.stride,
          .dx_stride = t.dx.at.length.stride,
          .workspace = a.workspace};
}

template <template <class, class, bool> class NormRow, class Scalar, class P>
void run_gathered_backward(const NormBackwardOperands<Scalar>& t, kernels::RowNormBackward<Scalar, P> a,
                           Scratch& scratch) {
  using Gathered = GatheredRows<Scalar>;
  Scalar* dy = Gathered::take(a.features, scratch);
  Scalar* x = Gathered::take(a.features, scratch);
  Scalar* dx = Gathered::take(a.features, scratch);
  a.dy = dy, a.x = x, a.dx = t.dx.data ? dx : nullptr;
  a.dy_stride = a.x_stride = a.dx_stride = a.features;
  for (Index first = 0, all = t.x.rows(); first < all; first += a.rows) {
    a.rows = std::min(Gathered::at_once(a.features), all - first);
    Gathered::read(t.dy, first, a.rows, dy);
    Gathered::read(t.x, first, a.rows, x);
    if (a.dx && a.add_dx) Gathered::read({t.dx.data, t.dx.at}, first, a.rows, dx);
    kernels::row_norm_backward<native, NormRow>(a, InBlocks(Executor()));
    if (a.dx) Gathered::write(t.dx, first, a.rows, dx);
    a.add_dgamma = a.add_dbeta = true;
    for (const kernels::Compute<Scalar>** statistic : {&a.mean, &a.mean_rest, &a.rstd}) {
      if (*statistic) *statistic += a.rows;
    }
  }
}

/// How many parts of a backward are summed at the same time, each in a slot of its own.
struct NormSlots {
  Index of_rows = 1;   ///< chunks of rows
  Index of_lanes = 0;  ///< blocks of lanes; 0: one after another
};

/// For any executor but a serial one. Of small chunks there are more, so that a thread takes several together; what
/// makes one block alone needs none.
template <class Scalar>
NormSlots parallel_slots(Index rows, Index features) noexcept {
  constexpr auto size = static_cast<Index>(sizeof(Scalar));
  if (rows * features * size < 2 * InBlocks::least_bytes) return {};
  const Index chunks = (rows + kernels::chunk_rows - 1) / kernels::chunk_rows;
  return {std::min(chunks, InBlocks::most_items(kernels::chunk_rows * features * size)),
          std::min(InBlocks::most_blocks, rows)};
}

/// What the kernels take for gradients of parameters.
template <class Scalar>
std::size_t row_kernel_bytes(Index rows, Index features, const NormSlots& slots) noexcept {
  return kernels::row_norm_backward_workspace_bytes<Scalar>(rows, features, slots.of_rows);
}
template <class Scalar>
std::size_t lane_kernel_bytes(Index features, const NormSlots& slots) noexcept {
  if constexpr (kernels::is_vectorized<Scalar>) {
    return kernels::lane_norm_backward_workspace_bytes<Scalar>(features) +
           static_cast<std::size_t>(slots.of_lanes) * kernels::lane_norm_backward_slot_bytes<native, Scalar>(features);
  } else {
    return 0;
  }
}

/// What run_norm_backward takes of a workspace, whatever the layout and the executor.
template <class Scalar>
std::size_t norm_backward_workspace_bytes(Index rows, Index features) noexcept {
  const NormSlots slots = parallel_slots<Scalar>(rows, features);
  const std::size_t of_kernels =
      std::max(row_kernel_bytes<Scalar>(rows, features, slots), lane_kernel_bytes<Scalar>(features, slots));
  return Scratch::bytes_of(of_kernels) + 3 * Scratch::bytes_of(GatheredRows<Scalar>::bytes(features));
}

/// What it takes in this layout, with this executor.
template <class Scalar>
struct NormBackwardWorkspace {
  NormSlots slots;
  std::size_t of_kernel = 0, gathered = 0;

  NormBackwardWorkspace(const Executor& executor, const NormBackwardOperands<Scalar>& t, bool wants_parameters) {
    const Index rows = t.x.rows(), features = t.x.features();
    const bool is_gathered = !t.are_lanes() && !t.are_rows();
    if (is_gathered) gathered = 3 * Scratch::bytes_of(GatheredRows<Scalar>::bytes(features));
    if (!wants_parameters) return;
    if (!executor.is_serial() && !is_gathered) slots = parallel_slots<Scalar>(rows, features);
    of_kernel =
        t.are_lanes() ? lane_kernel_bytes<Scalar>(features, slots) : row_kernel_bytes<Scalar>(rows, features, slots);
  }
  std::size_t bytes() const noexcept { return Scratch::bytes_of(of_kernel) + gathered; }
};

/// The arguments of the row kernel.
template <class Scalar, class P>
kernels::RowNormBackward<Scalar, P> row_arguments(kernels::RowNormBackward<Scalar, P> a,
                                                  const NormBackwardOperands<Scalar>& t) {
  a.rows = t.x.rows();
  a.features = t.x.features();
  a.dy = t.dy.data, a.dy_stride = t.dy.at.outer.stride;
  a.x = t.x.data, a.x_stride = t.x.at.outer.stride;
  a.dx = t.dx.data, a.dx_stride = t.dx.at.outer.stride;
  return a;
}

/// Backward of a norm: `a` has what does not depend on where the tensors are.
template <template <class, class, bool> class NormRow, class Scalar, class P>
void run_norm_backward(const Executor& executor, const NormBackwardOperands<Scalar>& t,
                       kernels::RowNormBackward<Scalar, P> a, Scratch& scratch) {
  const NormBackwardWorkspace<Scalar> workspace(executor, t, a.dgamma || a.dbeta);
  a.rows = t.x.rows();
  a.features = t.x.features();
  a.workspace = scratch.take_bytes(workspace.of_kernel);
  const InBlocks run(executor);
  if constexpr (kernels::is_vectorized<Scalar>) {
    if (t.are_lanes()) {
      return kernels::lane_norm_backward<native, NormRow>(lane_arguments(a, t), run, workspace.slots.of_lanes);
    }
  }
  if (!t.are_rows() && a.rows * a.features > 0) return run_gathered_backward<NormRow>(t, a, scratch);
  kernels::row_norm_backward<native, NormRow>(row_arguments(a, t), run, workspace.slots.of_rows);
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
