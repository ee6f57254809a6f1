#include "verify/reason.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "rules/rules.h"
#include "verify/verdict.h"

namespace autotriton::verify {
namespace {

using testing::HasSubstr;

TEST(ReasonTableTest, StandsInTheOrderOfTheEnumAndIsComplete) {
  const auto table = all_reasons();
  ASSERT_EQ(table.size(), static_cast<std::size_t>(Reason::kInternal) + 1) << "kInternal is the last enumerator";
  for (std::size_t index = 0; index < table.size(); ++index) {
    EXPECT_EQ(static_cast<std::size_t>(table[index].reason), index) << table[index].id;
    EXPECT_EQ(&info(table[index].reason), &table[index]);
  }
}

TEST(ReasonTableTest, HoldsExactlyTheReasonsThatTheSchemaPromises) {
  // Written out: a reason is a promise to whoever reads verdicts, so its id and outcome change here or nowhere.
  const std::map<std::string, Outcome> promised = [] {
    std::map<std::string, Outcome> map{{"all-evidence", Outcome::kAccept}};
    for (const char* id : {"empty-answer",       "no-code",         "not-text",       "too-large",
                           "syntax-error",       "entry-missing",   "rule",           "import-raised",
                           "construct-raised",   "load-timeout",    "exited-early",   "run-raised",
                           "run-timeout",        "out-of-bounds",   "crashed",        "memory-exceeded",
                           "protocol-violation", "wrong-structure", "wrong-shape",    "wrong-dtype",
                           "wrong-values",       "wrong-nonfinite", "wrong-device",   "input-mutated",
                           "input-aliased",      "order-dependent", "racy-store",     "autotune-trials",
                           "false-hint",         "compile-failed",  "target-limits",  "no-launch",
                           "kernel-knockout",    "torch-knockout",  "storage-origin", "storage-changed"}) {
      map[id] = Outcome::kReject;
    }
    for (const char* id : {"shape-specialised", "weights-unmatched", "task-degenerate", "task-too-large",
                           "task-unsupported", "interpreter-gap", "interpreter-timeout", "compile-undecided"}) {
      map[id] = Outcome::kInconclusive;
    }
    for (const char* id : {"problem-unreadable", "problem-invalid", "reference-failed", "line-unreadable",
                           "worker-lost", "internal", "sandbox-missing", "disk-full"}) {
      map[id] = Outcome::kError;
    }
    return map;
  }();
  std::map<std::string, Outcome> there;
  for (const ReasonInfo& entry : all_reasons()) {
    EXPECT_TRUE(there.emplace(entry.id, entry.outcome).second) << "twice: " << entry.id;
  }
  EXPECT_EQ(there, promised);
}

TEST(ReasonTableTest, IdsReadBackAndAreNoRules) {
  for (const ReasonInfo& entry : all_reasons()) {
    EXPECT_EQ(reason_from_id(entry.id), entry.reason);
    EXPECT_EQ(rules::find_rule(entry.id), nullptr) << entry.id << " would be ambiguous";
    EXPECT_THAT(std::string(entry.id), testing::MatchesRegex("[a-z]+(-[a-z]+)*"));
  }
  EXPECT_EQ(reason_from_id("nothing-like-that"), std::nullopt);
  EXPECT_EQ(reason_from_id(""), std::nullopt);
}

TEST(ReasonTableTest, EveryReasonSaysWhatHappenedAndAllButAcceptWhatToDo) {
  for (const ReasonInfo& entry : all_reasons()) {
    EXPECT_GT(entry.explanation.size(), 15U) << entry.id;
    EXPECT_EQ(entry.explanation.back(), '.') << entry.id;
    if (entry.outcome == Outcome::kAccept) continue;
    EXPECT_GT(entry.remedy.size(), 10U) << entry.id;
    EXPECT_EQ(entry.remedy.back(), '.') << entry.id;
  }
}

TEST(ReasonTableTest, FaultFitsTheOutcome) {
  for (const ReasonInfo& entry : all_reasons()) {
    switch (entry.outcome) {
      case Outcome::kAccept:
        EXPECT_EQ(entry.fault, Fault::kNobody) << entry.id;
        break;
      case Outcome::kReject:
        EXPECT_EQ(entry.fault, Fault::kCandidate)
            << entry.id << ": a refusal is the answer's fault or it is no refusal";
        break;
      case Outcome::kInconclusive:
        EXPECT_TRUE(entry.fault == Fault::kMode || entry.fault == Fault::kInput) << entry.id;
        break;
      case Outcome::kError:
        EXPECT_TRUE(entry.fault == Fault::kInput || entry.fault == Fault::kOurs) << entry.id;
        break;
    }
  }
}

TEST(ReasonTableTest, StageAndOutcomeNamesAreTheSchemas) {
  EXPECT_EQ(outcome_name(Outcome::kAccept), "accept");
  EXPECT_EQ(outcome_name(Outcome::kReject), "reject");
  EXPECT_EQ(outcome_name(Outcome::kInconclusive), "inconclusive");
  EXPECT_EQ(outcome_name(Outcome::kError), "error");
  const std::vector<std::string> names{"extract", "rules", "load", "run", "compare", "compile", "authorship", "timing"};
  for (std::size_t index = 0; index < names.size(); ++index)
    EXPECT_EQ(stage_name(static_cast<Stage>(index)), names[index]);
}

TEST(ReferencePageTest, DocsVerdictIsWhatTheCodeWrites) {
  std::ifstream file(AUTOTRITON_SOURCE_DIR "/docs/verdict.md");
  ASSERT_TRUE(file) << "docs/verdict.md is missing: `autotriton verdict-reference > docs/verdict.md`";
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == reference_page())
      << "docs/verdict.md is stale: `autotriton verdict-reference > docs/verdict.md`";
}

TEST(ReferencePageTest, NamesEveryReasonOnceAndTheRuleListInsteadOfRules) {
  const std::string page = reference_page();
  for (const ReasonInfo& entry : all_reasons()) {
    const std::string row = "| `" + std::string(entry.id) + "` | ";
    const auto first = page.find(row);
    if (entry.reason == Reason::kRule) {
      EXPECT_EQ(first, std::string::npos);
      continue;
    }
    ASSERT_NE(first, std::string::npos) << entry.id;
    EXPECT_EQ(page.find(row, first + 1), std::string::npos) << entry.id;
  }
  EXPECT_THAT(page, HasSubstr("autotriton rules list"));
  EXPECT_THAT(page, HasSubstr("autotriton.verdict/1"));
}

}  // namespace
}  // namespace autotriton::verify
