#include "verify/record_json.h"
#include "verify/verdict.h"

namespace autotriton::verify {
namespace {

template <typename Enum, typename Name>
Enum one_of(const Json& record, const char* field, std::initializer_list<Enum> values, Name name) {
  const std::string spelled = text(record, field);
  for (const Enum value : values) {
    if (name(value) == spelled) return value;
  }
  throw MalformedRecord{field};
}

std::string text_or_empty(const Json& record, const char* field) {
  return member(record, field).is_null() ? std::string() : text(record, field);
}

std::optional<double> number_or_none(const Json& record, const char* field) {
  return member(record, field).is_null() ? std::nullopt : std::optional(number(record, field));
}

/// A list, a map … of what the JSON library reads by itself; it throws where the form is another.
template <typename T>
T plain(const Json& record, const char* field) {
  return member(record, field).get<T>();
}

Finding read_finding(const Json& record) {
  return {.rule = text(record, "rule"),
          .level = text(record, "level"),
          .line = plain<int>(record, "line"),
          .column = plain<int>(record, "column"),
          .message = text(record, "message")};
}

Trial read_trial(const Json& record) {
  Trial trial;
  for (const Json& input : list(record, "inputs")) {
    trial.inputs.push_back({.shape = plain<std::vector<std::int64_t>>(input, "shape"),
                            .dtype = text(input, "dtype"),
                            .distribution = text(input, "distribution")});
  }
  trial.scaled = boolean(record, "scaled");
  trial.autotune_config = text_or_empty(record, "autotune_config");
  trial.max_abs_error = number(record, "max_abs_error");
  trial.max_rel_error = number(record, "max_rel_error");
  trial.tolerance = number(member(record, "tolerance"), "absolute");
  trial.relative_tolerance = number(member(record, "tolerance"), "relative");
  trial.pass = boolean(record, "pass");
  trial.failure = text_or_empty(record, "failure");
  trial.seed = std::stoull(text(record, "seed"));
  return trial;
}

Launch read_launch(const Json& record) {
  Launch launch{.kernel = text(record, "kernel"),
                .count = plain<int>(record, "count"),
                .grid = plain<std::vector<std::int64_t>>(record, "grid"),
                .compiled = {}};
  if (const Json& compiled = member(record, "compiled"); !compiled.is_null()) {
    launch.compiled = CompiledKernel{.target = text(compiled, "target"),
                                     .shared_bytes = plain<int>(compiled, "shared_bytes"),
                                     .registers = plain<int>(compiled, "registers"),
                                     .spills = plain<int>(compiled, "spills")};
  }
  return launch;
}

Timing read_timing(const Json& record) {
  Timing timing{.candidate_ms = number(record, "candidate_ms"),
                .eager_ms = number(record, "eager_ms"),
                .compile_ms = number_or_none(record, "compile_ms"),
                .interval = {}};
  if (const Json& interval = member(record, "interval"); !interval.is_null())
    timing.interval = {interval.at(0).get<double>(), interval.at(1).get<double>()};
  return timing;
}

tasks::ReplyForm read_form(const Json& record) {
  using Reasoning = tasks::ReplyForm::Reasoning;
  return {.reasoning = one_of(record, "reasoning", {Reasoning::kNone, Reasoning::kClosed, Reasoning::kOpen},
                              tasks::reasoning_name),
          .fenced_blocks = plain<std::size_t>(record, "fenced_blocks"),
          .fences_closed = boolean(record, "fences_closed")};
}

Verdict read(const Json& record) {
  if (text(record, "schema") != "autotriton.verdict/1") throw MalformedRecord{"schema"};
  Verdict verdict;
  verdict.id = text(record, "id");
  verdict.task_id = text(record, "task_id");
  verdict.candidate_sha256 = text(record, "candidate_sha256");
  verdict.reason_id = text(record, "reason");
  verdict.reason = reason_from_id(verdict.reason_id).value_or(Reason::kRule);
  verdict.outcome = one_of(record, "verdict",
                           {Outcome::kAccept, Outcome::kReject, Outcome::kInconclusive, Outcome::kError}, outcome_name);
  verdict.stage = one_of(record, "stage",
                         {Stage::kExtract, Stage::kRules, Stage::kLoad, Stage::kRun, Stage::kCompare, Stage::kCompile,
                          Stage::kAuthorship, Stage::kTiming},
                         stage_name);
  // What does not agree with the table of reasons was not written by us.
  if (verdict.outcome != info(verdict.reason).outcome) throw MalformedRecord{"verdict"};
  verdict.message = text(record, "message");
  verdict.grade = one_of(record, "grade", {Grade::kStatic, Grade::kCpu, Grade::kGpu}, grade_name);
  verdict.reward = number_or_none(record, "reward");
  verdict.reward_terms = plain<std::map<std::string, double>>(record, "reward_terms");
  verdict.is_triton = boolean(record, "is_triton");
  verdict.tests_pass = boolean(record, "tests_pass");
  for (const Json& finding : list(record, "findings")) verdict.findings.push_back(read_finding(finding));
  for (const Json& trial : list(record, "trials")) verdict.trials.push_back(read_trial(trial));
  for (const Json& launch : list(record, "launches")) verdict.launches.push_back(read_launch(launch));
  const Json& authorship = member(record, "authorship");
  verdict.authorship = {.kernel_knockout = text_or_empty(authorship, "kernel_knockout"),
                        .torch_knockout = text_or_empty(authorship, "torch_knockout"),
                        .storage_ledger = text_or_empty(authorship, "storage_ledger"),
                        .torch_ops = plain<std::vector<std::string>>(authorship, "torch_ops"),
                        .torch_share = number_or_none(authorship, "torch_share")};
  if (const Json& form = member(record, "form"); !form.is_null()) verdict.form = read_form(form);
  const Json& sandbox = member(record, "sandbox");
  verdict.sandbox = {.obtained = plain<std::vector<std::string>>(sandbox, "obtained"),
                     .missing = plain<std::vector<std::string>>(sandbox, "missing")};
  if (const Json& timing = member(record, "timing"); !timing.is_null()) verdict.timing = read_timing(timing);
  verdict.cost = plain<std::map<std::string, double>>(record, "cost");
  verdict.environment = plain<std::map<std::string, std::string>>(record, "environment");
  verdict.notes = plain<std::vector<std::string>>(record, "notes");
  return verdict;
}

}  // namespace

std::optional<Verdict> verdict_from_json(std::string_view line) {
  try {
    const Json record = Json::parse(line, nullptr, false);
    return record.is_object() ? std::optional(read(record)) : std::nullopt;
  } catch (const MalformedRecord&) {
    return std::nullopt;
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const std::logic_error&) {  // A seed that is no number.
    return std::nullopt;
  }
}

}  // namespace autotriton::verify
