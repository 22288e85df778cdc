// What the place of the norm does to a deep network before any training.
//
// The bytes of a text, embedded as random vectors, run forward through a stack of feed-forward sublayers F, and a
// random gradient dy runs back. The network is built in three ways, with the same embedding, weights and dy:
//
//   Pre-Norm      x + F(N(x))    and a norm of the output
//   Post-Norm     N(x + F(x))
//   No residual   F(x)           and no norm either: it would hide how stream and gradient vanish in a plain network
//
// Weights are Xavier normal, std = sqrt(2 / (fan_in + fan_out)), and biases 0.
//
// What to look for: without a residual, stream and gradient vanish exponentially. Post-Norm keeps their sizes, but
// every norm scales the skip path down, on which the text and dy fade exponentially. Pre-Norm never scales it: the
// stream grows like the square root of the depth, and text and dy stay recognizable all the way (Xiong et al. 2020,
// arXiv:2002.04745, on what follows for training). --placement shows another block, or all of the library's.
#include <evenkeel/evenkeel.hpp>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pre_vs_post_options.hpp"
#include "pre_vs_post_placements.hpp"
#include "pre_vs_post_report.hpp"
#include "pre_vs_post_trial.hpp"
#include "random.hpp"

using FeedForward = evenkeel::FeedForward<float>;

Matrix random_matrix(Eigen::Index rows, Eigen::Index cols, Random& random) {
  Matrix m(rows, cols);
  random.fill_normal(std::span(m.data(), static_cast<std::size_t>(m.size())));
  return m;
}

/// A token is the random vector of its byte.
Matrix embed(const std::string& text, Eigen::Index width, Random& random) {
  const Matrix table = random_matrix(256, width, random);
  Matrix x(static_cast<Eigen::Index>(text.size()), width);
  for (std::size_t t = 0; t < text.size(); ++t) {
    x.row(static_cast<Eigen::Index>(t)) = table.row(static_cast<unsigned char>(text[t]));
  }
  return x;
}

FeedForward random_feed_forward(Eigen::Index width, Random& random) {
  FeedForward f(width, 4 * width);
  for (auto* linear : {&f.up(), &f.down()}) {
    const auto fans = static_cast<double>(linear->in_features() + linear->out_features());
    random.fill_normal(linear->weight().mutable_values(), std::sqrt(2 / fans));
  }
  return f;
}

template <class Norm>
std::vector<Variant> run_variants(const Options& options, const std::string& text) {
  const auto placements = placements_of<Norm, FeedForward>(options.placement);
  Random random(static_cast<std::uint64_t>(options.seed));
  Trial trial;
  trial.x = embed(text, options.width, random);
  trial.dy = random_matrix(trial.x.rows(), trial.x.cols(), random).normalized();
  std::vector<FeedForward> sublayers;
  for (int i = 0; i < options.depth; ++i) sublayers.push_back(random_feed_forward(options.width, random));

  const Norm norm(options.width);
  std::vector<Variant> variants;
  for (const auto& [option, name, label, formula, run] : placements) {
    variants.push_back({name, label, formula, run(trial, norm, sublayers)});
  }
  return variants;
}

std::string read_text(const std::string& path, int tokens) {
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(tokens), '\0');
  file.read(text.data(), tokens);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.empty()) throw std::runtime_error("cannot read '" + path + "', expected a file of at least one byte");
  return text;
}

int main(int argc, char** argv) try {
  const Options options = parse_options(argc, argv);
  const std::string text = read_text(options.text, options.tokens);
  const bool is_rms = options.norm == "rms";
  std::printf("%zu bytes of %s, each %d features; %d feed-forward blocks\n", text.size(), options.text.c_str(),
              options.width, options.depth);
  std::printf("N is %s; after %s it normalizes the output, too\n\n", is_rms ? "RMSNorm" : "LayerNorm",
              options.placement.empty() ? "the last Pre-Norm block" : "the sum of a last block that has norms");
  const std::vector<Variant> variants = is_rms ? run_variants<evenkeel::RMSNorm<float>>(options, text)
                                               : run_variants<evenkeel::LayerNorm<float>>(options, text);
  if (options.placement == "all") {
    print_comparison(variants);
  } else {
    print_report(variants);
  }
  if (!options.csv.empty()) write_csv(options.csv, variants);
  if (!options.plot.empty()) draw_plot(options.plot, variants);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "pre_vs_post: %s\n", error.what());
  return 2;
}
