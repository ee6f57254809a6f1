#include "verify/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace autotriton::verify {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

Verdict full_verdict() {
  Verdict verdict;
  verdict.id = "a1";
  verdict.task_id = "softmax";
  verdict.candidate_sha256 = "abc";
  verdict.conclude(Reason::kWrongValues, "trial 2 (scaled inputs): output at [1, 2] is 3, expected 4");
  verdict.grade = Grade::kCpu;
  verdict.is_triton = true;
  verdict.findings.push_back(
      {.rule = "device-read", .level = "note", .line = 7, .column = 3, .message = "reads the device"});
  Trial trial;
  trial.inputs.push_back({.shape = {24, 37}, .dtype = "float32", .distribution = "scaled"});
  trial.scaled = true;
  trial.autotune_config = "BLOCK: 64";
  trial.max_abs_error = std::numeric_limits<double>::infinity();
  trial.max_rel_error = std::nan("");
  trial.tolerance = 1e-4;
  trial.relative_tolerance = 2e-4;
  trial.failure = "it differs";
  trial.seed = 4611686018427387903ULL;
  verdict.trials.push_back(trial);
  verdict.launches.push_back(
      {.kernel = "softmax_kernel", .count = 2, .grid = {24, 1, 1}, .compiled = CompiledKernel{"sm_90", 16, 29, 8}});
  verdict.launches.push_back({.kernel = "other", .count = 1, .grid = {1}, .compiled = {}});
  verdict.authorship.kernel_knockout = "the outputs became wrong";
  verdict.authorship.torch_ops = {"relu.default"};
  verdict.sandbox.obtained = {"pid namespace"};
  verdict.sandbox.missing = {"user namespace"};
  verdict.cost["run"] = 0.5;
  verdict.environment["torch"] = "2.11.0";
  verdict.notes = {"a note"};
  return verdict;
}

TEST(VerdictJsonTest, HasExactlyTheFieldsOfTheSchemaInItsOrder) {
  const auto record = nlohmann::ordered_json::parse(to_json(full_verdict()));
  std::vector<std::string> keys;
  for (const auto& [key, value] : record.items()) keys.push_back(key);
  EXPECT_THAT(keys, testing::ElementsAre("schema", "id", "task_id", "candidate_sha256", "verdict", "reason", "stage",
                                         "message", "grade", "reward", "reward_terms", "is_triton", "tests_pass",
                                         "findings", "trials", "launches", "authorship", "form", "sandbox", "timing",
                                         "cost", "environment", "notes"));
  EXPECT_EQ(record["schema"], "autotriton.verdict/1");
}

TEST(VerdictJsonTest, IsReadBackWithoutLoss) {
  Verdict verdict = full_verdict();
  EXPECT_EQ(to_json(verdict_from_json(to_json(verdict)).value()), to_json(verdict));
  verdict.timing = Timing{.candidate_ms = 1.5, .eager_ms = 3, .compile_ms = 2, .interval = {{1.9, 2.1}}};
  verdict.form =
      tasks::ReplyForm{.reasoning = tasks::ReplyForm::Reasoning::kOpen, .fenced_blocks = 2, .fences_closed = false};
  verdict.authorship.torch_share = 0.25;
  verdict.reward_terms["coverage"] = 0.5;
  verdict.conclude_by_rule("torch-compute", "line 3 computes");
  const std::optional<Verdict> read = verdict_from_json(to_json(verdict));
  EXPECT_EQ(to_json(read.value()), to_json(verdict));
  EXPECT_EQ(read->reason, Reason::kRule);
}

TEST(VerdictJsonTest, WhatIsNoVerdictIsNotRead) {
  const std::string whole = to_json(full_verdict());
  for (std::size_t cut = 0; cut < whole.size(); cut += 7) EXPECT_FALSE(verdict_from_json(whole.substr(0, cut)));
  Json record = Json::parse(whole);
  for (const auto& [key, value] : record.items()) {
    Json without = record;
    without.erase(key);
    EXPECT_FALSE(verdict_from_json(without.dump())) << key;
    Json other = record;
    other[key] = value.is_array() ? Json(3) : Json::array({Json::array()});
    EXPECT_FALSE(verdict_from_json(other.dump())) << key;
  }
  record["verdict"] = "accept";  // For wrong values.
  EXPECT_FALSE(verdict_from_json(record.dump()));
}

TEST(VerdictJsonTest, CarriesEveryValue) {
  const Json record = Json::parse(to_json(full_verdict()));
  EXPECT_EQ(record["id"], "a1");
  EXPECT_EQ(record["task_id"], "softmax");
  EXPECT_EQ(record["candidate_sha256"], "abc");
  EXPECT_EQ(record["verdict"], "reject");
  EXPECT_EQ(record["reason"], "wrong-values");
  EXPECT_EQ(record["stage"], "compare");
  EXPECT_EQ(record["grade"], "cpu");
  EXPECT_EQ(record["reward"], 0.0);
  EXPECT_EQ(record["is_triton"], true);
  EXPECT_EQ(record["tests_pass"], false);
  EXPECT_EQ(record["findings"],
            Json::parse(R"([{"rule":"device-read","level":"note","line":7,"column":3,"message":"reads the device"}])"));
  const Json& trial = record["trials"].at(0);
  EXPECT_EQ(trial["inputs"], Json::parse(R"([{"shape":[24,37],"dtype":"float32","distribution":"scaled"}])"));
  EXPECT_EQ(trial["scaled"], true);
  EXPECT_EQ(trial["autotune_config"], "BLOCK: 64");
  EXPECT_EQ(trial["tolerance"], Json::parse(R"({"absolute":1e-4,"relative":2e-4})"));
  EXPECT_EQ(trial["pass"], false);
  EXPECT_EQ(trial["failure"], "it differs");
  EXPECT_EQ(
      record["launches"].at(0),
      Json::parse(
          R"({"kernel":"softmax_kernel","count":2,"grid":[24,1,1],"compiled":{"target":"sm_90","shared_bytes":16,"registers":29,"spills":8}})"));
  EXPECT_EQ(record["launches"].at(1)["compiled"], nullptr);
  EXPECT_EQ(record["authorship"]["kernel_knockout"], "the outputs became wrong");
  EXPECT_EQ(record["authorship"]["torch_knockout"], nullptr);
  EXPECT_EQ(record["authorship"]["storage_ledger"], nullptr);
  EXPECT_EQ(record["authorship"]["torch_ops"], Json::parse(R"(["relu.default"])"));
  EXPECT_EQ(record["sandbox"], Json::parse(R"({"obtained":["pid namespace"],"missing":["user namespace"]})"));
  EXPECT_EQ(record["timing"], nullptr);
  EXPECT_EQ(record["cost"]["run"], 0.5);
  EXPECT_EQ(record["environment"]["torch"], "2.11.0");
  EXPECT_EQ(record["notes"], Json::parse(R"(["a note"])"));
}

TEST(VerdictJsonTest, NumbersThatAreNotFiniteAreTheDocumentedStrings) {
  Verdict verdict = full_verdict();
  EXPECT_EQ(Json::parse(to_json(verdict))["trials"][0]["max_abs_error"], "inf");
  EXPECT_EQ(Json::parse(to_json(verdict))["trials"][0]["max_rel_error"], "nan");
  verdict.trials[0].max_abs_error = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(Json::parse(to_json(verdict))["trials"][0]["max_abs_error"], "-inf");
}

TEST(VerdictJsonTest, ASeedKeepsAllItsDigits) {
  // 2^62 - 1 has no exact double: as a number, many readers would round it.
  EXPECT_EQ(Json::parse(to_json(full_verdict()))["trials"][0]["seed"], "4611686018427387903");
}

TEST(VerdictJsonTest, AnyBytesInAMessageStillMakeOneLineOfValidJson) {
  Verdict verdict;
  verdict.id = "\xff\xfe id";
  verdict.conclude(Reason::kRunRaised, std::string("RuntimeError: caf\xe9 \xf0\x9f \x80\n\ttwo\r\nlines \0 null", 39));
  verdict.findings.push_back({.rule = "x", .level = "note", .line = 1, .column = 1, .message = "\xc3"});
  const std::string text = to_json(verdict);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const Json record = Json::parse(text, nullptr, false);
  ASSERT_FALSE(record.is_discarded());
  EXPECT_THAT(record["message"].get<std::string>(), HasSubstr("two"));
}

TEST(VerdictTest, IsAnErrorOfOursUntilItIsConcluded) {
  const Verdict verdict;
  EXPECT_EQ(verdict.outcome, Outcome::kError);
  EXPECT_EQ(exit_code(verdict), 4);
  EXPECT_EQ(Json::parse(to_json(verdict))["reward"], nullptr);
  EXPECT_EQ(Json::parse(to_json(verdict))["grade"], "static");
}

TEST(VerdictTest, RewardAndExitCodeFollowTheReason) {
  for (const ReasonInfo& entry : all_reasons()) {
    Verdict verdict;
    verdict.conclude(entry.reason, "because");
    EXPECT_EQ(verdict.reason_id, entry.id);
    EXPECT_EQ(verdict.stage, entry.stage);
    const Json reward = Json::parse(to_json(verdict))["reward"];
    int code = -1;
    switch (entry.outcome) {
      case Outcome::kAccept:
        EXPECT_EQ(reward, 1.0);
        code = 0;
        break;
      case Outcome::kReject:
        EXPECT_EQ(reward, 0.0);
        code = 1;
        break;
      case Outcome::kInconclusive:
        EXPECT_EQ(reward, nullptr) << entry.id << ": masked, never trained as 0";
        code = 3;
        break;
      case Outcome::kError:
        EXPECT_EQ(reward, nullptr) << entry.id;
        code = entry.fault == Fault::kInput ? 2 : 4;
        break;
    }
    EXPECT_EQ(exit_code(verdict), code) << entry.id;
  }
}

TEST(VerdictTest, EveryRefusalEndsWithWhatToChange) {
  for (const ReasonInfo& entry : all_reasons()) {
    if (entry.outcome == Outcome::kAccept) continue;
    Verdict verdict;
    verdict.conclude(entry.reason, "trial 3: something  \n");
    EXPECT_THAT(verdict.message, testing::StartsWith("trial 3: something. "));
    EXPECT_THAT(verdict.message, testing::EndsWith(std::string(entry.remedy)));
  }
}

TEST(VerdictTest, ConcludingTwiceKeepsNothingOfTheFirstTime) {
  Verdict verdict;
  verdict.conclude(Reason::kAllEvidence, "fine");
  verdict.conclude(Reason::kWorkerLost, "gone");
  EXPECT_FALSE(verdict.reward.has_value());
  EXPECT_THAT(verdict.message, Not(HasSubstr("fine")));
}

TEST(VerdictTest, ARulesRefusalCarriesTheRulesId) {
  Verdict verdict;
  verdict.is_triton = true;
  verdict.conclude_by_rule("torch-compute", "line 12: torch.matmul computes; do it in a kernel");
  EXPECT_EQ(verdict.reason_id, "torch-compute");
  EXPECT_EQ(verdict.stage, Stage::kRules);
  EXPECT_EQ(verdict.message, "line 12: torch.matmul computes; do it in a kernel.");
  EXPECT_FALSE(verdict.is_triton);
  EXPECT_EQ(exit_code(verdict), 1);
}

TEST(VerdictTextTest, ShowsVerdictFindingsTrialsLaunchesAndTheSeed) {
  Verdict verdict = full_verdict();
  verdict.environment["seed"] = "42";
  const std::string text = to_text(verdict, false);
  for (const char* part : {"reject  wrong-values  (a1)", "trial 2 (scaled inputs)", "line 7", "device-read",
                           "24x37 float32", "FAILED: it differs", "kernel softmax_kernel x2", "29 registers",
                           "8 bytes spilled", "sandbox without: user namespace", "a note", "seed 42"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(VerdictJsonTest, FormTimingAndTermsAreNullOrEmptyUntilTheyAreKnown) {
  Verdict verdict;
  Json record = Json::parse(to_json(verdict));
  EXPECT_EQ(record["form"], nullptr);
  EXPECT_EQ(record["timing"], nullptr);
  EXPECT_EQ(record["reward_terms"], Json::object());
  EXPECT_EQ(record["authorship"]["torch_share"], nullptr);
  verdict.form = {.reasoning = tasks::ReplyForm::Reasoning::kClosed, .fenced_blocks = 1, .fences_closed = true};
  verdict.timing = Timing{.candidate_ms = 2, .eager_ms = 5, .compile_ms = 4, .interval = std::pair(2.25, 2.75)};
  verdict.reward_terms = {{"correct", 1.0}};
  verdict.authorship.torch_share = 0.25;
  record = Json::parse(to_json(verdict));
  EXPECT_EQ(record["form"], Json::parse(R"({"reasoning": "closed", "fenced_blocks": 1, "fences_closed": true})"));
  EXPECT_EQ(record["timing"], Json::parse(R"({"candidate_ms": 2.0, "eager_ms": 5.0, "compile_ms": 4.0, "speedup": 2.5,
                                              "interval": [2.25, 2.75]})"));
  EXPECT_EQ(record["reward_terms"], Json::parse(R"({"correct": 1.0})"));
  EXPECT_EQ(record["authorship"]["torch_share"], 0.25);
}

TEST(VerdictTextTest, ShowsTheTermsOfARewardAndWhetherItIsMasked) {
  Verdict verdict = full_verdict();
  EXPECT_THAT(to_text(verdict, false), Not(HasSubstr("  reward ")));
  verdict.reward = 1.5;
  verdict.reward_terms = {{"correct", 1}, {"coverage", 0.5}};
  EXPECT_THAT(to_text(verdict, false), HasSubstr("reward 1.5: correct 1, coverage 0.5\n"));
  verdict.reward = std::nullopt;
  EXPECT_THAT(to_text(verdict, false), HasSubstr("reward null (masked): correct 1"));
}

TEST(VerdictTextTest, ColoursOnlyWhereAsked) {
  EXPECT_THAT(to_text(full_verdict(), false), Not(HasSubstr("\x1b")));
  EXPECT_THAT(to_text(full_verdict(), true), HasSubstr("\x1b[1;31m"));
}

TEST(VerdictTextTest, AnAnswersMessageCannotSteerTheTerminal) {
  Verdict verdict;
  verdict.conclude(Reason::kRunRaised, "RuntimeError: \x1b]0;owned\x07\x1b[2J\b\b\raccept  all-evidence");
  verdict.trials.emplace_back().failure = "\x1b[1A";
  verdict.findings.push_back({.rule = "x", .level = "note", .line = 1, .column = 1, .message = "\x1b[3J\x9b"});
  verdict.notes = {"\x1b[3J"};
  const std::string text = to_text(verdict, false);
  for (const char c : text) {
    EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n') << static_cast<int>(c);
  }
  EXPECT_THAT(text, HasSubstr("owned"));
}

}  // namespace
}  // namespace autotriton::verify
