// expect: evenkeel: running statistics have the scalar type of x, or are float where x has 16 bits
#include <vector>

#include "evenkeel/ops/batch_norm_options.hpp"

evenkeel::RunningUpdate<Eigen::half> f(std::vector<Eigen::half>& mean) { return {.mean = mean}; }
