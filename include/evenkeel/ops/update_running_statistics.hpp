#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "evenkeel/core/moments.hpp"
#include "evenkeel/detail/batch_norm_checks.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Lets a batch enter the running statistics as a training forward of BatchNorm does, from its moments: those of
/// several processes, merged (see channel_moments).
///
/// A channel without values changes nothing, one with a single value its mean alone. The batch is counted if any
/// channel has a value.
///
/// Shapes    batch, update.mean and update.var, where given, [channels].
/// Writes    update.mean, update.var and *update.batches, where given.
/// Errors    throws std::invalid_argument, before anything is written, if sizes differ, the two overlap, the counter is
///           negative, or a CumulativeAverage has none.
template <class Scalar>
void update_running_statistics(const RunningUpdate<Scalar>& update, std::span<const Moments> batch) {
  const char* where = "update_running_statistics";
  for (const auto& [name, running] : {std::pair{"running mean", &update.mean}, std::pair{"running var", &update.var}}) {
    const auto expected = static_cast<Index>(batch.size());
    if (!running->is_given() || running->size() == expected) continue;
    raise_invalid_argument(where, std::string(name) + " has " + std::to_string(running->size()) +
                                      " elements, expected " + std::to_string(expected) + " (those of batch)");
  }
  require_no_overlap(where, "running mean", update.mean.view(), "running var", update.var.view());
  detail::require_counter(where, update);

  const auto weights = update.average.weights(update.batches ? *update.batches : 0);
  using Number = typename RunningUpdate<Scalar>::Number;
  const auto take = [&](Number& running, double of_batch) {
    running = static_cast<Number>(RunningAverage::updated(weights, static_cast<double>(running), of_batch));
  };
  for (std::size_t c = 0; c < batch.size(); ++c) {
    const Moments& m = batch[c];
    const bool is_unbiased = update.variance == RunningVariance::unbiased;
    if (update.mean.is_given() && m.count > 0) take(update.mean[static_cast<Index>(c)], m.mean);
    if (!update.var.is_given() || m.count < 2) continue;
    take(update.var[static_cast<Index>(c)], is_unbiased ? m.var_unbiased() : m.var_biased());
  }
  const auto has_values = [](const Moments& m) { return m.count > 0; };
  if (update.batches && std::any_of(batch.begin(), batch.end(), has_values)) ++*update.batches;
}

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
