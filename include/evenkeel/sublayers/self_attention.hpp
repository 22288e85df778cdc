#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/detail/attention_checks.hpp"
#include "evenkeel/detail/attention_op.hpp"
#include "evenkeel/detail/returning_forms.hpp"
#include "evenkeel/layers/rms_norm.hpp"
#include "evenkeel/sublayers/linear.hpp"
#include "evenkeel/sublayers/self_attention_settings.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Multi-head self-attention: y = out(softmax(query(x) * key(x)^T * scale) * value(x)), for each head.
///
/// Options: grouped key/value heads, causal order, a window, a norm of queries and keys (RMSNorm of each head), rotary
/// position, capped scores. From Context come the mask of valid tokens, the mask of keys, the cache and the position. A
/// query that may look at no key attends to 0: its y is the bias of `out`. A token that is not valid gets y = 0, and
/// its x is never used.
/// @code
///   SelfAttention<float> attention(256, {.num_heads = 8, .causal = true});
///   KeyValueCache<float> cache(attention.cache_settings(1024));
///   auto y = attention.forward(prompt, {.cache = &cache});   // [tokens, 256]
///   auto next = attention.forward(token, {.cache = &cache}); // [1, 256], and looks at the prompt too
/// @endcode
///
/// Shapes    x, y [batch, seq, d_model] or [seq, d_model], row-major, contiguous along the last axis. query, key and
///           value are Linear(d_model, heads * head_dim), out is Linear(num_heads * head_dim, d_model).
/// Numerics  softmax of scores less their largest. Decoding with a cache gives what the full pass gives within 32 unit
///           roundoffs of the largest |y|, held by SelfAttention.DecodingWithACacheEqualsTheFullPass.
/// Cost      Inference takes 32 rows of scores at a time. Training keeps all probabilities, batch * num_heads * seq^2
///           numbers, and five tensors like x; backward takes seq^2 more. Either is for each block of heads that runs
///           at the same time, at most 16. A prompt into a cache is attended to by the caller's thread alone.
/// Errors    throws std::invalid_argument, before anything is written, for heads that do not divide the width or one
///           another, shapes and masks that do not fit, a cache that is full, of another shape, or given in training;
///           std::logic_error for a backward without a forward.
/// Source    Vaswani et al. 2017, arXiv:1706.03762; agrees with torch.nn.MultiheadAttention. Grouped heads: Ainslie
///           et al. 2023, arXiv:2305.13245. Norm of queries and keys: Henry et al. 2020, arXiv:2010.04245. Capped
///           scores: Gemma 2, arXiv:2408.00118.
template <class S>
class SelfAttention : public detail::ReturningForms<SelfAttention<S>> {
 public:
  using Scalar = S;

  /// A view of x, queries, keys and values, what was attended to, and the probabilities. Used again for the same shape
  /// it allocates nothing. Move-only.
  class Saved : public detail::SavedBase {
   public:
    /// [batch, num_heads, seq, seq]: how much each token looks at each other.
    std::span<const Scalar> probabilities() const noexcept { return probabilities_; }

   private:
    friend class SelfAttention;
    typename Linear<Scalar>::Saved query_, key_, value_, out_;
    typename RMSNorm<Scalar>::Saved query_norm_, key_norm_;
    detail::KeptMask<Scalar> mask_;
    std::vector<Scalar> query_before_, key_before_;  // their norm, where there is one
    std::vector<Scalar> q_, k_, v_, attended_, probabilities_;
    Index position_ = 0;
  };

  explicit SelfAttention(Index d_model, const SelfAttentionSettings& settings = {})
      : settings_(detail::checked(d_model, settings)),
        query_(d_model, settings_.num_heads * settings_.head_dim, settings_.with_qkv_bias),
        key_(d_model, settings_.num_kv_heads * settings_.head_dim, settings_.with_qkv_bias),
        value_(d_model, settings_.num_kv_heads * settings_.head_dim, settings_.with_qkv_bias),
        out_(settings_.num_heads * settings_.head_dim, d_model, settings_.with_out_bias) {
    if (!settings_.query_key_norm) return;
    query_norm_.emplace(settings_.head_dim, *settings_.query_key_norm);
    key_norm_.emplace(settings_.head_dim, *settings_.query_key_norm);
  }

  // forward(x), forward(x, saved) and backward(dy, saved) return a tensor; these write to the caller's.

  template <Tensor X, Tensor Y>
  void forward_into(const X& x, Y&& y, const Context& context = {}) const {
    infer(const_view(x), tensor_view(y), context);
  }
  template <Tensor X, Tensor Y>
  void forward_into(const X& x, Y&& y, Saved& saved, const Context& context = {}) const {
    train(const_view(x), tensor_view(y), saved, context);
  }
  template <Tensor DY>
  void backward_into(const DY& dy, const Saved& saved, const TensorGradient<Scalar>& dx, const Context& context = {}) {
    differentiate(const_view(dy), saved, dx, context);
  }

  /// Bytes of workspace with which nothing is allocated; what Eigen's matrix products pack into is not counted.
  std::size_t workspace_bytes(const Shape& x) const {
    detail::require_tokens(forward_name, query_.in_features(), x);
    return std::max(forward_bytes(x), backward_bytes(x));
  }

  /// With what a cache for texts of `capacity` tokens is made.
  KeyValueCacheSettings cache_settings(Index capacity, Index batch = 1) const {
    return {cache_layer_ + 1, batch, capacity, settings_.num_kv_heads, settings_.head_dim};
  }
  /// Which of a cache's layers is this one's; from 0.
  void set_cache_layer(Index layer) noexcept { cache_layer_ = layer; }

  /// Copies query, key and value from one matrix [query rows; key rows; value rows, d_model] and one bias, or none.
  ///
  /// Errors    throws std::invalid_argument unless they have the sizes of the three; std::logic_error if one is mapped
  ///           from const memory.
  void load_fused(std::span<const Scalar> weight, std::span<const Scalar> bias = {}) {
    const Index weights = query_.weight().size() + 2 * key_.weight().size();
    const Index biases = query_.bias().size() + 2 * key_.bias().size();
    detail::require_count("SelfAttention::load_fused", "weight", static_cast<Index>(weight.size()), weights);
    detail::require_count("SelfAttention::load_fused", "bias", static_cast<Index>(bias.size()), biases);
    const Scalar *next_weight = weight.data(), *next_bias = bias.data();
    for (Linear<Scalar>* linear : {&query_, &key_, &value_}) {
      linear->weight().load(next_weight, linear->weight().size());
      next_weight += linear->weight().size();
      if (linear->bias().is_absent()) continue;
      linear->bias().load(next_bias, linear->bias().size());
      next_bias += linear->bias().size();
    }
  }

  const SelfAttentionSettings& settings() const noexcept { return settings_; }
  Linear<Scalar>& query() noexcept { return query_; }
  Linear<Scalar>& key() noexcept { return key_; }
  Linear<Scalar>& value() noexcept { return value_; }
  Linear<Scalar>& out() noexcept { return out_; }
  const Linear<Scalar>& query() const noexcept { return query_; }
  const Linear<Scalar>& key() const noexcept { return key_; }
  const Linear<Scalar>& value() const noexcept { return value_; }
  const Linear<Scalar>& out() const noexcept { return out_; }

  /// See for_each_parameter.
  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& prefix) {
    for_each_parameter(self.query_, visit, prefix + "query.");
    for_each_parameter(self.key_, visit, prefix + "key.");
    for_each_parameter(self.value_, visit, prefix + "value.");
    if (self.query_norm_) for_each_parameter(*self.query_norm_, visit, prefix + "query_norm.");
    if (self.key_norm_) for_each_parameter(*self.key_norm_, visit, prefix + "key_norm.");
    for_each_parameter(self.out_, visit, prefix + "out.");
  }

 private:
  using View = TensorView<const Scalar>;
  using MutableView = TensorView<Scalar>;
  using HeadNorm = std::optional<RMSNorm<Scalar>>;
  using Slots = detail::AttentionSlots<Scalar>;
  struct Heads {
    Scalar *q, *k, *v;
  };

  static constexpr const char* forward_name = "SelfAttention::forward";
  static constexpr const char* backward_name = "SelfAttention::backward";
  static constexpr Index rows_of_scores = KeyValueCache<Scalar>::rows_of_scores;

  void infer(const View& x, const MutableView& y, const Context& context) const {
    require_call(x, y, context);
    KeyValueCache<Scalar>* cache = cache_of(x.shape(), context);
    Scratch scratch(forward_name, context, workspace_bytes(x.shape()));
    const Heads to{scratch.take<Scalar>(query_size(x.shape())), scratch.take<Scalar>(key_size(x.shape())),
                   scratch.take<Scalar>(key_size(x.shape()))};
    const View valid_x = without_invalid_rows(x, context.mask, scratch);
    const Context inner = scratch.rest(context);
    query_.forward_into(valid_x, query_rows(x.shape(), to.q), inner);
    key_.forward_into(valid_x, key_rows(x.shape(), to.k), inner);
    value_.forward_into(valid_x, key_rows(x.shape(), to.v), inner);
    if (query_norm_) {
      query_norm_->forward_into(query_heads(x.shape(), to.q), query_heads(x.shape(), to.q), inner);
      key_norm_->forward_into(key_heads(x.shape(), to.k), key_heads(x.shape(), to.k), inner);
    }
    turn(detail::Turn::forward, position_of(context), x.shape(), to.q, to.k);
    std::uint8_t* flags = scratch.take<std::uint8_t>(detail::rows_shape(x.shape()).size());
    read_masks(context, x.shape(), flags);
    if (cache) {
      attend_in_cache(context.executor, x.shape(), position_of(context), to, flags, *cache);
    } else {
      const detail::AttentionShape a = attention_shape(x.shape(), has_mask(context) ? flags : nullptr);
      const Slots slots = Slots::take(context.executor, a.batch * a.heads, score_size(x.shape()), scratch);
      detail::attend<Scalar>(context.executor, a, to.q, to.k, to.v, rows_of_scores, slots, to.q);
    }
    out_.forward_into(query_rows(x.shape(), to.q), y, inner);
    detail::zero_invalid_rows(context.mask, y);
  }

  void train(const View& x, const MutableView& y, Saved& saved, const Context& context) const {
    require_call(x, y, context);
    require_no_overlap(forward_name, "y", y, "x, which backward reads again,", x);
    if (context.cache) raise_invalid_argument(forward_name, "a cache is given in training, expected none");
    Scratch scratch(forward_name, context, workspace_bytes(x.shape()));
    const Shape shape = x.shape();
    const View valid_x = saved.mask_.keep(context.mask, x);
    saved.position_ = position_of(context);
    project(query_, query_norm_, valid_x, query_heads(shape, kept(saved.q_, query_size(shape))), saved.query_,
            saved.query_norm_, saved.query_before_, scratch.rest(context));
    project(key_, key_norm_, valid_x, key_heads(shape, kept(saved.k_, key_size(shape))), saved.key_, saved.key_norm_,
            saved.key_before_, scratch.rest(context));
    value_.forward_into(valid_x, key_rows(shape, kept(saved.v_, key_size(shape))), saved.value_, scratch.rest(context));
    turn(detail::Turn::forward, saved.position_, shape, saved.q_.data(), saved.k_.data());
    std::uint8_t* flags = scratch.take<std::uint8_t>(detail::rows_shape(shape).size());
    read_masks(context, shape, flags);
    const detail::AttentionShape a = attention_shape(shape, has_mask(context) ? flags : nullptr);
    Scalar* probabilities = kept(saved.probabilities_, a.batch * a.heads * a.queries * a.keys);
    Scalar* attended = kept(saved.attended_, query_size(shape));
    detail::attend_and_keep<Scalar>(context.executor, a, saved.q_.data(), saved.k_.data(), saved.v_.data(),
                                    probabilities, attended);
    out_.forward_into(query_rows(shape, attended), y, saved.out_, scratch.rest(context));
    detail::zero_invalid_rows(context.mask, y);
  }

  void differentiate(View dy, const Saved& saved, const TensorGradient<Scalar>& dx, const Context& context) {
    require_backward(dy, saved, dx);
    const Shape shape = dy.shape();
    Scratch scratch(backward_name, context, backward_bytes(shape));
    dy = without_invalid_rows(dy, saved.mask_.view(), scratch);
    Scalar* dq = scratch.take<Scalar>(query_size(shape));
    Scalar* dk = scratch.take<Scalar>(key_size(shape));
    Scalar* dv = scratch.take<Scalar>(key_size(shape));
    const detail::AttentionShape a = attention_shape(shape, nullptr);
    const Slots slots = Slots::take(context.executor, a.batch * a.kv_heads, gradient_size(shape), scratch);
    const Context inner = scratch.rest(context);
    out_.backward_into(dy, saved.out_, query_rows(shape, dq), inner);
    detail::attend_backward<Scalar>(
        context.executor, a,
        {saved.q_.data(), saved.k_.data(), saved.v_.data(), saved.probabilities_.data(), dq, dq, dk, dv}, slots);
    turn(detail::Turn::back, saved.position_, shape, dq, dk);
    if (query_norm_) {
      query_norm_->backward_into(query_heads(shape, dq), saved.query_norm_, query_heads(shape, dq), inner);
      key_norm_->backward_into(key_heads(shape, dk), saved.key_norm_, key_heads(shape, dk), inner);
    }
    const TensorGradient<Scalar> more = dx.is_wanted() ? add_to(dx.view()) : dx;
    query_.backward_into(query_rows(shape, dq), saved.query_, dx, inner);
    key_.backward_into(key_rows(shape, dk), saved.key_, more, inner);
    value_.backward_into(key_rows(shape, dv), saved.value_, more, inner);
  }

  void require_call(const View& x, const MutableView& y, const Context& context) const {
    detail::require_attention_shapes(forward_name, query_.in_features(), x.shape(), y.shape(), context);
    require_no_overlap(forward_name, "y", y, "x", x);
    detail::row_map<Scalar>(forward_name, "x", x);
    detail::row_map<Scalar>(forward_name, "y", y);
  }
  static void require_backward(const View& dy, const Saved& saved, const TensorGradient<Scalar>& dx) {
    if (saved.query_.x().rank() == 0) {
      raise_logic_error(backward_name, "saved is empty, expected the Saved of a forward(x, saved) call");
    }
    require_same_shape(backward_name, "dy", dy.shape(), "the x that was saved", saved.query_.x().shape());
    detail::row_map<Scalar>(backward_name, "dy", dy);
    require_input_gradient(backward_name, dx, dy, saved.query_.x());
    if (dx.is_wanted()) detail::row_map<Scalar>(backward_name, "dx", dx.view());
  }
  /// The cache of a call, if there is one, with room for x.
  KeyValueCache<Scalar>* cache_of(const Shape& x, const Context& context) const {
    if (!context.cache) return nullptr;
    if (!context.cache->template holds<Scalar>()) {
      raise_invalid_argument(forward_name, "the cache is of another scalar type, expected that of x");
    }
    detail::require_layer(forward_name, *context.cache, cache_layer_);
    const KeyValueCacheSettings needed{cache_layer_ + 1, batch_of(x), position_of(context) + seq_of(x),
                                       settings_.num_kv_heads, settings_.head_dim};
    detail::require_room(forward_name, *context.cache, needed, seq_of(x));
    return static_cast<KeyValueCache<Scalar>*>(context.cache);
  }

  // ---------------------------------------------------------------- shapes

  static Index batch_of(const Shape& x) noexcept { return x.rank() == 3 ? x[0] : 1; }
  static Index seq_of(const Shape& x) noexcept { return x[x.rank() - 2]; }
  Index query_size(const Shape& x) const { return detail::rows_shape(x).size() * query_.out_features(); }
  Index key_size(const Shape& x) const { return detail::rows_shape(x).size() * key_.out_features(); }
  MutableView query_rows(const Shape& x, Scalar* q) const { return {q, detail::with_last(x, query_.out_features())}; }
  MutableView key_rows(const Shape& x, Scalar* k) const { return {k, detail::with_last(x, key_.out_features())}; }
  MutableView query_heads(const Shape& x, Scalar* q) const {
    return {q, {batch_of(x), seq_of(x), settings_.num_heads, settings_.head_dim}};
  }
  MutableView key_heads(const Shape& x, Scalar* k) const {
    return {k, {batch_of(x), seq_of(x), settings_.num_kv_heads, settings_.head_dim}};
  }

  detail::AttentionShape attention_shape(const Shape& x, const std::uint8_t* is_valid) const {
    const Index seq = seq_of(x);
    return {.batch = batch_of(x),
            .queries = seq,
            .keys = seq,
            .past = 0,
            .heads = settings_.num_heads,
            .kv_heads = settings_.num_kv_heads,
            .head_dim = settings_.head_dim,
            .key_batch_stride = seq * key_.out_features(),
            .valid_stride = seq,
            .is_valid = is_valid,
            .causal = settings_.causal,
            .window = settings_.window,
            .scale = settings_.scale.value_or(1 / std::sqrt(static_cast<double>(settings_.head_dim))),
            .soft_cap = settings_.soft_cap};
  }

  // ---------------------------------------------------------------- memory

  std::size_t norm_bytes(const Shape& x) const {
    return query_norm_ ? std::max(query_norm_->workspace_bytes(query_heads(x, nullptr).shape()),
                                  key_norm_->workspace_bytes(key_heads(x, nullptr).shape()))
                       : 0;
  }
  std::size_t common_bytes(const Shape& x) const {
    return Scratch::bytes<Scalar>(query_size(x)) + 2 * Scratch::bytes<Scalar>(key_size(x)) +
           Scratch::bytes<Scalar>(x.size()) + norm_bytes(x);
  }
  std::size_t forward_bytes(const Shape& x) const {
    return common_bytes(x) + Scratch::bytes<std::uint8_t>(detail::rows_shape(x).size()) +
           Slots::bytes(batch_of(x) * settings_.num_heads, score_size(x));
  }
  std::size_t backward_bytes(const Shape& x) const {
    return common_bytes(x) + Slots::bytes(batch_of(x) * settings_.num_kv_heads, gradient_size(x));
  }

  /// Numbers of a slot: some rows of scores in inference, all of one head and their gradients in backward.
  static Index score_size(const Shape& x) { return Slots::slot_size(std::min(seq_of(x), rows_of_scores) * seq_of(x)); }
  Index gradient_size(const Shape& x) const {
    return Slots::slot_size(seq_of(x) * seq_of(x) * (settings_.soft_cap != 0 ? 2 : 1));
  }
  static Scalar* kept(std::vector<Scalar>& memory, Index size) {
    memory.resize(static_cast<std::size_t>(size));
    return memory.data();
  }

  // ---------------------------------------------------------------- masks

  static bool has_mask(const Context& context) noexcept {
    return context.mask.is_given() || context.key_mask.is_given();
  }
  /// Which keys may be looked at.
  static void read_masks(const Context& context, const Shape& x, std::uint8_t* flags) {
    std::fill_n(flags, detail::rows_shape(x).size(), std::uint8_t(1));
    detail::clear_invalid_flags(context.mask, x, flags);
    detail::clear_invalid_flags(context.key_mask, x, flags);
  }
  static View without_invalid_rows(const View& x, const MaskView& mask, Scratch& scratch) {
    if (!mask.is_given()) return x;
    return detail::copy_valid_rows(mask, x, MutableView(scratch.take<Scalar>(x.size()), x.shape()));
  }

  // ---------------------------------------------------------------- steps

  Index position_of(const Context& context) const {
    return context.position.value_or(context.cache ? context.cache->length(cache_layer_) : 0);
  }

  /// heads = norm(linear(x)).
  static void project(const Linear<Scalar>& linear, const HeadNorm& norm, const View& x, const MutableView& heads,
                      typename Linear<Scalar>::Saved& saved, typename RMSNorm<Scalar>::Saved& saved_norm,
                      std::vector<Scalar>& before, const Context& context) {
    const Shape rows = detail::with_last(x.shape(), linear.out_features());
    if (!norm) return linear.forward_into(x, MutableView(heads.data(), rows), saved, context);
    Scalar* projected = kept(before, heads.size());
    linear.forward_into(x, MutableView(projected, rows), saved, context);
    norm->forward_into(View(projected, heads.shape()), heads, saved_norm, context);
  }

  void turn(detail::Turn direction, Index position, const Shape& x, Scalar* q, Scalar* k) const {
    if (!settings_.rotary) return;
    detail::rotate(*settings_.rotary, direction, position, query_heads(x, q).shape(), q);
    detail::rotate(*settings_.rotary, direction, position, key_heads(x, k).shape(), k);
  }

  /// Adds the new keys and values to the cache, and attends to all; q becomes what was attended to.
  void attend_in_cache(const Executor& executor, const Shape& x, Index position, const Heads& heads,
                       const std::uint8_t* flags, KeyValueCache<Scalar>& cache) const {
    const Index batch = batch_of(x), seq = seq_of(x), row = key_.out_features();
    const Index capacity = cache.settings().capacity;
    Scalar *keys = cache.keys(cache_layer_), *values = cache.values(cache_layer_);
    std::uint8_t* is_valid = cache.is_valid(cache_layer_);
    for (Index text = 0; text < batch; ++text) {
      const Index from = text * seq * row, to = text * cache.batch_stride() + position * row;
      std::copy_n(heads.k + from, seq * row, keys + to);
      std::copy_n(heads.v + from, seq * row, values + to);
      std::copy_n(flags + text * seq, seq, is_valid + text * capacity + position);
    }
    cache.set_length(cache_layer_, position + seq);
    detail::AttentionShape a = attention_shape(x, is_valid);
    a.past = position;
    a.keys = position + seq;
    a.key_batch_stride = cache.batch_stride();
    a.valid_stride = capacity;
    const Index size = Slots::slot_size(std::min(seq, rows_of_scores) * a.keys),
                fit = rows_of_scores * capacity / std::max<Index>(size, 1);
    const Slots slots{cache.scores(), size, std::clamp<Index>(fit, 1, Slots::useful(executor, batch * a.heads))};
    detail::attend<Scalar>(executor, a, heads.q, keys, values, rows_of_scores, slots, heads.q);
  }

  SelfAttentionSettings settings_;
  Linear<Scalar> query_, key_, value_, out_;
  HeadNorm query_norm_, key_norm_;
  Index cache_layer_ = 0;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
