#include <algorithm>

#include "base/error.h"
#include "verify/judgement.h"

namespace autotriton::verify {
namespace {

constexpr std::array<const char*, 7> kDistributions{"plain",     "shifted", "scaled", "heavy-tailed",
                                                    "half-zero", "far",     "tiny"};
constexpr int kMaxTrials = 64;
constexpr double kFormulaFloor = 1e-6;

std::string index_text(const std::vector<std::int64_t>& index) {
  std::string text = "[";
  for (std::size_t i = 0; i < index.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(index[i]);
  return text + "]";
}

/// The reason and sentence for a comparison that does not match.
Conclusion explain(const Comparison& comparison) {
  if (!comparison.structure.empty()) return {Reason::kWrongStructure, comparison.structure};
  for (const LeafComparison& leaf : comparison.leaves) {
    if (leaf.problem == "shape")
      return {Reason::kWrongShape, leaf.path + " has shape " + leaf.actual + ", expected " + leaf.expected};
  }
  for (const LeafComparison& leaf : comparison.leaves) {
    if (leaf.problem == "dtype") return {Reason::kWrongDtype, leaf.path + " has another dtype than the reference's"};
  }
  for (const LeafComparison& leaf : comparison.leaves) {
    const std::string where = leaf.path + (leaf.index.empty() ? "" : " at " + index_text(leaf.index));
    const std::string values = where + " is " + leaf.actual + ", expected " + leaf.expected;
    if (leaf.nonfinite != 0) {
      return {Reason::kWrongNonfinite,
              values + " (" + std::to_string(leaf.nonfinite) + " of " + std::to_string(leaf.count) + " elements)"};
    }
    if (leaf.bad != 0) {
      return {Reason::kWrongValues, values + " (" + std::to_string(leaf.bad) + " of " + std::to_string(leaf.count) +
                                        " elements are outside the tolerance)"};
    }
  }
  return {Reason::kInputMutated, comparison.inputs};
}

std::optional<Reason> violation_reason(const std::string& id) {
  const std::optional<Reason> reason = reason_from_id(id);
  if (reason == Reason::kWrongDevice || reason == Reason::kRacyStore || reason == Reason::kFalseHint) return reason;
  if (reason && info(*reason).stage == Stage::kAuthorship && info(*reason).outcome == Outcome::kReject) return reason;
  return std::nullopt;
}

Conclusion degenerate_by(std::string_view stand_in) {
  std::string what = "an answer of zeros passes every trial";
  if (stand_in == "mean") what = "a constant passes every trial";
  if (stand_in == "input") what = "returning the first input passes every trial";
  if (stand_in == "other-inputs") what = "the output does not depend on the inputs";
  if (stand_in == "other-weights") what = "the output does not depend on the weights";
  return {Reason::kTaskDegenerate, what};
}

/// Reasons that no further trial could change.
bool is_final(const Conclusion& conclusion) {
  const ReasonInfo& entry = info(conclusion.reason);
  return entry.outcome != Outcome::kReject || conclusion.reason == Reason::kProtocolViolation ||
         conclusion.reason == Reason::kExitedEarly || conclusion.reason == Reason::kLoadTimeout ||
         conclusion.reason == Reason::kImportRaised;
}

}  // namespace

std::variant<std::vector<Tolerance>, Conclusion> tolerances(const TrialSetup& setup) {
  std::vector<Tolerance> bounds;
  for (const LeafStatistics& leaf : setup.leaves) {
    if (stands_at_cliff(leaf)) {
      return Conclusion{Reason::kTaskDegenerate,
                        leaf.path + " stands at a cliff: " + std::to_string(leaf.jumps) + " of " +
                            std::to_string(leaf.count) +
                            " elements of the reference itself jump between float32 and float64"};
    }
    bounds.push_back(tolerance_for(leaf));
  }
  return bounds;
}

TrialFeed::TrialFeed(OracleClient& oracle, std::string variant, bool judge_stand_ins)
    : oracle_(oracle), variant_(std::move(variant)), judge_stand_ins_(judge_stand_ins) {}

void TrialFeed::prepare(int index, TrialSeeds seeds) {
  pending_ = std::async(std::launch::async, [this, index, seeds] { return make(index, seeds); });
}

ReadyTrial TrialFeed::take() { return pending_.get(); }

ReadyTrial TrialFeed::make(int index, TrialSeeds seeds) {
  const auto start = Clock::now();
  ReadyTrial ready;
  ready.seeds = seeds;
  const auto work = [&]() -> std::optional<OracleProblem> {
    const char* distribution = kDistributions[static_cast<std::size_t>(index) % kDistributions.size()];
    if (auto problem = oracle_.trial(variant_, index, distribution, seeds, ready.setup)) return problem;
    auto found = tolerances(ready.setup);
    if (auto* cliff = std::get_if<Conclusion>(&found)) {
      ready.cliff = std::move(*cliff);
      return std::nullopt;
    }
    ready.bounds = std::move(std::get<std::vector<Tolerance>>(found));
    // Small outputs of unusual inputs: a formula that is good at the task's own scale is good to a part in a million
    // of it.
    if (index == 0) plain_ = ready.setup.leaves;
    for (std::size_t leaf = 0; leaf < ready.bounds.size() && leaf < plain_.size(); ++leaf) {
      if (plain_[leaf].floating && plain_[leaf].dtype != "float64")
        ready.bounds[leaf].absolute = std::max(ready.bounds[leaf].absolute, kFormulaFloor * plain_[leaf].rms);
    }
    if (!judge_stand_ins_) return std::nullopt;
    ++judged_;
    for (std::size_t lazy = 0; lazy < kStandIns.size(); ++lazy) {
      if (index > 0 && passes_[lazy] < judged_ - 1) continue;
      Comparison comparison;
      if (auto problem = oracle_.compare_stand_in(index, ready.bounds, kStandIns[lazy], comparison)) return problem;
      applies_[lazy] = applies_[lazy] || comparison.applies;
      if (comparison.applies && matches(comparison)) ++passes_[lazy];
    }
    return std::nullopt;
  };
  ready.problem = work();
  ready.seconds = seconds_since(start);
  return ready;
}

std::optional<Conclusion> TrialFeed::degenerate() const {
  std::optional<Conclusion> found;
  for (std::size_t lazy = 0; lazy < kStandIns.size(); ++lazy) {
    if (judged_ > 0 && applies_[lazy] && passes_[lazy] == judged_) found = degenerate_by(kStandIns[lazy]);
  }
  return found;
}

std::optional<Conclusion> Judgement::init(const std::string& variant, ModelSetup& setup) {
  const std::uint64_t seed = seeds_.next();
  if (auto problem = oracle().init(variant, seed, seeds_.next(), setup)) return from(*problem);
  return std::nullopt;
}

/// An interpreter process with the answer loaded and constructed.
std::variant<CandidateClient, Conclusion> Judgement::prepare(const ModelSetup& setup) {
  CandidateClient candidate(server_, execution::JobMode::kInterpret, spec_);
  note_sandbox(candidate.sandbox());
  if (options_.require_sandbox && !candidate.sandbox().complete())
    return Conclusion{Reason::kSandboxMissing, "an answer is not kept from: " + joined(candidate.sandbox().open)};
  const auto deadline = after(options_.budgets.load);
  auto loaded = candidate.load(deadline);
  if (auto* failure = std::get_if<CandidateFailure>(&loaded)) return from(*failure);
  auto constructed = candidate.construct(setup, deadline);
  if (auto* failure = std::get_if<CandidateFailure>(&constructed)) return from(*failure);
  const auto& weights = std::get<Constructed>(constructed);
  unmatched_ = weights.unmatched;
  unmatched_.insert(unmatched_.end(), weights.unmatched_constant.begin(), weights.unmatched_constant.end());
  return candidate;
}

std::optional<Conclusion> Judgement::run_trials(const std::string& variant, int count, bool judge_task) {
  ModelSetup setup;
  failure_.reset();
  {
    StageClock clock(verdict_, "oracle");
    if (auto ended = init(variant, setup)) return ended;
  }
  const bool judge_stand_ins = judge_task && !session_.degenerate.contains(variant);
  TrialFeed feed(oracle(), variant, judge_stand_ins);
  feed.prepare(0, draw());
  std::optional<CandidateClient> candidate;
  {
    StageClock clock(verdict_, "load");
    auto prepared = prepare(setup);
    if (auto* conclusion = std::get_if<Conclusion>(&prepared)) {
      if (is_final(*conclusion)) return *conclusion;
      failure_ = *conclusion;
      return std::nullopt;
    }
    candidate.emplace(std::move(std::get<CandidateClient>(prepared)));
  }
  const auto deadline = after(options_.budgets.run);
  count = std::clamp(count, 1, kMaxTrials);
  for (int index = 0; index < count; ++index) {
    if (!feed.pending()) feed.prepare(index, draw());
    ReadyTrial ready = feed.take();
    verdict_.cost["oracle"] += ready.seconds;
    if (ready.problem) return from(*ready.problem);
    if (ready.cliff) {
      if (ready.setup.inputs == "plain") return ready.cliff;
      continue;  // An unusual input drove the reference to a cliff; the task itself is sound.
    }
    // The first trial refuses most of what is wrong: nothing is made ready ahead before it has passed.
    if (index > 0 && index + 1 < count) feed.prepare(index + 1, draw());
    if (auto ended = run_trial(*candidate, variant, index, ready, deadline, count)) return ended;
    if (failure_) break;
    if (judge_task) {
      if (auto ended = begin_compiling()) return ended;
    }
  }
  if (judge_stand_ins && !failure_) {
    if (feed.pending()) feed.take();
    session_.degenerate[variant] = feed.degenerate();
  }
  if (const auto known = session_.degenerate.find(variant); known != session_.degenerate.end() && known->second)
    return known->second;
  return std::nullopt;
}

std::optional<Conclusion> Judgement::run_trial(CandidateClient& candidate, const std::string& variant, int index,
                                               const ReadyTrial& ready, Clock::time_point deadline, int& count) {
  Trial trial;
  trial.inputs = ready.setup.shapes;
  trial.scaled = variant != "original";
  trial.seed = ready.seeds.inputs;
  const std::string name = "trial " + std::to_string(verdict_.trials.size() + 1);
  const RunHow how = how_to_run(variant, index, count);
  std::optional<RunResult> result;
  {
    StageClock clock(verdict_, "run");
    auto ran = candidate.run(ready.setup.arguments, how, ready.seeds.run, deadline);
    if (auto* failure = std::get_if<CandidateFailure>(&ran)) {
      Conclusion conclusion = from(*failure);
      conclusion.message = name + ", " + conclusion.message;
      trial.failure = conclusion.message;
      verdict_.trials.push_back(std::move(trial));
      if (is_final(conclusion)) return conclusion;
      if (auto blamed = blame_how(candidate, ready, index, how, {}, deadline)) return blamed;
      failure_ = std::move(conclusion);
      return std::nullopt;
    }
    result.emplace(std::move(std::get<RunResult>(ran)));
  }
  count = std::clamp(std::max(count, result->configs), 1, kMaxTrials);
  trial.autotune_config = result->config;
  Comparison comparison;
  {
    StageClock clock(verdict_, "compare");
    if (auto problem =
            oracle().compare(index, ready.bounds, result->outputs, result->inputs_after, result->memory, comparison))
      return from(*problem);
  }
  compare(*result, ready, comparison, trial);
  if (!matches(comparison)) {
    StageClock clock(verdict_, "run");
    if (auto blamed = blame_how(candidate, ready, index, how, result->launches, deadline)) {
      trial.failure = blamed->message;
      verdict_.trials.push_back(std::move(trial));
      note_authorship(*result);
      return blamed;
    }
  }
  verdict_.trials.push_back(std::move(trial));
  note_authorship(*result);
  return std::nullopt;
}

/// Takes over the largest error, and what is wrong with the outputs.
void Judgement::compare(const RunResult& result, const ReadyTrial& ready, const Comparison& comparison, Trial& trial) {
  for (std::size_t leaf = 0; leaf < comparison.leaves.size(); ++leaf) {
    if (leaf == 0 || comparison.leaves[leaf].max_abs > trial.max_abs_error) {
      trial.max_abs_error = comparison.leaves[leaf].max_abs;
      trial.max_rel_error = comparison.leaves[leaf].max_rel;
      trial.tolerance = ready.bounds[leaf].absolute;
      trial.relative_tolerance = ready.bounds[leaf].relative;
    }
  }
  const std::string name =
      "trial " + std::to_string(verdict_.trials.size() + 1) + " (" + ready.setup.inputs + " inputs)";
  if (!matches(comparison)) {
    failure_ = explain(comparison);
    trial.failure = failure_->message;
    failure_->message = name + ": " + failure_->message;
    return;
  }
  for (const int input : result.aliases) {
    if (std::find(ready.setup.aliases.begin(), ready.setup.aliases.end(), input) != ready.setup.aliases.end()) continue;
    failure_ =
        Conclusion{Reason::kInputAliased, name + ": an output shares memory with input " + std::to_string(input)};
    trial.failure = "an output shares memory with an input";
    return;
  }
  trial.pass = true;
}

void Judgement::note_authorship(const RunResult& result) {
  if (!result.in_order.empty())
    note_once("Programs wait for others, so run in their order only: " + joined(result.in_order) + ".");
  for (const Launch& launch : result.launches) {
    const bool known = std::any_of(verdict_.launches.begin(), verdict_.launches.end(),
                                   [&](const Launch& other) { return other.kernel == launch.kernel; });
    if (!known) verdict_.launches.push_back(launch);
  }
  Authorship& proofs = verdict_.authorship;
  if (proofs.torch_knockout.empty()) proofs.torch_knockout = "only glue ran";
  if (proofs.storage_ledger.empty()) proofs.storage_ledger = "every buffer accounted for";
  for (const std::string& name : result.torch_ops) {
    if (std::find(proofs.torch_ops.begin(), proofs.torch_ops.end(), name) == proofs.torch_ops.end())
      proofs.torch_ops.push_back(name);
  }
  if (options_.torch_compute == TorchCompute::kReport) {
    proofs.torch_share = std::max(proofs.torch_share.value_or(0), result.torch_share);
    if (!result.torch_ops.empty()) proofs.torch_knockout = "torch computed too, which is only reported here";
  }
  const std::string trial = "trial " + std::to_string(verdict_.trials.size());
  for (const Violation& violation : result.violations) {
    const std::optional<Reason> reason = violation_reason(violation.reason);
    if (!reason) continue;
    std::string& proof = *reason == Reason::kTorchKnockout ? proofs.torch_knockout : proofs.storage_ledger;
    if (proof == "only glue ran" || proof == "every buffer accounted for") proof = violation.message;
    if (!authorship_failure_) authorship_failure_ = Conclusion{*reason, trial + ": " + violation.message};
  }
  if (!only_copied_ || result.copied.empty()) only_copied_ = result.copied;
  if (result.launches.empty() && !authorship_failure_)
    authorship_failure_ = Conclusion{Reason::kNoLaunch, trial + " ended without a launch"};
}

}  // namespace autotriton::verify
