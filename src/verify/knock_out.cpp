#include "base/error.h"
#include "syntax/poison.h"
#include "syntax/syntax.h"
#include "verify/judgement.h"

namespace autotriton::verify {

/// With garbage stored by every kernel the outputs must become wrong.
std::optional<Conclusion> Judgement::knock_out() {
  StageClock clock(verdict_, "authorship");
  auto parsed = syntax::parse(spec_.source);
  check(std::holds_alternative<syntax::Module>(parsed), "a source that passed the rules parses");
  const auto& module = std::get<syntax::Module>(parsed);
  const auto deadline = after(options_.budgets.authorship);
  for (const syntax::Poison poison : {syntax::Poison::kNumber, syntax::Poison::kZero}) {
    const std::string poisoned = syntax::poison_stores(module, poison);
    check(poisoned != spec_.source, "a kernel that stores can be poisoned");
    bool survived = false;
    if (auto ended = survives(poisoned, deadline, survived)) return ended;
    if (!survived) {
      verdict_.authorship.kernel_knockout = "the outputs became wrong";
      return std::nullopt;
    }
  }
  verdict_.authorship.kernel_knockout = "survived";
  return Conclusion{Reason::kKernelKnockout, "trial " + std::to_string(verdict_.trials.size()) +
                                                 " passed again with every stored value replaced by a constant"};
}

std::optional<Conclusion> Judgement::survives(const std::string& source, Clock::time_point deadline, bool& survived) {
  survived = false;
  // A poisoned answer that fails has changed, which is what was asked; only our own loss counts.
  const auto lost_or_nothing = [this](const CandidateFailure& failure) -> std::optional<Conclusion> {
    killed_ = killed_ || failure.killed;
    if (info(failure.reason).fault == Fault::kOurs) return from(failure);
    return std::nullopt;
  };
  ModelSetup setup;
  if (auto ended = init(main_variant_, setup)) return ended;
  TrialFeed feed(oracle(), main_variant_, false);
  feed.prepare(0, draw());
  CandidateSpec spec = spec_;
  spec.source = source;
  CandidateClient candidate(server_, execution::JobMode::kInterpret, spec);
  auto loaded = candidate.load(deadline);
  if (auto* failure = std::get_if<CandidateFailure>(&loaded)) return lost_or_nothing(*failure);
  auto constructed = candidate.construct(setup, deadline);
  if (auto* failure = std::get_if<CandidateFailure>(&constructed)) return lost_or_nothing(*failure);
  const ReadyTrial trial = feed.take();
  if (trial.problem) return from(*trial.problem);
  if (trial.cliff) return trial.cliff;
  auto ran =
      candidate.run(trial.setup.arguments, RunHow{.report_torch = options_.torch_compute == TorchCompute::kReport},
                    trial.seeds.run, deadline);
  if (auto* failure = std::get_if<CandidateFailure>(&ran)) return lost_or_nothing(*failure);
  const auto& result = std::get<RunResult>(ran);
  Comparison comparison;
  if (auto problem =
          oracle().compare(0, trial.bounds, result.outputs, result.inputs_after, result.memory, comparison)) {
    return from(*problem);
  }
  survived = matches(comparison);
  return std::nullopt;
}

}  // namespace autotriton::verify
