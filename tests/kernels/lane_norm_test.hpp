// What the tests of lanes share: the data and the oracle of rows, called with x turned into lanes.
#pragma once

#include "evenkeel/kernels/lane_norm_backward.hpp"
#include "kernels/kernel_test.hpp"

namespace evenkeel_test {

/// The kernels, which are compiled once for all test files, in lane_norm_kernel_test.cpp.
template <class C>
struct LaneKernel {
  using T = typename C::Scalar;
  static void run(const kernels::LaneNormForward<T>& args);
  static void run(const kernels::LaneNormBackward<T>& args);
};

/// How rows become lanes: [rows, features] is [outer][length = features][lanes = rows / outer].
struct Lanes {
  Index outer = 1;
  Place x = {}, dy = {}, y = {}, dx = {};
  bool in_place = false;
  bool per_lane = false;  // gamma and beta are one number for each lane
};

/// [outer * lanes][length] to [outer][length][lanes], or (Back) the other way.
template <bool Back, class T>
std::vector<T> turned(const std::vector<T>& values, Index outer, Index length) {
  std::vector<T> result(values.size());
  if (values.empty()) return result;
  const Index lanes = static_cast<Index>(values.size()) / (outer * length);
  for (Index o = 0; o < outer; ++o) {
    for (Index l = 0; l < length; ++l) {
      for (Index j = 0; j < lanes; ++j) {
        const auto row = static_cast<std::size_t>((o * lanes + j) * length + l);
        const auto lane = static_cast<std::size_t>((o * length + l) * lanes + j);
        if (Back) {
          result[row] = values[lane];
        } else {
          result[lane] = values[row];
        }
      }
    }
  }
  return result;
}

template <class T>
struct LaneForwardResult : ForwardResult<T> {
  std::vector<T> var = {};
};

template <class C, class T = typename C::Scalar>
LaneForwardResult<T> lane_forward(const Data<T>& d, const Lanes& o = {}) {
  const Index lanes = d.rows / o.outer, rows = o.outer * d.features, parameters = o.per_lane ? lanes : d.features;
  const Array<T> x(turned<false>(d.x, o.outer, d.features), rows, lanes, o.x);
  const Array<T> gamma(d.gamma, 1, parameters, {}),
      beta(C::Norm::centred ? d.beta : std::vector<T>(), 1, parameters, {});
  const Array<T> own_y(!o.in_place, rows, lanes, o.y);
  const Array<T>& y = o.in_place ? x : own_y;
  const Array<T> mean(true, 1, d.rows, {}), mean_rest(true, 1, d.rows, {}), rstd(true, 1, d.rows, {});
  const Array<T> var(true, 1, d.rows, {});
  LaneKernel<C>::run(kernels::LaneNormForward<T>{.x = x.data(),
                                                 .gamma = gamma.data(),
                                                 .beta = beta.data(),
                                                 .y = y.data(),
                                                 .mean = mean.data(),
                                                 .mean_rest = mean_rest.data(),
                                                 .rstd = rstd.data(),
                                                 .var = var.data(),
                                                 .outer = o.outer,
                                                 .length = d.features,
                                                 .lanes = lanes,
                                                 .x_outer_stride = d.features * x.stride(),
                                                 .x_stride = x.stride(),
                                                 .y_outer_stride = d.features * y.stride(),
                                                 .y_stride = y.stride(),
                                                 .parameters_per_lane = o.per_lane,
                                                 .eps = d.eps});
  for (const Array<T>* array : {&x, &gamma, &beta, &y, &mean, &mean_rest, &rstd, &var})
    EXPECT_TRUE(array->is_intact_around());
  EXPECT_TRUE(o.in_place || same_bits(x.values(), turned<false>(d.x, o.outer, d.features)));
  return {{turned<true>(y.values(), o.outer, d.features), mean.values(), mean_rest.values(), rstd.values()},
          var.values()};
}

struct LaneBackwardOptions {
  Wanted wanted = {};
  bool mean_rest = true;
  bool constant_statistics = false;
};

template <class C, class T = typename C::Scalar>
Gradients<T> lane_backward(const Data<T>& d, const ForwardResult<T>& saved, const Lanes& o = {},
                           const LaneBackwardOptions& options = {}, const Gradients<T>& add_to = {}) {
  const Index lanes = d.rows / o.outer, rows = o.outer * d.features, parameters = o.per_lane ? lanes : d.features;
  const auto turn = [&](const std::vector<T>& values) { return turned<false>(values, o.outer, d.features); };
  const Array<T> x(turn(d.x), rows, lanes, o.x), dy(turn(d.dy), rows, lanes, o.dy), gamma(d.gamma, 1, parameters, {});
  const Array<T> own_dx(options.wanted.dx && !o.in_place, rows, lanes, o.dx, turn(add_to.dx));
  const Array<T>& dx = o.in_place ? dy : own_dx;
  const Array<T> dgamma(options.wanted.dgamma, 1, parameters, {}, add_to.dgamma);
  const Array<T> dbeta(options.wanted.dbeta && C::Norm::centred, 1, parameters, {}, add_to.dbeta);
  const bool needs_workspace = dgamma.data() || dbeta.data();
  const Array<char> workspace(needs_workspace, 1,
                              static_cast<Index>(kernels::lane_norm_backward_workspace_bytes<T>(parameters)), {3, 0});
  LaneKernel<C>::run(kernels::LaneNormBackward<T>{
      .dy = dy.data(),
      .x = x.data(),
      .gamma = gamma.data(),
      .mean = C::Norm::centred ? saved.mean.data() : nullptr,
      .mean_rest = C::Norm::centred && options.mean_rest ? saved.mean_rest.data() : nullptr,
      .rstd = saved.rstd.data(),
      .dx = dx.data(),
      .dgamma = dgamma.data(),
      .dbeta = dbeta.data(),
      .add_dx = !add_to.dx.empty(),
      .add_dgamma = !add_to.dgamma.empty(),
      .add_dbeta = !add_to.dbeta.empty(),
      .outer = o.outer,
      .length = d.features,
      .lanes = lanes,
      .dy_outer_stride = d.features * dy.stride(),
      .dy_stride = dy.stride(),
      .x_outer_stride = d.features * x.stride(),
      .x_stride = x.stride(),
      .dx_outer_stride = d.features * dx.stride(),
      .dx_stride = dx.stride(),
      .parameters_per_lane = o.per_lane,
      .constant_statistics = options.constant_statistics,
      .workspace = workspace.data()});
  for (const Array<T>* array : {&x, &dy, &gamma, &dx, &dgamma, &dbeta}) EXPECT_TRUE(array->is_intact_around());
  EXPECT_TRUE(same_bits(x.values(), turn(d.x)));
  EXPECT_TRUE(o.in_place || same_bits(dy.values(), turn(d.dy)));
  return {turned<true>(dx.values(), o.outer, d.features), dgamma.values(), dbeta.values()};
}

/// Forward and backward against the oracle of rows, within the contract.
template <class C, class T = typename C::Scalar>
void expect_lane_contract(const Data<T>& d, const Lanes& o = {}) {
  const auto saved = lane_forward<C>(d, o);
  EXPECT_TRUE(within_ulp(saved.y, expected_y<C>(d), contract_ulps, y_scale<C>(d)));
  const auto got = lane_backward<C>(d, saved, o);
  const auto expected = expected_gradients<C>(d);
  const long double parameter_ulps = contract_ulps * std::sqrt(static_cast<long double>(d.rows));
  EXPECT_TRUE(within_ulp(got.dx, expected.dx, contract_ulps, expected.dx_scale));
  EXPECT_TRUE(within_ulp(got.dgamma, expected.dgamma, parameter_ulps, expected.dgamma_scale));
  if (C::Norm::centred) {
    EXPECT_TRUE(within_ulp(got.dbeta, expected.dbeta, parameter_ulps, expected.dbeta_scale));
  }
}

}  // namespace evenkeel_test
