#include "tasks/pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <vector>

#include "base/error.h"

namespace autotriton::tasks {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::string_view kSource = R"("def f(x): return x\ndef get_inputs(): return []\n")";

class PairsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "autotriton-pairs-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    put("f.py", "def f(x): return x\ndef get_inputs(): return []\n");
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path put(const std::string& name, std::string_view bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  std::vector<std::variant<Pair, LineError>> read(std::string_view bytes, const PairReader::Options& options = {}) {
    PairReader reader(put("pairs.jsonl", bytes), options);
    std::vector<std::variant<Pair, LineError>> items;
    while (auto item = reader.next()) items.push_back(std::move(*item));
    return items;
  }
  LineError error_of(const std::string& line, const PairReader::Options& options = {}) {
    const auto items = read(line + "\n", options);
    if (items.size() != 1 || !std::holds_alternative<LineError>(items[0]))
      return {.id = "", .line = 0, .message = "no error"};
    return std::get<LineError>(items[0]);
  }

  fs::path folder_;
};

TEST_F(PairsTest, AFileOfAnotherKindIsRefusedAtOnceAndSaysWhatToDo) {
  const auto refusal = [&](std::string_view bytes) -> std::string {
    try {
      read(bytes);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("[{\"id\": 1},\n{\"id\": 2}]\n"), HasSubstr("jq -c"));
  EXPECT_THAT(refusal("import torch\nimport triton\n"), HasSubstr("is no JSONL"));
  EXPECT_EQ(refusal("one bad line\n{}\n"), "");
  EXPECT_EQ(refusal("\n\n"), "");
}

TEST_F(PairsTest, ReadsEachWayToNameAProblem) {
  const fs::path tasks = put("tasks.jsonl", R"({"task_id": "t1", "reference": )" + std::string(kSource) + "}\n");
  const TaskLibrary library = TaskLibrary::from_file(tasks);
  const auto items = read(R"({"id": "a", "problem": "f.py", "candidate": "x = 1"})"
                          "\n"
                          R"({"id": 7, "problem": )" +
                              std::string(kSource) +
                              R"(, "answer": "text"})"
                              "\n\n"
                              R"({"task": {"task_id": "mine", "reference": )" +
                              std::string(kSource) +
                              R"(}, "candidate": ""})"
                              "\r\n"
                              R"({"id": "d", "task_id": "t1", "candidate": "y"})",
                          {.tasks = &library});
  ASSERT_EQ(items.size(), 4u);
  const auto& path = std::get<Pair>(items[0]);
  EXPECT_EQ(path.id, "a");
  EXPECT_EQ(path.task->task_id, "f");
  EXPECT_EQ(path.text, "x = 1");
  EXPECT_FALSE(path.raw_answer);
  const auto& source = std::get<Pair>(items[1]);
  EXPECT_EQ(source.id, "7");
  EXPECT_TRUE(source.raw_answer);
  EXPECT_THAT(source.task->task_id, testing::StartsWith("source-"));
  const auto& inline_task = std::get<Pair>(items[2]);
  EXPECT_EQ(inline_task.id, "line-4");
  EXPECT_EQ(inline_task.line, 4u);
  EXPECT_EQ(inline_task.task->task_id, "mine");
  EXPECT_EQ(inline_task.text, "");  // An empty candidate is judged, and refused then.
  EXPECT_EQ(std::get<Pair>(items[3]).task->task_id, "t1");
}

TEST_F(PairsTest, ABrokenLineIsReportedAndTheNextOnesAreRead) {
  const auto items = read(
      "{\"id\": \"a\", \n"
      R"({"id": "b", "problem": "f.py", "candidate": "x"})"
      "\n"
      "\xFF\n"
      R"({"id": "c", "problem": "f.py", "candidate": "x"})"
      "\n");
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(std::get<LineError>(items[0]).line, 1u);
  EXPECT_EQ(std::get<LineError>(items[0]).id, "line-1");
  EXPECT_EQ(std::get<Pair>(items[1]).id, "b");
  EXPECT_EQ(std::get<LineError>(items[2]).kind, LineError::Kind::kLineUnreadable);
  EXPECT_EQ(std::get<Pair>(items[3]).id, "c");
}

TEST_F(PairsTest, SaysWhatIsWrongWithALine) {
  const auto unreadable = [&](const std::string& line) {
    const LineError error = error_of(line);
    EXPECT_EQ(error.kind, LineError::Kind::kLineUnreadable) << line;
    return error.message;
  };
  EXPECT_THAT(unreadable("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(unreadable(R"({"problem": "f.py"})"), HasSubstr("no `candidate` (source) and no `answer`"));
  EXPECT_THAT(unreadable(R"({"problem": "f.py", "candidate": "x", "answer": "y"})"), HasSubstr("leave one out"));
  EXPECT_THAT(unreadable(R"({"candidate": "x"})"), HasSubstr("no `task`, `task_id` or `problem`"));
  EXPECT_THAT(unreadable(R"({"problem": "f.py", "task": {}, "candidate": "x"})"), HasSubstr("leave one out"));
  EXPECT_THAT(unreadable(R"({"problem": 3, "candidate": "x"})"), HasSubstr("`problem` is no string"));
  EXPECT_THAT(unreadable(R"({"id": [1], "problem": "f.py", "candidate": "x"})"), HasSubstr("`id` is neither"));
  EXPECT_THAT(unreadable(R"({"problem": "f.py", "candidate": "\ud800"})"), HasSubstr("no valid JSON"));
}

TEST_F(PairsTest, ABadProblemIsToldApartFromABadLine) {
  const LineError missing = error_of(R"({"id": "a", "problem": "none.py", "candidate": "x"})");
  EXPECT_EQ(missing.kind, LineError::Kind::kProblemUnreadable);
  EXPECT_EQ(missing.id, "a");
  EXPECT_THAT(missing.message, HasSubstr("none.py"));
  EXPECT_EQ(error_of(R"({"problem": "x = 1\n", "candidate": "x"})").kind, LineError::Kind::kProblemInvalid);
  EXPECT_EQ(error_of(R"({"task": {}, "candidate": "x"})").kind, LineError::Kind::kProblemInvalid);
  const LineError no_library = error_of(R"({"task_id": "t", "candidate": "x"})");
  EXPECT_THAT(no_library.message, HasSubstr("--tasks"));
  const TaskLibrary empty;
  EXPECT_THAT(error_of(R"({"task_id": "t", "candidate": "x"})", {.tasks = &empty}).message, HasSubstr("no task `t`"));
}

TEST_F(PairsTest, AnIdUsedTwiceIsAnErrorThatNamesTheFirstLine) {
  const std::string line = R"({"id": "a", "problem": "f.py", "candidate": "x"})";
  const auto items = read(line + "\n" + line + "\n");
  ASSERT_EQ(items.size(), 2u);
  EXPECT_THAT(std::get<LineError>(items[1]).message, HasSubstr("line 1"));
}

TEST_F(PairsTest, ALineThatIsTooLongIsSkipped) {
  const auto items = read(std::string(5000, 'x') +
                              "\n"
                              R"({"problem": "f.py", "candidate": "x"})"
                              "\n",
                          {.max_line_bytes = 1000});
  ASSERT_EQ(items.size(), 2u);
  EXPECT_THAT(std::get<LineError>(items[0]).message, HasSubstr("longer than 1000 bytes"));
  EXPECT_EQ(std::get<Pair>(items[1]).line, 2u);
}

TEST_F(PairsTest, ManyLinesShareOneTaskAndLittleMemory) {
  const fs::path path = folder_ / "many.jsonl";
  constexpr int kLines = 20'000;
  {
    std::ofstream file(path);
    const std::string text(4000, 'x');
    for (int i = 0; i < kLines; ++i) file << R"({"problem": "f.py", "candidate": ")" << text << "\"}\n";
  }
  EXPECT_EQ(count_pairs(path), kLines);
  const auto peak_kib = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = peak_kib();
  PairReader reader(path, {});
  const Task* task = nullptr;
  int num_pairs = 0;
  while (const auto item = reader.next()) {
    const auto& pair = std::get<Pair>(*item);
    if (task == nullptr) task = pair.task.get();
    ASSERT_EQ(pair.task.get(), task);
    ++num_pairs;
  }
  EXPECT_EQ(num_pairs, kLines);
#ifndef __SANITIZE_ADDRESS__                  // Which keeps freed memory back.
  EXPECT_LT(peak_kib() - before, 32 * 1024);  // The file has 80 MB.
#else
  (void)before;
#endif
}

TEST_F(PairsTest, AMissingFileIsTheUsersError) { EXPECT_THROW(PairReader(folder_ / "none.jsonl", {}), UserError); }

}  // namespace
}  // namespace autotriton::tasks
