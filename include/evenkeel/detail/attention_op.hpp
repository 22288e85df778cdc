#pragma once

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "evenkeel/core/context.hpp"

/// Attention of each head: softmax(q * k^T * scale) * v, and its backward. Matrix products are Eigen's.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// Query t is at place past + t; keys are at places 0, 1, ... Sizes and what may be looked at.
struct AttentionShape {
  Index batch, queries, keys, past;
  Index heads, kv_heads, head_dim;
  Index key_batch_stride;        // of k and v, from one text to the next
  Index valid_stride;            // of is_valid, the same
  const std::uint8_t* is_valid;  // [batch, keys], or null: all are
  bool causal;
  Index window;     // of how many keys, its own among them, a query sees the last; 0: of all
  double scale;     // of the scores
  double soft_cap;  // scores go through soft_cap * tanh(score / soft_cap); 0: they do not
};

/// The keys [first, last) that a query may see, before any mask.
struct KeyRange {
  Index first, last;
};
inline KeyRange visible_keys(const AttentionShape& a, Index query) noexcept {
  if (!a.causal) return {0, a.keys};
  const Index last = a.past + query + 1;
  return {a.window > 0 ? std::max<Index>(last - a.window, 0) : 0, last};
}

template <class Scalar>
using HeadMap = Eigen::Map<Eigen::Matrix<std::remove_const_t<Scalar>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>,
                           0, Eigen::OuterStride<>>;
template <class Scalar>
using ConstHeadMap =
    Eigen::Map<const Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0, Eigen::OuterStride<>>;
template <class Scalar>
using ScoreMap = Eigen::Map<Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
template <class Scalar>
using ConstScoreMap = Eigen::Map<const Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

/// A head of q or of what is like q, [batch, queries, heads, head_dim], as a matrix [queries, head_dim].
template <class Scalar>
auto query_head(const AttentionShape& a, Scalar* q, Index text, Index head) {
  using Map = std::conditional_t<std::is_const_v<Scalar>, ConstHeadMap<std::remove_const_t<Scalar>>, HeadMap<Scalar>>;
  const Index row = a.heads * a.head_dim;
  return Map(q + text * a.queries * row + head * a.head_dim, a.queries, a.head_dim, Eigen::OuterStride<>(row));
}
/// The head of k or v that a head of q looks at: heads / kv_heads neighbours share one.
template <class Scalar>
auto key_head(const AttentionShape& a, Scalar* k, Index text, Index head) {
  using Map = std::conditional_t<std::is_const_v<Scalar>, ConstHeadMap<std::remove_const_t<Scalar>>, HeadMap<Scalar>>;
  const Index shared = head / (a.heads / a.kv_heads);
  return Map(k + text * a.key_batch_stride + shared * a.head_dim, a.keys, a.head_dim,
             Eigen::OuterStride<>(a.kv_heads * a.head_dim));
}

/// The row of scores becomes the row of probabilities: exactly 0 where the query may not look, and all 0 where it may
/// look nowhere.
template <class Scalar>
void softmax_row(const AttentionShape& a, Index text, Index query, Scalar* row) {
  const KeyRange keys = visible_keys(a, query);
  const std::uint8_t* is_valid = a.is_valid ? a.is_valid + text * a.valid_stride : nullptr;
  Eigen::Map<Eigen::Array<Scalar, 1, Eigen::Dynamic>> visible(row + keys.first, keys.last - keys.first);
  Scalar largest = std::numeric_limits<Scalar>::lowest();
  for (Index k = keys.first; k < keys.last; ++k) {
    if (!is_valid || is_valid[k]) largest = std::max(largest, row[k]);
  }
  visible = (visible - largest).exp();  // at most 1 where it counts, whatever the scores
  for (Index k = keys.first; is_valid && k < keys.last; ++k) {
    if (!is_valid[k]) row[k] = Scalar(0);
  }
  std::fill(row, row + keys.first, Scalar(0));
  std::fill(row + keys.last, row + a.keys, Scalar(0));
  const Scalar sum = visible.sum();
  if (sum > Scalar(0)) visible *= Scalar(1) / sum;
}

template <class Scalar, class Scores>
void scale_scores(const AttentionShape& a, Scores& scores) {
  scores *= static_cast<Scalar>(a.scale);
  if (a.soft_cap == 0) return;
  const auto cap = static_cast<Scalar>(a.soft_cap);
  scores = scores.unaryExpr([cap](Scalar score) { return cap * std::tanh(score / cap); });
}

/// Probabilities [rows, keys] of `rows` queries of one head from `first` on, and what they attend to. `attended` may be
/// q: each row of q is read before its row of `attended` is written.
template <class Scalar>
void attend_rows(const AttentionShape& a, const Scalar* q, const Scalar* k, const Scalar* v, Index text, Index head,
                 Index first, Index rows, Scalar* probabilities, Scalar* attended) {
  ScoreMap<Scalar> scores(probabilities, rows, a.keys);
  scores.noalias() = query_head(a, q, text, head).middleRows(first, rows) * key_head(a, k, text, head).transpose();
  scale_scores<Scalar>(a, scores);
  for (Index r = 0; r < rows; ++r) softmax_row(a, text, first + r, probabilities + r * a.keys);
  query_head(a, attended, text, head).middleRows(first, rows).noalias() = scores * key_head(a, v, text, head);
}

/// Memory of which each of some blocks of heads that run at the same time has a slot. Slots are equally aligned, as
/// Eigen's sums depend on where they begin.
template <class Scalar>
struct AttentionSlots {
  static constexpr Index most = 16;

  Scalar* memory;
  Index size;  ///< of a slot, at least what it holds
  Index count;

  static constexpr Index slot_size(Index numbers) noexcept {
    constexpr Index line = 64 / static_cast<Index>(sizeof(Scalar));
    return (numbers + line - 1) / line * line;
  }
  /// How many slots are of use for so many heads.
  static Index useful(const Executor& executor, Index heads) noexcept {
    return executor.is_serial() ? 1 : std::clamp<Index>(heads, 1, most);
  }

  static AttentionSlots take(const Executor& executor, Index heads, Index size, Scratch& scratch) {
    const Index count = useful(executor, heads);
    return {scratch.take<Scalar>(count * size), size, count};
  }
  /// What they take of a workspace with any executor.
  static std::size_t bytes(Index heads, Index size) noexcept {
    return Scratch::bytes<Scalar>(std::min(heads, most) * size);
  }

  /// body(head, memory of its slot) for all heads, blocks of which are run by `executor` if one head has work enough.
  template <class Body>
  void run(const Executor& executor, Index heads, Index work, const Body& body) const {
    constexpr Index least_work = Index{1} << 18;
    const Index per_block = std::max((heads + count - 1) / count, least_work / std::max<Index>(work, 1));
    executor.run((heads + per_block - 1) / per_block, [&](Index first, Index last) {
      for (Index block = first; block < last; ++block) {
        const Index begin = block * per_block;
        for (Index i = begin; i < std::min(begin + per_block, heads); ++i) body(i, memory + block * size);
      }
    });
  }
};

/// Multiplications of one head.
inline Index head_work(const AttentionShape& a) noexcept { return 2 * a.queries * a.keys * a.head_dim; }

/// Attention of every head, at most `rows_at_once` queries at a time, whose probabilities go to a slot.
template <class Scalar>
void attend(const Executor& executor, const AttentionShape& a, const Scalar* q, const Scalar* k, const Scalar* v,
            Index rows_at_once, const AttentionSlots<Scalar>& slots, Scalar* attended) {
  slots.run(executor, a.batch * a.heads, head_work(a), [&](Index i, Scalar* probabilities) {
    for (Index first = 0; first < a.queries; first += rows_at_once) {
      attend_rows(a, q, k, v, i / a.heads, i % a.heads, first, std::min(rows_at_once, a.queries - first), probabilities,
                  attended);
    }
  });
}

/// The same, and keeps the probabilities [batch, heads, queries, keys].
template <class Scalar>
void attend_and_keep(const Executor& executor, const AttentionShape& a, const Scalar* q, const Scalar* k,
                     const Scalar* v, Scalar* probabilities, Scalar* attended) {
  const AttentionSlots<Scalar> no_memory{nullptr, 0, AttentionSlots<Scalar>::most};
  no_memory.run(executor, a.batch * a.heads, head_work(a), [&](Index i, Scalar*) {
    attend_rows(a, q, k, v, i / a.heads, i % a.heads, 0, a.queries, probabilities + i * a.queries * a.keys, attended);
  });
}

/// The gradient at the scores of one head [queries, keys], from that at the probabilities, in place. `capped` has room
/// for as many numbers, where scores are capped.
template <class Scalar>
void scores_backward(const AttentionShape& a, const Scalar* q, const Scalar* k, Index text, Index head,
                     const ConstScoreMap<Scalar>& probabilities, ScoreMap<Scalar>& dscores, Scalar* capped) {
  for (Index r = 0; r < a.queries; ++r) {
    const Scalar mean = dscores.row(r).dot(probabilities.row(r));
    dscores.row(r).array() = (dscores.row(r).array() - mean) * probabilities.row(r).array();
  }
  if (a.soft_cap != 0) {
    ScoreMap<Scalar> scores(capped, a.queries, a.keys);
    scores.noalias() = query_head(a, q, text, head) * key_head(a, k, text, head).transpose();
    scale_scores<Scalar>(a, scores);
    dscores.array() *= Scalar(1) - (scores.array() / static_cast<Scalar>(a.soft_cap)).square();
  }
  dscores *= static_cast<Scalar>(a.scale);
}

/// The tensors of a backward. dq may be dattended.
template <class Scalar>
struct AttentionGradients {
  const Scalar *q, *k, *v, *probabilities, *dattended;
  Scalar *dq, *dk, *dv;
};

/// Of one head; it adds to dk and dv. `scratch` has room for queries * keys numbers, or twice as many where scores are
/// capped.
template <class Scalar>
void attend_backward_head(const AttentionShape& a, const AttentionGradients<Scalar>& t, Index text, Index head,
                          Scalar* scratch) {
  const Index size = a.queries * a.keys;
  const ConstScoreMap<Scalar> p(t.probabilities + (text * a.heads + head) * size, a.queries, a.keys);
  const auto upstream = query_head(a, t.dattended, text, head);
  ScoreMap<Scalar> dscores(scratch, a.queries, a.keys);
  dscores.noalias() = upstream * key_head(a, t.v, text, head).transpose();
  key_head(a, t.dv, text, head).noalias() += p.transpose() * upstream;
  scores_backward(a, t.q, t.k, text, head, p, dscores, scratch + size);
  query_head(a, t.dq, text, head).noalias() = dscores * key_head(a, t.k, text, head);
  key_head(a, t.dk, text, head).noalias() += dscores.transpose() * query_head(a, t.q, text, head);
}

/// The gradients at q, k and v, from that at what was attended to. Heads that share one of k and v follow one another.
template <class Scalar>
void attend_backward(const Executor& executor, const AttentionShape& a, const AttentionGradients<Scalar>& t,
                     const AttentionSlots<Scalar>& slots) {
  std::fill_n(t.dk, a.batch * a.key_batch_stride, Scalar(0));
  std::fill_n(t.dv, a.batch * a.key_batch_stride, Scalar(0));
  const Index sharing = a.heads / a.kv_heads;
  slots.run(executor, a.batch * a.kv_heads, sharing * head_work(a), [&](Index i, Scalar* scratch) {
    const Index text = i / a.kv_heads, first = i % a.kv_heads * sharing;
    for (Index head = first; head < first + sharing; ++head) attend_backward_head(a, t, text, head, scratch);
  });
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
