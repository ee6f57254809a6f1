#include "tasks/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace autotriton::tasks {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kModule =
    "import torch\nclass Model(torch.nn.Module): pass\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n";

std::string script(std::string_view reference, std::string_view tests) {
  return std::string(reference) + std::string(146, '#') + "\n" + std::string(tests);
}

struct Failure {
  ProblemError::Kind kind;
  std::string message;
};

template <typename Action>
Failure failure_of(Action action) {
  try {
    action();
  } catch (const ProblemError& error) {
    EXPECT_FALSE(error.text().where.empty());
    EXPECT_FALSE(error.text().fix.empty());
    return {error.kind(), error.what()};
  }
  return {ProblemError::Kind::kInvalid, "no error"};
}

std::string invalid(std::string_view source, const std::optional<std::string>& entry = {}) {
  const Failure failure = failure_of([&] { problem_from_source(source, "t", "t.py", entry); });
  EXPECT_EQ(failure.kind, ProblemError::Kind::kInvalid);
  return failure.message;
}

TEST(ProblemTest, AClassModelMakesAModule) {
  const Task task = problem_from_source(kModule, "t", "t.py");
  EXPECT_EQ(task.kind, TaskKind::kModule);
  EXPECT_EQ(task.entry_point, "Model");
  EXPECT_EQ(answer_entry_point(task), "ModelNew");
  EXPECT_EQ(task.reference, kModule);
}

TEST(ProblemTest, OnePublicFunctionBesideGetInputsIsTheOneToReplace) {
  const Task task = problem_from_source(
      "import torch\ndef _half(x): return x / 2\ndef swish(x): return _half(x)\ndef get_inputs(): return []\n", "t",
      "t.py");
  EXPECT_EQ(task.kind, TaskKind::kFunction);
  EXPECT_EQ(answer_entry_point(task), "swish");
}

TEST(ProblemTest, SeveralFunctionsNeedAName) {
  const std::string source = "def f(x): return g(x)\ndef g(x): return x\ndef get_inputs(): return []\n";
  EXPECT_THAT(invalid(source), AllOf(HasSubstr("`f`, `g`"), HasSubstr("# entry_point: f")));
  EXPECT_EQ(problem_from_source("# entry_point: g\n" + source, "t", "t.py").entry_point, "g");
  EXPECT_EQ(problem_from_source(source, "t", "t.py", "f").entry_point, "f");
  EXPECT_THAT(invalid(source, "h"), AllOf(HasSubstr("no function `h`"), HasSubstr("`f`, `g`")));
}

TEST(ProblemTest, ALineOf146HashesPartsAScript) {
  const Task task = problem_from_source(script("import torch\ndef helper(x): return x\ndef relu(x): return helper(x)\n",
                                               "def test_relu():\n  return {'a': relu(1)}\nresult = test_relu()\n"),
                                        "t", "t.py");
  EXPECT_EQ(task.kind, TaskKind::kScript);
  EXPECT_EQ(task.entry_point, "relu");
  EXPECT_EQ(task.reference, "import torch\ndef helper(x): return x\ndef relu(x): return helper(x)\n");
  EXPECT_EQ(task.tests, "def test_relu():\n  return {'a': relu(1)}\nresult = test_relu()\n");
}

TEST(ProblemTest, AScriptsTestsSayWhatTheyTest) {
  const auto entry = [](std::string_view reference, std::string_view tests) {
    return problem_from_source(script(reference, tests), "t", "t.py").entry_point;
  };
  EXPECT_EQ(entry("def f(): pass\ndef g(): pass\n", "from m import g\ng()\nf()\n"), "g");
  EXPECT_EQ(entry("def _fwd(): pass\n", "_fwd()\n"), "_fwd");
  EXPECT_EQ(entry("def _fwd(): pass\ndef f(): pass\n", "_fwd()\nf()\n"), "f");
  EXPECT_EQ(entry("class F: pass\nf = F()\n", "def f(): pass\nF()\nf()\n"), "F");
}

TEST(ProblemTest, AnotherNumberOfHashesIsAComment) {
  const std::string source = std::string(kModule) + std::string(145, '#') + "\nx = 1\n";
  EXPECT_EQ(problem_from_source(source, "t", "t.py").kind, TaskKind::kModule);
}

TEST(ProblemTest, SaysWhatIsMissing) {
  EXPECT_THAT(invalid(""), HasSubstr("is empty"));
  EXPECT_THAT(invalid(" \n\xEF\xBB\xBF"), HasSubstr("no `class Model`"));
  EXPECT_THAT(invalid("x = 1\n"), HasSubstr("no `class Model` and no function `get_inputs`"));
  EXPECT_THAT(invalid("class Model: pass\n"), HasSubstr("no function `get_inputs`"));
  EXPECT_THAT(invalid("class Model: pass\ndef get_inputs(): pass\n"), HasSubstr("no function `get_init_inputs`"));
  EXPECT_THAT(invalid("def get_inputs(): pass\n"), HasSubstr("neither `class Model` nor a public function"));
  EXPECT_THAT(invalid("if True:\n  class Model: pass\n"), HasSubstr("no `class Model`"));
  EXPECT_THAT(invalid(script("def f(): pass\n", "")), HasSubstr("no test code"));
  EXPECT_THAT(invalid(script("def f(): pass\n", "print(1)\n")), HasSubstr("use nothing"));
  EXPECT_THAT(invalid(script("def f(): pass\n", "def f(): pass\nf()\n")), HasSubstr("define `f` again"));
}

class ProblemFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "autotriton-problem-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path put(const fs::path& name, std::string_view bytes) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  std::string unreadable(const fs::path& path) {
    const Failure failure = failure_of([&] { read_problem(path); });
    EXPECT_EQ(failure.kind, ProblemError::Kind::kUnreadable);
    return failure.message;
  }

  fs::path folder_;
};

TEST_F(ProblemFileTest, IsNamedAfterItsFile) {
  const Task task = read_problem(put("softmax.py", kModule));
  EXPECT_EQ(task.task_id, "softmax");
  EXPECT_EQ(task.source, "softmax.py");
  EXPECT_EQ(task.meta, "{}");
}

TEST_F(ProblemFileTest, KnowsTheNamingOfKernelBench) {
  const Task task = read_problem(put("level2/19_Conv_ReLU.py", kModule));
  EXPECT_EQ(task.task_id, "kernelbench/level2/19_Conv_ReLU");
  EXPECT_EQ(task.meta, R"({"level":2,"problem_id":19,"name":"19_Conv_ReLU"})");
  EXPECT_EQ(read_problem(put("level_1/7_ReLU.py", kModule)).task_id, "kernelbench/level1/7_ReLU");
  EXPECT_EQ(read_problem(put("levels/7_ReLU.py", kModule)).task_id, "7_ReLU");
}

TEST_F(ProblemFileTest, WindowsTextIsReadAsPlainText) {
  const Task task = read_problem(put("a.py",
                                     "\xEF\xBB\xBF"
                                     "class Model: pass\r\ndef get_inputs(): pass\r\ndef get_init_inputs(): pass\r\n"));
  EXPECT_EQ(task.reference, "class Model: pass\ndef get_inputs(): pass\ndef get_init_inputs(): pass\n");
}

TEST_F(ProblemFileTest, WhatCannotBeReadSaysWhy) {
  EXPECT_THAT(unreadable(folder_ / "none.py"), HasSubstr("No such file"));
  EXPECT_THAT(unreadable(folder_), HasSubstr("is a folder"));
  EXPECT_THAT(unreadable(put("latin.py", "# caf\xE9\n")), HasSubstr("byte 0xe9 at offset 5"));
  const fs::path large = put("large.py", "");
  fs::resize_file(large, 50'000'001);
  EXPECT_THAT(unreadable(large), HasSubstr("more than the 50000000 bytes"));
}

}  // namespace
}  // namespace autotriton::tasks
