// expect: evenkeel: cannot write to const running statistics
#include <vector>

#include "evenkeel/ops/batch_norm.hpp"

evenkeel::RunningUpdate<float> f(const std::vector<float>& mean) { return {.mean = mean}; }
