#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "rules/rules.h"

/// Runs every testdata/<rule id>/*.case: a source and what the rules must say about it.
namespace autotriton::rules {
namespace {

struct Case {
  std::string id;  // <rule id>/<file name>
  std::vector<std::string> expectations;
  EntryPoint entry;
  Options options;
  std::string source;
};

Case read_case(const std::filesystem::path& path) {
  std::ifstream file(path);
  Case result;
  result.id = path.parent_path().filename().string() + "/" + path.stem().string();
  std::string line;
  while (std::getline(file, line) && line != "---") {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "expect:") {
      result.expectations.push_back(line.substr(line.find(':') + 2));
    } else if (key == "entry:") {
      std::string kind;
      words >> kind >> result.entry.name;
      result.entry.kind = kind == "module" ? EntryKind::kModule : EntryKind::kFunction;
    } else if (key == "torch-compute:") {
      words >> key;
      result.options.report_torch_compute = key == "report";
    }
  }
  result.source.assign(std::istreambuf_iterator<char>(file), {});
  return result;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(ROOM_TESTDATA_DIR)) {
    if (entry.path().extension() == ".case") cases.push_back(read_case(entry.path()));
  }
  std::ranges::sort(cases, {}, &Case::id);
  return cases;
}

std::string listed(const Report& report) {
  std::string text;
  for (const Finding& finding : report.findings) {
    text += std::string(level_name(finding.level)) + " " + finding.rule + " line " + std::to_string(finding.line) +
            ": " + finding.message + "\n";
  }
  return text.empty() ? "no findings" : text;
}

/// "clean", or "<level> <rule> [line <n>]".
bool holds(const std::string& expectation, const Report& report) {
  std::istringstream words(expectation);
  std::string level, rule, word;
  int line = 0;
  words >> level;
  if (level == "clean") return report.is_triton();
  words >> rule >> word >> line;
  return std::ranges::any_of(report.findings, [&](const Finding& finding) {
    return finding.rule == rule && level_name(finding.level) == level && (line == 0 || finding.line == line);
  });
}

class RuleCases : public testing::TestWithParam<Case> {};

TEST_P(RuleCases, SaysWhatItMust) {
  const Case& param = GetParam();
  ASSERT_FALSE(param.expectations.empty()) << param.id << " expects nothing";
  auto parsed = syntax::parse(param.source);
  if (const auto* failure = std::get_if<syntax::ParseFailure>(&parsed))
    FAIL() << failure->line << ": " << failure->message;
  const Report report = check(std::get<syntax::Module>(parsed), param.entry, Glue::embedded(), param.options);
  for (const std::string& expectation : param.expectations) {
    EXPECT_TRUE(holds(expectation, report)) << "expected: " << expectation << "\nfound:\n" << listed(report);
  }
  for (const Finding& finding : report.findings) {
    EXPECT_NE(find_rule(finding.rule), nullptr) << finding.rule << " is not in the registry";
    EXPECT_GE(finding.line, 1);
    EXPECT_GE(finding.column, 1);
    EXPECT_NE(finding.message.find("; "), std::string::npos)
        << "says what is wrong and not what to change: " << finding.message;
  }
}

INSTANTIATE_TEST_SUITE_P(TestData, RuleCases, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Case>& parameter) {
                           std::string name = parameter.param.id;
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
                           return name;
                         });

TEST(RuleCasesTest, EveryRuleHasRefusedAndAcceptedCases) {
  std::map<std::string, int> cases;
  std::map<std::string, int> clean;
  for (const Case& one : all_cases()) {
    const std::string rule = one.id.substr(0, one.id.find('/'));
    ++cases[rule];
    if (one.expectations.front() == "clean") ++clean[rule];
    EXPECT_NE(find_rule(rule), nullptr) << rule << " has cases and is no rule";
  }
  for (const RuleInfo& rule : all_rules()) {
    EXPECT_GE(cases[std::string(rule.id)], 4) << rule.id;
    EXPECT_GE(clean[std::string(rule.id)], 1) << rule.id;
  }
}

}  // namespace
}  // namespace autotriton::rules
