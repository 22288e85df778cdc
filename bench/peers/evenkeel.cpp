#include <memory>
#include <string>
#include <utility>

#include "evenkeel/ops/batch_norm.hpp"
#include "evenkeel/ops/layer_norm.hpp"
#include "evenkeel/ops/rms_norm.hpp"
#include "evenkeel/version.hpp"
#include "library.hpp"

/// evenkeel by its public operations over plain pointers, with a workspace; checks included.
namespace bench {
namespace {

using evenkeel::TensorView;

/// What a backward reads besides x and dy, kept by its forward.
template <class Statistics>
struct State {
  TensorView<const float> x, dy;
  TensorView<float> y, dx;
  Statistics saved = {};
  std::vector<std::byte> workspace = {};
};

template <class Statistics>
std::shared_ptr<State<Statistics>> make_state(const Case& c, const Problem<float>& p) {
  evenkeel::Shape shape;
  for (const Index extent : c.extents()) shape.append(extent);
  return std::make_shared<State<Statistics>>(
      State<Statistics>{.x = {p.x, shape}, .dy = {p.dy, shape}, .y = {p.y, shape}, .dx = {p.dx, shape}});
}

Contender layer_norm(const Case& c, const Problem<float>& p) {
  auto s = make_state<evenkeel::NormStatistics<float>>(c, p);
  const evenkeel::LayerNormOptions<float> options{.gamma = {p.gamma, p.features}, .beta = {p.beta, p.features}};
  s->workspace.resize(evenkeel::layer_norm_workspace_bytes<float>(s->x.shape()));
  const auto forward = [=] { evenkeel::layer_norm_into(s->x, s->y, s->saved, options, {.workspace = s->workspace}); };
  if (!c.is_backward) return contender(c, p, forward);
  forward();
  return contender(c, p, [=] {
    evenkeel::layer_norm_backward(s->dy, s->x, s->saved, options,
                                  {.dx = s->dx, .dgamma = {p.dgamma, p.features}, .dbeta = {p.dbeta, p.features}},
                                  {.workspace = s->workspace});
  });
}

Contender rms_norm(const Case& c, const Problem<float>& p) {
  auto s = make_state<evenkeel::NormStatistics<float>>(c, p);
  const evenkeel::RMSNormOptions<float> options{.gamma = {p.gamma, p.features}};
  s->workspace.resize(evenkeel::rms_norm_workspace_bytes<float>(s->x.shape()));
  const auto forward = [=] { evenkeel::rms_norm_into(s->x, s->y, s->saved, options, {.workspace = s->workspace}); };
  if (!c.is_backward) return contender(c, p, forward);
  forward();
  return contender(c, p, [=] {
    evenkeel::rms_norm_backward(s->dy, s->x, s->saved, options, {.dx = s->dx, .dgamma = {p.dgamma, p.features}},
                                {.workspace = s->workspace});
  });
}

Contender batch_norm(const Case& c, const Problem<float>& p) {
  auto s = make_state<evenkeel::BatchNormStatistics<float>>(c, p);
  const evenkeel::BatchNormOptions<float> options{.gamma = {p.gamma, p.features}, .beta = {p.beta, p.features}};
  if (c.norm == Norm::batch_inference) {
    const evenkeel::RunningStatistics<float> running{.mean = {p.beta, p.features},
                                                     .var = {running_variances().data(), p.features}};
    return contender(c, p, [=] { evenkeel::batch_norm_into(s->x, s->y, running, options); });
  }
  s->workspace.resize(evenkeel::batch_norm_workspace_bytes<float>(s->x.shape()));
  const auto forward = [=] { evenkeel::batch_norm_into(s->x, s->y, s->saved, options); };
  if (!c.is_backward) return contender(c, p, forward);
  forward();
  return contender(c, p, [=] {
    evenkeel::batch_norm_backward(s->dy, s->x, s->saved, options,
                                  {.dx = s->dx, .dgamma = {p.dgamma, p.features}, .dbeta = {p.dbeta, p.features}},
                                  {.workspace = s->workspace});
  });
}

Contender make(const Case& c, const Problem<float>& p) {
  switch (c.norm) {
    case Norm::layer:
      return layer_norm(c, p);
    case Norm::rms:
      return rms_norm(c, p);
    default:
      return batch_norm(c, p);
  }
}

Contender make_copy(const Case& c, const Problem<float>& p) {
  const Index size = c.size();
  if (c.is_backward) return contender(c, p, [=] { streaming_sum(p.x, p.dy, p.dx, 1.5f, 0.5f, size); });
  return contender(c, p, [=] { streaming_copy(p.x, p.y, 1.5f, size); });
}

}  // namespace

Library streaming() { return {"copy", "", make_copy}; }

Library evenkeel_library() {
  const std::string version = std::to_string(EVENKEEL_VERSION_MAJOR) + "." + std::to_string(EVENKEEL_VERSION_MINOR) +
                              "." + std::to_string(EVENKEEL_VERSION_PATCH);
  return {"evenkeel", version + " (" + evenkeel::native::name() + ")", make};
}

}  // namespace bench
