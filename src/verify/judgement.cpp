#include "verify/judgement.h"

#include <algorithm>

#include "base/sha256.h"

namespace autotriton::verify {
namespace {

/// Up to here the original sizes are tried when the scaled ones fail.
constexpr std::int64_t kMaxOriginalElements = 2'000'000;

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
      const std::size_t begin = line == std::string_view::npos ? 0 : line + 1;
      const std::string_view before = source.substr(begin, at - begin);
      if (left && right && before.find('#') == std::string_view::npos) return true;
    }
    return false;
  });
}

/// Conclusions that say of one set of sizes that it cannot be judged, and nothing of the answer.
bool is_about_size(const Conclusion& conclusion) {
  return conclusion.reason == Reason::kInterpreterTimeout || conclusion.reason == Reason::kTaskDegenerate ||
         conclusion.reason == Reason::kTaskTooLarge || conclusion.reason == Reason::kReferenceFailed;
}

}  // namespace

std::string joined(const std::vector<std::string>& names) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t index = 0; index < names.size() && index < most; ++index)
    text += (index == 0 ? "" : ", ") + names[index];
  if (names.size() > most) text += " …";
  return text;
}

std::uint64_t Seeds::next() {
  const std::string digest = sha256_hex(std::to_string(start_) + "/" + std::to_string(drawn_++));
  return std::stoull(digest.substr(0, 15), nullptr, 16);
}

std::optional<OracleProblem> OracleSession::open(execution::ForkServer& server, const VerifyOptions& options,
                                                 const tasks::Task& task) {
  const std::string key =
      sha256_hex(task.reference + '\0' + task.entry_point + '\0' + std::string(tasks::kind_name(task.kind)));
  if (client_ && key == key_) return std::nullopt;
  client_.reset();
  degenerate.clear();
  client_.emplace(server, options.capability, options.budgets.oracle);
  if (auto problem = client_->open(task, options.max_elements, options.shapes)) {
    client_.reset();
    return problem;
  }
  key_ = key;
  return std::nullopt;
}

Judgement::Judgement(execution::ForkServer& server, const VerifyOptions& options, OracleSession& session,
                     const VerifyRequest& request, StaticResult source, std::uint64_t seed, Verdict& verdict)
    : server_(server),
      options_(options),
      session_(session),
      request_(request),
      verdict_(verdict),
      spec_{.source = std::move(source.code),
            .entry = tasks::answer_entry_point(*request.task),
            .module = request.task->kind == tasks::TaskKind::kModule,
            .capability = options.capability},
      answer_lines_(std::move(source.answer_lines)),
      seeds_(seed) {}

TrialSeeds Judgement::draw() {
  const std::uint64_t inputs = seeds_.next();
  return {.inputs = inputs, .run = seeds_.next()};
}

Conclusion Judgement::from(const OracleProblem& problem) {
  interrupted_ = interrupted_ || problem.interrupted;
  return {problem.reason, problem.message};
}

Conclusion Judgement::from(const CandidateFailure& failure) {
  interrupted_ = interrupted_ || failure.interrupted;
  killed_ = killed_ || failure.killed;
  return {failure.reason, at_line(failure)};
}

std::string Judgement::place(int line) const { return line > 0 ? line_text(line, answer_lines_) + ": " : ""; }

void Judgement::note_sandbox(const execution::SandboxReport& report) {
  const auto add = [](std::vector<std::string>& known, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
    }
  };
  for (const execution::SandboxReport& part : {server_.server_sandbox(), report}) {
    add(verdict_.sandbox.obtained, part.obtained);
    add(verdict_.sandbox.missing, part.missing);
  }
}

bool Judgement::original_fits() const {
  return original_ != nullptr && original_->elements > 0 && original_->elements <= options_.max_elements;
}

std::optional<Conclusion> Judgement::choose_main_variant() {
  original_ = oracle().variant("original");
  scaled_ = oracle().variant("scaled");
  if (original_fits()) {
    main_variant_ = "original";
  } else if (scaled_ != nullptr) {
    main_variant_ = "scaled";
  } else if (original_ != nullptr && original_->elements > 0 && original_->elements <= kMaxOriginalElements) {
    main_variant_ = "original";
  } else {
    if (original_ != nullptr && original_->elements <= 0) {
      // Counting failed: say what the reference itself says, at its own sizes.
      ModelSetup setup;
      TrialSetup trial;
      if (auto ended = init("original", setup)) return ended;
      if (auto problem = oracle().trial("original", 0, "plain", draw(), trial)) return from(*problem);
    }
    return Conclusion{Reason::kTaskTooLarge, "the task has " +
                                                 std::to_string(original_ != nullptr ? original_->elements : 0) +
                                                 " elements and no smaller sizes work"};
  }
  return std::nullopt;
}

Conclusion Judgement::judge() {
  {
    StageClock clock(verdict_, "oracle");
    if (auto problem = session_.open(server_, options_, *request_.task)) return from(*problem);
    if (options_.require_sandbox) note_sandbox(oracle().sandbox());
    if (auto ended = choose_main_variant()) return *ended;
  }
  verdict_.grade = Grade::kCpu;
  if (auto ended = run_trials(main_variant_, options_.trials, true)) return *ended;
  if (failure_) return judge_failure();
  verdict_.tests_pass = true;
  if (verdict_.launches.empty())
    return authorship_failure_.value_or(Conclusion{Reason::kNoLaunch, "no trial had a launch"});
  if (authorship_failure_) return *authorship_failure_;
  if (auto ended = judge_other_sizes()) return *ended;
  if (!unmatched_.empty()) verdict_.notes.push_back("Parameters without a counterpart: " + joined(unmatched_) + ".");
  if (authorship_failure_) return *authorship_failure_;
  // One run could be by chance, as where an activation leaves all values as they are.
  if (only_copied_ && !only_copied_->empty() && options_.torch_compute == TorchCompute::kRefuse) {
    verdict_.authorship.torch_knockout = *only_copied_;
    return {Reason::kTorchKnockout, "in every trial, " + *only_copied_};
  }
  if (auto ended = finish_compiling()) return *ended;
  if (auto ended = knock_out()) return *ended;
  return {Reason::kAllEvidence, std::to_string(verdict_.trials.size()) + " trials passed, " +
                                    std::to_string(verdict_.launches.size()) +
                                    (verdict_.launches.size() == 1 ? " kernel compiles" : " kernels compile") +
                                    " for sm_" + std::to_string(options_.capability) + ", and they made the outputs"};
}

std::optional<Conclusion> Judgement::judge_other_sizes() {
  if (main_variant_ == "original" && scaled_ != nullptr && original_fits()) {
    if (auto ended = run_trials("scaled", 2, false)) return ended;
    if (failure_) return judge_failure_at("scaled", 2, "right at the task's own sizes; at other sizes, ");
  }
  if (oracle().variant("odd") != nullptr) {
    if (auto ended = run_trials("odd", 1, false)) {
      if (!is_about_size(*ended)) return ended;
      verdict_.notes.push_back("Not judged at odd sizes: " + ended->message);
    } else if (failure_) {
      return judge_failure_at("odd", 1, "right at scaled sizes like the task's own; at odd ones, ");
    }
  }
  for (const Variant& variant : oracle().variants()) {
    if (!variant.name.starts_with("stretched")) continue;
    if (auto ended = run_trials(variant.name, 1, false)) {
      // Too slow, or beyond the interpreter, at this size alone: the other sizes have been judged.
      if (!is_about_size(*ended)) return ended;
      verdict_.notes.push_back("Not judged at sizes with one long side: " + ended->message);
    } else if (failure_) {
      verdict_.tests_pass = false;
      return unknown_at_original(*failure_);
    }
  }
  return std::nullopt;
}

/// A trial failed at sizes that are not the task's. An answer written for its own sizes fails there each time; one that
/// is right at the second try is wrong by chance.
Conclusion Judgement::judge_failure_at(const std::string& variant, int count, const std::string& before) {
  const Conclusion failure = *failure_;
  if (auto ended = run_trials(variant, count, false)) return *ended;
  if (failure_) return {Reason::kShapeSpecialised, before + failure.message};
  verdict_.tests_pass = false;
  return {failure.reason, "right only now and then: " + failure.message};
}

/// A trial failed: the answer's fault, unless its weights were never matched or it is written for other sizes.
Conclusion Judgement::judge_failure() {
  const Conclusion failure = *failure_;
  if (!unmatched_.empty() && info(failure.reason).stage == Stage::kCompare && failure.reason != Reason::kWrongShape)
    return {Reason::kWeightsUnmatched, "no counterpart for " + joined(unmatched_) + "; " + failure.message};
  if (main_variant_ != "scaled" || scaled_ == nullptr) return failure;
  if (original_ == nullptr || original_->elements <= 0 || original_->elements > kMaxOriginalElements)
    return unknown_at_original(failure);
  if (auto ended = run_trials("original", 1, false))
    return ended->reason == Reason::kInterpreterTimeout ? unknown_at_original(failure) : *ended;
  if (!failure_)
    return {Reason::kShapeSpecialised, "right at the task's own sizes; at scaled ones, " + failure.message};
  return *failure_;
}

Conclusion Judgement::unknown_at_original(const Conclusion& failure) const {
  if (failure.reason == Reason::kOutOfBounds) {
    return {Reason::kShapeSpecialised,
            "without masks the kernels may fit the task's own sizes, which are too large to run here; at scaled "
            "sizes, " +
                failure.message};
  }
  if (scaled_ != nullptr && names_a_size(spec_.source, scaled_->sizes)) {
    return {Reason::kShapeSpecialised,
            "the code names sizes of the task, which is too large to run here; at scaled sizes, " + failure.message};
  }
  return failure;
}

}  // namespace autotriton::verify
