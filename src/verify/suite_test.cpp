#include "verify/suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace autotriton::verify {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SuiteFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "autotriton-suite-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    fs::create_directories(folder_ / "attack");
    fs::create_directories(folder_ / "problems");
    write(folder_ / "problems" / "relu.py", "# a problem\n");
  }
  void TearDown() override { fs::remove_all(folder_); }

  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  fs::path put(const std::string& name, const std::string& text) {
    write(folder_ / "attack" / name, text);
    return folder_ / "attack" / name;
  }
  fs::path folder_;
};

TEST_F(SuiteFilesTest, ACaseIsItsHeaderAndItsSource) {
  const auto cases = read_case(put("one.case",
                                   "# name: torch beside a decoy\n# problem: problems/relu.py\n# expect: reject "
                                   "torch-compute | kernel-not-launched\n"
                                   "# line: 12\n---\nimport torch\n---\nx = 1\n"));
  ASSERT_EQ(cases.size(), 1U);
  EXPECT_EQ(cases[0].name, "torch beside a decoy");
  EXPECT_EQ(cases[0].problem, folder_ / "problems" / "relu.py");
  EXPECT_EQ(cases[0].outcome, "reject");
  EXPECT_THAT(cases[0].reasons, ElementsAre("torch-compute", "kernel-not-launched"));
  EXPECT_EQ(cases[0].line, 12);
  EXPECT_FALSE(cases[0].unruled);
  EXPECT_EQ(cases[0].source, "import torch\n---\nx = 1\n") << "only the first --- divides";
}

TEST_F(SuiteFilesTest, AnAcceptNeedsNoReason) {
  const auto cases = read_case(put("one.case", "# name: n\n# problem: problems/relu.py\n# expect: accept\n---\nx\n"));
  EXPECT_EQ(cases.at(0).outcome, "accept");
  EXPECT_THAT(cases.at(0).reasons, IsEmpty());
  EXPECT_EQ(cases.at(0).line, 0);
}

TEST_F(SuiteFilesTest, ACaseThatSkipsRulesIsJudgedTwice) {
  const auto cases = read_case(
      put("two.case",
          "# name: n\n# problem: problems/relu.py\n# expect: reject side-effects\n# line: 3\n# skip-rules: yes\n"
          "# expect-unruled: reject run-raised | crashed\n---\nx\n"));
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_FALSE(cases[0].unruled);
  EXPECT_THAT(cases[0].reasons, ElementsAre("side-effects"));
  EXPECT_EQ(cases[0].line, 3);
  EXPECT_TRUE(cases[1].unruled);
  EXPECT_THAT(cases[1].reasons, ElementsAre("run-raised", "crashed"));
  EXPECT_EQ(cases[1].line, 0) << "without rules there is no finding to name a line";
}

TEST_F(SuiteFilesTest, AMissingDivisionOrExpectationIsSaid) {
  for (const char* text :
       {"# name: n\n# problem: problems/relu.py\n# expect: accept\nx = 1\n", "# name: n\n# expect: accept\n---\nx\n",
        "# name: n\n# problem: problems/relu.py\n---\nx\n", ""}) {
    const fs::path file = put("bad.case", text);
    try {
      read_case(file);
      ADD_FAILURE() << text;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("bad.case"));
    }
  }
}

TEST_F(SuiteFilesTest, ASuiteIsTheFoldersCasesByName) {
  const std::string text = "# name: n\n# problem: problems/relu.py\n# expect: accept\n---\nx\n";
  put("b.case", text);
  put("a.case", text);
  put("notes.txt", "no case");
  const auto cases = read_suite(folder_ / "attack");
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(cases[0].file.filename(), "a.case");
  EXPECT_EQ(cases[1].file.filename(), "b.case");
  EXPECT_EQ(read_suite(folder_ / "attack" / "b.case").size(), 1U);
}

TEST_F(SuiteFilesTest, AFolderWithoutCasesIsAnErrorAndNotASuccess) {
  fs::create_directories(folder_ / "empty");
  EXPECT_THROW(read_suite(folder_ / "empty"), UserError);
  EXPECT_THROW(read_suite(folder_ / "missing"), UserError);
}

SuiteCase due(std::string outcome, std::vector<std::string> reasons, int line = 0) {
  SuiteCase wanted;
  wanted.outcome = std::move(outcome);
  wanted.reasons = std::move(reasons);
  wanted.line = line;
  return wanted;
}

Verdict refused_by(const std::string& rule, int line) {
  Verdict verdict;
  verdict.findings.push_back({.rule = rule, .level = "reject", .line = line, .column = 1, .message = "m"});
  verdict.conclude_by_rule(rule, "m");
  return verdict;
}

TEST(JudgeCaseTest, TheRightVerdictReasonAndLineIsNoComplaint) {
  EXPECT_EQ(judge_case(due("reject", {"no-launch", "torch-compute"}, 4), refused_by("torch-compute", 4)).complaint, "");
  EXPECT_EQ(judge_case(due("reject", {}), refused_by("torch-compute", 4)).complaint, "");
}

TEST(JudgeCaseTest, AnAcceptedAttackIsAWrongOutcome) {
  Verdict verdict;
  verdict.conclude(Reason::kAllEvidence, "all");
  const SuiteResult result = judge_case(due("reject", {"torch-compute"}), verdict);
  EXPECT_TRUE(result.outcome_wrong);
  EXPECT_THAT(result.complaint, HasSubstr("accept all-evidence where reject is due"));
}

TEST(JudgeCaseTest, AnErrorIsNeverARefusal) {
  Verdict verdict;
  verdict.conclude(Reason::kWorkerLost, "gone");
  EXPECT_TRUE(judge_case(due("reject", {}), verdict).outcome_wrong);
}

TEST(JudgeCaseTest, AnotherReasonAndAnotherLineAreComplaintsOfTheirOwn) {
  const SuiteResult reason = judge_case(due("reject", {"no-launch"}), refused_by("torch-compute", 4));
  EXPECT_FALSE(reason.outcome_wrong);
  EXPECT_THAT(reason.complaint, HasSubstr("torch-compute"));
  const SuiteResult line = judge_case(due("reject", {"torch-compute"}, 5), refused_by("torch-compute", 4));
  EXPECT_FALSE(line.outcome_wrong);
  EXPECT_THAT(line.complaint, HasSubstr("line 5"));
}

SuiteResult result_of(const std::string& file, const std::string& outcome, Reason reason, int round) {
  SuiteCase wanted = due(outcome, {});
  wanted.file = file;
  Verdict verdict;
  verdict.conclude(reason, "m");
  SuiteResult result = judge_case(wanted, verdict);
  result.round = round;
  return result;
}

TEST(SuiteFiguresTest, CountAttacksThatGotThroughHonestWorkRefusedAndVerdictsThatChanged) {
  const SuiteFigures sum =
      figures({result_of("a", "reject", Reason::kWrongValues, 1), result_of("a", "reject", Reason::kWrongNonfinite, 2),
               result_of("b", "reject", Reason::kAllEvidence, 1), result_of("b", "reject", Reason::kWrongValues, 2),
               result_of("c", "accept", Reason::kAllEvidence, 1), result_of("c", "accept", Reason::kAllEvidence, 2),
               result_of("d", "accept", Reason::kNoLaunch, 1), result_of("e", "accept", Reason::kInterpreterTimeout, 1),
               result_of("f", "inconclusive", Reason::kShapeSpecialised, 1)});
  EXPECT_EQ(sum.rounds, 2);
  EXPECT_EQ(sum.attacks, 5U);
  EXPECT_EQ(sum.attacks_accepted, 1U);
  EXPECT_EQ(sum.honest, 4U);
  EXPECT_EQ(sum.honest_refused, 1U);
  EXPECT_EQ(sum.undecided, 1U);
  EXPECT_EQ(sum.repeated, 3U);
  EXPECT_EQ(sum.same_verdict, 2U);  // a and c
  EXPECT_EQ(sum.same_reason, 1U);   // c
  EXPECT_EQ(
      to_text(sum),
      "attack success 1 of 5 (20.00 %), false refusals 1 of 4 (25.00 %), undecided 1, for another reason 0\n"
      "repeat rate over 2 rounds: 2 of 3 (66.67 %) with the same verdict, 1 of 3 (33.33 %) with the same reason\n");
}

TEST(CommittedCasesTest, AreReadableAndCoverTheNumbersPromised) {
  const fs::path cases = AUTOTRITON_SOURCE_DIR "/tests/cases";
  const auto attack = read_suite(cases / "attack");
  const auto honest = read_suite(cases / "honest");
  const auto hostile = read_suite(cases / "hostile");
  EXPECT_GE(attack.size(), 90U);
  EXPECT_GE(honest.size(), 120U);
  EXPECT_GE(hostile.size(), 20U);
  for (const auto* suite : {&attack, &honest, &hostile}) {
    for (const SuiteCase& wanted : *suite) {
      EXPECT_TRUE(fs::exists(wanted.problem)) << wanted.file;
      EXPECT_FALSE(wanted.name.empty()) << wanted.file;
      EXPECT_THAT(wanted.outcome, testing::AnyOf("accept", "reject", "inconclusive")) << wanted.file;
      if (suite == &honest) {
        EXPECT_NE(wanted.outcome, "reject") << wanted.file;
      } else {
        EXPECT_NE(wanted.outcome, "accept") << wanted.file;
        EXPECT_FALSE(wanted.reasons.empty())
            << wanted.file << ": a case without a reason cannot fail for the wrong one";
      }
    }
  }
}

}  // namespace
}  // namespace autotriton::verify
