#pragma once

#include <algorithm>
#include <utility>

#include "evenkeel/detail/row_norm_op.hpp"
#include "evenkeel/detail/sum_gradients.hpp"
#include "evenkeel/kernels/add_norm_forward.hpp"
#include "evenkeel/ops/residual_add.hpp"

/// The norm of a residual sum between tensors and kernels. Rows of contiguous features are summed and normalized in one
/// pass; in other layouts the sum is written first, and then normalized.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// Whether columns of rows, of so many features, are the indices of the last axis.
template <class Scalar>
bool are_last_axis(const TensorView<Scalar>& view, Index features) noexcept {
  return !runs_across_the_last_axis(view) && features == view.shape()[view.rank() - 1];
}

/// A sum and the norm of it, as normalize_by runs them: the norm's x is s.
template <template <class, class, bool> class NormRow, class Scalar>
class AddedNorm {
 public:
  AddedNorm(const char* where, const Executor& executor, const DroppedSum<Scalar>& sum, const TensorView<Scalar>& s,
            const Axes& axes)
      : executor_(executor),
        sum_(sum),
        s_(s),
        x_rows_(norm_operand(where, "x", sum.terms().x, axes)),
        h_rows_(norm_operand(where, "h", sum.terms().h, axes)) {
    const TensorView<const Scalar> out = s;
    for (const auto& [name, view] :
         {std::pair{"x", &sum.terms().x}, std::pair{"h", &sum.terms().h}, std::pair{"s", &out}}) {
      contiguous_rows(where, name, *view, fastest_axis(*view));
    }
  }

  template <class P>
  void forward(const char* where, const RowNormOperands<Scalar>& t, const RowNormCall<Scalar, P>& call,
               Scratch& scratch) const {
    if constexpr (kernels::is_vectorized<Scalar>) {
      const bool are_rows = t.in.is_rows() && t.out.is_rows() && x_rows_.is_rows() && h_rows_.is_rows();
      // What is dropped of a block of columns is one thread's: where threads share them, the sum is a pass of its own.
      const bool sums_apart = sum_.drops_before() || (!sum_.terms().drop.keeps_all() && shares_columns(t.in));
      const bool is_one_step = !t.mask.is_given() && call.rounding == Rounding::once && !sums_apart;
      if (are_rows && is_one_step && (!sum_.terms().lambda.has_vectors() || are_last_axis(s_, t.in.features()))) {
        return fused(sum_.terms(), t.in, t.out, call.args);
      }
    }
    sum_.add(where, executor_);
    PlainNorm<NormRow, Scalar>{executor_}.forward(where, t, call, scratch);
  }

 private:
  bool shares_columns(const NormOperand<const Scalar>& rows) const noexcept {
    return InBlocks(executor_).cuts(rows.rows(), rows.features() * static_cast<Index>(sizeof(Scalar)));
  }
  template <class P>
  void fused(const Addition<Scalar>& sum, const NormOperand<const Scalar>& s, const NormOperand<Scalar>& y,
             kernels::RowNormForward<Scalar, P> a) const {
    a.rows = s.rows();
    a.features = s.features();
    a.x = s.data, a.x_stride = s.at.outer.stride;
    a.y = y.data, a.y_stride = y.at.outer.stride;
    kernels::add_norm_forward<native, NormRow>(
        kernels::ResidualAddArgs<Scalar>{.x = sum.x.data(),
                                         .d = sum.h.data(),
                                         .s = s_.data(),
                                         .alpha = static_cast<kernels::Compute<Scalar>>(sum.alpha),
                                         .lambda = sum.lambda.one,
                                         .rows = a.rows,
                                         .features = a.features,
                                         .x_stride = x_rows_.at.outer.stride,
                                         .d_stride = h_rows_.at.outer.stride,
                                         .s_stride = s.at.outer.stride,
                                         .lambdas = sum.lambda.each,
                                         .bias = sum.lambda.bias,
                                         .has_one_bias = sum.lambda.has_one_bias,
                                         .drop = branch_drop<Scalar>(sum.drop)},
        a, InBlocks(executor_));
  }

  const Executor& executor_;
  const DroppedSum<Scalar>& sum_;
  TensorView<Scalar> s_;
  NormOperand<const Scalar> x_rows_, h_rows_;
};

/// y = N(s) of a sum s. s may be y, where it is not wanted itself.
template <template <class, class, bool> class NormRow, class Scalar>
void normalize_sum(const char* where, const Addition<Scalar>& sum, const TensorView<Scalar>& s,
                   const TensorView<Scalar>& y, const RowNormOptions<Scalar>& o, NormStatistics<Scalar>* saved,
                   const Context& context) {
  require_supported_scalar<Scalar>();
  require_sum(where, sum.x, "h", sum.h, "s", s);
  require_sum(where, sum.x, "h", sum.h, "y", y);
  if (s.data() != y.data()) require_no_overlap(where, "y", y, "s", s);
  DroppedSum<Scalar> dropped(sum, s);
  Scratch scratch(where, context, dropped.workspace_bytes());
  dropped.take(scratch);
  const AddedNorm<NormRow, Scalar> run(where, context.executor, dropped, s, o.axes);
  normalize_by<NormRow, Scalar>(run, where, TensorView<const Scalar>(s), y, o, saved, rest_of(scratch, context));
}

/// The same with the parameters of the sum as the caller gives them.
template <template <class, class, bool> class NormRow, class Scalar>
void add_normalize(const char* where, const TensorView<const Scalar>& x, const TensorView<const Scalar>& h,
                   const TensorView<Scalar>& s, const TensorView<Scalar>& y, const ResidualSumOptions<Scalar>& sum,
                   const RowNormOptions<Scalar>& o, NormStatistics<Scalar>* saved, const Context& context) {
  require_sum_options(where, sum, x);
  for (const auto& [name, out] : {std::pair{"s", &s}, std::pair{"y", &y}}) {
    require_no_overlap(where, name, *out, "lambdas", sum.lambdas.view());
    require_no_overlap(where, name, *out, "bias", sum.bias.view());
  }
  const SumParameters<Scalar> parameters(where, x);
  Scratch scratch(where, context, parameters.workspace_bytes(sum));
  normalize_sum<NormRow, Scalar>(where, {sum.alpha, x, parameters.factor(sum, scratch), h, sum.drop}, s, y, o, saved,
                                 rest_of(scratch, context));
}

/// The same where s is wanted beside y.
template <template <class, class, bool> class NormRow, class Scalar>
void add_normalize_both(const char* where, const TensorView<const Scalar>& x, const TensorView<const Scalar>& h,
                        const TensorView<Scalar>& s, const TensorView<Scalar>& y, const ResidualSumOptions<Scalar>& sum,
                        const RowNormOptions<Scalar>& o, NormStatistics<Scalar>* saved, const Context& context) {
  require_no_overlap(where, "y", y, "s", s);
  add_normalize<NormRow, Scalar>(where, x, h, s, y, sum, o, saved, context);
}

/// Rows between the two halves of a backward: each block is differentiated by the norm, then by the sum.
template <class Scalar>
struct SumBlocks {
  SumGradients<Scalar>& sum;
  SumTensors<Scalar> all;
  Index rows;

  /// As many as keep a block of each tensor near 32 KiB.
  SumBlocks(SumGradients<Scalar>& sum_, const SumTensors<Scalar>& all_, Index features)
      : sum(sum_), all(all_), rows(8) {
    const Index row_bytes = features * static_cast<Index>(sizeof(Scalar));
    while (2 * rows <= kernels::chunk_rows && 2 * rows * row_bytes <= (Index{32} << 10)) rows *= 2;
    if (sum.sums_columns()) rows = std::max(rows, kernels::product_rows);
  }
  template <class P>
  void before(Index, const kernels::RowNormBackward<Scalar, P>&) const noexcept {}
  template <class P>
  void after(Index first, const kernels::RowNormBackward<Scalar, P>& block) {
    sum.run(all.rows(first, block.rows), {}, first * block.features);
  }
};

/// The backward of the norm, then of the sum, as normalize_backward_by runs them: the norm's dx is the gradient of s.
template <template <class, class, bool> class NormRow, class Scalar>
class AddedNormBackward {
 public:
  /// `more` is what is added to the gradient of s, or has no memory.
  AddedNormBackward(const char* where, const Executor& executor, SumGradients<Scalar>& sum,
                    const TensorView<const Scalar>& more, const SumTensors<Scalar>& tensors, const Axes& axes)
      : where_(where),
        executor_(executor),
        sum_(sum),
        more_(more),
        tensors_(tensors),
        more_rows_(operand("ds", more, axes)),
        h_rows_(operand("h", tensors.h, axes)),
        dx_rows_(operand("dx", tensors.dx, axes)),
        dh_rows_(operand("dh", tensors.dh, axes)) {}

  template <class P>
  void backward(const char* where, const RowNormBackwardOperands<Scalar>& t, kernels::RowNormBackward<Scalar, P> a,
                Scratch& scratch) const {
    if constexpr (kernels::is_vectorized<Scalar>) {
      const bool are_rows =
          t.at.are_rows() && more_rows_.is_rows() && h_rows_.is_rows() && dx_rows_.is_rows() && dh_rows_.is_rows();
      const bool fit =
          sum_.drops_along_rows(tensors_.ds) && (!sum_.has_vectors() || are_last_axis(tensors_.ds, t.at.x.features()));
      const bool is_free = executor_.is_serial() || !sum_.is_in_order();  // to take blocks in any order
      if (t.at.dx.data && are_rows && fit && is_free && tensors_.ds.size() > 0 && !t.mask.is_given()) {
        const auto rows = row_arguments(a, t.at);
        if (!kernels::shares_columns<native>(rows, InBlocks(executor_))) return fused(t.at, rows, scratch);
      }
    }
    if (t.at.dx.data && more_.data()) {
      if (more_.data() != t.at.dx.data) residual_add<Scalar>(where, executor_, 1, more_, 0, {}, tensors_.ds);
      a.add_dx = true;
    }
    PlainNorm<NormRow, Scalar>{executor_}.backward(where, t, a, scratch);
    if (t.at.dx.data) sum_.run(tensors_, executor_);
  }

 private:
  template <class S>
  NormOperand<S> operand(const char* name, const TensorView<S>& view, const Axes& axes) const {
    return view.data() ? norm_operand(where_, name, view, axes) : NormOperand<S>{};
  }
  template <class S>
  static TensorView<S> matrix(const NormOperand<S>& rows) noexcept {
    if (!rows.data) return {};
    return {rows.data, rows.rows(), rows.features(), rows.at.outer.stride};
  }
  template <class P>
  void fused(const NormBackwardOperands<Scalar>& t, kernels::RowNormBackward<Scalar, P> a, Scratch& scratch) const {
    const NormBackwardWorkspace<Scalar> workspace(executor_, t, a.dgamma || a.dbeta);
    a.workspace = scratch.take_bytes(workspace.of_kernel);
    a.ds = more_rows_.data, a.ds_stride = more_rows_.at.outer.stride;
    SumBlocks<Scalar> blocks(sum_, {matrix(t.dx), matrix(h_rows_), matrix(dx_rows_), matrix(dh_rows_)}, a.features);
    kernels::row_norm_backward_in_blocks<native, NormRow>(a, blocks, InBlocks(executor_), workspace.slots.of_rows);
  }

  const char* where_;
  const Executor& executor_;
  SumGradients<Scalar>& sum_;
  TensorView<const Scalar> more_;
  SumTensors<Scalar> tensors_;
  NormOperand<const Scalar> more_rows_, h_rows_;
  NormOperand<Scalar> dx_rows_, dh_rows_;
};

/// The tensors of a backward, as they are given. ds and h may have no memory.
template <class Scalar>
struct AddNormUpstream {
  TensorView<const Scalar> dy, ds, s, h;
};

/// Throws unless what is there of ds, h, dx and dh is like s, and outputs have memory of their own.
template <class Scalar>
void require_add_norm_backward(const char* where, const AddNormUpstream<Scalar>& in,
                               const SumGradientsWanted<Scalar>& to) {
  using View = TensorView<const Scalar>;
  const View dx = to.dx.view(), dh = to.dh.view();
  if (in.s.rank() == 0) raise_invalid_argument(where, "s is not given, expected the s of the forward");
  for (const auto& [name, view] : {std::pair{"dy", &in.dy}, std::pair{"ds", &in.ds}, std::pair{"h", &in.h},
                                   std::pair{"dx", &dx}, std::pair{"dh", &dh}}) {
    if (view->rank() == 0) continue;
    require_same_shape(where, name, view->shape(), "s", in.s.shape());
    require_same_order(where, name, *view, "s", in.s);
    contiguous_rows(where, name, *view, fastest_axis(*view));
  }
  if (to.dlambda.is_wanted() && in.h.rank() == 0) {
    raise_invalid_argument(where, "h has no memory, expected the h of the forward, which dlambda takes");
  }
  in.ds.rank() == 0 ? require_in_place_or_no_overlap(where, "dx", dx, "dy", in.dy)
                    : require_no_overlap(where, "dx", dx, "dy", in.dy);
  require_in_place_or_no_overlap(where, "dx", dx, "ds", in.ds);
  for (const auto& [name, view] : {std::pair{"dy", &in.dy}, std::pair{"ds", &in.ds}, std::pair{"dx", &dx}}) {
    require_no_overlap(where, "dh", dh, name, *view);
  }
  for (const auto& [name, view] : {std::pair{"s", &in.s}, std::pair{"h", &in.h}}) {
    require_no_overlap(where, "dx", dx, name, *view);
    require_no_overlap(where, "dh", dh, name, *view);
  }
}

/// Throws unless dlambda and dbias are numbers for what they are gradients of.
template <class Scalar>
void require_sum_gradients(const char* where, const ResidualSumOptions<Scalar>& sum,
                           const SumGradientsWanted<Scalar>& to, const TensorView<const Scalar>& s) {
  const TensorView<Scalar> dlambda = to.dlambda.view();
  if (to.dlambda.is_wanted() && sum.lambdas.is_given()) require_parameters(where, "dlambda", dlambda, s, -1);
  if (to.dlambda.is_wanted() && !sum.lambdas.is_given() && dlambda.size() != 1) {
    raise_invalid_argument(where, "dlambda has " + std::to_string(dlambda.size()) +
                                      " elements, expected 1 (lambdas are not given: lambda is one number)");
  }
  if (to.dbias.is_wanted()) require_parameters(where, "dbias", to.dbias.view(), s, -1);
}

/// Where the gradient of s is written first: to an output that is overwritten, else to a temporary.
template <class Scalar>
struct GradientOfSum {
  bool is_temporary = false;
  TensorView<Scalar> view;

  GradientOfSum(const SumGradientsWanted<Scalar>& to, const TensorView<const Scalar>& s) {
    if (to.dx.is_wanted() && !to.dx.adds()) {
      view = to.dx.view();
    } else if (to.dh.is_wanted() && !to.dh.adds()) {
      view = to.dh.view();
    } else if (to.any()) {
      is_temporary = true;
      view = {nullptr, s.shape(), s.order()};
    }
  }
  std::size_t workspace_bytes() const noexcept { return is_temporary ? Scratch::bytes<Scalar>(view.size()) : 0; }
  void take(Scratch& scratch) {
    if (is_temporary) view = {scratch.take<Scalar>(view.size()), view.shape(), view.order()};
  }
};

/// The gradients of add_normalize; `norm` are those of the norm's parameters, its dx is not read.
template <template <class, class, bool> class NormRow, class Scalar>
void add_normalize_backward(const char* where, const AddNormUpstream<Scalar>& in, const NormStatistics<Scalar>& saved,
                            const ResidualSumOptions<Scalar>& options, const RowNormOptions<Scalar>& o,
                            const SumGradientsWanted<Scalar>& to, RowNormGradients<Scalar> norm,
                            const Context& context) {
  require_supported_scalar<Scalar>();
  require_add_norm_backward(where, in, to);
  require_sum_options(where, options, in.s);
  require_sum_gradients(where, options, to, in.s);

  const SumParameters<Scalar> parameters(where, in.s);
  GradientOfSum<Scalar> ds(to, in.s);
  const auto sums = [&](const BranchFactor<kernels::Compute<Scalar>>& factor) {
    return SumGradients<Scalar>(where, options.alpha, factor, options.drop, to, !options.lambdas.is_given(), in.s);
  };
  const kernels::Compute<Scalar> stand_in{};
  BranchFactor<kernels::Compute<Scalar>> shape_of_factor(options.lambda);
  if (options.bias.is_given()) shape_of_factor.bias = &stand_in;
  Scratch scratch(where, context,
                  parameters.workspace_bytes(options) + ds.workspace_bytes() + sums(shape_of_factor).workspace_bytes());
  SumGradients<Scalar> sum = sums(parameters.factor(options, scratch));
  ds.take(scratch);
  sum.begin(scratch);
  if (to.any()) norm.dx = ds.view;
  const AddedNormBackward<NormRow, Scalar> run(where, context.executor, sum, in.ds,
                                               {ds.view, in.h, to.dx.view(), to.dh.view()}, o.axes);
  normalize_backward_by<NormRow, Scalar>(run, where, in.dy, in.s, saved, o, norm, rest_of(scratch, context));
  sum.finish();
}

/// Bytes of workspace for both, whatever is asked for.
template <class Scalar>
std::size_t add_normalize_workspace_bytes(const char* where, const Shape& x, const Axes& axes) {
  const std::size_t of_norm = normalize_backward_workspace_bytes<Scalar>(where, x, axes);
  const Index last = x[x.rank() - 1];
  const std::size_t of_sums = 2 * Scratch::bytes<kernels::Compute<Scalar>>(last) +
                              2 * Scratch::bytes<kernels::ProductTotal<Scalar>>(last) +
                              Scratch::bytes<Scalar>(std::max(last, x[0]));
  return of_norm + of_sums + 2 * Scratch::bytes<Scalar>(x.size());  // the gradient of s, and what is dropped of h
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
