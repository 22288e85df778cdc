// What the tests of group_lanes_* share: calls that take groups in logical order, and put them side by side in memory.
#pragma once

#include "evenkeel/kernels/group_lanes_backward.hpp"
#include "evenkeel/kernels/group_lanes_forward.hpp"
#include "kernels/segment_norm_test.hpp"

namespace evenkeel_test {

// Compiled once for all test files, in group_lanes_kernel_test.cpp.
template <class Arch, class T>
void run(const kernels::GroupLanesForward<T>& args);
template <class Arch, class T>
void run(const kernels::GroupLanesBackward<T>& args);

/// Groups [outer * examples, groups, group_channels, length], as segments of which channels are made: SegmentData has
/// the data and the oracle. `examples` of them share a row in memory.
struct LaneShape {
  Index outer = 1, examples = 1;
  Index groups = 1, group_channels = 1, length = 1;

  SegmentShape segments() const {
    return {.outer = outer * examples, .groups = groups, .segments = group_channels, .columns = length};
  }
  Index lanes() const { return groups * group_channels * examples; }
  kernels::LaneGroups lane_groups() const { return {groups, group_channels, examples, length}; }
  std::string text() const {
    return std::to_string(outer) + " x " + std::to_string(examples) + " examples of " + std::to_string(groups) + " x " +
           std::to_string(group_channels) + " channels of " + std::to_string(length);
  }
};

/// From logical order to [outer, length, channels, examples] or (Back) to it.
template <bool Back, class T>
std::vector<T> reorder(const LaneShape& s, const std::vector<T>& values) {
  std::vector<T> result(values.size());
  const Index channels = s.groups * s.group_channels;
  std::size_t logical = 0;
  if (values.empty()) return result;
  for (Index o = 0; o < s.outer; ++o) {
    for (Index n = 0; n < s.examples; ++n) {
      for (Index c = 0; c < channels; ++c) {
        for (Index l = 0; l < s.length; ++l, ++logical) {
          const auto memory = static_cast<std::size_t>(((o * s.length + l) * channels + c) * s.examples + n);
          result[Back ? logical : memory] = values[Back ? memory : logical];
        }
      }
    }
  }
  return result;
}

template <class C, class T = typename C::Scalar>
ForwardResult<T> forward(const LaneShape& s, const SegmentData<T>& d, const ForwardOptions& o = {}) {
  const Layout& at = o.layout;
  const Index rows = s.outer * s.length, channels = s.groups * s.group_channels;
  const Array<T> x(reorder<false>(s, d.x), rows, s.lanes(), at.x), own_y(!o.in_place, rows, s.lanes(), at.y);
  const Array<T>& y = o.in_place ? x : own_y;
  const Array<T> gamma(d.gamma, 1, channels, at.gamma), beta(d.beta, 1, channels, at.beta);
  const Index groups = s.outer * s.examples * s.groups;
  const Array<T> mean(o.mean, 1, groups, at.statistics), mean_rest(o.mean_rest, 1, groups, at.statistics);
  const Array<T> rstd(o.rstd, 1, groups, at.statistics);
  const auto bytes = static_cast<Index>(kernels::group_lanes_forward_workspace_bytes<T>(s.lanes()));
  const Array<char> workspace(true, 1, bytes, {.offset = at.workspace_offset});
  run<typename C::Arch>(kernels::GroupLanesForward<T>{.x = x.data(),
                                                      .y = y.data(),
                                                      .gamma = gamma.data(),
                                                      .beta = beta.data(),
                                                      .mean = mean.data(),
                                                      .mean_rest = mean_rest.data(),
                                                      .rstd = rstd.data(),
                                                      .lanes = s.lane_groups(),
                                                      .outer = s.outer,
                                                      .x_outer_stride = s.length * x.stride(),
                                                      .x_stride = x.stride(),
                                                      .y_outer_stride = s.length * y.stride(),
                                                      .y_stride = y.stride(),
                                                      .eps = d.eps,
                                                      .workspace = workspace.data()});
  for (const Array<T>* array : {&x, &gamma, &beta, &y, &mean, &mean_rest, &rstd})
    EXPECT_TRUE(array->is_intact_around());
  EXPECT_TRUE(o.in_place || same_bits(reorder<true>(s, x.values()), d.x));
  return {reorder<true>(s, y.values()), mean.values(), mean_rest.values(), rstd.values()};
}

template <class C, class T = typename C::Scalar>
Gradients<T> backward(const LaneShape& s, const SegmentData<T>& d, const ForwardResult<T>& saved,
                      const BackwardOptions<T>& o = {}) {
  const Layout& at = o.layout;
  const Index rows = s.outer * s.length, channels = s.groups * s.group_channels;
  const Array<T> x(reorder<false>(s, d.x), rows, s.lanes(), at.x), dy(reorder<false>(s, d.dy), rows, s.lanes(), at.dy);
  const Array<T> own_dx(o.wanted.dx && !o.in_place, rows, s.lanes(), at.dx, reorder<false>(s, o.add_to.dx));
  const Array<T>& dx = o.in_place ? dy : own_dx;
  const Array<T> gamma(d.gamma, 1, channels, at.gamma);
  const Array<T> dgamma(o.wanted.dgamma, 1, channels, at.dgamma, o.add_to.dgamma);
  const Array<T> dbeta(o.wanted.dbeta, 1, channels, at.dbeta, o.add_to.dbeta);
  const auto bytes = static_cast<Index>(kernels::group_lanes_backward_workspace_bytes<T>(s.lanes(), channels));
  const Array<char> workspace(true, 1, bytes, {.offset = at.workspace_offset});
  run<typename C::Arch>(kernels::GroupLanesBackward<T>{.dy = dy.data(),
                                                       .x = x.data(),
                                                       .gamma = gamma.data(),
                                                       .mean = saved.mean.data(),
                                                       .mean_rest = saved.mean_rest.data(),
                                                       .rstd = saved.rstd.data(),
                                                       .dx = dx.data(),
                                                       .dgamma = dgamma.data(),
                                                       .dbeta = dbeta.data(),
                                                       .add_dx = !o.add_to.dx.empty(),
                                                       .add_dgamma = !o.add_to.dgamma.empty(),
                                                       .add_dbeta = !o.add_to.dbeta.empty(),
                                                       .lanes = s.lane_groups(),
                                                       .outer = s.outer,
                                                       .dy_outer_stride = s.length * dy.stride(),
                                                       .dy_stride = dy.stride(),
                                                       .x_outer_stride = s.length * x.stride(),
                                                       .x_stride = x.stride(),
                                                       .dx_outer_stride = s.length * dx.stride(),
                                                       .dx_stride = dx.stride(),
                                                       .workspace = workspace.data()});
  for (const Array<T>* array : {&x, &dy, &gamma, &dx, &dgamma, &dbeta}) EXPECT_TRUE(array->is_intact_around());
  EXPECT_TRUE(same_bits(reorder<true>(s, x.values()), d.x));
  EXPECT_TRUE(o.in_place || same_bits(reorder<true>(s, dy.values()), d.dy));
  return {reorder<true>(s, dx.values()), dgamma.values(), dbeta.values()};
}

}  // namespace evenkeel_test
