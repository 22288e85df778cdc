// The kernels that the tests of lanes call.
#include "kernels/lane_norm_test.hpp"

namespace evenkeel_test {

template <class C>
void LaneKernel<C>::run(const kernels::LaneNormForward<T>& args) {
  if constexpr (C::Norm::centred) {
    kernels::lane_norm_forward<typename C::Arch, kernels::LayerNormRow>(args);
  } else {
    kernels::lane_norm_forward<typename C::Arch, kernels::RMSNormRow>(args);
  }
}

template <class C>
void LaneKernel<C>::run(const kernels::LaneNormBackward<T>& args) {
  if constexpr (C::Norm::centred) {
    kernels::lane_norm_backward<typename C::Arch, kernels::LayerNormRow>(args);
  } else {
    kernels::lane_norm_backward<typename C::Arch, kernels::RMSNormRow>(args);
  }
}

template struct LaneKernel<Config<LayerNorm, evenkeel::native, float>>;
template struct LaneKernel<Config<LayerNorm, evenkeel::native, double>>;
template struct LaneKernel<Config<LayerNorm, evenkeel::scalar, float>>;
template struct LaneKernel<Config<LayerNorm, evenkeel::scalar, double>>;
template struct LaneKernel<Config<RMSNorm, evenkeel::native, float>>;
template struct LaneKernel<Config<RMSNorm, evenkeel::native, double>>;
template struct LaneKernel<Config<RMSNorm, evenkeel::scalar, float>>;
template struct LaneKernel<Config<RMSNorm, evenkeel::scalar, double>>;

}  // namespace evenkeel_test
