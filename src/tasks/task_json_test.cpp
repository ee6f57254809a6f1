#include "tasks/task_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/error.h"

namespace autotriton::tasks {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::string_view kFunction = R"("reference": "def f(x): return x\ndef get_inputs(): return []\n")";

std::string error_of(const std::string& json) {
  try {
    parse_task(json, "tasks.jsonl:3", "line-3");
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("tasks.jsonl:3"));
    return error.what();
  }
  return "no error";
}

TEST(TaskJsonTest, WhatIsWrittenIsReadBack) {
  const Task task{.task_id = "kernelbench/level1/1",
                  .kind = TaskKind::kFunction,
                  .reference = "def f(x):\n  return x\ndef get_inputs(): return [\"\u00e9\"]\n",
                  .entry_point = "f",
                  .instruction = "Write \"f\".",
                  .tests = "",
                  .difficulty = 3,
                  .source = "ours",
                  .license = "MIT",
                  .meta = R"({"level":1})"};
  const std::string json = task_json(task);
  EXPECT_EQ(json.find('\n'), std::string::npos);
  const Task back = parse_task(json, "x", "y");
  EXPECT_EQ(task_json(back), json);
  EXPECT_EQ(back.reference, task.reference);
  EXPECT_EQ(back.difficulty, 3);
  EXPECT_EQ(back.meta, task.meta);
}

TEST(TaskJsonTest, AScriptKeepsItsTests) {
  const Task task{
      .task_id = "a", .kind = TaskKind::kScript, .reference = "def f(): pass\n", .entry_point = "f", .tests = "f()\n"};
  const Task back = parse_task(task_json(task), "x", "y");
  EXPECT_EQ(back.kind, TaskKind::kScript);
  EXPECT_EQ(back.tests, "f()\n");
}

TEST(TaskJsonTest, TheReferenceAloneIsEnough) {
  const Task task =
      parse_task("{" + std::string(kFunction) + R"(, "tests": null, "a column of a data set": 1})", "x", "line-9");
  EXPECT_EQ(task.task_id, "line-9");
  EXPECT_EQ(task.kind, TaskKind::kFunction);
  EXPECT_EQ(task.entry_point, "f");
}

TEST(TaskJsonTest, SaysWhichFieldIsWrong) {
  EXPECT_THAT(error_of("{"), HasSubstr("no valid JSON"));
  EXPECT_THAT(error_of("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(error_of("{}"), HasSubstr("no `reference`"));
  EXPECT_THAT(error_of(R"({"reference": 3})"), HasSubstr("`reference` is no string"));
  EXPECT_THAT(error_of(R"({"reference": "x = 1\n"})"), HasSubstr("no `class Model`"));
  EXPECT_THAT(error_of("{" + std::string(kFunction) + R"(, "kind": "module"})"),
              HasSubstr("says module, but the reference is a function"));
  EXPECT_THAT(error_of("{" + std::string(kFunction) + R"(, "kind": "kernel"})"), HasSubstr("no kind of task `kernel`"));
  EXPECT_THAT(error_of("{" + std::string(kFunction) + R"(, "meta": [1]})"), HasSubstr("`meta`"));
  EXPECT_THAT(error_of("{" + std::string(kFunction) + R"(, "difficulty": "hard"})"), HasSubstr("`difficulty`"));
  EXPECT_THAT(error_of(R"({"reference": "def f(): pass", "kind": "script"})"), HasSubstr("`entry_point` and `tests`"));
  EXPECT_THAT(error_of("{" + std::string(kFunction) + R"(, "entry_point": "g"})"), HasSubstr("no function `g`"));
}

TEST(TaskJsonTest, DeepNestingIsAnErrorAndNoCrash) {
  EXPECT_THAT(error_of(std::string(2'000'000, '[')), HasSubstr("no valid JSON"));
  EXPECT_THAT(error_of(std::string(1'000'000, '[') + std::string(1'000'000, ']')), HasSubstr("no JSON object"));
}

TEST(TaskLibraryTest, FindsTasksById) {
  std::string name = (fs::temp_directory_path() / "autotriton-library-XXXXXX").string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const fs::path file = fs::path(name) / "tasks.jsonl";
  const std::string line = "{" + std::string(kFunction) + R"(, "task_id": "one"})";
  std::ofstream(file) << line << "\n\n{" << kFunction << "}\n";
  const TaskLibrary library = TaskLibrary::from_file(file);
  EXPECT_EQ(library.size(), 2u);
  ASSERT_NE(library.find("one"), nullptr);
  EXPECT_NE(library.find("line-3"), nullptr);
  EXPECT_EQ(library.find("two"), nullptr);
  std::ofstream(file, std::ios::app) << line << "\n";
  EXPECT_THROW(TaskLibrary::from_file(file), UserError);
  fs::remove_all(name);
}

}  // namespace
}  // namespace autotriton::tasks
