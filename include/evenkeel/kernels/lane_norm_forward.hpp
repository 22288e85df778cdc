#pragma once

#include "evenkeel/kernels/in_one_piece.hpp"
#include "evenkeel/kernels/lane_moments.hpp"

/// Normalization over a strided axis: features of one token are far apart, tokens lie side by side.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// [outer][length][lanes], the lanes contiguous; what is normalized together is one lane.
///
/// X is the type of the data, P that of the parameters: X or Compute<X>. Statistics are of type Compute<X>.
template <class X, class P = X>
struct LaneNormForward {
  using T = Compute<X>;
  const X* x = nullptr;
  const P* gamma = nullptr;  ///< [length], or [lanes] if parameters_per_lane; null: 1
  const P* beta = nullptr;   ///< as gamma; null: 0
  X* y = nullptr;            ///< may be x; or null: only statistics are wanted
  T* mean = nullptr;         ///< [outer * lanes], or null: not wanted; as the next three
  T* mean_rest = nullptr;
  T* rstd = nullptr;
  T* var = nullptr;  ///< biased, without eps; the mean square, for RMSNorm
  Index outer = 0, length = 0, lanes = 0;
  Index x_outer_stride = 0, x_stride = 0;  ///< from one row of lanes to the next: x_stride
  Index y_outer_stride = 0, y_stride = 0;
  bool parameters_per_lane = false;
  double eps = 0;
};

/// Lanes of a block. Where x and what goes with it (`arrays`) come from the caches anyway, so few that a block stays in
/// the L1 cache; else as many as keep a block in the L2 cache between the two passes; where even 256 lanes do not,
/// many, as long pieces of rows are what the hardware's prefetching follows.
template <class X>
inline Index block_lanes(Index arrays, Index length, Index lanes) noexcept {
  const Index lane_bytes = arrays * length * static_cast<Index>(sizeof(X));
  const Index few = lane_strip<Compute<X>>, some = most_lanes<Compute<X>> / 4;
  if (2 * lane_bytes * lanes <= (Index{512} << 10) && lane_bytes * few <= (Index{16} << 10)) return few;
  const Index fitting = (Index{128} << 10) / lane_bytes / few * few;
  return fitting >= some ? std::min(fitting, most_lanes<Compute<X>>) : most_lanes<Compute<X>>;
}

/// Lanes in strips, one outer index after another, of which some make a block: `at_once` is a multiple of `strip`.
struct LaneStrips {
  Index outer, lanes, at_once, strip;

  Index per_outer() const noexcept { return (lanes + strip - 1) / strip; }
  Index count() const noexcept { return outer * per_outer(); }
  /// body(outer index, first lane, number of lanes) for the blocks of strips [first, last).
  template <class Body>
  void for_each_block(Index first, Index last, const Body& body) const noexcept {
    for (Index i = first, strips; i < last; i += strips) {
      const Index o = i / per_outer(), lane = i % per_outer() * strip;
      strips = std::min({at_once / strip, per_outer() - i % per_outer(), last - i});
      body(o, lane, std::min(strips * strip, lanes - lane));
    }
  }
};

/// Of data of type X.
template <class X>
inline Index strip_bytes(const LaneStrips& strips, Index length) noexcept {
  return length * std::min(strips.strip, strips.lanes) * static_cast<Index>(sizeof(X));
}

/// The coefficients that lanes are normalized with, as arrays of them: [lanes] each.
template <class Arch, template <class, class, bool> class NormRow, class T, bool Scaled>
struct LaneCoefficients {
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;
  const T *mean, *mean_rest, *rstd, *scale;

  template <class Lanes>
  NormRow<Arch, T, Scaled> row(Index j, Lanes lanes) const noexcept {
    constexpr bool centred = NormRow<Arch, T, Scaled>::centred;
    const Batch zero = S::broadcast(T(0)), one = S::broadcast(T(1));
    const RowStatistics<Batch> statistics{centred ? lanes.load(mean + j) : zero,
                                          centred ? lanes.load(mean_rest + j) : zero, lanes.load(rstd + j)};
    return NormRow<Arch, T, Scaled>(statistics, Scaled ? lanes.load(scale + j, one) : one);
  }
};

template <class Arch, template <class, class, bool> class NormRow, class X, class P>
class LaneNormForwardPass {
 public:
  using T = Compute<X>;

  explicit LaneNormForwardPass(const LaneNormForward<X, P>& args) noexcept : a_(args) {}

  static LaneStrips strips(const LaneNormForward<X, P>& a) noexcept {
    return {a.outer, a.lanes, block_lanes<X>(1, a.length, a.lanes), lane_strip<T>};
  }
  void run(Index first, Index last) noexcept {
    strips(a_).for_each_block(first, last, [this](Index o, Index lane, Index lanes) { block(o, lane, lanes); });
  }

 private:
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;

  void block(Index o, Index first, Index lanes) noexcept {
    const LaneBlock<const X> x{a_.x + o * a_.x_outer_stride + first, a_.length, a_.x_stride, lanes};
    const bool is_ordinary = meter_.measure(x, a_.eps);
    save(o * a_.lanes + first, lanes);
    if (!a_.y) return;
    const LaneBlock<X> y{a_.y + o * a_.y_outer_stride + first, a_.length, a_.y_stride, lanes};
    is_ordinary ? write<false>(x, y, first, std::integral_constant<Index, 0>()) : write_extreme(x, y, first);
  }

  void save(Index first, Index lanes) const noexcept {
    if (a_.mean) std::copy_n(meter_.mean.at, lanes, a_.mean + first);
    if (a_.mean_rest) std::copy_n(meter_.mean_rest.at, lanes, a_.mean_rest + first);
    if (a_.rstd) std::copy_n(meter_.rstd.at, lanes, a_.rstd + first);
    if (a_.var) std::copy_n(meter_.var.at, lanes, a_.var + first);
  }

  [[gnu::noinline]] void write_extreme(const LaneBlock<const X>& x, const LaneBlock<X>& y, Index first) noexcept {
    std::transform(meter_.rstd.at, meter_.rstd.at + x.lanes, scale_.at, row_scale<T>);
    for (Index lane = 0; lane < x.lanes; lane += lane_strip<T>) {
      const Index n = std::min(lane_strip<T>, x.lanes - lane);
      are_ordinary(meter_.rstd.at + lane, n) ? write<false>(x.part(lane, n), y.part(lane, n), first, lane)
                                             : write<true>(x.part(lane, n), y.part(lane, n), first, lane);
    }
  }

  /// Lanes from `lane` on of the block that begins at `first`: a constant type where that is 0, as in all ordinary
  /// blocks, whose loops then need no addresses of their own.
  template <bool Scaled, class Lane>
  void write(const LaneBlock<const X>& x, const LaneBlock<X>& y, Index first, Lane lane) const noexcept {
    const LaneCoefficients<Arch, NormRow, T, Scaled> coefficients{meter_.mean.at + lane, meter_.mean_rest.at + lane,
                                                                  meter_.rstd.at + lane, scale_.at + lane};
    first += lane;
    if (a_.parameters_per_lane) {
      const P *gamma = parameter_block<1>(a_.gamma, a_.gamma ? first : 0),
              *beta = parameter_block<0>(a_.beta, a_.beta ? first : 0);
      write(x, y, coefficients, [&](Index, auto) { return ParametersOfLanes{gamma, beta}; });
    } else {
      write(x, y, coefficients, [&](Index l, auto count) { return ParametersOfRows<count>(a_, l); });
    }
  }

  /// From the last rows, which are still in a cache, to the first; several at a time for what is loaded once for all of
  /// them.
  template <class Coefficients, class Parameters>
  [[gnu::flatten]] void write(const LaneBlock<const X>& x, const LaneBlock<X>& y, const Coefficients& coefficients,
                              const Parameters& parameters) const noexcept {
    constexpr std::integral_constant<int, 4> several;
    constexpr std::integral_constant<int, 1> one;
    Index l = x.length;
    for (; l >= several && !y.is_one_run(); l -= several) {
      write_rows(x, y, coefficients, parameters(l - several, several), l - several, several);
    }
    for (; l > 0; --l) write_rows(x, y, coefficients, parameters(l - 1, one), l - 1, one);
  }

  template <class Coefficients, class Parameters, int Rows>
  void write_rows(const LaneBlock<const X>& x, const LaneBlock<X>& y, const Coefficients& coefficients,
                  const Parameters& parameters, Index l, std::integral_constant<int, Rows>) const noexcept {
    const X* from = x.row(l);
    X* to = y.row(l);
    const Index x_stride = x.stride, y_stride = y.stride;
    for_each_vector<Arch, T, 2>(x.lanes, [&](auto, Index j, auto lanes) {
      const auto row = coefficients.row(j, lanes);
      const auto& at_j = parameters.at(j, lanes);
      unroll<Rows>([&](auto r) {
        const Batch x_hat = row.x_hat(lanes.load(from + r * x_stride + j));
        lanes.store(to + r * y_stride + j, S::fma(x_hat, at_j.gamma(r), at_j.beta(r)));
      });
    });
  }

  /// gamma and beta of rows, the same in each lane.
  template <int Rows>
  struct ParametersOfRows {
    Batch gammas[Rows], betas[Rows];

    ParametersOfRows(const LaneNormForward<X, P>& a, Index l) noexcept {
      for (int r = 0; r < Rows; ++r) {
        gammas[r] = S::broadcast(a.gamma ? to_compute(a.gamma[l + r]) : T(1));
        betas[r] = S::broadcast(a.beta ? to_compute(a.beta[l + r]) : T(0));
      }
    }
    template <class Lanes>
    const ParametersOfRows& at(Index, Lanes) const noexcept {
      return *this;
    }
    const Batch& gamma(int r) const noexcept { return gammas[r]; }
    const Batch& beta(int r) const noexcept { return betas[r]; }
  };

  /// gamma and beta of lanes, the same in each row.
  struct ParametersOfLanes {
    struct AtLanes {
      Batch gamma_j, beta_j;
      const Batch& gamma(int) const noexcept { return gamma_j; }
      const Batch& beta(int) const noexcept { return beta_j; }
    };
    const P *gamma, *beta;

    template <class Lanes>
    AtLanes at(Index j, Lanes lanes) const noexcept {
      return {lanes.load(gamma + j), lanes.load(beta + j)};
    }
  };

  const LaneNormForward<X, P>& a_;
  LaneMeter<Arch, NormRow, X> meter_;
  LaneArray<T> scale_;
};

/// y = x_hat * gamma + beta for each lane, and its statistics. Strips of lanes are normalized by `run`, see InOnePiece.
///
/// Numerics  as layer_norm_forward: sums of deviations from a sample of the lane, taken in chains of at most 20
///           additions and merged in twice T's digits; lanes whose mean is far from their sample's are measured again.
/// Cost      x read twice, y written once; 40 KiB of stack; no allocation.
template <class Arch, template <class, class, bool> class NormRow, class X, class P, class Run = InOnePiece>
inline void lane_norm_forward(const LaneNormForward<X, P>& a, const Run& run = {}) noexcept {
  if (a.outer == 0 || a.length == 0 || a.lanes == 0) return;
  using Pass = LaneNormForwardPass<Arch, NormRow, X, P>;
  const LaneStrips strips = Pass::strips(a);
  run(strips.count(), strip_bytes<X>(strips, a.length), [&](Index first, Index last) { Pass(a).run(first, last); });
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
