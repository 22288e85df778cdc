// The kernels of groups of segments, compiled here once for all test files.
#include "kernels/segment_norm_test.hpp"

namespace evenkeel_test {

template <class Arch, class T>
void run(const kernels::SegmentNormForward<T>& args) {
  kernels::segment_norm_forward<Arch>(args);
}
template <class Arch, class T>
void run(const kernels::SegmentNormBackward<T>& args) {
  kernels::segment_norm_backward<Arch>(args);
}

template void run<evenkeel::native>(const kernels::SegmentNormForward<float>&);
template void run<evenkeel::native>(const kernels::SegmentNormForward<double>&);
template void run<evenkeel::scalar>(const kernels::SegmentNormForward<float>&);
template void run<evenkeel::scalar>(const kernels::SegmentNormForward<double>&);
template void run<evenkeel::native>(const kernels::SegmentNormBackward<float>&);
template void run<evenkeel::native>(const kernels::SegmentNormBackward<double>&);
template void run<evenkeel::scalar>(const kernels::SegmentNormBackward<float>&);
template void run<evenkeel::scalar>(const kernels::SegmentNormBackward<double>&);

}  // namespace evenkeel_test
