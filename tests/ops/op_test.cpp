#include "ops/op_test.hpp"

namespace evenkeel_test {

// The kernels alone, which kernel_test.hpp only declares, for the instruction set of the ops.
template <class Arch, class T>
void LayerNorm::run(const kernels::RowNormForward<T>& args) {
  kernels::layer_norm_forward<Arch>(args);
}
template <class Arch, class T>
void LayerNorm::run(const kernels::RowNormBackward<T>& args) {
  kernels::layer_norm_backward<Arch>(args);
}
template <class Arch, class T>
void RMSNorm::run(const kernels::RowNormForward<T>& args) {
  kernels::rms_norm_forward<Arch>(args);
}
template <class Arch, class T>
void RMSNorm::run(const kernels::RowNormBackward<T>& args) {
  kernels::rms_norm_backward<Arch>(args);
}

template void LayerNorm::run<evenkeel::native>(const kernels::RowNormForward<float>&);
template void LayerNorm::run<evenkeel::native>(const kernels::RowNormForward<double>&);
template void LayerNorm::run<evenkeel::native>(const kernels::RowNormBackward<float>&);
template void LayerNorm::run<evenkeel::native>(const kernels::RowNormBackward<double>&);
template void RMSNorm::run<evenkeel::native>(const kernels::RowNormForward<float>&);
template void RMSNorm::run<evenkeel::native>(const kernels::RowNormForward<double>&);
template void RMSNorm::run<evenkeel::native>(const kernels::RowNormBackward<float>&);
template void RMSNorm::run<evenkeel::native>(const kernels::RowNormBackward<double>&);

}  // namespace evenkeel_test
