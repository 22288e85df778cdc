#pragma once

#include "evenkeel/kernels/in_one_piece.hpp"
#include "evenkeel/kernels/row_norm.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// Rows in place, each of `features` elements that are feature_stride apart; or lanes, where neighbouring rows lie side
/// by side: then one of them is [features][lanes].
template <class X, class P>
struct RowAffine {
  X* y = nullptr;            ///< [rows][features][lanes]
  const P* gamma = nullptr;  ///< [features], or null: 1
  const P* beta = nullptr;   ///< [features], or null: no addition
  Index rows = 0, features = 0, lanes = 1;
  Index row_stride = 0, feature_stride = 1, lane_stride = 1;
};

/// y * gamma + beta, of one vector.
template <class Arch, class T, class Batch>
inline Batch affine(const Batch& y, const Batch& gamma, const Batch* beta) noexcept {
  return beta ? Simd<Arch, T>::fma(y, gamma, *beta) : y * gamma;
}

template <class Arch, class X, class P>
inline void row_affine_of_features(const RowAffine<X, P>& a, X* y) noexcept {
  using T = Compute<X>;
  for (Index start = 0; start < a.features; start += block_columns<Arch, T>) {
    const P *gamma = parameter_block<1>(a.gamma, start), *beta = parameter_block<0>(a.beta, start);
    for_each_vector<Arch, T, 1>(std::min(a.features - start, block_columns<Arch, T>), [&](auto, Index j, auto lanes) {
      const auto beta_j = lanes.load(beta + j);
      const auto y_j = lanes.load(y + start + j);
      lanes.store(y + start + j, affine<Arch, T>(y_j, lanes.load(gamma + j), a.beta ? &beta_j : nullptr));
    });
  }
}

/// One feature of all lanes: as one run, or each by itself where they have gaps.
template <class Arch, class X, class P>
inline void row_affine_of_lanes(const RowAffine<X, P>& a, X* y, Index feature) noexcept {
  using T = Compute<X>;
  const auto gamma = Simd<Arch, T>::broadcast(a.gamma ? to_compute(a.gamma[feature]) : T(1));
  const auto beta = Simd<Arch, T>::broadcast(a.beta ? to_compute(a.beta[feature]) : T(0));
  const Index run = a.lane_stride == 1 ? a.lanes : 1;
  for (Index lane = 0; lane < a.lanes; lane += run) {
    X* at = y + lane * a.lane_stride;
    for_each_vector<Arch, T, 1>(run, [&](auto, Index j, auto lanes) {
      lanes.store(at + j, affine<Arch, T>(lanes.load(at + j), gamma, a.beta ? &beta : nullptr));
    });
  }
}

/// y = y * gamma + beta of rows that are stored already: a second rounding, after that of what is stored. By `run`, see
/// InOnePiece.
///
/// Writes    y, in place.
/// Numerics  one multiplication, or fma, rounded once.
/// Cost      y read and written once; no allocation.
template <class Arch = native, class X, class P, class Run = InOnePiece>
inline void row_affine(const RowAffine<X, P>& a, const Run& run = {}) noexcept {
  constexpr auto size = static_cast<Index>(sizeof(X));
  if (a.lanes == 1 && a.feature_stride == 1) {
    return run(a.rows, a.features * size, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) row_affine_of_features<Arch>(a, a.y + i * a.row_stride);
    });
  }
  run(a.rows * a.features, a.lanes * size, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      const Index row = i / a.features, feature = i % a.features;
      row_affine_of_lanes<Arch>(a, a.y + row * a.row_stride + feature * a.feature_stride, feature);
    }
  });
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
