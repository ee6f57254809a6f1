#include "verify/sarif.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "rules/rules.h"

namespace autotriton::verify {
namespace {

using nlohmann::json;

json log_of(const std::vector<SarifFile>& files) { return json::parse(to_sarif(files)); }

SarifFile file(std::string path, std::string source, std::vector<Finding> findings) {
  return {.path = std::move(path), .source = std::move(source), .findings = std::move(findings)};
}

TEST(SarifTest, EveryRuleStandsThereWithItsHelp) {
  const json log = log_of({});
  EXPECT_EQ(log["version"], "2.1.0");
  const json& listed = log["runs"][0]["tool"]["driver"]["rules"];
  ASSERT_EQ(listed.size(), rules::all_rules().size());
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const rules::RuleInfo& rule = rules::all_rules()[i];
    EXPECT_EQ(listed[i]["id"], std::string(rule.id));
    EXPECT_EQ(listed[i]["shortDescription"]["text"], std::string(rule.sentence));
    EXPECT_EQ(listed[i]["fullDescription"]["text"], std::string(rule.reason));
    EXPECT_EQ(listed[i]["help"]["text"], std::string(rule.remedy));
  }
  EXPECT_TRUE(log["runs"][0]["results"].is_array());
  EXPECT_TRUE(log["runs"][0]["results"].empty());
}

TEST(SarifTest, AFindingNamesItsRuleLevelAndPlace) {
  const json log = log_of({file("answer.py", "import os\nx = torch.relu(x)\n",
                                {{"torch-compute", "reject", 2, 5, "it computes; do not"},
                                 {"device-read", "note", 1, 1, "it reads; mind it"},
                                 {"fallback", "suspicious", 1, 3, "it hides; let it through"}})});
  const json& run = log["runs"][0];
  const json& first = run["results"][0];
  EXPECT_EQ(first["ruleId"], "torch-compute");
  EXPECT_EQ(run["tool"]["driver"]["rules"][first["ruleIndex"].get<std::size_t>()]["id"], "torch-compute");
  EXPECT_EQ(first["level"], "error");
  EXPECT_EQ(first["message"]["text"], "it computes; do not");
  const json& place = first["locations"][0]["physicalLocation"];
  EXPECT_EQ(place["artifactLocation"]["uri"], "answer.py");
  EXPECT_EQ(place["artifactLocation"]["uriBaseId"], "%SRCROOT%");
  EXPECT_EQ(place["artifactLocation"]["index"], 0);
  EXPECT_EQ(place["region"]["startLine"], 2);
  EXPECT_EQ(place["region"]["startColumn"], 5);
  EXPECT_EQ(run["results"][1]["level"], "note");
  EXPECT_EQ(run["results"][2]["level"], "warning");
}

TEST(SarifTest, ColumnsCountUtf16UnitsAndNotBytes) {
  const json log = log_of({file("a.py", "ä = '😀'; x\n", {{"torch-compute", "reject", 1, 14, "so; not"}})});
  EXPECT_EQ(log["runs"][0]["columnKind"], "utf16CodeUnits");
  EXPECT_EQ(log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startColumn"], 11);
}

TEST(SarifTest, WithoutASourceThereIsALineAndNoColumn) {
  const json log = log_of({file("a.py", "", {{"torch-compute", "reject", 3, 4, "so; not"}})});
  const json& region = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"];
  EXPECT_EQ(region["startLine"], 3);
  EXPECT_FALSE(region.contains("startColumn"));
}

TEST(SarifTest, SeveralFilesAreOneRun) {
  const json log =
      log_of({file("./one/a b%.py", "x\n", {{"fallback", "reject", 1, 1, "so; not"}}), file("-", "x\n", {}),
              file("/elsewhere/ä.py", "x\n", {{"fallback", "reject", 1, 1, "so; not"}})});
  const json& run = log["runs"][0];
  ASSERT_EQ(run["artifacts"].size(), 3);
  EXPECT_EQ(run["artifacts"][0]["location"]["uri"], "one/a%20b%25.py");
  EXPECT_EQ(run["artifacts"][1]["location"]["uri"], "stdin");
  EXPECT_EQ(run["artifacts"][2]["location"]["uri"], "file:///elsewhere/%C3%A4.py");
  ASSERT_EQ(run["results"].size(), 2);
  EXPECT_EQ(run["results"][1]["locations"][0]["physicalLocation"]["artifactLocation"]["index"], 2);
}

TEST(SarifTest, AReasonOfTheVerdictIsAResultOfItsOwn) {
  Verdict verdict;
  verdict.findings = {{"device-read", "note", 4, 1, "it reads; mind it"}};
  verdict.conclude(Reason::kWrongValues, "trial 3: values differ");
  const std::vector<Finding> findings = findings_of(verdict);
  ASSERT_EQ(findings.size(), 2);
  const json log = log_of({file("a.py", "", findings)});
  const json& result = log["runs"][0]["results"][1];
  EXPECT_EQ(result["ruleId"], "wrong-values");
  EXPECT_EQ(result["level"], "error");
  EXPECT_FALSE(result["locations"][0]["physicalLocation"].contains("region"));
  const json& rule = log["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"].get<std::size_t>()];
  EXPECT_EQ(rule["id"], "wrong-values");
  EXPECT_EQ(rule["help"]["text"], std::string(info(Reason::kWrongValues).remedy));
}

TEST(SarifTest, WhatARuleSaidIsNotSaidTwiceAndAnAcceptedAnswerHasNoResultOfItsOwn) {
  Verdict refused;
  refused.findings = {{"fallback", "reject", 4, 1, "so; not"}};
  refused.conclude_by_rule("fallback", "line 4: so; not");
  EXPECT_EQ(findings_of(refused).size(), 1);
  Verdict undecided;
  undecided.conclude(Reason::kInterpreterGap, "libdevice");
  ASSERT_EQ(findings_of(undecided).size(), 1);
  EXPECT_EQ(findings_of(undecided)[0].level, "suspicious");
  Verdict accepted;
  accepted.conclude(Reason::kAllEvidence, "");
  EXPECT_TRUE(findings_of(accepted).empty());
}

TEST(SarifTest, TextThatIsNoUtf8IsStillJson) {
  const json log = log_of({file("\xff.py", "", {{"fallback", "reject", 1, 1, "bad \xff byte; write UTF-8"}})});
  EXPECT_EQ(log["runs"][0]["artifacts"][0]["location"]["uri"], "%FF.py");
}

}  // namespace
}  // namespace autotriton::verify
