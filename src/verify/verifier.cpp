#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "syntax/poison.h"
#include "syntax/syntax.h"
#include "verify/candidate_client.h"
#include "verify/verify.h"

namespace autotriton::verify {
namespace {

using execution::JobMode;
using Clock = std::chrono::steady_clock;

constexpr std::array<const char*, 7> kDistributions{"plain",     "shifted", "scaled", "heavy-tailed",
                                                    "half-zero", "far",     "tiny"};
constexpr std::array<const char*, 5> kStandIns{"zeros", "mean", "input", "other-inputs", "other-weights"};
constexpr int kMaxTrials = 64;
constexpr double kFormulaFloor = 1e-6;
constexpr std::int64_t kMaxOriginalElements =
    2'000'000;  ///< Up to here the original sizes are tried when the scaled ones fail.

/// How an answer's judgement ended early.
struct Conclusion {
  Reason reason;
  std::string message;
};

/// Seeds drawn from a secret or given start by hashing, so that one that an answer sees tells nothing of the others.
class Seeds {
 public:
  explicit Seeds(std::uint64_t start) : start_(start) {}
  std::uint64_t start() const { return start_; }
  /// 60 bits, so that every reader takes it as a signed number.
  std::uint64_t next() {
    const std::string digest = sha256_hex(std::to_string(start_) + "/" + std::to_string(drawn_++));
    return std::stoull(digest.substr(0, 15), nullptr, 16);
  }

 private:
  std::uint64_t start_;
  std::uint64_t drawn_ = 0;
};

std::uint64_t secret_seed() {
  std::uint64_t seed = 0;
  check(::getrandom(&seed, sizeof seed, 0) == static_cast<ssize_t>(sizeof seed), "the system gives random bytes");
  return seed >> 2;
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// Adds the time of a scope to a stage's cost.
class StageClock {
 public:
  StageClock(Verdict& verdict, const char* stage) : verdict_(verdict), stage_(stage), start_(Clock::now()) {}
  StageClock(const StageClock&) = delete;
  StageClock& operator=(const StageClock&) = delete;
  ~StageClock() { verdict_.cost[stage_] += seconds_since(start_); }

 private:
  Verdict& verdict_;
  const char* stage_;
  Clock::time_point start_;
};

std::string joined(const std::vector<std::string>& names, std::size_t most = 4) {
  std::string text;
  for (std::size_t index = 0; index < names.size() && index < most; ++index)
    text += (index == 0 ? "" : ", ") + names[index];
  if (names.size() > most) text += " …";
  return text;
}

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
  if (reason == Reason::kWrongDevice) return reason;
  if (reason && info(*reason).stage == Stage::kAuthorship && info(*reason).outcome == Outcome::kReject) return reason;
  return std::nullopt;
}

/// Whether `source` names a size that scaling changed: it may be written for the task's own sizes.
bool names_a_size(std::string_view source, const std::vector<std::pair<std::int64_t, std::int64_t>>& sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [&](const auto& change) {
    const std::string digits = std::to_string(change.first);
    // Numbers in comments say nothing of the code.
    for (std::size_t at = source.find(digits); at != std::string_view::npos; at = source.find(digits, at + 1)) {
      const auto is_word = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
      };
      const bool left = at == 0 || !is_word(source[at - 1]);
      const bool right = at + digits.size() >= source.size() || !is_word(source[at + digits.size()]);
      const auto line = source.rfind('\n', at);
      const std::string_view before = source.substr(line == std::string_view::npos ? 0 : line + 1,
                                                    at - (line == std::string_view::npos ? 0 : line + 1));
      if (left && right && before.find('#') == std::string_view::npos) return true;
    }
    return false;
  });
}

}  // namespace

bool Budgets::set(std::string_view stage, double seconds) {
  if (stage == "load")
    load = seconds;
  else if (stage == "run")
    run = seconds;
  else if (stage == "compile")
    compile = seconds;
  else if (stage == "authorship")
    authorship = seconds;
  else if (stage == "oracle")
    oracle = seconds;
  else
    return false;
  return true;
}

std::vector<std::pair<std::string, double>> Budgets::changed() const {
  const Budgets usual;
  std::vector<std::pair<std::string, double>> stages;
  const auto add = [&](const char* name, double value, double before) {
    if (value != before) stages.emplace_back(name, value);
  };
  add("load", load, usual.load);
  add("run", run, usual.run);
  add("compile", compile, usual.compile);
  add("authorship", authorship, usual.authorship);
  add("oracle", oracle, usual.oracle);
  return stages;
}

std::string Budgets::names() { return "load, run, compile, authorship, oracle"; }

struct Verifier::Impl {
  Impl(execution::ForkServer& given, VerifyOptions chosen) : server(given), options(std::move(chosen)) {}

  execution::ForkServer& server;
  VerifyOptions options;

  // The oracle of the last task, kept while the task stays the same.
  std::optional<OracleClient> oracle;
  std::string oracle_task;
  std::map<std::string, std::optional<Conclusion>> degenerate;  ///< By variant: judged once a task.

  // -- one answer ----------------------------------------------------------------------------------------------------

  struct Run {
    const VerifyRequest& request;
    Verdict& verdict;
    CandidateSpec spec;
    Seeds seeds;
    std::string main_variant;
    std::optional<Conclusion> failure;  ///< Of the trials.
    std::vector<std::string> unmatched;
  };

  static TrialSeeds draw(Run& run) {
    const std::uint64_t inputs = run.seeds.next();
    return {.inputs = inputs, .run = run.seeds.next()};
  }

  Conclusion from(const OracleProblem& problem) {
    interrupted = interrupted || problem.interrupted;
    return {problem.reason, problem.message};
  }
  Conclusion from(const CandidateFailure& failure) {
    interrupted = interrupted || failure.interrupted;
    return {failure.reason, at_line(failure)};
  }
  bool interrupted = false;  ///< Ctrl-C came while the answer was judged: whatever is said of it means nothing.
  std::string at_line(const CandidateFailure& failure) const { return place(failure.line) + failure.message; }
  std::string place(int line) const { return line > 0 ? line_text(line, answer_lines) + ": " : ""; }
  std::vector<std::size_t> answer_lines;  ///< Of the answer being judged.

  std::optional<Conclusion> open_oracle(const tasks::Task& task) {
    const std::string key = sha256_hex(task.reference + '\0' + task.entry_point);
    if (oracle && key == oracle_task) return std::nullopt;
    oracle.reset();
    degenerate.clear();
    oracle.emplace(server, options.capability, options.budgets.oracle);
    if (auto problem = oracle->open(task, options.max_elements, options.shapes)) {
      oracle.reset();
      return from(*problem);
    }
    oracle_task = key;
    return std::nullopt;
  }

  void note_sandbox(Verdict& verdict, const execution::SandboxReport& report) {
    for (const execution::SandboxReport& part : {server.server_sandbox(), report}) {
      for (const std::string& name : part.obtained) {
        if (std::find(verdict.sandbox.obtained.begin(), verdict.sandbox.obtained.end(), name) ==
            verdict.sandbox.obtained.end()) {
          verdict.sandbox.obtained.push_back(name);
        }
      }
      for (const std::string& name : part.missing) {
        if (std::find(verdict.sandbox.missing.begin(), verdict.sandbox.missing.end(), name) ==
            verdict.sandbox.missing.end()) {
          verdict.sandbox.missing.push_back(name);
        }
      }
    }
  }

  /// An interpreter process with the answer loaded and constructed at `variant`.
  std::variant<CandidateClient, Conclusion> prepare(Run& run, const std::string& source, ModelSetup& setup,
                                                    double load_seconds) {
    CandidateSpec spec = run.spec;
    spec.source = source;
    CandidateClient candidate(server, JobMode::kInterpret, spec);
    note_sandbox(run.verdict, candidate.sandbox());
    if (options.require_sandbox && !run.verdict.sandbox.missing.empty()) {
      return Conclusion{Reason::kSandboxMissing, "missing: " + joined(run.verdict.sandbox.missing)};
    }
    const auto deadline = after(load_seconds);
    auto loaded = candidate.load(deadline);
    if (auto* failure = std::get_if<CandidateFailure>(&loaded)) return from(*failure);
    auto constructed = candidate.construct(setup, deadline);
    if (auto* failure = std::get_if<CandidateFailure>(&constructed)) return from(*failure);
    const auto& weights = std::get<Constructed>(constructed);
    run.unmatched = weights.unmatched;
    run.unmatched.insert(run.unmatched.end(), weights.unmatched_constant.begin(), weights.unmatched_constant.end());
    return candidate;
  }

  std::optional<Conclusion> init(Run& run, const std::string& variant, ModelSetup& setup) {
    if (auto problem = oracle->init(variant, run.seeds.next(), run.seeds.next(), setup)) return from(*problem);
    return std::nullopt;
  }

  /// Tolerances of a trial's leaves; a cliff makes the task useless.
  static std::variant<std::vector<Tolerance>, Conclusion> tolerances(const TrialSetup& setup) {
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

  /// Runs `count` trials of one variant in one process. A failing trial is in `run.failure`; a Conclusion ends
  /// everything.
  std::optional<Conclusion> run_trials(Run& run, const std::string& variant, const std::string& source, int count,
                                       bool judge_task) {
    ModelSetup setup;
    run.failure.reset();
    {
      StageClock clock(run.verdict, "oracle");
      if (auto ended = init(run, variant, setup)) return ended;
    }
    std::optional<CandidateClient> candidate;
    {
      StageClock clock(run.verdict, "load");
      auto prepared = prepare(run, source, setup, options.budgets.load);
      if (auto* conclusion = std::get_if<Conclusion>(&prepared)) {
        if (is_final(*conclusion)) return *conclusion;
        run.failure = *conclusion;
        return std::nullopt;
      }
      candidate.emplace(std::move(std::get<CandidateClient>(prepared)));
    }
    const auto deadline = after(options.budgets.run);
    bool all_stand_ins_judged = !judge_task || degenerate.contains(variant);
    std::array<int, kStandIns.size()> passes{};
    std::array<bool, kStandIns.size()> applies{};
    int judged = 0;
    std::vector<LeafStatistics> plain;
    for (int index = 0; index < count; ++index) {
      TrialSetup trial;
      const TrialSeeds seeds = draw(run);
      std::vector<Tolerance> bounds;
      {
        StageClock clock(run.verdict, "oracle");
        const char* distribution = kDistributions[static_cast<std::size_t>(index) % kDistributions.size()];
        if (auto problem = oracle->trial(variant, index, distribution, seeds, trial)) return from(*problem);
        auto found = tolerances(trial);
        if (auto* conclusion = std::get_if<Conclusion>(&found)) {
          if (trial.inputs == "plain") return *conclusion;
          continue;  // An unusual input drove the reference to a cliff; the task itself is sound.
        }
        bounds = std::move(std::get<std::vector<Tolerance>>(found));
        // Small outputs of unusual inputs: a formula that is good at the task's own scale is good to a part in a
        // million of it.
        if (index == 0) plain = trial.leaves;
        for (std::size_t leaf = 0; leaf < bounds.size() && leaf < plain.size(); ++leaf) {
          if (plain[leaf].floating && plain[leaf].dtype != "float64") {
            bounds[leaf].absolute = std::max(bounds[leaf].absolute, kFormulaFloor * plain[leaf].rms);
          }
        }
        if (!all_stand_ins_judged) {
          ++judged;
          for (std::size_t lazy = 0; lazy < kStandIns.size(); ++lazy) {
            if (index > 0 && passes[lazy] < judged - 1) continue;
            Comparison comparison;
            if (auto problem = oracle->compare_stand_in(index, bounds, kStandIns[lazy], comparison))
              return from(*problem);
            applies[lazy] = applies[lazy] || comparison.applies;
            if (comparison.applies && matches(comparison)) ++passes[lazy];
          }
        }
      }
      if (auto ended = run_trial(run, *candidate, variant, index, trial, bounds, seeds, deadline, count)) return ended;
      if (run.failure) break;
    }
    if (!all_stand_ins_judged && !run.failure) {
      degenerate[variant] = std::nullopt;
      for (std::size_t lazy = 0; lazy < kStandIns.size(); ++lazy) {
        if (judged > 0 && applies[lazy] && passes[lazy] == judged)
          degenerate[variant] = degenerate_conclusion(kStandIns[lazy]);
      }
    }
    if (const auto known = degenerate.find(variant); known != degenerate.end() && known->second) return known->second;
    return std::nullopt;
  }

  static Conclusion degenerate_conclusion(std::string_view stand_in) {
    std::string what = "an answer of zeros passes every trial";
    if (stand_in == "mean") what = "a constant passes every trial";
    if (stand_in == "input") what = "returning the first input passes every trial";
    if (stand_in == "other-inputs") what = "the output does not depend on the inputs";
    if (stand_in == "other-weights") what = "the output does not depend on the weights";
    return {Reason::kTaskDegenerate, what};
  }

  /// Reasons that no further trial could change.
  static bool is_final(const Conclusion& conclusion) {
    const ReasonInfo& entry = info(conclusion.reason);
    return entry.outcome != Outcome::kReject || conclusion.reason == Reason::kProtocolViolation ||
           conclusion.reason == Reason::kExitedEarly || conclusion.reason == Reason::kLoadTimeout ||
           conclusion.reason == Reason::kImportRaised;
  }

  std::optional<Conclusion> run_trial(Run& run, CandidateClient& candidate, const std::string& variant, int index,
                                      const TrialSetup& setup, const std::vector<Tolerance>& bounds,
                                      const TrialSeeds& seeds, Clock::time_point deadline, int& count) {
    Trial trial;
    trial.inputs = setup.shapes;
    trial.scaled = variant != "original";
    trial.seed = seeds.inputs;
    std::optional<RunResult> result;
    {
      StageClock clock(run.verdict, "run");
      auto ran = candidate.run(setup.arguments, index, seeds.run, deadline);
      if (auto* failure = std::get_if<CandidateFailure>(&ran)) {
        Conclusion conclusion = from(*failure);
        conclusion.message = "trial " + std::to_string(run.verdict.trials.size() + 1) + ", " + conclusion.message;
        trial.failure = conclusion.message;
        run.verdict.trials.push_back(std::move(trial));
        if (is_final(conclusion)) return conclusion;
        run.failure = std::move(conclusion);
        return std::nullopt;
      }
      result.emplace(std::move(std::get<RunResult>(ran)));
    }
    count = std::clamp(std::max(count, result->configs), 1, kMaxTrials);
    trial.autotune_config = result->config;
    Comparison comparison;
    {
      StageClock clock(run.verdict, "compare");
      if (auto problem =
              oracle->compare(index, bounds, result->outputs, result->inputs_after, result->memory, comparison)) {
        return from(*problem);
      }
    }
    for (std::size_t leaf = 0; leaf < comparison.leaves.size(); ++leaf) {
      if (leaf == 0 || comparison.leaves[leaf].max_abs > trial.max_abs_error) {
        trial.max_abs_error = comparison.leaves[leaf].max_abs;
        trial.max_rel_error = comparison.leaves[leaf].max_rel;
        trial.tolerance = bounds[leaf].absolute;
        trial.relative_tolerance = bounds[leaf].relative;
      }
    }
    trial.pass = matches(comparison);
    const std::string name =
        "trial " + std::to_string(run.verdict.trials.size() + 1) + " (" + setup.inputs + " inputs)";
    if (!trial.pass) {
      run.failure = explain(comparison);
      trial.failure = run.failure->message;
      run.failure->message = name + ": " + run.failure->message;
    } else {
      for (const int input : result->aliases) {
        if (std::find(setup.aliases.begin(), setup.aliases.end(), input) != setup.aliases.end()) continue;
        run.failure =
            Conclusion{Reason::kInputAliased, name + ": an output shares memory with input " + std::to_string(input)};
        trial.failure = "an output shares memory with an input";
        trial.pass = false;
        break;
      }
    }
    run.verdict.trials.push_back(std::move(trial));
    note_authorship(run, *result);
    return std::nullopt;
  }

  void note_authorship(Run& run, const RunResult& result) {
    for (const Launch& launch : result.launches) {
      auto known = std::find_if(run.verdict.launches.begin(), run.verdict.launches.end(),
                                [&](const Launch& l) { return l.kernel == launch.kernel; });
      if (known == run.verdict.launches.end()) run.verdict.launches.push_back(launch);
    }
    Authorship& proofs = run.verdict.authorship;
    if (proofs.torch_knockout.empty()) proofs.torch_knockout = "only glue ran";
    if (proofs.storage_ledger.empty()) proofs.storage_ledger = "every buffer accounted for";
    for (const std::string& name : result.torch_ops) {
      if (std::find(proofs.torch_ops.begin(), proofs.torch_ops.end(), name) == proofs.torch_ops.end())
        proofs.torch_ops.push_back(name);
    }
    for (const Violation& violation : result.violations) {
      const std::optional<Reason> reason = violation_reason(violation.reason);
      if (!reason) continue;
      std::string& proof = *reason == Reason::kTorchKnockout ? proofs.torch_knockout : proofs.storage_ledger;
      if (proof == "only glue ran" || proof == "every buffer accounted for") proof = violation.message;
      if (!authorship_failure) {
        authorship_failure =
            Conclusion{*reason, "trial " + std::to_string(run.verdict.trials.size()) + ": " + violation.message};
      }
    }
    if (result.launches.empty() && !authorship_failure) {
      authorship_failure = Conclusion{Reason::kNoLaunch,
                                      "trial " + std::to_string(run.verdict.trials.size()) + " ended without a launch"};
    }
  }
  std::optional<Conclusion> authorship_failure;

  // -- stages after the trials
  // -----------------------------------------------------------------------------------------

  std::optional<Conclusion> compile(Run& run) {
    StageClock clock(run.verdict, "compile");
    const auto deadline = after(options.budgets.compile);
    ShapesOnly shapes;
    if (auto problem = oracle->shapes("original", shapes)) return from(*problem);
    std::vector<std::string> compiled;
    std::string stopped;
    bool broken = false;
    if (shapes.known) {
      auto result = compile_once(run, shapes, nullptr, deadline);
      if (auto* failure = std::get_if<CandidateFailure>(&result)) {
        if (failure->reason == Reason::kWorkerLost) return from(*failure);
        stopped = at_line(*failure);
      } else if (auto ended = take_compiled(run, std::get<CompileResult>(result), compiled, stopped, broken)) {
        return ended;
      }
    }
    // What was interpreted must compile too: at other sizes the answer may take other kernels, or other constants.
    if (run.main_variant != "original" && shapes.known) {
      ShapesOnly interpreted;
      if (auto problem = oracle->shapes(run.main_variant, interpreted)) return from(*problem);
      auto result = compile_once(run, interpreted, nullptr, deadline);
      if (auto* failure = std::get_if<CandidateFailure>(&result)) {
        if (failure->reason == Reason::kWorkerLost) return from(*failure);
        stopped = at_line(*failure);
      } else if (auto ended = take_compiled(run, std::get<CompileResult>(result), compiled, stopped, broken)) {
        return ended;
      }
    }
    if (missing_kernel(run, compiled).empty()) return std::nullopt;
    // Some kernel was not reached without memory: once more at the sizes that ran, with real tensors.
    ModelSetup setup;
    if (auto ended = init(run, run.main_variant, setup)) return ended;
    TrialSetup trial;
    if (auto problem = oracle->trial(run.main_variant, 0, "plain", draw(run), trial)) return from(*problem);
    ShapesOnly real{.known = true, .arguments = setup.arguments, .inputs = trial.arguments.json};
    auto result = compile_once(run, real, &setup, deadline);
    if (auto* failure = std::get_if<CandidateFailure>(&result)) {
      if (failure->reason == Reason::kWorkerLost) return from(*failure);
      stopped = at_line(*failure);
      if (failure->reason == Reason::kImportRaised || failure->reason == Reason::kConstructRaised) broken = true;
    } else if (auto ended = take_compiled(run, std::get<CompileResult>(result), compiled, stopped, broken)) {
      return ended;
    }
    const std::string missing = missing_kernel(run, compiled);
    if (missing.empty()) return std::nullopt;
    if (broken)
      return Conclusion{Reason::kCompileFailed,
                        "outside of the interpreter the answer fails before `" + missing + "` is launched: " + stopped};
    return Conclusion{Reason::kCompileUndecided,
                      "`" + missing + "` was not reached" + (stopped.empty() ? "" : ": " + stopped)};
  }

  CandidateClient::Result<CompileResult> compile_once(Run& run, const ShapesOnly& shapes, const ModelSetup* setup,
                                                      Clock::time_point deadline) {
    CandidateClient compiler(server, JobMode::kCompile, run.spec);
    auto loaded = compiler.load(deadline);
    if (auto* failure = std::get_if<CandidateFailure>(&loaded)) return std::move(*failure);
    auto constructed =
        setup != nullptr ? compiler.construct(*setup, deadline) : compiler.construct_shapes(shapes, false, deadline);
    if (auto* failure = std::get_if<CandidateFailure>(&constructed)) return std::move(*failure);
    return compiler.compile(shapes.inputs, setup == nullptr, deadline);
  }

  /// Takes over what compiled; a kernel that does not compile concludes. `broken`: the host code itself is wrong.
  std::optional<Conclusion> take_compiled(Run& run, const CompileResult& result, std::vector<std::string>& compiled,
                                          std::string& stopped, bool& broken) {
    for (const CompiledSpecialisation& kernel : result.kernels) {
      if (!kernel.problem.empty()) {
        const Reason reason = kernel.problem == "target-limits" ? Reason::kTargetLimits : Reason::kCompileFailed;
        return Conclusion{reason,
                          "the launch of `" + kernel.kernel + "` (" + kernel.resources.target + "): " + kernel.message};
      }
      compiled.push_back(kernel.kernel);
      for (Launch& launch : run.verdict.launches) {
        if (launch.kernel == kernel.kernel &&
            (!launch.compiled || launch.compiled->shared_bytes < kernel.resources.shared_bytes)) {
          launch.compiled = kernel.resources;
        }
      }
    }
    if (!result.error.empty()) {
      stopped = place(result.line) + result.error;
      broken = result.exception == "NameError" || result.exception == "ImportError" ||
               result.exception == "ModuleNotFoundError";
    }
    return std::nullopt;
  }

  static std::string missing_kernel(const Run& run, const std::vector<std::string>& compiled) {
    for (const Launch& launch : run.verdict.launches) {
      if (std::find(compiled.begin(), compiled.end(), launch.kernel) == compiled.end()) return launch.kernel;
    }
    return {};
  }

  /// The kernel knock-out: with garbage stored by every kernel the outputs must become wrong.
  std::optional<Conclusion> knock_out(Run& run) {
    StageClock clock(run.verdict, "authorship");
    auto parsed = syntax::parse(run.spec.source);
    check(std::holds_alternative<syntax::Module>(parsed), "a source that passed the rules parses");
    const auto& module = std::get<syntax::Module>(parsed);
    const auto deadline = after(options.budgets.authorship);
    for (const syntax::Poison poison : {syntax::Poison::kNumber, syntax::Poison::kZero}) {
      const std::string poisoned = syntax::poison_stores(module, poison);
      check(poisoned != run.spec.source, "a kernel that stores can be poisoned");
      bool survived = false;
      if (auto ended = survives(run, run.main_variant, poisoned, deadline, survived)) return ended;
      if (!survived) {
        run.verdict.authorship.kernel_knockout = "the outputs became wrong";
        return std::nullopt;
      }
    }
    run.verdict.authorship.kernel_knockout = "survived";
    return Conclusion{Reason::kKernelKnockout, "trial " + std::to_string(run.verdict.trials.size()) +
                                                   " passed again with every stored value replaced by a constant"};
  }

  std::optional<Conclusion> survives(Run& run, const std::string& variant, const std::string& source,
                                     Clock::time_point deadline, bool& survived) {
    survived = false;
    ModelSetup setup;
    if (auto ended = init(run, variant, setup)) return ended;
    CandidateSpec spec = run.spec;
    spec.source = source;
    CandidateClient candidate(server, JobMode::kInterpret, spec);
    auto loaded = candidate.load(deadline);
    if (auto* failure = std::get_if<CandidateFailure>(&loaded)) return lost_or_nothing(*failure);
    auto constructed = candidate.construct(setup, deadline);
    if (auto* failure = std::get_if<CandidateFailure>(&constructed)) return lost_or_nothing(*failure);
    TrialSetup trial;
    const TrialSeeds seeds = draw(run);
    if (auto problem = oracle->trial(variant, 0, "plain", seeds, trial)) return from(*problem);
    auto bounds = tolerances(trial);
    if (auto* conclusion = std::get_if<Conclusion>(&bounds)) return *conclusion;
    auto ran = candidate.run(trial.arguments, 0, seeds.run, deadline);
    if (auto* failure = std::get_if<CandidateFailure>(&ran)) return lost_or_nothing(*failure);
    const auto& result = std::get<RunResult>(ran);
    Comparison comparison;
    if (auto problem = oracle->compare(0, std::get<std::vector<Tolerance>>(bounds), result.outputs, result.inputs_after,
                                       result.memory, comparison)) {
      return from(*problem);
    }
    survived = matches(comparison);
    return std::nullopt;
  }

  /// A poisoned answer that fails has changed, which is what was asked; only our own loss counts.
  std::optional<Conclusion> lost_or_nothing(const CandidateFailure& failure) {
    if (info(failure.reason).fault == Fault::kOurs) return from(failure);
    return std::nullopt;
  }

  // -- the whole -----------------------------------------------------------------------------------------------------

  Conclusion judge(Run& run) {
    authorship_failure.reset();
    {
      StageClock clock(run.verdict, "oracle");
      if (auto ended = open_oracle(*run.request.task)) return *ended;
      if (options.require_sandbox) note_sandbox(run.verdict, oracle->sandbox());
    }
    const Variant* original = oracle->variant("original");
    const Variant* scaled = oracle->variant("scaled");
    const bool original_fits =
        original != nullptr && original->elements > 0 && original->elements <= options.max_elements;
    if (original_fits) {
      run.main_variant = "original";
    } else if (scaled != nullptr) {
      run.main_variant = "scaled";
    } else if (original != nullptr && original->elements > 0 && original->elements <= kMaxOriginalElements) {
      run.main_variant = "original";
    } else {
      if (original != nullptr && original->elements <= 0) {
        // Counting failed: say what the reference itself says, at its own sizes.
        ModelSetup setup;
        TrialSetup trial;
        if (auto ended = init(run, "original", setup)) return *ended;
        if (auto problem = oracle->trial("original", 0, "plain", draw(run), trial)) return from(*problem);
      }
      return {Reason::kTaskTooLarge, "the task has " + std::to_string(original != nullptr ? original->elements : 0) +
                                         " elements and no smaller sizes work"};
    }
    run.verdict.grade = Grade::kCpu;
    if (auto ended =
            run_trials(run, run.main_variant, run.spec.source, std::clamp(options.trials, 1, kMaxTrials), true))
      return *ended;
    if (run.failure) return judge_failure(run, original, scaled);
    run.verdict.tests_pass = true;
    if (run.verdict.launches.empty())
      return authorship_failure.value_or(Conclusion{Reason::kNoLaunch, "no trial had a launch"});
    if (authorship_failure) return *authorship_failure;
    if (run.main_variant == "original" && scaled != nullptr && original_fits) {
      if (auto ended = run_trials(run, "scaled", run.spec.source, 2, false)) return *ended;
      if (run.failure)
        return {Reason::kShapeSpecialised, "right at the task's own sizes; at other sizes, " + run.failure->message};
    }
    if (oracle->variant("odd") != nullptr) {
      if (auto ended = run_trials(run, "odd", run.spec.source, 1, false)) {
        if (!is_about_size(*ended)) return *ended;
        run.verdict.notes.push_back("Not judged at odd sizes: " + ended->message);
      } else if (run.failure) {
        return {Reason::kShapeSpecialised,
                "right at scaled sizes like the task's own; at odd ones, " + run.failure->message};
      }
    }
    for (const Variant& variant : oracle->variants()) {
      if (!variant.name.starts_with("stretched")) continue;
      if (auto ended = run_trials(run, variant.name, run.spec.source, 1, false)) {
        // Too slow, or beyond the interpreter, at this size alone: the other sizes have been judged.
        if (!is_about_size(*ended)) return *ended;
        run.verdict.notes.push_back("Not judged at sizes with one long side: " + ended->message);
        continue;
      }
      if (run.failure) {
        run.verdict.tests_pass = false;
        return unknown_at_original(run, *scaled, *run.failure);
      }
    }
    if (!run.unmatched.empty()) {
      run.verdict.notes.push_back("Parameters without a counterpart: " + joined(run.unmatched) + ".");
    }
    if (authorship_failure) return *authorship_failure;
    if (auto ended = compile(run)) return *ended;
    if (auto ended = knock_out(run)) return *ended;
    return {Reason::kAllEvidence, std::to_string(run.verdict.trials.size()) + " trials passed, " +
                                      std::to_string(run.verdict.launches.size()) +
                                      (run.verdict.launches.size() == 1 ? " kernel compiles" : " kernels compile") +
                                      " for sm_" + std::to_string(options.capability) + ", and they made the outputs"};
  }

  /// Conclusions that say of one set of sizes that it cannot be judged, and nothing of the answer.
  static bool is_about_size(const Conclusion& conclusion) {
    return conclusion.reason == Reason::kInterpreterTimeout || conclusion.reason == Reason::kTaskDegenerate ||
           conclusion.reason == Reason::kTaskTooLarge || conclusion.reason == Reason::kReferenceFailed;
  }

  /// A trial failed: the answer's fault, unless its weights were never matched or it is written for other sizes.
  Conclusion judge_failure(Run& run, const Variant* original, const Variant* scaled) {
    Conclusion failure = *run.failure;
    if (!run.unmatched.empty() && info(failure.reason).stage == Stage::kCompare &&
        failure.reason != Reason::kWrongShape) {
      return {Reason::kWeightsUnmatched, "no counterpart for " + joined(run.unmatched) + "; " + failure.message};
    }
    if (run.main_variant != "scaled" || scaled == nullptr) return failure;
    if (original != nullptr && original->elements > 0 && original->elements <= kMaxOriginalElements) {
      if (auto ended = run_trials(run, "original", run.spec.source, 1, false)) {
        return ended->reason == Reason::kInterpreterTimeout ? unknown_at_original(run, *scaled, failure) : *ended;
      }
      if (!run.failure)
        return {Reason::kShapeSpecialised, "right at the task's own sizes; at scaled ones, " + failure.message};
      return *run.failure;
    }
    return unknown_at_original(run, *scaled, failure);
  }

  static Conclusion unknown_at_original(const Run& run, const Variant& scaled, const Conclusion& failure) {
    if (failure.reason == Reason::kOutOfBounds) {
      return {
          Reason::kShapeSpecialised,
          "without masks the kernels may fit the task's own sizes, which are too large to run here; at scaled sizes, " +
              failure.message};
    }
    if (names_a_size(run.spec.source, scaled.sizes)) {
      return {Reason::kShapeSpecialised,
              "the code names sizes of the task, which is too large to run here; at scaled sizes, " + failure.message};
    }
    return failure;
  }

  Verdict verify_once(const VerifyRequest& request) {
    Verdict verdict;
    verdict.id = request.id;
    verdict.task_id = request.task->task_id;
    verdict.environment["program"] = AUTOTRITON_VERSION;
    if (request.task->kind == tasks::TaskKind::kScript) {
      verdict.candidate_sha256 = sha256_hex(request.text);
      verdict.conclude(Reason::kTaskUnsupported,
                       "script tasks (TritonBench) are judged by their own test code, which this build does not run");
      return verdict;
    }
    StaticResult source = judge_source(request, options, verdict);
    if (!source.passed) return verdict;
    answer_lines = std::move(source.answer_lines);
    server.start();
    verdict.environment["torch"] = server.torch_version();
    verdict.environment["target"] = "sm_" + std::to_string(options.capability);
    Run run{.request = request,
            .verdict = verdict,
            .spec = {.source = std::move(source.code),
                     .entry = tasks::answer_entry_point(*request.task),
                     .module = request.task->kind == tasks::TaskKind::kModule,
                     .capability = options.capability},
            .seeds = Seeds(options.seed ? *options.seed : secret_seed()),
            .main_variant = {},
            .failure = {},
            .unmatched = {}};
    verdict.environment["seed"] = std::to_string(run.seeds.start());
    const Conclusion conclusion = judge(run);
    verdict.conclude(conclusion.reason, conclusion.message);
    if (info(conclusion.reason).stage == Stage::kAuthorship && conclusion.reason != Reason::kAllEvidence)
      verdict.is_triton = false;
    return verdict;
  }

  void keep(const VerifyRequest& request, const Verdict& verdict) const {
    if (options.keep.empty() || verdict.outcome == Outcome::kAccept) return;
    std::string name = verdict.id.empty() ? verdict.task_id : verdict.id;
    for (char& c : name) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.') c = '_';
    }
    if (name.empty() || name.front() == '.') name = "case" + name;
    const std::filesystem::path folder = options.keep / name;
    std::filesystem::create_directories(folder);
    write_file_atomically(folder / "problem.py", request.task->reference);
    write_file_atomically(folder / (request.raw_answer ? "answer.md" : "candidate.py"), request.text);
    write_file_atomically(folder / "verdict.json", to_json(verdict) + "\n");
    const auto seed = verdict.environment.find("seed");
    std::string command = "autotriton verify --problem problem.py " +
                          std::string(request.raw_answer ? "--answer answer.md" : "--candidate candidate.py") +
                          " --trials " + std::to_string(options.trials) + " --target sm_" +
                          std::to_string(options.capability);
    if (request.task->kind == tasks::TaskKind::kFunction) command += " --entry " + request.task->entry_point;
    for (const auto& [stage, seconds] : options.budgets.changed()) {
      command += " --budget " + stage + "=" + std::to_string(seconds);
    }
    if (seed != verdict.environment.end()) command += " --seed " + seed->second;
    if (options.shapes != Shapes::kBoth)
      command += options.shapes == Shapes::kScaled ? " --shapes scaled" : " --shapes original";
    write_file_atomically(
        folder / "replay.sh",
        "#!/bin/sh\n# Judges this case again with the same inputs.\ncd \"$(dirname \"$0\")\" && exec " + command +
            "\n");
  }
};

Verifier::Verifier(execution::ForkServer& server, VerifyOptions options)
    : impl_(std::make_unique<Impl>(server, std::move(options))) {}
Verifier::Verifier(Verifier&&) noexcept = default;
Verifier::~Verifier() = default;

Verdict Verifier::verify(const VerifyRequest& request) {
  Verdict verdict;
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      verdict = impl_->verify_once(request);
    } catch (const Interrupted&) {
      throw;
    } catch (const UserError&) {
      throw;  // Set-up is wrong (no Python, no sandbox): nothing of this answer.
    } catch (const std::exception& error) {
      verdict = Verdict{};
      verdict.id = request.id;
      verdict.task_id = request.task->task_id;
      verdict.conclude(Reason::kInternal, error.what());
    }
    if (verdict.reason != Reason::kWorkerLost && verdict.reason != Reason::kInternal) break;
    impl_->oracle.reset();  // It may be what was lost; the next attempt starts afresh.
    if (impl_->interrupted) break;
  }
  impl_->keep(request, verdict);
  return verdict;
}

}  // namespace autotriton::verify
