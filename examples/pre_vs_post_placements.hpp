#pragma once

#include <evenkeel/evenkeel.hpp>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pre_vs_post_trial.hpp"

/// A way to build the network of pre_vs_post, from its sublayers. What depends on the number of layers counts two
/// sublayers as one, as in a transformer.
template <class Norm, class F>
struct Placement {
  using Run = std::function<std::vector<Point>(const Trial&, const Norm&, const std::vector<F>&)>;

  std::string option, name, label, formula;
  Run run;
};

inline int layers_of(int depth) { return (depth + 1) / 2; }

/// Blocks that are made one by one: make(norm, sublayer, i of depth).
template <class Norm, class F, class Make>
typename Placement<Norm, F>::Run each(const Make& make) {
  return [make](const Trial& trial, const Norm& norm, const std::vector<F>& sublayers) {
    std::vector<evenkeel::Residual<Norm, F>> blocks;
    const int depth = static_cast<int>(sublayers.size());
    for (int i = 0; i < depth; ++i) blocks.push_back(make(norm, sublayers[static_cast<std::size_t>(i)], i, depth));
    return trial.run(evenkeel::Stack(std::move(blocks)));
  };
}

/// DeepNorm wants smaller weights, too.
template <class Norm, class F>
evenkeel::DeepNorm<Norm, F> deep_norm(const Norm& norm, F f, int depth) {
  const evenkeel::DeepNormScales scales = evenkeel::deepnorm_scales::decoder_only(layers_of(depth));
  for (auto* linear : {&f.up(), &f.down()}) {
    for (float& weight : linear->weight().mutable_values()) weight *= static_cast<float>(scales.init_gain);
  }
  return {norm, std::move(f), scales};
}

/// Stochastic depth: Pre-Norm whose blocks are left out for a token with a probability that rises to 0.2.
template <class Norm, class F>
evenkeel::Residual<Norm, F> drop_path(const Norm& norm, const F& f, int i, int depth) {
  const std::string path = "blocks." + std::to_string(i) + ".drop";
  const evenkeel::Dropout<float> drop(0.2 * (i + 1) / depth, 1, path, evenkeel::DropoutKind::per_sample);
  return evenkeel::Residual<Norm, F>(f, {.in = norm}, {.drop = drop});
}

template <class Norm, class F>
std::vector<Point> run_mix_ln(const Trial& trial, const Norm& norm, const std::vector<F>& sublayers) {
  return trial.run(evenkeel::Stack(
      evenkeel::mix_ln_blocks(norm, sublayers, {.layer_blocks = sublayers.size() % 2 == 0 ? std::size_t{2} : 1})));
}

/// Half as many blocks, of two sublayers each.
template <class Norm, class F>
std::vector<Point> run_parallel(const Trial& trial, const Norm& norm, const std::vector<F>& sublayers) {
  std::vector<evenkeel::Residual<Norm, evenkeel::ParallelSublayers<F, F>>> blocks;
  for (std::size_t i = 0; i < sublayers.size(); i += 2) {
    blocks.push_back(evenkeel::ParallelBlock(norm, sublayers[i], sublayers[std::min(i + 1, sublayers.size() - 1)]));
  }
  return trial.run(evenkeel::Stack(std::move(blocks)));
}

/// The first three are what is shown without --placement.
template <class Norm, class F>
std::vector<Placement<Norm, F>> all_placements() {
  using namespace evenkeel;
  const auto blocks = [](const auto& make) { return each<Norm, F>(make); };
  return {
      {"pre", "Pre-Norm", "Pre", "x + F(N(x))", blocks([](auto& n, auto& f, int, int) { return PreNorm(n, f); })},
      {"post", "Post-Norm", "Post", "N(x + F(x))", blocks([](auto& n, auto& f, int, int) { return PostNorm(n, f); })},
      {"none", "No residual", "none", "F(x)",  // a Residual whose skip path is scaled by 0
       blocks([](auto&, auto& f, int, int) { return Residual<Norm, F>(f, {}, {.alpha = 0}); })},
      {"plain", "Plain residual", "plain", "x + F(x)",
       blocks([](auto&, auto& f, int, int) { return PlainResidual<Norm, F>(f); })},
      {"sandwich", "SandwichNorm", "Sandw.", "N(x + F(N(x)))",
       blocks([](auto& n, auto& f, int, int) { return SandwichNorm(n, n, f); })},
      {"peri", "PeriNorm", "Peri", "x + N(F(N(x)))",
       blocks([](auto& n, auto& f, int, int) { return PeriNorm(n, n, f); })},
      {"res_post", "ResPostNorm", "ResPost", "x + N(F(x))",
       blocks([](auto& n, auto& f, int, int) { return ResPostNorm(n, f); })},
      {"skip", "SkipNorm", "Skip", "N(x) + F(x)", blocks([](auto& n, auto& f, int, int) { return SkipNorm(n, f); })},
      {"deep", "DeepNorm", "Deep", "N(alpha*x + F(x))",
       blocks([](auto& n, auto& f, int, int depth) { return deep_norm(n, f, depth); })},
      {"layer_scale", "LayerScale", "LScale", "x + lambda*F(N(x))", blocks([](auto& n, auto& f, int, int depth) {
         return LayerScale(n, f, f.down().out_features(), layer_scale_initial(layers_of(depth)));
       })},
      {"re_zero", "ReZero", "ReZero", "x + 0*F(x)",
       blocks([](auto&, auto& f, int, int) { return ReZero<Norm, F>(f); })},
      {"skip_init", "SkipInit", "SkipIn", "x + 0.1*F(x)",
       blocks([](auto&, auto& f, int, int) { return SkipInit<Norm, F>(f, 0.1); })},
      {"ln_scaling", "LayerNormScaling", "LNScal", "x + F(N(x)/sqrt(l))",
       blocks([](auto& n, auto& f, int i, int) { return LayerNormScaling(n, f, layers_of(i + 1)); })},
      {"drop_path", "DropPath", "DropP", "x + drop(F(N(x)))",
       blocks([](auto& n, auto& f, int i, int depth) { return drop_path(n, f, i, depth); })},
      {"mix_ln", "Mix-LN", "Mix-LN", "Post, then Pre", run_mix_ln<Norm, F>},
      {"parallel", "ParallelBlock", "Paral.", "x + A(N(x)) + M(N(x))", run_parallel<Norm, F>},
  };
}

/// Those that --placement names: one, or all; without it Pre-Norm, Post-Norm and no residual.
template <class Norm, class F>
std::vector<Placement<Norm, F>> placements_of(const std::string& option) {
  const std::vector<Placement<Norm, F>> all = all_placements<Norm, F>();
  if (option.empty()) return {all[0], all[1], all[2]};
  if (option == "all") return all;
  std::string names;
  for (const auto& placement : all) {
    if (placement.option == option) return {placement};
    names += ", " + placement.option;
  }
  throw std::invalid_argument("--placement is '" + option + "', expected all" + names);
}
