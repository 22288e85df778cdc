// What the tests of ops/add_norm.hpp share: the two norms under one interface, and the composition that is unfused.
#pragma once

#include "evenkeel/ops/add_norm.hpp"
#include "ops/op_test.hpp"

// Compiled once, in add_norm_op_test.cpp.
#define EVENKEEL_TEST_ADD_NORM(prefix, Row, S)                                                                \
  prefix template void evenkeel::detail::add_normalize<evenkeel::kernels::Row, S>(                            \
      const char*, const evenkeel::TensorView<const S>&, const evenkeel::TensorView<const S>&,                \
      const evenkeel::TensorView<S>&, const evenkeel::TensorView<S>&, const evenkeel::ResidualSumOptions<S>&, \
      const evenkeel::detail::RowNormOptions<S>&, evenkeel::NormStatistics<S>*, const evenkeel::Context&);    \
  prefix template void evenkeel::detail::add_normalize_backward<evenkeel::kernels::Row, S>(                   \
      const char*, const evenkeel::detail::AddNormUpstream<S>&, const evenkeel::NormStatistics<S>&,           \
      const evenkeel::ResidualSumOptions<S>&, const evenkeel::detail::RowNormOptions<S>&,                     \
      const evenkeel::detail::SumGradientsWanted<S>&, evenkeel::detail::RowNormGradients<S>,                  \
      const evenkeel::Context&);
#define EVENKEEL_TEST_ADD_NORMS(prefix)                \
  EVENKEEL_TEST_ADD_NORM(prefix, LayerNormRow, float)  \
  EVENKEEL_TEST_ADD_NORM(prefix, LayerNormRow, double) \
  EVENKEEL_TEST_ADD_NORM(prefix, RMSNormRow, float)    \
  EVENKEEL_TEST_ADD_NORM(prefix, RMSNormRow, double)

EVENKEEL_TEST_ADD_NORMS(extern)

namespace evenkeel_test {

using evenkeel::AddNormInputs;
using evenkeel::ResidualSumOptions;

/// The gradients of either norm.
template <class S>
struct AddGradients {
  evenkeel::TensorGradient<S> dx = {}, dh = {};
  evenkeel::ParameterGradient<S> dgamma = {}, dbeta = {}, dlambda = {}, dbias = {};
};

template <class S>
struct AddLayerNormOp {
  using Scalar = S;
  using Alone = LayerNormOp<S>;
  using Options = evenkeel::AddLayerNormOptions<S>;
  static constexpr const char* name = "add_layer_norm";
  static constexpr bool centred = true;

  static Options options(const ResidualSumOptions<S>& sum, const OpOptions<S>& norm) {
    return {sum, {norm.gamma, norm.beta, norm.eps, norm.axis}};
  }
  template <class... Arguments>
  static void into(Arguments&&... arguments) {
    evenkeel::add_layer_norm_into(std::forward<Arguments>(arguments)...);
  }
  static void backward(const AddNormInputs<S>& from, const NormStatistics<S>& saved, const Options& options,
                       const AddGradients<S>& to, const Context& context = {}) {
    evenkeel::add_layer_norm_backward<S>(from, saved, options,
                                         {to.dx, to.dh, to.dgamma, to.dbeta, to.dlambda, to.dbias}, context);
  }
  static std::size_t workspace_bytes(const Shape& x, const Axes& axis = -1) {
    return evenkeel::add_layer_norm_workspace_bytes<S>(x, axis);
  }
};

/// beta and dbeta are left out: it has none.
template <class S>
struct AddRMSNormOp {
  using Scalar = S;
  using Alone = RMSNormOp<S>;
  using Options = evenkeel::AddRMSNormOptions<S>;
  static constexpr const char* name = "add_rms_norm";
  static constexpr bool centred = false;

  static Options options(const ResidualSumOptions<S>& sum, const OpOptions<S>& norm) {
    return {sum, {norm.gamma, norm.eps, norm.axis}};
  }
  template <class... Arguments>
  static void into(Arguments&&... arguments) {
    evenkeel::add_rms_norm_into(std::forward<Arguments>(arguments)...);
  }
  static void backward(const AddNormInputs<S>& from, const NormStatistics<S>& saved, const Options& options,
                       const AddGradients<S>& to, const Context& context = {}) {
    evenkeel::add_rms_norm_backward<S>(from, saved, options, {to.dx, to.dh, to.dgamma, to.dlambda, to.dbias}, context);
  }
  static std::size_t workspace_bytes(const Shape& x, const Axes& axis = -1) {
    return evenkeel::add_rms_norm_workspace_bytes<S>(x, axis);
  }
};

using AddOps = testing::Types<AddLayerNormOp<float>, AddLayerNormOp<double>, AddRMSNormOp<float>, AddRMSNormOp<double>>;

}  // namespace evenkeel_test
