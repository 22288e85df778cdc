#pragma once

// Everything that is public. Each header can be included alone as well.
#include "evenkeel/blocks/plain_residual.hpp"
#include "evenkeel/blocks/post_norm.hpp"
#include "evenkeel/blocks/pre_norm.hpp"
#include "evenkeel/blocks/stack.hpp"
#include "evenkeel/core/eigen_tensor.hpp"
#include "evenkeel/layers/layer_norm.hpp"
#include "evenkeel/layers/rms_norm.hpp"
#include "evenkeel/ops/layer_norm.hpp"
#include "evenkeel/ops/residual_add.hpp"
#include "evenkeel/ops/rms_norm.hpp"
#include "evenkeel/residual/residual.hpp"
#include "evenkeel/sublayers/feed_forward.hpp"
#include "evenkeel/sublayers/function_sublayer.hpp"
#include "evenkeel/sublayers/linear.hpp"
#include "evenkeel/version.hpp"
