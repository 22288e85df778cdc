// BatchNorm of numbers of 16 bits: data, and calls.
#pragma once

#include "ops/batch_norm_test.hpp"
#include "ops/channel_norm_16_bit.hpp"

namespace evenkeel_test {

using evenkeel::add_to;

/// body(data, storage) for shapes of every rank, channels on every axis, any memory.
template <class C, class Body>
void for_each_batch_16(const Body& body) {
  for (const auto& [shape, axis] : batch_shapes()) {
    SCOPED_TRACE(evenkeel::shape_string(shape) + ", axis " + std::to_string(axis));
    const auto d = random_batch<typename C::Scalar, typename C::Parameter>(shape, axis, 3);
    for (const Storage& storage : storages()) {
      SCOPED_TRACE(storage.name);
      body(d, storage);
    }
  }
}

template <class S, class P>
void expect_rounded_once(const BatchResult<S, P>& r, const oracle::BatchNormGradients& expected, std::size_t values) {
  const long double root = std::sqrt(static_cast<long double>(values));
  EXPECT_TRUE(rounded_once(r.dx, expected.dx, 4, expected.dx_scale));
  EXPECT_TRUE(rounded_once(r.dgamma, expected.dgamma, 4 * root, expected.dgamma_scale));
  EXPECT_TRUE(rounded_once(r.dbeta, expected.dbeta, 4 * root, expected.dbeta_scale));
}

/// The same data in float: exactly.
template <class S, class P>
BatchData<float> in_float(const BatchData<S, P>& d) {
  return {d.shape,        d.channel_axis, as_floats(d.x), as_floats(d.dy), as_floats(d.gamma), as_floats(d.beta),
          d.running_mean, d.running_var,  d.eps};
}

enum class Batch16Mode { training, frozen, inference };

/// Forward and backward with masked positions, and gradients that are added to 2.
template <class S, class P>
BatchResult<S, P> run_with_mask(const BatchData<S, P>& d, const Storage& storage, const std::vector<std::uint8_t>& mask,
                                Batch16Mode mode, bool adds) {
  const std::size_t channels = d.channels().channels;
  BatchResult<S, P> r{.dgamma = std::vector<P>(channels, P(2)), .dbeta = std::vector<P>(channels, P(2))};
  r.running_mean = d.running_mean, r.running_var = d.running_var;
  const Stored<S> x(d.shape, d.channel_axis, storage, d.x), dy(d.shape, d.channel_axis, storage, d.dy);
  const std::vector<S> before(d.x.size(), S(2));
  Stored<S> y(d.shape, d.channel_axis, storage, before), dx(d.shape, d.channel_axis, storage, before);
  auto options = d.options();
  if (!mask.empty()) options.mask = mask;
  std::vector<std::byte> workspace(evenkeel::batch_norm_workspace_bytes<S>(d.shape, d.channel_axis, !mask.empty()));
  const Context context{.workspace = workspace};
  if (mode == Batch16Mode::training) {
    const RunningUpdate<S> update{.mean = r.running_mean, .var = r.running_var, .average = UpdateRate(1e-4)};
    evenkeel::batch_norm_into(x.view(), y.view(), r.saved, options, update, context);
  } else if (mode == Batch16Mode::frozen) {
    evenkeel::batch_norm_into(x.view(), y.view(), d.running(), r.saved, options, context);
  } else {
    evenkeel::batch_norm_into(x.view(), y.view(), d.running(), options, evenkeel::kernels::Relu(), context);
  }
  if (mode != Batch16Mode::inference) {
    BatchNormGradients<S> to{.dx = dx.view(), .dgamma = r.dgamma, .dbeta = r.dbeta};
    if (adds) to = {.dx = add_to(dx.view()), .dgamma = add_to(r.dgamma), .dbeta = add_to(r.dbeta)};
    evenkeel::batch_norm_backward(dy.view(), x.view(), r.saved, options, to, context);
  }
  r.y = y.values(), r.dx = dx.values();
  EXPECT_TRUE(y.is_intact_around() && dx.is_intact_around());
  return r;
}

}  // namespace evenkeel_test
