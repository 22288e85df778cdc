#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "evenkeel/core/parameter.hpp"
#include "evenkeel/core/random.hpp"
#include "evenkeel/kernels/storage.hpp"
#include "evenkeel/sublayers/linear.hpp"

/// How weights start. Each entry is a function of a key, its row-major index in the weight and the weight's shape, so
/// that a model starts equal on every platform, whatever else is initialized before or after.
///
/// The forms of a weight are: a Parameter, a Linear (its weight; the bias stays as it is, which is zero unless it was
/// written to), and `weight_rows(weight, first, count)` of either: some rows, which is what a projection fused with
/// others is. Uniform numbers have the same bits everywhere, normal ones, rounded to float, are equal to 1 ulp.
/// @code
///   init_xavier_normal(linear, random_key(seed, "head.weight"));
///   for_each_parameter(model, [&](const std::string& path, auto& parameter) {
///     if (parameter.shape().rank() == 2) init_normal(parameter, random_key(seed, path), 0.02);
///   });
/// @endcode
namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Rows of a weight, to be initialized: their numbers, and how many inputs and outputs each of them connects.
///
/// Shapes    weight [out, in, ...]: fan_in is in and fan_out the number of rows, both times the extents that follow (of
///           a convolution), as in torch.nn.init. Of some rows, fan_out counts those alone.
template <class Scalar>
struct WeightRows {
  std::span<Scalar> values;
  std::uint64_t first = 0;  ///< index in the whole weight of the first of the values
  double fan_in = 0, fan_out = 0;
};

/// Rows `first` to `first + count` of a weight.
///
/// Errors    throws std::invalid_argument if the weight has fewer than 2 axes, or not these rows; std::logic_error if
///           it is mapped from const memory.
template <class Scalar>
WeightRows<Scalar> weight_rows(Parameter<Scalar>& weight, Index first, Index count) {
  const Shape& shape = weight.shape();
  if (shape.rank() < 2) {
    raise_invalid_argument("weight_rows", "weight has shape " + shape_string(shape) + ", expected at least 2 axes");
  }
  if (first < 0 || count < 0 || first > shape[0] - count) {
    raise_invalid_argument("weight_rows", "rows " + std::to_string(first) + " to " + std::to_string(first + count) +
                                              ", expected rows of 0 to " + std::to_string(shape[0]) +
                                              " (the weight has shape " + shape_string(shape) + ")");
  }
  const Index columns = shape[0] > 0 ? shape.size() / shape[0] : 0;
  const Index window = shape[1] > 0 ? columns / shape[1] : 0;
  const auto skipped = static_cast<std::size_t>(first * columns), size = static_cast<std::size_t>(count * columns);
  return {weight.mutable_values().subspan(skipped, size), skipped, static_cast<double>(columns),
          static_cast<double>(count * window)};
}
template <class Scalar>
WeightRows<Scalar> weight_rows(Linear<Scalar>& linear, Index first, Index count) {
  return weight_rows(linear.weight(), first, count);
}

/// All rows.
template <class Scalar>
WeightRows<Scalar> weight_rows(Parameter<Scalar>& weight) {
  return weight_rows(weight, 0, weight.shape().rank() > 0 ? weight.shape()[0] : 0);
}
template <class Scalar>
WeightRows<Scalar> weight_rows(Linear<Scalar>& linear) {
  return weight_rows(linear.weight());
}
template <class Scalar>
WeightRows<Scalar> weight_rows(const WeightRows<Scalar>& rows) {
  return rows;
}

/// Which fan keeps the variance: of the values in the forward pass, or of the gradients in the backward pass.
enum class Fan { in, out };

namespace detail {

/// Each value becomes scale times one of the two numbers that `draw` makes of 128 bits: those of an entry's index / 2.
template <class Scalar, class Draw>
void fill_random(const WeightRows<Scalar>& weight, RandomKey key, double scale, const Draw& draw) {
  std::uint64_t index = weight.first;
  for (Scalar& value : weight.values) {
    const std::array<double, 2> pair = draw(philox(key, index / 2));
    value = kernels::from_compute<Scalar>(static_cast<kernels::Compute<Scalar>>(scale * pair[index % 2]));
    ++index;
  }
}

/// Uniform in [-1, 1), twice.
inline std::array<double, 2> symmetric_pair(const RandomWords& words) noexcept {
  return {2 * uniform_double(words[0], words[1]) - 1, 2 * uniform_double(words[2], words[3]) - 1};
}

template <class Scalar>
double fan_of(const WeightRows<Scalar>& weight, Fan fan) noexcept {
  return fan == Fan::in ? weight.fan_in : weight.fan_out;
}

}  // namespace detail

/// Entries N(0, std^2).
///
/// Errors    as all of these: throws std::invalid_argument if std, bound or gain is not finite or is negative; else as
///           weight_rows. Nothing is written then.
template <class Weight>
void init_normal(Weight&& weight, RandomKey key, double std) {
  require_not_negative("init_normal", "std", std);
  detail::fill_random(weight_rows(weight), key, std, normal_pair);
}

/// Entries uniform in [-bound, bound).
template <class Weight>
void init_uniform(Weight&& weight, RandomKey key, double bound) {
  require_not_negative("init_uniform", "bound", bound);
  detail::fill_random(weight_rows(weight), key, bound, detail::symmetric_pair);
}

/// Entries 0. Of a branch's last projection: a block then starts as its skip path, x + 0.
template <class Weight>
void init_zero(Weight&& weight) {
  for (auto& value : weight_rows(weight).values) value = std::remove_reference_t<decltype(value)>(0);
}

/// Entries N(0, std^2), std = gain * sqrt(2 / (fan_in + fan_out)).
///
/// Source    Glorot, Bengio 2010, AISTATS; agrees with torch.nn.init.xavier_normal_.
template <class Weight>
void init_xavier_normal(Weight&& weight, RandomKey key, double gain = 1) {
  require_not_negative("init_xavier_normal", "gain", gain);
  const auto rows = weight_rows(weight);
  init_normal(rows, key, gain * std::sqrt(2 / (rows.fan_in + rows.fan_out)));
}

/// Entries uniform in [-bound, bound), bound = gain * sqrt(6 / (fan_in + fan_out)).
///
/// Source    Glorot, Bengio 2010, AISTATS; agrees with torch.nn.init.xavier_uniform_.
template <class Weight>
void init_xavier_uniform(Weight&& weight, RandomKey key, double gain = 1) {
  require_not_negative("init_xavier_uniform", "gain", gain);
  const auto rows = weight_rows(weight);
  init_uniform(rows, key, gain * std::sqrt(6 / (rows.fan_in + rows.fan_out)));
}

/// The gain of ReLU, sqrt(2): half of what it receives becomes 0.
inline constexpr double relu_gain = 1.4142135623730951;

/// Entries N(0, std^2), std = gain / sqrt(fan).
///
/// Source    He, Zhang, Ren, Sun 2015, arXiv:1502.01852; agrees with torch.nn.init.kaiming_normal_.
template <class Weight>
void init_kaiming_normal(Weight&& weight, RandomKey key, double gain = relu_gain, Fan fan = Fan::in) {
  require_not_negative("init_kaiming_normal", "gain", gain);
  const auto rows = weight_rows(weight);
  init_normal(rows, key, gain / std::sqrt(detail::fan_of(rows, fan)));
}

/// Entries uniform in [-bound, bound), bound = gain * sqrt(3 / fan). With gain sqrt(1/3) as torch.nn.Linear starts.
///
/// Source    He, Zhang, Ren, Sun 2015, arXiv:1502.01852; agrees with torch.nn.init.kaiming_uniform_.
template <class Weight>
void init_kaiming_uniform(Weight&& weight, RandomKey key, double gain = relu_gain, Fan fan = Fan::in) {
  require_not_negative("init_kaiming_uniform", "gain", gain);
  const auto rows = weight_rows(weight);
  init_uniform(rows, key, gain * std::sqrt(3 / detail::fan_of(rows, fan)));
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
