// expect: evenkeel: folding a norm takes numbers of float or double; of 16 bits fold a float copy, and round that
#include <vector>

#include "evenkeel/ops/fold_batch_norm.hpp"

void f(std::vector<Eigen::half>& scale, std::vector<Eigen::half>& shift) {
  evenkeel::fold_into_scale_shift(evenkeel::RunningStatistics<Eigen::half>{}, {}, scale, shift);
}
