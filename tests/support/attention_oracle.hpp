// Self-attention by its definition, for long double and dual numbers: one score at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/oracle.hpp"

namespace evenkeel_test::oracle {

struct RotaryOptions {
  long double base = 1e4L;
  bool interleaved = false;
};

struct AttentionOptions {
  std::size_t batch = 1, seq = 1, d_model = 1, heads = 1, kv_heads = 1, head_dim = 1;
  bool causal = false;
  std::size_t window = 0;
  long double scale = 1, soft_cap = 0;
  std::optional<RotaryOptions> rotary = {};
  std::size_t position = 0;
  std::optional<long double> norm_eps = {};  // of queries and keys
  std::vector<int> is_valid_key = {};        // [batch, seq]; empty: all
  std::vector<int> is_valid_row = {};        // rows that are not get y = 0, and are no keys
};

/// Turns features (a, b) of pair i of one head by position * base^(-2i / head_dim).
template <class T>
void turn_head(T* head, std::size_t head_dim, std::size_t position, const RotaryOptions& rotary) {
  for (std::size_t i = 0; i < head_dim / 2; ++i) {
    const long double exponent = -2 * static_cast<long double>(i) / static_cast<long double>(head_dim);
    const long double angle = static_cast<long double>(position) * std::pow(rotary.base, exponent);
    T& a = head[rotary.interleaved ? 2 * i : i];
    T& b = head[rotary.interleaved ? 2 * i + 1 : i + head_dim / 2];
    const T turned_a = a * std::cos(angle) - b * std::sin(angle);
    b = a * std::sin(angle) + b * std::cos(angle);
    a = turned_a;
  }
}

/// query, key or value of every token: [batch * seq, heads * head_dim].
template <class T, class At>
std::vector<T> project_heads(const std::vector<T>& x, const AttentionOptions& o, std::size_t heads, const At& at,
                             const std::string& name) {
  std::vector<T> projected =
      linear(x, o.batch * o.seq, o.d_model, heads * o.head_dim, at(name + ".weight"), at(name + ".bias"));
  if (name == "value") return projected;
  const std::size_t rows = o.batch * o.seq * heads;
  if (o.norm_eps) projected = rms_norm(projected, rows, o.head_dim, at(name + "_norm.gamma"), *o.norm_eps);
  for (std::size_t row = 0; o.rotary && row < rows; ++row) {
    turn_head(&projected[row * o.head_dim], o.head_dim, o.position + row / heads % o.seq, *o.rotary);
  }
  return projected;
}

inline bool may_look_at(const AttentionOptions& o, std::size_t text, std::size_t query, std::size_t key) {
  if (!o.is_valid_key.empty() && o.is_valid_key[text * o.seq + key] == 0) return false;
  if (!o.is_valid_row.empty() && o.is_valid_row[text * o.seq + key] == 0) return false;
  if (o.causal && key > query) return false;
  return o.window == 0 || query - key < o.window;
}

/// y, from x [batch * seq, d_model] and at(name), a parameter by its name; an absent one is empty.
template <class T, class At>
std::vector<T> attention(const std::vector<T>& x, const AttentionOptions& o, const At& at) {
  using std::exp, std::tanh;
  const std::vector<T> q = project_heads(x, o, o.heads, at, "query"), k = project_heads(x, o, o.kv_heads, at, "key");
  const std::vector<T> v = project_heads(x, o, o.kv_heads, at, "value");
  const std::size_t q_row = o.heads * o.head_dim, k_row = o.kv_heads * o.head_dim;
  std::vector<T> attended(o.batch * o.seq * q_row, T(0));
  for (std::size_t row = 0; row < o.batch * o.seq; ++row) {
    const std::size_t text = row / o.seq;
    for (std::size_t head = 0; head < o.heads; ++head) {
      const std::size_t shared = head / (o.heads / o.kv_heads);
      std::vector<T> weights;
      T sum = 0;
      for (std::size_t key = 0; key < o.seq; ++key) {
        T score = 0;
        for (std::size_t j = 0; j < o.head_dim; ++j) {
          score += q[row * q_row + head * o.head_dim + j] * k[(text * o.seq + key) * k_row + shared * o.head_dim + j];
        }
        score = score * T(o.scale);
        if (o.soft_cap != 0) score = o.soft_cap * tanh(score / T(o.soft_cap));
        weights.push_back(may_look_at(o, text, row % o.seq, key) ? exp(score) : T(0));
        sum += weights.back();
      }
      for (std::size_t key = 0; key < o.seq; ++key) {
        if (weights[key] == 0) continue;
        for (std::size_t j = 0; j < o.head_dim; ++j) {
          attended[row * q_row + head * o.head_dim + j] +=
              weights[key] / sum * v[(text * o.seq + key) * k_row + shared * o.head_dim + j];
        }
      }
    }
  }
  std::vector<T> y = linear(attended, o.batch * o.seq, q_row, o.d_model, at("out.weight"), at("out.bias"));
  for (std::size_t row = 0; row < o.is_valid_row.size(); ++row) {
    if (o.is_valid_row[row] == 0) std::fill_n(&y[row * o.d_model], o.d_model, T(0));
  }
  return y;
}

/// down(activation(gate(x)) * up(x)).
template <class T, class At>
std::vector<T> gated_feed_forward(const std::vector<T>& x, std::size_t rows, std::size_t d_model, std::size_t d_ff,
                                  T (*activation)(const T&), const At& at) {
  std::vector<T> hidden = linear(x, rows, d_model, d_ff, at("gate.weight"), at("gate.bias"));
  const std::vector<T> up = linear(x, rows, d_model, d_ff, at("up.weight"), at("up.bias"));
  for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] = activation(hidden[i]) * up[i];
  return linear(hidden, rows, d_ff, d_model, at("down.weight"), at("down.bias"));
}

}  // namespace evenkeel_test::oracle
