// A layer, sublayer, block or stack, run with any executor.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "evenkeel/core/parameter.hpp"
#include "threads/threads_test.hpp"

namespace evenkeel_test {

/// Random weights, from one seed.
template <class Layer>
Layer with_weights(Layer layer) {
  std::uint64_t seed = 100;
  evenkeel::for_each_parameter(layer, [&](const std::string&, auto& parameter) {
    const auto values = normal_vector<float>(static_cast<std::size_t>(parameter.size()), ++seed, 0, 0.1);
    parameter.load(values.data(), parameter.size());
  });
  return layer;
}

/// A layer with tensors of its own, so that every call finds them at the same addresses: what Eigen sums with depends
/// on them.
template <class Layer>
class LayerRun {
 public:
  LayerRun(Layer layer, const Shape& x, const Shape& y, const evenkeel::MaskView& mask = {})
      : layer_(with_weights(std::move(layer))),
        x_(x, StorageOrder::row_major, 0, 16, 1),
        dy_(y, StorageOrder::row_major, 0, 16, 2),
        y_(y, StorageOrder::row_major, 0, 16),
        dx_(x, StorageOrder::row_major, 0, 16),
        mask_(mask) {
    train({});
  }

  Bits infer(Context context) {
    context.mask = mask_;
    std::as_const(layer_).forward_into(x_.view(), y_.view(), context);
    return Bits(y_.memory());
  }
  /// Dropout begins with its first step each time.
  Bits train(Context context) {
    context.mask = mask_;
    if constexpr (requires { layer_.drop(); }) {
      if (layer_.drop()) layer_.drop()->set_step(0);
    }
    layer_.forward_into(x_.view(), y_.view(), saved_, context);
    return Bits(y_.memory());
  }
  Bits differentiate(const Context& context) {
    evenkeel::zero_gradients(layer_);
    layer_.backward_into(dy_.view(), saved_, dx_.view(), context);
    Bits bits(dx_.memory());
    evenkeel::for_each_parameter(layer_, [&](const std::string&, auto& parameter) {
      bits.add(parameter.gradient().data(), parameter.gradient().size());
    });
    return bits;
  }

  void expect_all_parallel() {
    expect_parallel([this](const Context& context) { return infer(context); });
    expect_parallel([this](const Context& context) { return train(context); });
    expect_parallel([this](const Context& context) { return differentiate(context); });
  }
  void expect_all_serial() {
    expect_serial([this](const Context& context) { return infer(context); });
    expect_serial([this](const Context& context) { return train(context); });
    expect_serial([this](const Context& context) { return differentiate(context); });
  }
  std::size_t workspace_bytes() const { return layer_.workspace_bytes(x_.view().shape()); }

 private:
  Layer layer_;
  typename Layer::Saved saved_;
  OwnTensor<float> x_, dy_, y_, dx_;
  evenkeel::MaskView mask_;
};

}  // namespace evenkeel_test
