#include "base/sha256.h"
#include "rules/glue.h"
#include "rules/rules.h"
#include "syntax/syntax.h"
#include "tasks/answer.h"
#include "verify/judgement.h"

namespace autotriton::verify {
namespace {

Reason reason_for(const syntax::ParseFailure& failure) {
  switch (failure.kind) {
    case syntax::ParseFailure::Kind::kNotText:
      return Reason::kNotText;
    case syntax::ParseFailure::Kind::kTooLarge:
    case syntax::ParseFailure::Kind::kTooDeep:
    case syntax::ParseFailure::Kind::kTooSlow:
      return Reason::kTooLarge;
    case syntax::ParseFailure::Kind::kSyntax:
      break;
  }
  return Reason::kSyntaxError;
}

}  // namespace

std::string line_text(int line, const std::vector<std::size_t>& answer_lines) {
  std::string text = "line " + std::to_string(line);
  const auto index = static_cast<std::size_t>(line) - 1;
  if (line > 0 && index < answer_lines.size())
    text += " (line " + std::to_string(answer_lines[index]) + " of the reply)";
  return text;
}

StaticResult judge_source(const VerifyRequest& request, const VerifyOptions& options, Verdict& verdict) {
  const auto start = Clock::now();
  const tasks::Task& task = *request.task;
  const std::string entry = tasks::answer_entry_point(task);
  if (request.raw_answer) verdict.form = tasks::form_of(request.text);
  const tasks::Extraction extraction =
      request.raw_answer ? tasks::extract_code(request.text, entry) : tasks::take_candidate(request.text);
  if (const auto* failure = std::get_if<tasks::ExtractionFailure>(&extraction)) {
    verdict.candidate_sha256 = sha256_hex(request.text);
    verdict.conclude(reason_from_id(tasks::problem_id(failure->problem)).value_or(Reason::kNoCode), failure->message);
    verdict.cost["extract"] = seconds_since(start);
    return {};
  }
  const auto& extracted = std::get<tasks::ExtractedCode>(extraction);
  verdict.candidate_sha256 = sha256_hex(extracted.code);
  verdict.notes = extracted.notes;
  const std::vector<std::size_t> answer_lines =
      request.raw_answer ? extracted.answer_lines : std::vector<std::size_t>{};
  auto parsed = syntax::parse(extracted.code);
  if (const auto* failure = std::get_if<syntax::ParseFailure>(&parsed)) {
    verdict.conclude(reason_for(*failure), line_text(failure->line, answer_lines) + ", column " +
                                               std::to_string(failure->column) + ": " + failure->message);
    verdict.cost["extract"] = seconds_since(start);
    return {};
  }
  verdict.cost["extract"] = seconds_since(start);
  if (options.skip_rules) {
    verdict.notes.emplace_back("The rules were skipped: whatever comes out, this is no verdict to train on.");
    return {.passed = true, .code = extracted.code, .answer_lines = answer_lines};
  }
  const auto rules_start = Clock::now();
  const bool module = task.kind == tasks::TaskKind::kModule;
  const rules::Report report = rules::check(
      std::get<syntax::Module>(parsed), {module ? rules::EntryKind::kModule : rules::EntryKind::kFunction, entry},
      rules::Glue::embedded(), {.report_torch_compute = options.torch_compute == TorchCompute::kReport});
  for (const rules::Finding& finding : report.findings) {
    verdict.findings.push_back(
        {finding.rule, std::string(rules::level_name(finding.level)), finding.line, finding.column, finding.message});
  }
  verdict.cost["rules"] = seconds_since(rules_start);
  if (!report.entry_found) {
    verdict.conclude(Reason::kEntryMissing, "the code defines no `" + entry + "` at its top level");
    return {};
  }
  for (const rules::Finding& finding : report.findings) {
    if (finding.level != rules::Level::kReject) continue;
    verdict.conclude_by_rule(finding.rule, line_text(finding.line, answer_lines) + ": " + finding.message);
    return {};
  }
  verdict.is_triton = true;
  return {.passed = true, .code = extracted.code, .answer_lines = answer_lines};
}

}  // namespace autotriton::verify
