#include <algorithm>

#include "verify/judgement.h"

namespace autotriton::verify {

/// Which trials are run in another way. One trial is enough to be wrong, so the ways are spread over the trials; where
/// there is but one trial, it takes the hard way.
RunHow Judgement::how_to_run(const std::string& variant, int index, int count) const {
  const bool only = count == 1;
  RunHow how;
  how.config = index;
  if (only || index % 4 == 1) how.order = RunHow::Order::kReversed;
  if (!only && index % 4 == 3) how.order = RunHow::Order::kShuffled;
  how.trial_runs = only || index == 2;
  how.watch_races = index <= 1;
  how.check_hints = variant == "original";
  how.report_torch = options_.torch_compute == TorchCompute::kReport;
  return how;
}

bool Judgement::right(CandidateClient& candidate, const ReadyTrial& ready, int index, const RunHow& how,
                      Clock::time_point deadline, std::vector<Launch>* launches) {
  auto ran = candidate.run(ready.setup.arguments, how, ready.seeds.run, deadline);
  auto* result = std::get_if<RunResult>(&ran);
  if (result == nullptr) return false;
  Comparison comparison;
  if (oracle().compare(index, ready.bounds, result->outputs, result->inputs_after, result->memory, comparison))
    return false;
  if (launches != nullptr) *launches = result->launches;
  return matches(comparison);
}

std::optional<Conclusion> Judgement::blame_how(CandidateClient& candidate, const ReadyTrial& ready, int index,
                                               const RunHow& how, const std::vector<Launch>& launches,
                                               Clock::time_point deadline) {
  if (!how.unusual()) return std::nullopt;
  RunHow usual = how;
  usual.order = RunHow::Order::kNatural;
  usual.trial_runs = false;
  std::vector<Launch> kernels = launches;
  // Twice: an answer that is wrong on some calls, whatever their order, must not pass for one that depends on it.
  if (!right(candidate, ready, index, usual, deadline, kernels.empty() ? &kernels : nullptr) ||
      !right(candidate, ready, index, usual, deadline, nullptr)) {
    return std::nullopt;
  }
  const std::string trial =
      "trial " + std::to_string(verdict_.trials.size() + 1) + " (" + ready.setup.inputs + " inputs)";
  RunHow ordered = how;
  ordered.trial_runs = false;
  const bool by_order = how.order != RunHow::Order::kNatural &&
                        (!how.trial_runs || !right(candidate, ready, index, ordered, deadline, nullptr));
  if (!by_order)
    return Conclusion{
        Reason::kAutotuneTrials,
        trial + ": right when each autotuned launch runs once, wrong after a trial run of another configuration"};
  std::string name = kernels.size() == 1 ? kernels.front().kernel : "";
  for (const Launch& launch : kernels) {
    if (!name.empty()) break;
    ordered.only_kernel = launch.kernel;
    if (!right(candidate, ready, index, ordered, deadline, nullptr)) name = launch.kernel;
  }
  return Conclusion{Reason::kOrderDependent, trial + ": right when the programs of " +
                                                 (name.empty() ? "each launch" : "`" + name + "`") +
                                                 " run in their order, and reductions take their elements in it, wrong "
                                                 "in another order"};
}

void Judgement::note_once(const std::string& note) {
  if (std::find(verdict_.notes.begin(), verdict_.notes.end(), note) == verdict_.notes.end())
    verdict_.notes.push_back(note);
}

}  // namespace autotriton::verify
