// The kernels of RMSNorm, compiled here once for all test files.
#include "kernels/kernel_test.hpp"

namespace evenkeel_test {

template <class Arch, class T>
void RMSNorm::run(const kernels::RowNormForward<T>& args) {
  kernels::rms_norm_forward<Arch>(args);
}
template <class Arch, class T>
void RMSNorm::run(const kernels::RowNormBackward<T>& args) {
  kernels::rms_norm_backward<Arch>(args);
}

template void RMSNorm::run<evenkeel::native>(const kernels::RowNormForward<float>&);
template void RMSNorm::run<evenkeel::native>(const kernels::RowNormForward<double>&);
template void RMSNorm::run<evenkeel::scalar>(const kernels::RowNormForward<float>&);
template void RMSNorm::run<evenkeel::scalar>(const kernels::RowNormForward<double>&);
template void RMSNorm::run<evenkeel::native>(const kernels::RowNormBackward<float>&);
template void RMSNorm::run<evenkeel::native>(const kernels::RowNormBackward<double>&);
template void RMSNorm::run<evenkeel::scalar>(const kernels::RowNormBackward<float>&);
template void RMSNorm::run<evenkeel::scalar>(const kernels::RowNormBackward<double>&);

}  // namespace evenkeel_test
