// A small LLaMA-style language model: embedding, layers, and the embedding again as the output. It writes text token by
// token with a cache of keys and values, and shows that this gives what a pass over the whole text gives. Its weights
// are random, and so is what it writes.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <evenkeel/evenkeel.hpp>

#include "random.hpp"

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using evenkeel::Index;

struct LanguageModel {
  static constexpr Index vocabulary = 128, d_model = 96;

  explicit LanguageModel(std::uint64_t seed)
      : layers(
            evenkeel::llama<float>({.layers = 6, .d_model = d_model, .num_heads = 6, .num_kv_heads = 2, .d_ff = 256})),
        embedding(vocabulary, d_model) {
    Random random(seed);
    random.fill_normal(std::span(embedding.data(), static_cast<std::size_t>(embedding.size())));
    for_each_parameter(layers, [&](const std::string&, auto& parameter) {
      if (parameter.shape().rank() < 2) return;  // gamma starts at 1
      random.fill_normal(parameter.mutable_values(), 1 / std::sqrt(static_cast<double>(parameter.shape()[1])));
    });
  }

  /// The score of every next token, behind each of `tokens`: [tokens, vocabulary].
  Matrix operator()(const std::vector<int>& tokens, evenkeel::KeyValueCache<float>* cache = nullptr) const {
    const Matrix x = embedding(tokens, Eigen::all);
    return layers.forward(x, {.cache = cache}) * embedding.transpose();
  }

  evenkeel::TransformerStack<evenkeel::RMSNorm<float>> layers;
  Matrix embedding;
};

int main() {
  const LanguageModel model(1);
  const std::string prompt = "Even keel: ";
  std::vector<int> text(prompt.begin(), prompt.end());
  evenkeel::KeyValueCache<float> cache(model.layers.cache_settings(64));
  Matrix decoded(64, LanguageModel::vocabulary);

  std::vector<int> next = text;  // first the prompt, then one token at a time
  while (text.size() <= 64) {
    const Matrix scores = model(next, &cache);
    decoded.middleRows(static_cast<Index>(text.size() - next.size()), scores.rows()) = scores;
    Index best;
    scores.row(scores.rows() - 1).segment(32, 95).maxCoeff(&best);  // printable characters
    next = {static_cast<int>(32 + best)};
    text.push_back(next[0]);
  }
  const Matrix full = model({text.begin(), text.begin() + 64});
  const float error = (decoded - full).cwiseAbs().maxCoeff() / full.cwiseAbs().maxCoeff();
  std::printf("%s\n", std::string(text.begin(), text.end()).c_str());
  std::printf("decoding with a cache and the full pass differ by %.1e of the largest score\n",
              static_cast<double>(error));
  return error < 64e-7f ? 0 : 1;
}
