// The one C++20 file of a program in C++17: it compiles evenkeel, and exports plain functions over float*.
#include "shim.hpp"

#include <evenkeel/ops/layer_norm.hpp>

#include <algorithm>
#include <exception>
#include <string>

namespace {

using evenkeel::TensorView;

/// Exceptions do not leave: their text does.
template <class Body>
const char* text_of_error(const Body& body) {
  static thread_local std::string text;
  try {
    body();
    return nullptr;
  } catch (const std::exception& error) {
    text = error.what();
    return text.c_str();
  }
}

evenkeel::ParameterView<float> parameter(const float* data, long size) {
  return data ? evenkeel::ParameterView<float>(data, size) : evenkeel::ParameterView<float>();
}

}  // namespace

const char* shim_layer_norm(const float* x, float* y, long rows, long features, const float* gamma, const float* beta,
                            double eps, float* mean, float* rstd) {
  return text_of_error([&] {
    const TensorView<const float> in(x, {rows, features});
    const TensorView<float> out(y, {rows, features});
    const evenkeel::LayerNormOptions<float> options{
        .gamma = parameter(gamma, features), .beta = parameter(beta, features), .eps = eps};
    if (!mean || !rstd) return evenkeel::layer_norm_into(in, out, options);
    evenkeel::NormStatistics<float> saved;
    evenkeel::layer_norm_into(in, out, saved, options);
    std::copy(saved.mean.begin(), saved.mean.end(), mean);
    std::copy(saved.rstd.begin(), saved.rstd.end(), rstd);
  });
}

const char* shim_layer_norm_backward(const float* dy, const float* x, const float* gamma, const float* mean,
                                     const float* rstd, float* dx, float* dgamma, float* dbeta, long rows,
                                     long features) {
  return text_of_error([&] {
    const evenkeel::Shape shape{rows, features};
    // Without the second part of the mean, which a C interface seldom carries: ordinary accuracy.
    const evenkeel::NormStatistics<float> saved{shape, {mean, mean + rows}, {}, {rstd, rstd + rows}};
    evenkeel::LayerNormGradients<float> to{.dx = TensorView<float>(dx, shape)};
    if (dgamma) to.dgamma = add_to(TensorView<float>(dgamma, {features}));
    if (dbeta) to.dbeta = add_to(TensorView<float>(dbeta, {features}));
    evenkeel::layer_norm_backward(TensorView<const float>(dy, shape), TensorView<const float>(x, shape), saved,
                                  {.gamma = parameter(gamma, features)}, to);
  });
}
