#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>

#include "library.hpp"

#if defined(_OPENMP)
#include <omp.h>
#endif

/// oneDNN 2 and 3: layer and batch normalization primitives over the same arrays, in their plain layout.
namespace bench {
namespace {

using dnnl::memory;
using dnnl::prop_kind;
using Flags = dnnl::normalization_flags;

struct OneDnn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};

  static OneDnn& get() {
    static OneDnn one_dnn;
    return one_dnn;
  }
};

/// oneDNN 2 describes an operation first, and makes a primitive of it for an engine; oneDNN 3 does both at once.
template <class Primitive>
typename Primitive::primitive_desc describe_forward(prop_kind kind, const memory::desc& x, float eps, Flags flags) {
#if DNNL_VERSION_MAJOR < 3
  return {typename Primitive::desc(kind, x, eps, flags), OneDnn::get().engine};
#else
  return {OneDnn::get().engine, kind, x, x, eps, flags};
#endif
}

template <class Primitive, class Forward>
typename Primitive::primitive_desc describe_backward(const memory::desc& x, float eps, Flags flags,
                                                     const Forward& forward) {
#if DNNL_VERSION_MAJOR < 3
  return {typename Primitive::desc(prop_kind::backward, x, x, eps, flags), OneDnn::get().engine, forward};
#else
  return {OneDnn::get().engine, prop_kind::backward, x, x, x, eps, flags, forward};
#endif
}

/// RMSNorm is a flag of layer normalization, in versions that have it.
template <class F>
constexpr bool has_rms_norm = requires {
  F::rms_norm;
};

template <class F>
F flags_of(Norm norm) {
  const F scale_and_shift = F::use_scale | F::use_shift;
  if constexpr (has_rms_norm<F>) {
    if (norm == Norm::rms) return F::use_scale | F::rms_norm;
  }
  return norm == Norm::batch_inference ? scale_and_shift | F::use_global_stats : scale_and_shift;
}

/// x in its plain layout. Channels that are last are given as images of one column: for matrices oneDNN has no fast
/// BatchNorm.
memory::desc plain(const Case& c) {
  const Shape& s = c.shape;
  if (c.norm == Norm::layer || c.norm == Norm::rms) {
    return {{s.rows, s.features}, memory::data_type::f32, memory::format_tag::ab};
  }
  if (c.inner() == 1) return {{1, s.features, s.rows, 1}, memory::data_type::f32, memory::format_tag::acdb};
  return {{s.rows, s.features, c.height, c.width}, memory::data_type::f32, memory::format_tag::abcd};
}

memory over(const memory::desc& desc, const float* values) {
  return {desc, OneDnn::get().engine, const_cast<float*>(values)};
}

/// A primitive and what it reads and writes.
struct Call {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;

  void operator()() const {
    primitive.execute(OneDnn::get().stream, arguments);
    OneDnn::get().stream.wait();
  }
};

template <class Forward, class Backward>
Contender normalization(const Case& c, const Problem<float>& p) {
  const memory::desc x = plain(c), features({p.features}, memory::data_type::f32, memory::format_tag::a);
  const auto eps = static_cast<float>(p.eps);
  const Flags flags = flags_of<Flags>(c.norm);
  const bool is_inference = c.norm == Norm::batch_inference;
  const auto forward = describe_forward<Forward>(
      is_inference ? prop_kind::forward_inference : prop_kind::forward_training, x, eps, flags);
  Call call{Forward(forward),
            {{DNNL_ARG_SRC, over(x, p.x)},
             {DNNL_ARG_DST, over(x, p.y)},
             {DNNL_ARG_SCALE, over(features, p.gamma)},
             {DNNL_ARG_SHIFT, over(features, p.beta)},
             {DNNL_ARG_MEAN, is_inference ? over(features, p.beta) : memory(forward.mean_desc(), OneDnn::get().engine)},
             {DNNL_ARG_VARIANCE, is_inference ? over(features, running_variances().data())
                                              : memory(forward.variance_desc(), OneDnn::get().engine)}}};
  Contender result = contender(c, p, call);
  result.implementation = forward.impl_info_str();
  if (!c.is_backward) return result;
  call();  // statistics
  const auto backward = describe_backward<Backward>(x, eps, flags, forward);
  call.primitive = Backward(backward);
  call.arguments.insert({{DNNL_ARG_DIFF_DST, over(x, p.dy)},
                         {DNNL_ARG_DIFF_SRC, over(x, p.dx)},
                         {DNNL_ARG_DIFF_SCALE, over(features, p.dgamma)},
                         {DNNL_ARG_DIFF_SHIFT, over(features, p.dbeta)}});
  result.run = call;
  result.implementation = backward.impl_info_str();
  return result;
}

Contender make(const Case& c, const Problem<float>& p) {
  if (c.norm == Norm::rms && !has_rms_norm<Flags>) return {};
  if (c.norm == Norm::layer || c.norm == Norm::rms) {
    return normalization<dnnl::layer_normalization_forward, dnnl::layer_normalization_backward>(c, p);
  }
  return normalization<dnnl::batch_normalization_forward, dnnl::batch_normalization_backward>(c, p);
}

std::string instruction_set() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "instruction set " + std::to_string(static_cast<int>(dnnl::get_effective_cpu_isa()));
  }
}

}  // namespace

Library onednn_library() {
#if defined(_OPENMP)
  omp_set_num_threads(1);
#endif
  const dnnl_version_t& v = *dnnl_version();
  const std::string version = std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch);
  return {"oneDNN", version + " (" + instruction_set() + ")", make};
}

}  // namespace bench
