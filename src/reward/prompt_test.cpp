#include "reward/prompt.h"

#include <gtest/gtest.h>

namespace autotriton::reward {
namespace {

constexpr std::string_view kPrompt = "<|user|>\nWrite a softmax kernel, please, and nothing else.<|assistant|>\n";

TEST(StripPromptTest, WhatFollowsThePromptIsTheAnswer) {
  EXPECT_EQ(strip_prompt("Say hi: hello", "Say hi:"), " hello");
  EXPECT_EQ(strip_prompt("hello", ""), "hello");
  EXPECT_EQ(strip_prompt(kPrompt, kPrompt), "");
}

TEST(StripPromptTest, BlanksThatDecodingMovedAndTokensBeforeDoNotMatter) {
  EXPECT_EQ(strip_prompt("<s> <|user|> Write a softmax kernel, please, and nothing else. <|assistant|>\ncode", kPrompt),
            "\ncode");
  EXPECT_EQ(strip_prompt("<|begin_of_text|>" + std::string(kPrompt) + "code", kPrompt), "\ncode");
}

TEST(StripPromptTest, APromptThatLostItsStartIsFoundByItsEnd) {
  const std::string query = std::string(kPrompt.substr(20)) + "code";
  EXPECT_EQ(strip_prompt(query, kPrompt), "\ncode");
}

TEST(StripPromptTest, AQueryWithoutItsPromptIsNotGuessedAt) {
  EXPECT_EQ(strip_prompt("code", kPrompt), std::nullopt);
  EXPECT_EQ(strip_prompt("<|assistant|>\ncode", kPrompt), std::nullopt);
  // Far behind, the prompt is part of the answer.
  EXPECT_EQ(strip_prompt(std::string(1000, 'x') + std::string(kPrompt), kPrompt), std::nullopt);
}

TEST(StripEndTokensTest, TokensThatEndAnAnswerGoAndOthersStay) {
  EXPECT_EQ(strip_end_tokens("code<|im_end|>\n<|endoftext|>"), "code");
  EXPECT_EQ(strip_end_tokens("code</s> "), "code");
  EXPECT_EQ(strip_end_tokens("```python\nx\n```"), "```python\nx\n```");
  EXPECT_EQ(strip_end_tokens("a <| b |>"), "a <| b |>");
  EXPECT_EQ(strip_end_tokens("<|im_end|>"), "");
}

}  // namespace
}  // namespace autotriton::reward
