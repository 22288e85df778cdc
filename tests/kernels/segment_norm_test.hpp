// What the tests of segment_norm_* share: groups of segments in several layouts, the oracle, and checked calls.
#pragma once

#include "evenkeel/kernels/segment_norm_backward.hpp"
#include "evenkeel/kernels/segment_norm_forward.hpp"
#include "kernels/kernel_test.hpp"

namespace evenkeel_test {

// Compiled once for all test files, in segment_norm_kernel_test.cpp.
template <class Arch, class T>
void run(const kernels::SegmentNormForward<T>& args);
template <class Arch, class T>
void run(const kernels::SegmentNormBackward<T>& args);

/// What follows what in memory: the segments of a group, or the groups of a segment.
enum class Order { groups_apart, groups_interleaved };
/// What has a gamma and a beta of its own.
enum class Per { segment, group, column };

struct SegmentShape {
  Index outer = 2, groups = 3, segments = 1, columns = 1;
  Order order = Order::groups_apart;
  Per per = Per::segment;

  Index group_size() const { return segments * columns; }
  Index size() const { return outer * groups * group_size(); }
  Index group_step() const { return per == Per::segment ? segments : per == Per::group ? 1 : columns; }
  Index parameters() const { return groups * group_step(); }
  /// The parameter of element i of a group.
  Index parameter(Index group, Index i) const {
    return group * group_step() + (per == Per::segment ? i / columns : per == Per::column ? i % columns : 0);
  }
  std::string text() const {
    return std::to_string(outer) + " x " + std::to_string(groups) + " groups of " + std::to_string(segments) + " x " +
           std::to_string(columns) + (order == Order::groups_apart ? ", apart" : ", interleaved") +
           (per == Per::segment ? ", parameters per segment"
            : per == Per::group ? ", parameters per group"
                                : ", parameters per column");
  }
};

/// GroupNorm channels-first, BatchNorm channels-first, GroupNorm channels-last.
inline std::vector<SegmentShape> layouts_of(SegmentShape shape) {
  std::vector<SegmentShape> all(3, shape);
  all[1].order = all[2].order = Order::groups_interleaved;
  all[1].per = Per::group, all[2].per = Per::column;
  return all;
}

/// Data in logical order: x, dy [outer, groups, segments, columns]. Empty gamma or beta: absent.
template <class T>
struct SegmentData {
  SegmentShape shape;
  std::vector<T> x = {}, dy = {};
  std::vector<T> gamma = {}, beta = {};
  double eps = 1e-5;
};

template <class T>
SegmentData<T> random_segments(const SegmentShape& shape, std::uint64_t seed, double mean = 0) {
  const auto size = static_cast<std::size_t>(shape.size()), parameters = static_cast<std::size_t>(shape.parameters());
  return {.shape = shape,
          .x = normal_vector<T>(size, seed, mean),
          .dy = normal_vector<T>(size, seed + 1),
          .gamma = normal_vector<T>(parameters, seed + 2),
          .beta = normal_vector<T>(parameters, seed + 3)};
}

// ---------------------------------------------------------------- the oracle

/// Group g of every outer index, as rows of features with a gamma and a beta each.
template <class T>
Data<T> group_rows(const SegmentData<T>& d, Index g) {
  const SegmentShape& s = d.shape;
  Data<T> rows{.rows = s.outer, .features = s.group_size(), .eps = d.eps};
  for (Index o = 0; o < s.outer; ++o) {
    const auto x = rows_of(d.x, s.group_size(), o * s.groups + g, 1);
    rows.x.insert(rows.x.end(), x.begin(), x.end());
    if (d.dy.empty()) continue;
    const auto dy = rows_of(d.dy, s.group_size(), o * s.groups + g, 1);
    rows.dy.insert(rows.dy.end(), dy.begin(), dy.end());
  }
  for (Index i = 0; i < s.group_size(); ++i) {
    const auto parameter = static_cast<std::size_t>(s.parameter(g, i));
    if (!d.gamma.empty()) rows.gamma.push_back(d.gamma[parameter]);
    if (!d.beta.empty()) rows.beta.push_back(d.beta[parameter]);
  }
  return rows;
}

/// Values of rows of groups, as group_rows takes them apart, put together again.
inline void put_group_rows(const SegmentShape& s, Index g, const Reals& rows, Reals& all) {
  all.resize(static_cast<std::size_t>(s.size()));
  for (Index o = 0; o < s.outer; ++o)
    std::copy_n(rows.begin() + o * s.group_size(), s.group_size(), all.begin() + (o * s.groups + g) * s.group_size());
}

using SegmentOracle = Config<LayerNorm, evenkeel::native, float>;  // the oracle is that of LayerNorm's rows

template <class T>
Reals expected_y(const SegmentData<T>& d) {
  Reals y;
  for (Index g = 0; g < d.shape.groups; ++g) put_group_rows(d.shape, g, expected_y<SegmentOracle>(group_rows(d, g)), y);
  return y;
}

template <class T>
Reals y_scale(const SegmentData<T>& d) {
  Reals scale;
  for (Index g = 0; g < d.shape.groups; ++g)
    put_group_rows(d.shape, g, y_scale<SegmentOracle>(group_rows(d, g)), scale);
  return scale;
}

/// Scales have an entry for each element of x, and one for all parameters.
template <class T>
oracle::NormGradients expected_gradients(const SegmentData<T>& d) {
  const SegmentShape& s = d.shape;
  const auto parameters = static_cast<std::size_t>(s.parameters());
  oracle::NormGradients all{
      .dgamma = Reals(parameters), .dbeta = Reals(parameters), .dgamma_scale = {0}, .dbeta_scale = {0}};
  for (Index g = 0; g < s.groups; ++g) {
    const auto rows = expected_gradients<SegmentOracle>(group_rows(d, g));
    put_group_rows(s, g, rows.dx, all.dx);
    Reals scale;
    for (const long double row_scale : rows.dx_scale)
      scale.insert(scale.end(), static_cast<std::size_t>(s.group_size()), row_scale);
    put_group_rows(s, g, scale, all.dx_scale);
    for (Index i = 0; i < s.group_size(); ++i) {
      const auto parameter = static_cast<std::size_t>(s.parameter(g, i));
      all.dgamma[parameter] += rows.dgamma[static_cast<std::size_t>(i)];
      all.dbeta[parameter] += rows.dbeta[static_cast<std::size_t>(i)];
    }
    all.dgamma_scale[0] = std::max(all.dgamma_scale[0], rows.dgamma_scale[0]);
    all.dbeta_scale[0] = std::max(all.dbeta_scale[0], rows.dbeta_scale[0]);
  }
  return all;
}

/// The contract for sums over the elements of one parameter.
inline long double parameter_ulps(const SegmentShape& s) {
  return contract_ulps * std::sqrt(static_cast<long double>(s.size()) / static_cast<long double>(s.parameters()));
}

// ---------------------------------------------------------------- memory

/// Segments in the order of memory, from logical order or (Back) to it.
template <bool Back, class T>
std::vector<T> reorder(const SegmentShape& s, const std::vector<T>& values) {
  if (s.order == Order::groups_apart || values.empty()) return values;
  std::vector<T> result(values.size());
  for (Index o = 0; o < s.outer; ++o) {
    for (Index g = 0; g < s.groups; ++g) {
      for (Index i = 0; i < s.segments; ++i) {
        const Index logical = (o * s.groups + g) * s.segments + i, memory = (o * s.segments + i) * s.groups + g;
        std::copy_n(values.begin() + (Back ? memory : logical) * s.columns, s.columns,
                    result.begin() + (Back ? logical : memory) * s.columns);
      }
    }
  }
  return result;
}

struct Strides {
  Index outer, group, segment;
  Strides(const SegmentShape& s, Index columns)
      : outer(s.groups * s.segments * columns),
        group(s.order == Order::groups_apart ? s.segments * columns : columns),
        segment(s.order == Order::groups_apart ? columns : s.groups * columns) {}
};

template <class T>
Array<T> segments(const SegmentShape& s, bool wanted, Place place, const std::vector<T>& values = {}) {
  return Array<T>(wanted, s.outer * s.groups * s.segments, s.columns, place, reorder<false>(s, values));
}

// ---------------------------------------------------------------- calls

template <class T>
struct SegmentResult {
  ForwardResult<T> rows = {};  // y, mean, mean_rest, rstd
  std::vector<T> var = {};
};

template <class T>
void expect_same_bits(const SegmentResult<T>& got, const SegmentResult<T>& expected) {
  expect_same_bits(got.rows, expected.rows);
  EXPECT_TRUE(same_bits(got.var, expected.var));
}

template <class C, class T = typename C::Scalar>
SegmentResult<T> forward(const SegmentData<T>& d, const ForwardOptions& o = {}) {
  const SegmentShape& s = d.shape;
  const Layout& at = o.layout;
  const Array<T> x = segments(s, true, at.x, d.x), own_y = segments<T>(s, !o.in_place, at.y);
  const Array<T>& y = o.in_place ? x : own_y;
  const Array<T> gamma(d.gamma, 1, s.parameters(), at.gamma), beta(d.beta, 1, s.parameters(), at.beta);
  const Index groups = s.outer * s.groups;
  const Array<T> mean(o.mean, 1, groups, at.statistics), mean_rest(o.mean_rest, 1, groups, at.statistics);
  const Array<T> rstd(o.rstd, 1, groups, at.statistics), var(o.rstd, 1, groups, at.statistics);
  const Strides x_stride(s, x.stride()), y_stride(s, y.stride());
  run<typename C::Arch>(kernels::SegmentNormForward<T>{.x = x.data(),
                                                       .y = y.data(),
                                                       .gamma = gamma.data(),
                                                       .beta = beta.data(),
                                                       .mean = mean.data(),
                                                       .mean_rest = mean_rest.data(),
                                                       .rstd = rstd.data(),
                                                       .var = var.data(),
                                                       .outer = s.outer,
                                                       .groups = s.groups,
                                                       .segments = s.segments,
                                                       .columns = s.columns,
                                                       .x_outer_stride = x_stride.outer,
                                                       .x_group_stride = x_stride.group,
                                                       .x_segment_stride = x_stride.segment,
                                                       .y_outer_stride = y_stride.outer,
                                                       .y_group_stride = y_stride.group,
                                                       .y_segment_stride = y_stride.segment,
                                                       .parameter_group_step = s.group_step(),
                                                       .parameter_segment_step = s.per == Per::segment,
                                                       .parameter_column_step = s.per == Per::column,
                                                       .eps = d.eps});
  for (const Array<T>* array : {&x, &gamma, &beta, &y, &mean, &mean_rest, &rstd, &var})
    EXPECT_TRUE(array->is_intact_around());
  EXPECT_TRUE(o.in_place || same_bits(reorder<true>(s, x.values()), d.x));
  EXPECT_TRUE(same_bits(gamma.values(), d.gamma));
  return {{reorder<true>(s, y.values()), mean.values(), mean_rest.values(), rstd.values()}, var.values()};
}

template <class C, class T = typename C::Scalar>
Gradients<T> backward(const SegmentData<T>& d, const ForwardResult<T>& saved, const BackwardOptions<T>& o = {},
                      bool constant_statistics = false) {
  const SegmentShape& s = d.shape;
  const Layout& at = o.layout;
  const Index groups = s.outer * s.groups;
  const Array<T> x = segments(s, true, at.x, d.x), dy = segments(s, true, at.dy, d.dy);
  const Array<T> own_dx = segments(s, o.wanted.dx && !o.in_place, at.dx, o.add_to.dx);
  const Array<T>& dx = o.in_place ? dy : own_dx;
  const Array<T> gamma(d.gamma, 1, s.parameters(), at.gamma);
  const Array<T> mean(saved.mean, 1, groups, at.statistics), mean_rest(saved.mean_rest, 1, groups, at.statistics);
  const Array<T> rstd(saved.rstd, 1, groups, at.statistics);
  const Array<T> dgamma(o.wanted.dgamma, 1, s.parameters(), at.dgamma, o.add_to.dgamma);
  const Array<T> dbeta(o.wanted.dbeta, 1, s.parameters(), at.dbeta, o.add_to.dbeta);
  const auto bytes = static_cast<Index>(kernels::segment_norm_backward_workspace_bytes<T>(s.parameters()));
  const Array<char> workspace(o.wanted.dgamma || o.wanted.dbeta, 1, bytes, {.offset = at.workspace_offset});
  const Strides dy_stride(s, dy.stride()), x_stride(s, x.stride()), dx_stride(s, dx.stride());
  run<typename C::Arch>(kernels::SegmentNormBackward<T>{.dy = dy.data(),
                                                        .x = x.data(),
                                                        .gamma = gamma.data(),
                                                        .mean = mean.data(),
                                                        .mean_rest = mean_rest.data(),
                                                        .rstd = rstd.data(),
                                                        .dx = dx.data(),
                                                        .dgamma = dgamma.data(),
                                                        .dbeta = dbeta.data(),
                                                        .add_dx = !o.add_to.dx.empty(),
                                                        .add_dgamma = !o.add_to.dgamma.empty(),
                                                        .add_dbeta = !o.add_to.dbeta.empty(),
                                                        .outer = s.outer,
                                                        .groups = s.groups,
                                                        .segments = s.segments,
                                                        .columns = s.columns,
                                                        .dy_outer_stride = dy_stride.outer,
                                                        .dy_group_stride = dy_stride.group,
                                                        .dy_segment_stride = dy_stride.segment,
                                                        .x_outer_stride = x_stride.outer,
                                                        .x_group_stride = x_stride.group,
                                                        .x_segment_stride = x_stride.segment,
                                                        .dx_outer_stride = dx_stride.outer,
                                                        .dx_group_stride = dx_stride.group,
                                                        .dx_segment_stride = dx_stride.segment,
                                                        .parameter_group_step = s.group_step(),
                                                        .parameter_segment_step = s.per == Per::segment,
                                                        .parameter_column_step = s.per == Per::column,
                                                        .constant_statistics = constant_statistics,
                                                        .workspace = workspace.data()});
  for (const Array<T>* array : {&x, &dy, &gamma, &mean, &mean_rest, &rstd, &dx, &dgamma, &dbeta})
    EXPECT_TRUE(array->is_intact_around());
  EXPECT_TRUE(same_bits(reorder<true>(s, x.values()), d.x));
  EXPECT_TRUE(o.in_place || same_bits(reorder<true>(s, dy.values()), d.dy));
  EXPECT_TRUE(same_bits(gamma.values(), d.gamma));
  return {reorder<true>(s, dx.values()), dgamma.values(), dbeta.values()};
}

template <class C, class T = typename C::Scalar>
Gradients<T> gradients(const SegmentData<T>& d, const BackwardOptions<T>& o = {}) {
  return backward<C>(d, forward<C>(d).rows, o);
}

/// y, dx, dgamma and dbeta, checked against the contract.
template <class C, class T = typename C::Scalar>
void expect_contract(const SegmentData<T>& d) {
  const auto saved = forward<C>(d).rows;
  EXPECT_TRUE(within_ulp(saved.y, expected_y(d), contract_ulps, y_scale(d)));
  if (d.dy.empty()) return;
  const auto got = backward<C>(d, saved);
  const auto expected = expected_gradients(d);
  EXPECT_TRUE(within_ulp(got.dx, expected.dx, contract_ulps, expected.dx_scale));
  EXPECT_TRUE(within_ulp(got.dgamma, expected.dgamma, parameter_ulps(d.shape), expected.dgamma_scale));
  EXPECT_TRUE(within_ulp(got.dbeta, expected.dbeta, parameter_ulps(d.shape), expected.dbeta_scale));
}

/// Short and long segments, few and many.
template <class T>
std::vector<SegmentShape> edge_shapes() {
  const Index width = kernels::Simd<evenkeel::native, T>::width;
  std::vector<SegmentShape> shapes;
  for (const Index segments : {1, 2, 3, 31, 33, 70}) {
    for (const Index columns : {Index{1}, Index{2}, Index{3}, width - 1, width, width + 1, 2 * width + 1, Index{49}}) {
      if (columns > 0) shapes.push_back({.segments = segments, .columns = columns});
    }
  }
  for (const Index columns : {768, 1024, 1025, 2053}) shapes.push_back({.segments = 3, .columns = columns});
  return shapes;
}

}  // namespace evenkeel_test
