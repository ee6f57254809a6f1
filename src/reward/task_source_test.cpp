#include "reward/task_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace autotriton::reward {
namespace {

using testing::HasSubstr;

const std::string kSource =
    "import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return "
    "torch.relu(x)\n\n"
    "def get_inputs():\n    return [torch.randn(4, 4)]\n\ndef get_init_inputs():\n    return []\n";

const tasks::Task& task_of(const FoundTask& found) { return *std::get<0>(found); }
const TaskProblem& problem_of(const FoundTask& found) { return std::get<TaskProblem>(found); }

TEST(TaskSourceTest, ALabelIsSourceJsonOrAnId) {
  const std::string path = testing::TempDir() + "tasks.jsonl";
  std::ofstream(path)
      << R"({"task_id": "t1", "reference": "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\ndef get_inputs():\n    return [torch.randn(3)]\ndef get_init_inputs():\n    return []\n"})"
      << '\n';
  TaskSource source(std::make_shared<const tasks::TaskLibrary>(tasks::TaskLibrary::from_file(path)));
  EXPECT_EQ(task_of(source.from_label(kSource)).entry_point, "Model");
  EXPECT_EQ(task_of(source.from_label(" t1\n")).task_id, "t1");
  const std::string json =
      R"(  {"task_id": "mine", "reference": "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\ndef get_inputs():\n    return [torch.randn(3)]\ndef get_init_inputs():\n    return []\n"})";
  EXPECT_EQ(task_of(source.from_label(json)).task_id, "mine");
}

TEST(TaskSourceTest, EqualTextsGiveTheSameTask) {
  TaskSource source(nullptr);
  EXPECT_EQ(std::get<0>(source.from_label(kSource)), std::get<0>(source.from_label(kSource)));
  EXPECT_NE(std::get<0>(source.from_label(kSource)), std::get<0>(source.from_label(kSource + "\n# other\n")));
}

TEST(TaskSourceTest, WhatIsNoTaskSaysWhy) {
  TaskSource source(nullptr);
  EXPECT_THAT(problem_of(source.from_label("t1")).message, HasSubstr("--tasks"));
  EXPECT_EQ(problem_of(source.from_label("t1")).reason, "problem-unreadable");
  EXPECT_EQ(problem_of(source.from_label("x = 1\ny = 2\n")).reason, "problem-invalid");
  EXPECT_EQ(problem_of(source.from_label("{\"reference\": 7}")).reason, "problem-invalid");
  EXPECT_EQ(problem_of(source.from_label("   ")).reason, "problem-unreadable");
}

TEST(TaskSourceTest, NestingIsCountedOutsideOfStrings) {
  EXPECT_FALSE(nested_deeper(R"([[{"a": "[[[[\"[[["}]])", 3));
  EXPECT_TRUE(nested_deeper("[[[[", 3));
  EXPECT_FALSE(nested_deeper("[][][][]]]]]", 3));
}

TEST(TaskSourceTest, NothingIsReadFromAPath) {
  const std::string path = testing::TempDir() + "secret.py";
  std::ofstream(path) << kSource;
  TaskSource source(nullptr);
  EXPECT_EQ(problem_of(source.from_label(path)).reason, "problem-unreadable");
  EXPECT_EQ(problem_of(source.from_source(path)).reason, "problem-invalid");
}

}  // namespace
}  // namespace autotriton::reward
