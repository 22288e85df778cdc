#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/core/tensor_view.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// A learned value, owned or mapped, and a gradient once there is one.
///
/// A mapped parameter reads, and if its memory is not const writes, the caller's memory, which has to outlive it.
/// Copying is deep (the copy owns its value); moving keeps a map. An absent parameter has no elements.
///
/// Shapes    value and gradient are dense and row-major.
template <class Scalar>
class Parameter {
 public:
  Parameter() = default;
  explicit Parameter(const Shape& shape, Scalar fill = Scalar(0))
      : shape_(shape), owned_(static_cast<std::size_t>(shape.size()), fill), mutable_(owned_.data()), data_(mutable_) {}

  /// A parameter whose value is the caller's memory.
  static Parameter map(Scalar* data, const Shape& shape) { return Parameter(data, data, shape); }
  /// A parameter whose value is the caller's memory, and is never written to.
  static Parameter map(const Scalar* data, const Shape& shape) { return Parameter(data, nullptr, shape); }

  Parameter(const Parameter& other)
      : shape_(other.shape_),
        owned_(other.data_, other.data_ + (other.is_absent() ? 0 : other.size())),
        mutable_(owned_.data()),
        data_(mutable_),
        gradient_(other.gradient_),
        has_gradient_(other.has_gradient_) {}
  Parameter(Parameter&& other) noexcept { swap(other); }
  Parameter& operator=(Parameter other) noexcept {
    swap(other);
    return *this;
  }
  ~Parameter() = default;

  bool is_absent() const noexcept { return shape_.rank() == 0; }
  /// False if mapped from const memory.
  bool is_writable() const noexcept { return is_absent() || mutable_ != nullptr || size() == 0; }
  const Shape& shape() const noexcept { return shape_; }
  Index size() const noexcept { return is_absent() ? 0 : shape_.size(); }

  const Scalar* data() const noexcept { return data_; }
  std::span<const Scalar> values() const noexcept { return {data_, static_cast<std::size_t>(size())}; }
  TensorView<const Scalar> view() const noexcept { return {data_, shape_}; }

  /// The value, to be written to.
  ///
  /// Errors    throws std::logic_error if it is mapped from const memory.
  std::span<Scalar> mutable_values() {
    if (!is_writable()) raise_logic_error("Parameter", "value is mapped from const memory, expected writable memory");
    return {mutable_, static_cast<std::size_t>(size())};
  }

  /// Copies `count` numbers into the value.
  ///
  /// Errors    throws std::invalid_argument if count is not the size; std::logic_error if mapped from const memory.
  void load(const Scalar* source, Index count) {
    if (count != size()) {
      raise_invalid_argument("Parameter::load", std::to_string(count) + " numbers, expected " + std::to_string(size()) +
                                                    " (the parameter has shape " + shape_string(shape_) + ")");
    }
    std::copy_n(source, count, mutable_values().data());
  }

  bool has_gradient() const noexcept { return has_gradient_; }
  /// Empty until the first backward.
  std::span<const Scalar> gradient() const noexcept {
    return has_gradient_ ? std::span<const Scalar>(gradient_) : std::span<const Scalar>();
  }
  std::span<Scalar> mutable_gradient() noexcept {
    return has_gradient_ ? std::span<Scalar>(gradient_) : std::span<Scalar>();
  }
  /// Sets the gradient to zero, if there is one.
  void zero_gradient() noexcept { std::fill(gradient_.begin(), gradient_.end(), Scalar(0)); }

  /// For a backward: the memory to add to, zero before the first; `commit_gradient` once it has been written.
  Scalar* gradient_to_add_to() {
    if (!has_gradient_) gradient_.assign(static_cast<std::size_t>(size()), Scalar(0));
    return gradient_.data();
  }
  void commit_gradient() noexcept { has_gradient_ = !is_absent(); }

 private:
  Parameter(const Scalar* data, Scalar* writable, const Shape& shape)
      : shape_(shape), mutable_(writable), data_(data) {}

  void swap(Parameter& other) noexcept {
    std::swap(shape_, other.shape_);
    owned_.swap(other.owned_);
    std::swap(mutable_, other.mutable_);
    std::swap(data_, other.data_);
    gradient_.swap(other.gradient_);
    std::swap(has_gradient_, other.has_gradient_);
  }

  Shape shape_;
  std::vector<Scalar> owned_;
  Scalar* mutable_ = nullptr;
  const Scalar* data_ = nullptr;
  std::vector<Scalar> gradient_;
  bool has_gradient_ = false;
};

/// Calls visit(path, parameter) for every parameter of a layer, sublayer, block or stack, in a fixed order. Paths are
/// stable: "blocks.3.norm_in.gamma". A model without parameters of its own is left out.
///
/// A class of yours takes part by `visit_parameters(visit, prefix)`, or, for const models too, by
/// `template <class Self, class Visit> static void visit_parameters(Self& self, Visit& visit, const std::string&
/// prefix)`.
template <class Model, class Visit>
void for_each_parameter(Model& model, Visit&& visit, const std::string& prefix = "") {
  if constexpr (requires { Model::visit_parameters(model, visit, prefix); }) {
    Model::visit_parameters(model, visit, prefix);
  } else if constexpr (requires { model.visit_parameters(visit, prefix); }) {
    model.visit_parameters(visit, prefix);
  }
}

/// Calls visit(path, buffer) for all that a model keeps beside its parameters, as Parameters too: the running
/// statistics of BatchNorm. They are saved and loaded as parameters are, and no optimizer changes them.
///
/// A class of yours takes part by `visit_buffers`, written as `visit_parameters` is.
template <class Model, class Visit>
void for_each_buffer(Model& model, Visit&& visit, const std::string& prefix = "") {
  if constexpr (requires { Model::visit_buffers(model, visit, prefix); }) {
    Model::visit_buffers(model, visit, prefix);
  } else if constexpr (requires { model.visit_buffers(visit, prefix); }) {
    model.visit_buffers(visit, prefix);
  }
}

/// Sets every gradient of a model to zero.
template <class Model>
void zero_gradients(Model& model) {
  for_each_parameter(model, [](const std::string&, auto& parameter) { parameter.zero_gradient(); });
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
