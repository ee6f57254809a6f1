#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "verify/verify.h"

namespace autotriton::verify {
namespace {

using testing::HasSubstr;

const std::string kGood = R"(import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(y_ptr + offs, tl.maximum(x, 0.0), mask=offs < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
)";

struct Judged {
  Verdict verdict;
  StaticResult result;
};

Judged judge(std::string text, bool raw, const VerifyOptions& options = {}) {
  auto task = std::make_shared<tasks::Task>();
  task->task_id = "relu";
  task->kind = tasks::TaskKind::kModule;
  task->entry_point = "Model";
  Judged judged;
  judged.result =
      judge_source({.id = "case", .task = task, .text = std::move(text), .raw_answer = raw}, options, judged.verdict);
  return judged;
}

std::string fenced(const std::string& code) { return "```python\n" + code + "```\n"; }

TEST(StaticStageTest, AnHonestAnswerPassesAsSourceAndAsReply) {
  for (const bool raw : {false, true}) {
    const Judged judged = judge(raw ? "Here you are:\n" + fenced(kGood) : kGood, raw);
    EXPECT_TRUE(judged.result.passed) << judged.verdict.message;
    EXPECT_EQ(judged.result.code, kGood);
    EXPECT_TRUE(judged.verdict.is_triton);
    EXPECT_NE(judged.verdict.outcome, Outcome::kAccept) << "the static half alone is no evidence";
  }
}

TEST(StaticStageTest, TheDigestIsOfTheCodeAndNotOfTheReply) {
  EXPECT_EQ(judge(kGood, false).verdict.candidate_sha256,
            judge("Text.\n" + fenced(kGood), true).verdict.candidate_sha256);
}

TEST(StaticStageTest, WhatIsNoAnswerHasItsOwnReason) {
  const std::string draft = "<think>\nA first try:\n" + fenced(kGood) + "</think>\nI cannot do it.\n";
  std::string unclosed = fenced(kGood);
  unclosed.resize(unclosed.rfind("```"));
  const struct {
    const char* what;
    std::string text;
    bool raw;
    const char* reason;
  } cases[] = {
      {"nothing", "", true, "empty-answer"},
      {"blanks", " \n\t\n", true, "empty-answer"},
      {"an empty file", "", false, "empty-answer"},
      {"prose", "Use torch.relu, it is fast enough.", true, "no-code"},
      {"a draft only", draft, true, "no-code"},
      {"Latin-1", "# caf\xe9\n" + kGood, false, "not-text"},
      {"a NUL byte", kGood + std::string(1, '\0'), false, "not-text"},
      {"two million bytes", kGood + std::string(2'000'000, '#'), false, "too-large"},
      {"a missing bracket", "import triton\ndef f(:\n    pass\n", false, "syntax-error"},
      {"another class", fenced("import triton\nclass Model:\n    pass\n"), true, "entry-missing"},
      {"no class", "import triton\n", false, "entry-missing"},
  };
  for (const auto& item : cases) {
    const Judged judged = judge(item.text, item.raw);
    EXPECT_FALSE(judged.result.passed) << item.what;
    EXPECT_EQ(judged.verdict.reason_id, item.reason) << item.what << ": " << judged.verdict.message;
    EXPECT_EQ(judged.verdict.outcome, Outcome::kReject) << item.what;
    EXPECT_EQ(exit_code(judged.verdict), 1) << item.what;
    EXPECT_THAT(judged.verdict.message, HasSubstr("To mend it: ")) << item.what;
    EXPECT_FALSE(judged.verdict.candidate_sha256.empty()) << item.what;
    EXPECT_FALSE(judged.verdict.is_triton) << item.what;
  }
  EXPECT_TRUE(judge(unclosed, true).result.passed) << "an answer cut off after its code is still that code";
}

TEST(StaticStageTest, OfSeveralBlocksTheLastThatDefinesTheEntryCounts) {
  const std::string other =
      "import torch.nn as nn\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return x\n";
  EXPECT_TRUE(judge(fenced(other) + "Better:\n" + fenced(kGood), true).result.passed);
  EXPECT_FALSE(judge(fenced(kGood) + "Better:\n" + fenced(other), true).result.passed);
}

TEST(StaticStageTest, BomAndCrlfAreNoReasonToRefuse) {
  std::string crlf;
  for (const char c : kGood) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_TRUE(judge("\xef\xbb\xbf" + crlf, false).result.passed);
}

TEST(StaticStageTest, ASyntaxErrorNamesItsLine) {
  EXPECT_THAT(judge("x = 1\n\ndef f(:\n    pass\n", false).verdict.message, testing::StartsWith("line 3, column "));
}

TEST(StaticStageTest, ARulesRefusalNamesRuleLineAndRemedy) {
  std::string cheat = kGood;
  cheat.replace(cheat.find("        return y"), 16, "        return torch.relu(x)");
  const Judged judged = judge(cheat, false);
  EXPECT_EQ(judged.verdict.reason_id, "torch-compute");
  EXPECT_THAT(judged.verdict.message, testing::StartsWith("line 18: "));
  ASSERT_FALSE(judged.verdict.findings.empty());
  EXPECT_EQ(judged.verdict.findings[0].line, 18);
  EXPECT_FALSE(judged.verdict.is_triton);
}

TEST(StaticStageTest, TorchComputeThatIsOnlyReportedIsANote) {
  std::string shared = kGood;
  shared.replace(shared.find("        return y"), 16, "        return torch.relu(y)");
  EXPECT_EQ(judge(shared, false).verdict.reason_id, "torch-compute");
  const Judged judged = judge(shared, false, {.torch_compute = TorchCompute::kReport});
  EXPECT_TRUE(judged.result.passed) << judged.verdict.message;
  ASSERT_FALSE(judged.verdict.findings.empty());
  EXPECT_EQ(judged.verdict.findings[0].rule, "torch-compute");
  EXPECT_EQ(judged.verdict.findings[0].level, "note");
  EXPECT_EQ(judged.verdict.findings[0].line, 18);
}

TEST(StaticStageTest, SkippingTheRulesIsNotedInTheVerdict) {
  const Judged judged = judge("class ModelNew:\n    pass\n", false, {.skip_rules = true});
  EXPECT_TRUE(judged.result.passed);
  EXPECT_THAT(judged.verdict.notes, testing::Contains(HasSubstr("rules were skipped")));
  EXPECT_FALSE(judged.verdict.is_triton);
}

}  // namespace
}  // namespace autotriton::verify
