// expect: evenkeel: an optimizer is of float or double parameters
#include <Eigen/Core>

#include "evenkeel/training/sgd.hpp"

evenkeel::SGD<Eigen::half> optimizer;
