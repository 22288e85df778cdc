#pragma once

#include <cstdint>

#include "evenkeel/detail/norm_kernels.hpp"
#include "evenkeel/detail/position_mask.hpp"
#include "evenkeel/kernels/row_affine.hpp"
#include "evenkeel/ops/rounding.hpp"

/// Norms of rows of which some are masked: the kernels take the runs of valid ones, and zeros are written to the
/// others.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// The rows of a tensor, as norm_kernels.hpp counts them, in runs of valid and of masked ones.
class RowRuns {
 public:
  /// `inner` rows have the same outer index; no run goes beyond them, if they are more than one.
  template <class Scalar>
  RowRuns(const PositionMask& mask, const NormOperand<Scalar>& x, Scratch& scratch)
      : rows_(x.rows()), inner_(x.at.inner.extent), flags_(scratch.take<std::uint8_t>(mask.size())) {
    are_all_valid_ = mask.read(flags_) == rows_;
  }
  bool are_all_valid() const noexcept { return are_all_valid_; }

  /// body(first row, number of rows) for every run.
  template <class Valid, class Masked>
  void for_each(const Valid& valid, const Masked& masked) const {
    for (Index first = 0, last; first < rows_; first = last) {
      for (last = first + 1; last < rows_ && flags_[last] == flags_[first];) {
        if (inner_ > 1 && last % inner_ == 0) break;
        ++last;
      }
      flags_[first] ? valid(first, last - first) : masked(first, last - first);
    }
  }

 private:
  Index rows_, inner_;
  std::uint8_t* flags_;
  bool are_all_valid_;
};

template <class Scalar>
void write_zeros(const NormOperand<Scalar>& rows) {
  const auto& [outer, length, inner] = rows.at;
  for (Index o = 0; o < outer.extent; ++o) {
    for (Index l = 0; l < length.extent; ++l) {
      Scalar* at = rows.data + o * outer.stride + l * length.stride;
      using T = kernels::Compute<Scalar>;
      for (Index i = 0; i < inner.extent; ++i) at[i * inner.stride] = kernels::from_compute<Scalar>(T(0.0));
    }
  }
}

/// What does not depend on the rows of a forward.
template <class Scalar, class P>
struct RowNormCall {
  kernels::RowNormForward<Scalar, P> args;
  Rounding rounding = Rounding::once;
};

template <class Scalar, class P>
void apply_parameters(const Executor& executor, const NormOperand<Scalar>& y, const P* gamma, const P* beta) {
  kernels::row_affine<native>(kernels::RowAffine<Scalar, P>{.y = y.data,
                                                            .gamma = gamma,
                                                            .beta = beta,
                                                            .rows = y.at.outer.extent,
                                                            .features = y.at.length.extent,
                                                            .lanes = y.at.inner.extent,
                                                            .row_stride = y.at.outer.stride,
                                                            .feature_stride = y.at.length.stride,
                                                            .lane_stride = y.at.inner.stride},
                              InBlocks(executor));
}

/// Forward of rows that are all valid.
template <template <class, class, bool> class NormRow, class Scalar, class P>
void run_norm(const Executor& executor, const NormOperand<const Scalar>& x, const NormOperand<Scalar>& y,
              RowNormCall<Scalar, P> call, Scratch& scratch) {
  if constexpr (kernels::is_16_bit<Scalar>) {
    const P *gamma = call.args.gamma, *beta = call.args.beta;
    if (call.rounding == Rounding::before_gamma && (gamma || beta)) {
      call.args.gamma = call.args.beta = nullptr;
      run_norm<NormRow>(executor, x, y, call.args, scratch);
      return apply_parameters(executor, y, gamma, beta);
    }
  }
  run_norm<NormRow>(executor, x, y, call.args, scratch);
}

/// The statistics of a kernel's arguments from row `first` on.
template <class Args>
Args from_row(Args args, Index first) noexcept {
  if (args.mean) args.mean += first;
  if (args.mean_rest) args.mean_rest += first;
  if (args.rstd) args.rstd += first;
  return args;
}

/// What masked calls take of a workspace, for the flags of their rows and for runs in whatever layout.
template <class Scalar>
std::size_t masked_norm_workspace_bytes(Index rows, Index features) noexcept {
  return Scratch::bytes<std::uint8_t>(rows) + Scratch::bytes_of(GatheredRows<Scalar>::bytes(features));
}

/// Statistics of masked rows are 0, as they are before the call.
template <template <class, class, bool> class NormRow, class Scalar, class P>
void run_masked_norm(const char* where, const Executor& executor, const PositionMask& mask,
                     const NormOperand<const Scalar>& x, const NormOperand<Scalar>& y,
                     const RowNormCall<Scalar, P>& call, Scratch& scratch) {
  const RowRuns runs(mask, x, scratch);
  if (runs.are_all_valid()) return run_norm<NormRow>(executor, x, y, call, scratch);
  const auto normalize = [&](Index first, Index count) {
    Scratch of_run(where, scratch.rest({}), 0);
    run_norm<NormRow>(executor, x.part(first, count), y.part(first, count),
                      RowNormCall<Scalar, P>{from_row(call.args, first), call.rounding}, of_run);
  };
  runs.for_each(normalize, [&](Index first, Index count) { write_zeros(y.part(first, count)); });
}

/// Backward; `a` adds to dgamma and dbeta from the second run on.
template <template <class, class, bool> class NormRow, class Scalar, class P>
void run_masked_norm_backward(const char* where, const Executor& executor, const PositionMask& mask,
                              const NormBackwardOperands<Scalar>& t, kernels::RowNormBackward<Scalar, P> a,
                              Scratch& scratch) {
  const RowRuns runs(mask, t.x, scratch);
  const auto differentiate = [&](Index first, Index count) {
    const NormBackwardOperands<Scalar> part{t.dy.part(first, count), t.x.part(first, count), t.dx.part(first, count)};
    Scratch of_run(where, scratch.rest({}), 0);
    run_norm_backward<NormRow>(executor, part, from_row(a, first), of_run);
    a.add_dgamma = a.add_dbeta = true;
  };
  if (runs.are_all_valid()) return run_norm_backward<NormRow>(executor, t, a, scratch);
  differentiate(0, 0);  // no rows: the parameters' gradients begin at 0, or at what is there
  runs.for_each(differentiate, [&](Index first, Index count) {
    if (t.dx.data && !a.add_dx) write_zeros(t.dx.part(first, count));
  });
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
