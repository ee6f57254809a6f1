#include "verify/verdict.h"

#include "verify/record_json.h"

namespace autotriton::verify {
namespace {

Json number_or_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json to_record(const Trial& trial) {
  Json inputs = Json::array();
  for (const TrialInput& input : trial.inputs) {
    inputs.push_back({{"shape", input.shape}, {"dtype", input.dtype}, {"distribution", input.distribution}});
  }
  return {{"inputs", inputs},
          {"scaled", trial.scaled},
          {"autotune_config", trial.autotune_config.empty() ? Json(nullptr) : Json(trial.autotune_config)},
          {"max_abs_error", number_or_text(trial.max_abs_error)},
          {"max_rel_error", number_or_text(trial.max_rel_error)},
          {"tolerance", {{"absolute", trial.tolerance}, {"relative", trial.relative_tolerance}}},
          {"pass", trial.pass},
          {"failure", trial.failure.empty() ? Json(nullptr) : Json(trial.failure)},
          {"seed", std::to_string(trial.seed)}};
}

Json to_record(const Launch& launch) {
  Json record = {{"kernel", launch.kernel}, {"count", launch.count}, {"grid", launch.grid}, {"compiled", nullptr}};
  if (launch.compiled) {
    record["compiled"] = {{"target", launch.compiled->target},
                          {"shared_bytes", launch.compiled->shared_bytes},
                          {"registers", launch.compiled->registers},
                          {"spills", launch.compiled->spills}};
  }
  return record;
}

Json to_record(const tasks::ReplyForm& form) {
  return {{"reasoning", tasks::reasoning_name(form.reasoning)},
          {"fenced_blocks", form.fenced_blocks},
          {"fences_closed", form.fences_closed}};
}

Json to_record(const Timing& timing) {
  return {
      {"candidate_ms", timing.candidate_ms},
      {"eager_ms", timing.eager_ms},
      {"compile_ms", timing.compile_ms ? Json(*timing.compile_ms) : Json(nullptr)},
      {"speedup", number_or_text(timing.speedup())},
      {"interval", timing.interval ? Json::array({timing.interval->first, timing.interval->second}) : Json(nullptr)}};
}

/// Ends a sentence: the first letter stays, a full stop is added where none is.
std::string sentence(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (!text.empty() && text.back() != '.' && text.back() != '!' && text.back() != '?') text += '.';
  return text;
}

}  // namespace

std::string_view grade_name(Grade grade) {
  return grade == Grade::kStatic ? "static" : grade == Grade::kCpu ? "cpu" : "gpu";
}

void Verdict::conclude(Reason why, std::string text) {
  const ReasonInfo& entry = info(why);
  reason = why;
  reason_id = entry.id;
  outcome = entry.outcome;
  stage = entry.stage;
  message = sentence(std::move(text));
  if (!entry.remedy.empty()) message += " To mend it: " + std::string(entry.remedy);
  reward = outcome == Outcome::kAccept   ? std::optional(1.0)
           : outcome == Outcome::kReject ? std::optional(0.0)
                                         : std::nullopt;
}

void Verdict::conclude_by_rule(std::string rule, std::string text) {
  conclude(Reason::kRule, "");
  reason_id = std::move(rule);
  message = sentence(std::move(text));
  is_triton = false;
}

std::string to_json(const Verdict& verdict) {
  Json findings = Json::array();
  for (const Finding& finding : verdict.findings) {
    findings.push_back({{"rule", finding.rule},
                        {"level", finding.level},
                        {"line", finding.line},
                        {"column", finding.column},
                        {"message", finding.message}});
  }
  Json trials = Json::array();
  for (const Trial& trial : verdict.trials) trials.push_back(to_record(trial));
  Json launches = Json::array();
  for (const Launch& launch : verdict.launches) launches.push_back(to_record(launch));
  const Authorship& proofs = verdict.authorship;
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  const nlohmann::ordered_json record = {
      {"schema", "autotriton.verdict/1"},
      {"id", verdict.id},
      {"task_id", verdict.task_id},
      {"candidate_sha256", verdict.candidate_sha256},
      {"verdict", outcome_name(verdict.outcome)},
      {"reason", verdict.reason_id},
      {"stage", stage_name(verdict.stage)},
      {"message", verdict.message},
      {"grade", grade_name(verdict.grade)},
      {"reward", verdict.reward ? Json(*verdict.reward) : Json(nullptr)},
      {"reward_terms", verdict.reward_terms},
      {"is_triton", verdict.is_triton},
      {"tests_pass", verdict.tests_pass},
      {"findings", findings},
      {"trials", trials},
      {"launches", launches},
      {"authorship",
       {{"kernel_knockout", text_or_null(proofs.kernel_knockout)},
        {"torch_knockout", text_or_null(proofs.torch_knockout)},
        {"storage_ledger", text_or_null(proofs.storage_ledger)},
        {"torch_ops", proofs.torch_ops},
        {"torch_share", proofs.torch_share ? Json(*proofs.torch_share) : Json(nullptr)}}},
      {"form", verdict.form ? to_record(*verdict.form) : Json(nullptr)},
      {"sandbox", {{"obtained", verdict.sandbox.obtained}, {"missing", verdict.sandbox.missing}}},
      {"timing", verdict.timing ? to_record(*verdict.timing) : Json(nullptr)},
      {"cost", verdict.cost},
      {"environment", verdict.environment},
      {"notes", verdict.notes}};
  return record.dump(-1, ' ', false, Json::error_handler_t::replace);
}

int exit_code(const Verdict& verdict) {
  switch (verdict.outcome) {
    case Outcome::kAccept:
      return 0;
    case Outcome::kReject:
      return 1;
    case Outcome::kInconclusive:
      return 3;
    case Outcome::kError:
      break;
  }
  return info(verdict.reason).fault == Fault::kInput ? 2 : 4;
}

}  // namespace autotriton::verify
