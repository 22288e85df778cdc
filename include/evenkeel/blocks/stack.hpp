#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "evenkeel/blocks/stack_observer.hpp"
#include "evenkeel/residual/residual.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Blocks one after another, of any mix of placements, and a final norm: y = N_final(block_n(... block_1(x))).
///
/// A stack whose last block leaves its stream as a sum without a norm, but normalizes what F receives or returns
/// (PreNorm, PeriNorm, ResPostNorm), gets a final norm by default, with parameters as they start; a Post-Norm or plain
/// stack gets none.
/// @code
///   std::vector<Residual<LayerNorm<float>, FeedForward<float>>> blocks;
///   for (int i = 0; i < 24; ++i) blocks.push_back(PreNorm(LayerNorm<float>(256), FeedForward<float>(256, 1024)));
///   Stack stack(std::move(blocks));
/// @endcode
///
/// Cost      a block's sum and the norm that reads it next, the next block's or the final one, are one pass over memory
///           where there is no mask and the norm can (LayerNorm and RMSNorm; see FusesAddition). The bits are the same.
/// Errors    throws std::invalid_argument for no blocks, and as Residual; std::logic_error for a backward without a
///           forward.
template <Norm N, class F>
class Stack : public detail::ReturningForms<Stack<N, F>> {
 public:
  using Scalar = typename N::Scalar;
  using Block = Residual<N, F>;

  /// What a training forward keeps: a view of x, which has to live unchanged until backward (a temporary is moved in),
  /// and for each block its Saved and the stream that it leaves. Used again for the same shape it allocates nothing.
  /// Move-only.
  class Saved : public detail::SavedBase {
   public:
    /// The stream that block i has left, before the final norm; empty before a forward.
    TensorView<const Scalar> stream(std::size_t i) const {
      return i < streams_.size() ? TensorView<const Scalar>(streams_[i].data(), x_.shape(), x_.order())
                                 : TensorView<const Scalar>();
    }

   private:
    friend class Stack;
    TensorView<const Scalar> x_;  // rank 0 before a forward, and after one that has failed
    std::vector<typename Block::Saved> blocks_;
    std::vector<std::vector<Scalar>> streams_;
    typename N::Saved final_;
  };

  explicit Stack(std::vector<Block> blocks) : Stack(std::move(blocks), std::nullopt) {
    const ResidualNorms<N>& last = blocks_.back().norms();
    const std::optional<N>& of_branch = last.in ? last.in : last.branch;
    if (of_branch && !last.trunk) final_norm_ = of_branch->fresh();
  }
  /// With this final norm, or with none.
  Stack(std::vector<Block> blocks, std::optional<N> final_norm)
      : blocks_(std::move(blocks)), final_norm_(std::move(final_norm)) {
    if (blocks_.empty()) raise_invalid_argument("Stack", "0 blocks, expected at least 1");
  }

  // forward(x), forward(x, saved) and backward(dy, saved) return a tensor; these write to the caller's.

  template <Tensor X, Tensor Y>
  void forward_into(const X& x_tensor, Y&& y_tensor, const Context& context = {}) const {
    const View x = const_view(x_tensor);
    const MutableView y = tensor_view(y_tensor);
    require_output(x, y);
    Scratch scratch("Stack::forward", context, workspace_bytes(x.shape()));
    const MutableView streams[2] = {temporary(scratch, x), temporary(scratch, x)}, entered = temporary(scratch, x);
    const Context inner = scratch.rest(context);
    View stream = x;
    Around<> around;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const bool is_last = i + 1 == blocks_.size();
      around.next = norm_of_sum(i, context);
      around.next_y = is_last ? y : entered;
      const MutableView next = is_last && (!final_norm_ || around.next) ? y : streams[i % 2];
      blocks_[i].template infer<X>(stream, next, inner, around);
      around.entered = around.next ? std::optional(entered) : std::nullopt;
      stream = next;
    }
    if (final_norm_ && !around.next) final_norm_->forward_into(stream, y, inner);
  }

  /// Training; `observer` is shown what each block does.
  template <Tensor X, Tensor Y, StackObserver<Block> Observer = NoObserver>
  void forward_into(const X& x_tensor, Y&& y_tensor, Saved& saved, const Context& context = {},
                    Observer&& observer = {}) {
    const View x = const_view(x_tensor);
    const MutableView y = tensor_view(y_tensor);
    require_output(x, y);
    saved.x_ = {};
    saved.blocks_.resize(blocks_.size());
    saved.streams_.resize(blocks_.size());
    View stream = x;
    const N* normalized_by = nullptr;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      saved.streams_[i].resize(static_cast<std::size_t>(x.size()));
      const MutableView next(saved.streams_[i].data(), x.shape(), x.order());
      auto around = around_block(observer, i, y, saved, context);
      if (normalized_by) around.entered = Halves::kept(saved.blocks_[i].halves_.entered, x);
      blocks_[i].template train<X>(stream, next, saved.blocks_[i], context, around);
      observer.on_stream(i, View(next));
      stream = next;
      normalized_by = around.next;
    }
    if (!final_norm_) {
      detail::residual_add<Scalar>("Stack::forward", context.executor, 1, stream, 0, {}, y);
    } else if (!normalized_by) {
      final_norm_->forward_into(stream, y, saved.final_, context);
    }
    saved.x_ = x;
  }

  template <Tensor DY, StackObserver<Block> Observer = NoObserver>
  void backward_into(const DY& dy_tensor, const Saved& saved, const TensorGradient<Scalar>& dx,
                     const Context& context = {}, Observer&& observer = {}) {
    const View dy = const_view(dy_tensor);
    if (saved.x_.rank() == 0) {
      raise_logic_error("Stack::backward", "saved is empty, expected the Saved of a forward(x, saved) call");
    }
    detail::require_like("Stack::backward", "dy", dy, "the x that was saved", saved.x_);
    require_input_gradient("Stack::backward", dx, is_same_memory(dx.view(), dy) ? View() : dy, saved.x_);
    Scratch scratch("Stack::backward", context, workspace_bytes(dy.shape()));
    const MutableView streams[2] = {temporary(scratch, dy), temporary(scratch, dy)};
    const Context inner = scratch.rest(context);
    View dstream = dy;
    if (final_norm_) {
      const MutableView next = streams[blocks_.size() % 2];
      final_norm_->backward_into(dy, saved.final_, next, inner);
      dstream = next;
    }
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      const MutableView next = streams[i % 2];
      backward_block<DY>(blocks_[i], dstream, saved.blocks_[i], next, inner);
      observer.on_gradient(i, View(next), blocks_[i]);
      dstream = next;
    }
    if (!dx.is_wanted()) return;
    const View before = dx.adds() ? View(dx.view()) : View();
    detail::residual_add<Scalar>("Stack::backward", context.executor, 1, dstream, 1, before, dx.view());
  }

  /// Bytes of workspace with which forward_into and backward_into allocate nothing themselves, for x of this shape.
  std::size_t workspace_bytes(const Shape& x) const {
    std::size_t inner = final_norm_ ? final_norm_->workspace_bytes(x) : 0;
    for (const Block& block : blocks_) inner = std::max(inner, block.workspace_bytes(x));
    return 3 * Scratch::bytes<Scalar>(x.size()) + inner;
  }

  std::vector<Block>& blocks() noexcept { return blocks_; }
  const std::vector<Block>& blocks() const noexcept { return blocks_; }
  std::optional<N>& final_norm() noexcept { return final_norm_; }
  const std::optional<N>& final_norm() const noexcept { return final_norm_; }

  /// See for_each_parameter.
  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& prefix) {
    for (std::size_t i = 0; i < self.blocks_.size(); ++i) {
      for_each_parameter(self.blocks_[i], visit, prefix + "blocks." + std::to_string(i) + ".");
    }
    if (self.final_norm_) for_each_parameter(*self.final_norm_, visit, prefix + "final_norm.");
  }

  /// See for_each_buffer.
  template <class Self, class Visit>
  static void visit_buffers(Self& self, Visit& visit, const std::string& prefix) {
    for (std::size_t i = 0; i < self.blocks_.size(); ++i) {
      for_each_buffer(self.blocks_[i], visit, prefix + "blocks." + std::to_string(i) + ".");
    }
    if (self.final_norm_) for_each_buffer(*self.final_norm_, visit, prefix + "final_norm.");
  }

 private:
  using View = TensorView<const Scalar>;
  using MutableView = TensorView<Scalar>;
  using Halves = detail::ResidualHalves<N>;
  template <class SeeBranch = detail::SeesNothing>
  using Around = typename Halves::template Around<SeeBranch>;

  static void require_output(const View& x, const MutableView& y) {
    detail::require_like("Stack::forward", "y", y, "x", x);
    require_no_overlap("Stack::forward", "y", y, "x", x);
  }
  static MutableView temporary(Scratch& scratch, const View& like) {
    return {scratch.take<Scalar>(like.size()), like.shape(), like.order()};
  }

  /// The norm that reads the sum of block i next, if it goes along with the sum in one pass over memory.
  const N* norm_of_sum(std::size_t i, const Context& context) const noexcept {
    if (!FusesAddition<N> || blocks_[i].norms().trunk || context.mask.is_given()) return nullptr;
    const std::optional<N>& next = i + 1 < blocks_.size() ? blocks_[i + 1].norms().in : final_norm_;
    return next ? &*next : nullptr;
  }

  /// Where nobody looks, the same type as in a block alone: the block's forward is compiled once.
  template <class Observer>
  static auto branch_viewer(Observer& observer, std::size_t i) {
    if constexpr (std::is_same_v<Observer, NoObserver>) {
      return detail::SeesNothing();
    } else {
      return [&observer, i](const View& branch) { observer.on_branch(i, branch); };
    }
  }
  template <class Observer>
  auto around_block(Observer& observer, std::size_t i, const MutableView& y, Saved& saved,
                    const Context& context) const {
    using Viewer = decltype(branch_viewer(observer, i));
    const N* next = norm_of_sum(i, context);
    if (!next) return Around<Viewer>{.see_branch = branch_viewer(observer, i)};
    if (i + 1 == blocks_.size()) return Around<Viewer>{{}, next, y, &saved.final_, branch_viewer(observer, i)};
    auto& behind = saved.blocks_[i + 1].halves_;
    return Around<Viewer>{{}, next, Halves::kept(behind.entered, y), &behind.in, branch_viewer(observer, i)};
  }

  // Blocks see maps of the caller's kind of tensor, as a sublayer of the caller's expects them.
  template <class DY>
  static void backward_block(Block& block, const View& dy, const typename Block::Saved& saved, const MutableView& dx,
                             const Context& context) {
    block.backward_into(TraitsOf<DY>::map(dy), saved, dx, context);
  }

  std::vector<Block> blocks_;
  std::optional<N> final_norm_;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
