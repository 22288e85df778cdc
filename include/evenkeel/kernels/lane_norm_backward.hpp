#pragma once

#include "evenkeel/kernels/lane_norm_forward.hpp"
#include "evenkeel/kernels/piece_sums.hpp"

/// Gradients of normalization over a strided axis.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace kernels {

/// [outer][length][lanes], as LaneNormForward.
template <class X, class P = X>
struct LaneNormBackward {
  using T = Compute<X>;
  const X* dy = nullptr;
  const X* x = nullptr;
  const P* gamma = nullptr;      ///< [length], or [lanes] if parameters_per_lane; null: 1
  const T* mean = nullptr;       ///< [outer * lanes]; not read by RMSNorm, as mean_rest
  const T* mean_rest = nullptr;  ///< [outer * lanes], or null: 0, which costs the accuracy of lanes with a large mean
  const T* rstd = nullptr;       ///< [outer * lanes]
  X* dx = nullptr;               ///< null: not wanted; may be dy
  P* dgamma = nullptr;           ///< as gamma; null: not wanted
  P* dbeta = nullptr;            ///< as gamma; null: not wanted
  bool add_dx = false, add_dgamma = false, add_dbeta = false;  ///< add to what is there instead of overwriting it
  Index outer = 0, length = 0, lanes = 0;
  Index dy_outer_stride = 0, dy_stride = 0;
  Index x_outer_stride = 0, x_stride = 0;
  Index dx_outer_stride = 0, dx_stride = 0;
  bool parameters_per_lane = false;
  bool constant_statistics = false;  ///< mean and rstd do not depend on x: dx = rstd * gamma * dy
  void* workspace = nullptr;         ///< lane_norm_backward_workspace_bytes, any alignment
};

/// Lanes over which the sums of a row are taken in chains of 32.
template <class Arch, class T>
inline constexpr Index lane_row_piece = 32 * Simd<Arch, T>::width;

/// Pass 1 over a block sums g = dy * gamma and g * x_hat of each lane, and dy and dy * x_hat of each row; pass 2 writes
/// dx from the last row, which is still in a cache, to the first.
template <class Arch, template <class, class, bool> class NormRow, class X, class P>
class LaneNormBackwardPass {
 public:
  using T = Compute<X>;

  /// `totals` is null if parameters have no gradients, `pieces` where those of rows go straight to them.
  LaneNormBackwardPass(const LaneNormBackward<X, P>& args, const ParameterTotals<T>* totals,
                       const PieceSums<T>* pieces = nullptr) noexcept
      : a_(args), totals_(totals), pieces_(pieces) {}

  /// Whether all lanes have parameters in common whose gradients are wanted: then strips are whole blocks, as their
  /// sums depend on how many lanes they are of.
  static bool has_row_parameters(const LaneNormBackward<X, P>& a) noexcept {
    return (a.dgamma || a.dbeta) && !a.parameters_per_lane;
  }
  static LaneStrips strips(const LaneNormBackward<X, P>& a) noexcept {
    const Index at_once = block_lanes<X>(2, a.length, a.lanes);
    return {a.outer, a.lanes, at_once, has_row_parameters(a) ? at_once : lane_strip<T>};
  }
  /// Pieces of a block, each of which adds to the parameters of rows.
  static Index pieces(const LaneStrips& strips) noexcept {
    return (std::min(strips.at_once, strips.lanes) + row_piece - 1) / row_piece;
  }

  /// Strips [first, last), whose pieces go to the slots from `slot` on.
  void run(Index first, Index last, Index slot = 0) noexcept {
    slot_ = slot;
    strips(a_).for_each_block(first, last, [this](Index o, Index lane, Index lanes) {
      if (pieces_) pieces_->begin(slot_);
      block(o, lane, lanes);
      ++slot_;
    });
  }

 private:
  using S = Simd<Arch, T>;
  using Batch = typename S::Batch;
  static constexpr bool centred = NormRow<Arch, T, false>::centred;
  static constexpr int rows_at_once = S::has_32_registers ? 4 : 2;
  static constexpr Index row_piece = lane_row_piece<Arch, T>;

  /// Where a block is, its first lane among all parameters, and its statistics.
  struct Block {
    LaneBlock<const X> dy, x;
    LaneBlock<X> dx;
    Index first;
    const T *mean, *mean_rest, *rstd;

    Block part(Index lane, Index count) const noexcept {
      return {dy.part(lane, count),
              x.part(lane, count),
              dx.part(lane, count),
              first + lane,
              mean + (centred ? lane : 0),
              mean_rest == constant_block<T, 0>.values ? mean_rest : mean_rest + lane,
              rstd + lane};
    }
  };

  void block(Index o, Index first, Index lanes) noexcept {
    const Index at = o * a_.lanes + first;
    const bool has_rest = centred && a_.mean_rest;
    const Block b{{a_.dy + o * a_.dy_outer_stride + first, a_.length, a_.dy_stride, lanes},
                  {a_.x + o * a_.x_outer_stride + first, a_.length, a_.x_stride, lanes},
                  {a_.dx ? a_.dx + o * a_.dx_outer_stride + first : nullptr, a_.length, a_.dx_stride, lanes},
                  first,
                  a_.mean + (centred ? at : 0),
                  has_rest ? a_.mean_rest + at : constant_block<T, 0>.values,
                  a_.rstd + at};
    are_ordinary(b.rstd, lanes) ? differentiate<false>(b) : differentiate_extreme(b);
  }

  [[gnu::noinline]] void differentiate_extreme(const Block& b) noexcept {
    const Index step = has_row_parameters(a_) ? b.x.lanes : lane_strip<T>;
    for (Index lane = 0; lane < b.x.lanes; lane += step) {
      const Block strip = b.part(lane, std::min(step, b.x.lanes - lane));
      std::transform(strip.rstd, strip.rstd + strip.x.lanes, scale_.at, row_scale<T>);
      are_ordinary(strip.rstd, strip.x.lanes) ? differentiate<false>(strip) : differentiate<true>(strip);
    }
  }

  template <bool Scaled>
  void differentiate(const Block& b) noexcept {
    const LaneCoefficients<Arch, NormRow, T, Scaled> coefficients{b.mean, b.mean_rest, b.rstd, scale_.at};
    if (totals_ || !a_.constant_statistics) sum(b, coefficients);
    if (totals_ && a_.parameters_per_lane) {
      for (Index j = 0; j < b.x.lanes; ++j) totals_->add(b.first + j, gx_.value(j), g_.value(j));
    }
    if (!a_.dx) return;
    find_input_gradients(b, coefficients);
    a_.add_dx ? write<true>(b, coefficients) : write<false>(b, coefficients);
  }

  template <class Coefficients>
  void sum(const Block& b, const Coefficients& coefficients) noexcept {
    const Index lanes = (b.x.lanes + S::width - 1) / S::width * S::width;
    g_.clear(lanes);
    gx_.clear(lanes);
    for (Index first = 0; first < a_.length; first += chunk_steps * rows_at_once) {
      std::fill_n(chunk_g_.at, lanes, T(0));
      std::fill_n(chunk_gx_.at, lanes, T(0));
      const Index last = std::min(a_.length, first + chunk_steps * rows_at_once);
      Index l = first;
      for (; l + rows_at_once <= last; l += rows_at_once) sum_rows<rows_at_once>(b, coefficients, l);
      for (; l < last; ++l) sum_rows<1>(b, coefficients, l);
      for (Index j = 0; j < b.x.lanes; j += S::width) {
        g_.template add<Arch>(j, S::load(chunk_g_.at + j));
        gx_.template add<Arch>(j, S::load(chunk_gx_.at + j));
      }
    }
  }

  template <int Rows, class Coefficients>
  void sum_rows(const Block& b, const Coefficients& coefficients, Index l) noexcept {
    for (Index start = 0; start < b.x.lanes; start += row_piece) {
      has_row_parameters(a_) ? sum_piece<Rows, true>(b, coefficients, l, start)
                             : sum_piece<Rows, false>(b, coefficients, l, start);
    }
  }

  template <int Rows, bool WithRowParameters, class Coefficients>
  [[gnu::flatten]] void sum_piece(const Block& b, const Coefficients& coefficients, Index l, Index start) noexcept {
    const X *x = b.x.row(l) + start, *dy = b.dy.row(l) + start;
    const Index x_stride = b.x.stride, dy_stride = b.dy.stride;
    Batch gamma[Rows], dgamma[Rows], dbeta[Rows];
    for (int r = 0; r < Rows; ++r) {
      gamma[r] = row_gamma(l + r);
      dgamma[r] = dbeta[r] = S::broadcast(T(0));
    }
    for_each_vector<Arch, T, 1>(std::min(row_piece, b.x.lanes - start), [&](auto, Index j, auto lanes) {
      const auto row = coefficients.row(start + j, lanes);
      Batch g[Rows], gx[Rows];
      unroll<Rows>([&](auto r) {
        const Batch x_hat = row.x_hat(lanes.load(x + r * x_stride + j));
        const Batch dy_j = keep(lanes.load(dy + r * dy_stride + j));
        g[r] = keep(dy_j * gamma[r]);
        gx[r] = r % 2 == 0 ? keep(g[r] * x_hat) : S::fma(g[r], x_hat, gx[r - r % 2]);
        if constexpr (WithRowParameters) dgamma[r] = S::fma(dy_j, x_hat, dgamma[r]);
        if constexpr (WithRowParameters && centred) dbeta[r] = dbeta[r] + dy_j;
      });
      T *chunk_g = chunk_g_.at + start + j, *chunk_gx = chunk_gx_.at + start + j;
      S::store(chunk_g, S::load(chunk_g) + tree_sum(g));
      S::store(chunk_gx, S::load(chunk_gx) + sum_of_pairs(gx));
    });
    if constexpr (WithRowParameters) {
      for (int r = 0; r < Rows; ++r) add_row(l + r, start / row_piece, S::sum(dgamma[r]), S::sum(dbeta[r]));
    }
  }
  void add_row(Index l, Index piece, T dgamma, T dbeta) const noexcept {
    pieces_ ? pieces_->put(slot_, piece, l, dgamma, dbeta) : totals_->add(l, dgamma, dbeta);
  }

  /// Of products whose sums by two stand at the odd places.
  template <std::size_t Rows>
  static Batch sum_of_pairs(const Batch (&v)[Rows]) noexcept {
    if constexpr (Rows == 4) {
      return v[1] + v[3];
    } else {
      return v[Rows - 1];
    }
  }

  /// dx = g * gain + deviation * slope + intercept: the coefficients of each lane.
  template <class Coefficients>
  [[gnu::flatten]] void find_input_gradients(const Block& b, const Coefficients& coefficients) noexcept {
    const bool per_lane = a_.gamma && a_.parameters_per_lane;
    const T n = static_cast<T>(a_.length);
    // One value alone is its own mean, whatever it is. The formula would leave the rounding error of g * rstd.
    const bool is_constant = centred && a_.length == 1 && !a_.constant_statistics;
    for_each_vector<Arch, T, 1>(b.x.lanes, [&](auto, Index j, auto lanes) {
      const Batch zero = S::broadcast(T(0)), rstd = lanes.load(b.rstd + j);
      const Batch gamma = per_lane ? lanes.load(a_.gamma + b.first + j) : S::broadcast(T(1));
      InputGradient<Batch> to{is_constant ? zero : rstd, zero, zero};
      if (!a_.constant_statistics && !is_constant) {
        const auto g = g_.template mean<Arch>(j, n), gx = gx_.template mean<Arch>(j, n);
        to = coefficients.row(j, lanes).input_gradient(rstd, (g.value + g.rest) * gamma, (gx.value + gx.rest) * gamma);
      }
      S::store(gain_.at + j, to.gain * gamma);
      S::store(slope_.at + j, to.slope);
      S::store(intercept_.at + j, to.intercept);
    });
  }

  template <bool Add, class Coefficients>
  [[gnu::flatten]] void write(const Block& b, const Coefficients& coefficients) const noexcept {
    Index l = a_.length;
    for (; l >= rows_at_once && !b.dx.is_one_run(); l -= rows_at_once) {
      write_rows<Add, rows_at_once>(b, coefficients, l - rows_at_once);
    }
    for (; l > 0; --l) write_rows<Add, 1>(b, coefficients, l - 1);
  }

  template <bool Add, int Rows, class Coefficients>
  void write_rows(const Block& b, const Coefficients& coefficients, Index l) const noexcept {
    const X *x = b.x.row(l), *dy = b.dy.row(l);
    X* dx = b.dx.row(l);
    const Index x_stride = b.x.stride, dy_stride = b.dy.stride, dx_stride = b.dx.stride;
    Batch gamma[Rows];
    for (int r = 0; r < Rows; ++r) gamma[r] = row_gamma(l + r);
    for_each_vector<Arch, T, 2>(b.x.lanes, [&](auto, Index j, auto lanes) {
      const auto row = coefficients.row(j, lanes);
      const Batch gain = S::load(gain_.at + j), slope = S::load(slope_.at + j), intercept = S::load(intercept_.at + j);
      unroll<Rows>([&](auto r) {
        const Batch deviation = row.deviation(lanes.load(x + r * x_stride + j));
        const Batch g = keep(lanes.load(dy + r * dy_stride + j) * gamma[r]);
        const Batch dx_j = S::fma(g, gain, S::fma(deviation, slope, intercept));
        X* out = dx + r * dx_stride + j;
        lanes.store(out, Add ? add(lanes.load(out), dx_j) : dx_j);
      });
    });
  }

  /// gamma of one row, in each lane.
  Batch row_gamma(Index l) const noexcept {
    return S::broadcast(a_.gamma && !a_.parameters_per_lane ? to_compute(a_.gamma[l]) : T(1));
  }

  const LaneNormBackward<X, P>& a_;
  const ParameterTotals<T>* totals_;
  const PieceSums<T>* pieces_;
  Index slot_ = 0;
  LaneTotal<T> g_, gx_;
  LaneArray<T> chunk_g_, chunk_gx_, gain_, slope_, intercept_, scale_;
};

/// The sums of parameters that all lanes have in common, of some blocks at a time.
template <class Arch, template <class, class, bool> class NormRow, class X, class P, class Run>
inline void sum_rows_of_lanes(const LaneNormBackward<X, P>& a, const ParameterTotals<Compute<X>>& totals, void* rest,
                              const Run& run, Index slots) noexcept {
  using Pass = LaneNormBackwardPass<Arch, NormRow, X, P>;
  const LaneStrips blocks = Pass::strips(a);
  const PieceSums<Compute<X>> pieces(rest, a.length, Pass::pieces(blocks));
  for (Index done = 0; done < blocks.count(); done += slots) {
    const Index count = std::min(slots, blocks.count() - done);
    run(count, strip_bytes<X>(blocks, a.length),
        [&](Index first, Index last) { Pass(a, &totals, &pieces).run(done + first, done + last, first); });
    run(a.length, 2 * count * Pass::pieces(blocks) * static_cast<Index>(sizeof(Compute<X>)),
        [&](Index first, Index last) { pieces.add_to(totals, count, first, last); });
  }
}

/// Strips of lanes where nothing is summed over lanes of different strips, or all in their order. Lanes with parameters
/// of their own are taken with those of every outer index.
template <class Arch, template <class, class, bool> class NormRow, class X, class P, class Run>
inline void differentiate_lanes(const LaneNormBackward<X, P>& a, const ParameterTotals<Compute<X>>* totals,
                                const Run& run) noexcept {
  using Pass = LaneNormBackwardPass<Arch, NormRow, X, P>;
  const LaneStrips strips = Pass::strips(a);
  const Index bytes = strip_bytes<X>(strips, a.length), per_outer = strips.per_outer();
  if (!totals) {
    return run(strips.count(), bytes, [&](Index first, Index last) { Pass(a, nullptr).run(first, last); });
  }
  run(per_outer, a.outer * bytes, [&](Index first, Index last) {
    Pass pass(a, totals);
    for (Index o = 0; o < a.outer; ++o) pass.run(o * per_outer + first, o * per_outer + last);
  });
}

/// Bytes of workspace without slots.
template <class X>
inline std::size_t lane_norm_backward_workspace_bytes(Index parameters) noexcept {
  return ParameterTotals<Compute<X>>::workspace_bytes(parameters);
}
/// What each slot takes more, where parameters are those of rows.
template <class Arch, class X>
inline std::size_t lane_norm_backward_slot_bytes(Index parameters) noexcept {
  using T = Compute<X>;
  constexpr Index most_pieces = (most_lanes<T> + lane_row_piece<Arch, T> - 1) / lane_row_piece<Arch, T>;
  return PieceSums<T>::workspace_bytes(parameters, most_pieces, 1);
}

/// dx, dgamma and dbeta, as far as they are wanted. Strips of lanes are differentiated by `run`, see InOnePiece; with
/// slots, which take workspace, also where they have parameters in common.
///
/// Aliasing  dx may be dy; nothing else may overlap.
/// Numerics  as layer_norm_backward: sums in chains of at most 32 additions, merged in twice T's digits.
/// Cost      x and dy read twice, dx written once; 44 KiB of stack; no allocation.
template <class Arch, template <class, class, bool> class NormRow, class X, class P, class Run = InOnePiece>
inline void lane_norm_backward(const LaneNormBackward<X, P>& a, const Run& run = {}, Index slots = 0) noexcept {
  const Index parameters = a.parameters_per_lane ? a.lanes : a.length;
  if (!a.dgamma && !a.dbeta) return differentiate_lanes<Arch, NormRow>(a, nullptr, run);
  const ParameterTotals<Compute<X>> totals(a.workspace, parameters);
  if (a.parameters_per_lane) {
    differentiate_lanes<Arch, NormRow>(a, &totals, run);
  } else if (slots == 0) {
    differentiate_lanes<Arch, NormRow>(a, &totals, InOnePiece());
  } else {
    void* rest = static_cast<char*>(a.workspace) + lane_norm_backward_workspace_bytes<X>(parameters);
    sum_rows_of_lanes<Arch, NormRow>(a, totals, rest, run, slots);
  }
  totals.write(a.dgamma, a.add_dgamma, a.dbeta, a.add_dbeta);
}

}  // namespace kernels
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
