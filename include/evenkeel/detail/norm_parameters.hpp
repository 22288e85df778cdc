#pragma once

#include <string>
#include <utility>

#include "evenkeel/core/parameter.hpp"
#include "evenkeel/core/parameter_view.hpp"
#include "evenkeel/detail/returning_forms.hpp"

/// What norms with and without running statistics have in common as layers.
namespace evenkeel {
inline namespace EVENKEEL_ARCH {
namespace detail {

/// What a training forward of a norm keeps for its backward: statistics, and a view of x, which has to live unchanged
/// until then, or x itself if it was moved in. Used again for statistics of as many it allocates nothing. Move-only.
template <class Layer, class Scalar, class Statistics>
class NormSaved : public SavedBase {
 public:
  const Statistics& statistics() const noexcept { return statistics_; }

 private:
  friend Layer;
  TensorView<const Scalar> x_;
  Statistics statistics_;
};

/// The learned gamma and beta of a norm of Scalars, each there or absent. P is their type.
template <class Scalar, class P>
class NormParameters {
 public:
  /// See for_each_parameter.
  template <class Self, class Visit>
  static void visit_parameters(Self& self, Visit& visit, const std::string& prefix) {
    if (!self.gamma_.is_absent()) visit(prefix + "gamma", self.gamma_);
    if (!self.beta_.is_absent()) visit(prefix + "beta", self.beta_);
  }

 protected:
  /// As operations take one of them.
  static ParameterView<Scalar> option(const Parameter<P>& parameter) {
    return parameter.is_absent() ? ParameterView<Scalar>() : ParameterView<Scalar>(parameter.view());
  }

  /// Makes gradients that add to those of the parameters, as far as these are there, for a backward to write.
  template <class Gradients>
  void add_to_gradients(Gradients& to) {
    for (auto& [parameter, gradient] : {std::pair{&gamma_, &to.dgamma}, std::pair{&beta_, &to.dbeta}}) {
      if (parameter->is_absent()) continue;
      *gradient = add_to(TensorView<P>(parameter->gradient_to_add_to(), parameter->shape()));
    }
  }
  void commit_gradients() noexcept {
    gamma_.commit_gradient();
    beta_.commit_gradient();
  }

  Parameter<P> gamma_, beta_;
};

}  // namespace detail
}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
