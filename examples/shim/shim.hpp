#pragma once

/// evenkeel for programs that cannot move to C++20: a C interface over float*. Header of shim.cpp, in C++17 or C.
#ifdef __cplusplus
extern "C" {
#endif

/// y = LayerNorm(x) * gamma + beta for each row of x [rows, features]. gamma, beta [features] or null.
/// mean, rstd [rows], or both null: what the backward takes. Returns null, or what was wrong.
const char* shim_layer_norm(const float* x, float* y, long rows, long features, const float* gamma, const float* beta,
                            double eps, float* mean, float* rstd);

/// dx, and adds to dgamma and dbeta [features]. Returns null, or what was wrong.
const char* shim_layer_norm_backward(const float* dy, const float* x, const float* gamma, const float* mean,
                                     const float* rstd, float* dx, float* dgamma, float* dbeta, long rows,
                                     long features);

#ifdef __cplusplus
}
#endif
