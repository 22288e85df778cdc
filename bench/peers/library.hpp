#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cases.hpp"

namespace bench {

/// One library's way to compute a case. Whatever it needs besides the arrays is made before the first run.
struct Contender {
  using Outputs = std::vector<std::span<float>>;

  std::function<void()> run;         ///< empty where the library has no such operation
  std::function<Outputs()> outputs;  ///< what the last run wrote: y; or dx, dgamma and dbeta
  std::string implementation = "";   ///< as the library calls it, where it says so
};

struct Library {
  std::string name, version;
  std::function<Contender(const Case&, const Problem<float>&)> make;
};

/// The outputs of a case among the arrays of its problem.
inline Contender::Outputs outputs_of(const Case& c, const Problem<float>& p) {
  const auto size = static_cast<std::size_t>(c.size()), features = static_cast<std::size_t>(p.features);
  if (!c.is_backward) return {{p.y, size}};
  if (c.norm == Norm::rms) return {{p.dx, size}, {p.dgamma, features}};
  return {{p.dx, size}, {p.dgamma, features}, {p.dbeta, features}};
}

/// A contender that writes where the problem says.
inline Contender contender(const Case& c, const Problem<float>& p, std::function<void()> run) {
  return {std::move(run), [=] { return outputs_of(c, p); }};
}

/// The streaming copy of a case's bytes: the limit that memory sets.
Library streaming();
Library evenkeel_library();
Library eigen_library();
Library onednn_library();
Library pytorch_library();

}  // namespace bench
