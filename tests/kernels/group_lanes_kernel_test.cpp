// The kernels of groups of lanes, compiled here once for all test files.
#include "kernels/group_lanes_test.hpp"

namespace evenkeel_test {

template <class Arch, class T>
void run(const kernels::GroupLanesForward<T>& args) {
  kernels::group_lanes_forward<Arch>(args);
}
template <class Arch, class T>
void run(const kernels::GroupLanesBackward<T>& args) {
  kernels::group_lanes_backward<Arch>(args);
}

template void run<evenkeel::native>(const kernels::GroupLanesForward<float>&);
template void run<evenkeel::native>(const kernels::GroupLanesForward<double>&);
template void run<evenkeel::scalar>(const kernels::GroupLanesForward<float>&);
template void run<evenkeel::scalar>(const kernels::GroupLanesForward<double>&);
template void run<evenkeel::native>(const kernels::GroupLanesBackward<float>&);
template void run<evenkeel::native>(const kernels::GroupLanesBackward<double>&);
template void run<evenkeel::scalar>(const kernels::GroupLanesBackward<float>&);
template void run<evenkeel::scalar>(const kernels::GroupLanesBackward<double>&);

}  // namespace evenkeel_test
