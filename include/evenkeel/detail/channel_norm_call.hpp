#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "evenkeel/core/context.hpp"
#include "evenkeel/core/parameter_view.hpp"

/// What a call of a norm of channels hands to its kernels beside tensors: numbers of the type that x is computed in.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// Whether kernels take numbers for each channel where they are: all but those of 16 bits.
template <class S>
bool is_taken(const AnyParameter<S>& numbers) noexcept {
  return !kernels::is_16_bit<std::remove_const_t<S>> || numbers.is_wide() || !numbers.is_there();
}

/// The others are widened in a workspace, of which they take so much.
template <class... S>
std::size_t widened_bytes(const AnyParameter<S>&... numbers) noexcept {
  return ((is_taken(numbers) ? 0 : Scratch::bytes<float>(numbers.template as<S>().size())) + ...);
}
/// What gamma and beta, or their gradients and gamma, take at most.
template <class Scalar>
std::size_t most_widened_bytes(Index channels) noexcept {
  return kernels::is_16_bit<Scalar> ? 3 * Scratch::bytes<float>(channels) : 0;
}

template <class Scalar, class T = kernels::Compute<Scalar>>
const T* widened(const ParameterView<Scalar>& numbers, Scratch& scratch) {
  if (is_taken(numbers)) return numbers.template as<const T>().data();
  const auto narrow = numbers.view();
  T* wide = scratch.take<T>(narrow.size());
  std::transform(narrow.data(), narrow.data() + narrow.size(), wide, kernels::to_compute<Scalar>);
  return wide;
}
/// Where kernels write a gradient: with what it is added to.
template <class Scalar, class T = kernels::Compute<Scalar>>
T* widened(const ParameterGradient<Scalar>& wanted, Scratch& scratch) {
  if (is_taken(wanted)) return wanted.template as<T>().data();
  const auto narrow = wanted.view();
  T* wide = scratch.take<T>(narrow.size());
  if (wanted.adds()) std::transform(narrow.data(), narrow.data() + narrow.size(), wide, kernels::to_compute<Scalar>);
  return wide;
}
/// Brings a gradient from there to where it is wanted.
template <class Scalar>
void round_gradient(const kernels::Compute<Scalar>* wide, const ParameterGradient<Scalar>& wanted) {
  if (is_taken(wanted)) return;
  const auto narrow = wanted.view();
  std::transform(wide, wide + narrow.size(), narrow.data(), kernels::from_compute<Scalar>);
}

template <class T>
struct ChannelNormForward {
  const T *gamma = nullptr, *beta = nullptr;  ///< [channels], or null
  double eps = 0;
  T *mean = nullptr, *mean_rest = nullptr, *rstd = nullptr, *var = nullptr;  ///< to be saved, or null
};

template <class T>
struct ChannelNormBackward {
  const T* gamma = nullptr;  ///< [channels], or null
  const T *mean = nullptr, *mean_rest = nullptr, *rstd = nullptr;
  bool constant_statistics = false;       ///< whether they do not depend on x
  T *dgamma = nullptr, *dbeta = nullptr;  ///< [channels], or null
  bool add_dx = false, add_dgamma = false, add_dbeta = false;
  void* workspace = nullptr;
};

/// The same as arguments of a kernel.
template <class Args, class Scalar, class T>
Args forward_args(const Scalar* x, Scalar* y, const ChannelNormForward<T>& call) noexcept {
  Args args;
  args.x = x, args.y = y, args.gamma = call.gamma, args.beta = call.beta, args.eps = call.eps;
  args.mean = call.mean, args.mean_rest = call.mean_rest, args.rstd = call.rstd, args.var = call.var;
  return args;
}
template <class Args, class Scalar, class T>
Args backward_args(const Scalar* dy, const Scalar* x, Scalar* dx, const ChannelNormBackward<T>& call) noexcept {
  Args args;
  args.dy = dy, args.x = x, args.dx = dx, args.gamma = call.gamma;
  args.mean = call.mean, args.mean_rest = call.mean_rest, args.rstd = call.rstd;
  args.constant_statistics = call.constant_statistics;
  args.dgamma = call.dgamma, args.dbeta = call.dbeta;
  args.add_dx = call.add_dx, args.add_dgamma = call.add_dgamma, args.add_dbeta = call.add_dbeta;
  args.workspace = call.workspace;
  return args;
}

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
