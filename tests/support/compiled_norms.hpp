// What holds the kernels of the norms is compiled once for all tests, in compiled_norms.cpp.
#pragma once

#include "evenkeel/ops/group_norm.hpp"
#include "evenkeel/ops/layer_norm.hpp"
#include "evenkeel/ops/rms_norm.hpp"

#define EVENKEEL_TEST_NORM(prefix, Row, S)                                                                 \
  prefix template void evenkeel::detail::normalize<evenkeel::kernels::Row, S>(                             \
      const char*, const evenkeel::TensorView<const S>&, const evenkeel::TensorView<S>&,                   \
      const evenkeel::detail::RowNormOptions<S>&, evenkeel::NormStatistics<S>*, const evenkeel::Context&); \
  prefix template void evenkeel::detail::normalize_backward<evenkeel::kernels::Row, S>(                    \
      const char*, const evenkeel::TensorView<const S>&, const evenkeel::TensorView<const S>&,             \
      const evenkeel::NormStatistics<S>&, const evenkeel::detail::RowNormOptions<S>&,                      \
      const evenkeel::detail::RowNormGradients<S>&, const evenkeel::Context&);
#define EVENKEEL_TEST_NORMS(prefix)                \
  EVENKEEL_TEST_NORM(prefix, LayerNormRow, float)  \
  EVENKEEL_TEST_NORM(prefix, LayerNormRow, double) \
  EVENKEEL_TEST_NORM(prefix, RMSNormRow, float)    \
  EVENKEEL_TEST_NORM(prefix, RMSNormRow, double)

EVENKEEL_TEST_NORMS(extern)

#define EVENKEEL_TEST_GROUP_NORM(prefix, S)                                                                          \
  prefix template void evenkeel::detail::normalize_groups<S>(                                                        \
      const char*, const evenkeel::TensorView<const S>&, const evenkeel::TensorView<S>&,                             \
      const evenkeel::ParameterView<S>&, const evenkeel::ParameterView<S>&, double,                                  \
      const evenkeel::detail::GroupNormAxes&, evenkeel::NormStatistics<S>*, const evenkeel::Context&);               \
  prefix template void evenkeel::detail::differentiate_groups<S>(                                                    \
      const char*, const evenkeel::TensorView<const S>&, const evenkeel::TensorView<const S>&,                       \
      const evenkeel::NormStatistics<S>&, const evenkeel::ParameterView<S>&, const evenkeel::detail::GroupNormAxes&, \
      const evenkeel::detail::RowNormGradients<S>&, const evenkeel::Context&);
EVENKEEL_TEST_GROUP_NORM(extern, float)
EVENKEEL_TEST_GROUP_NORM(extern, double)
