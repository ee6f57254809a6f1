#include "tasks/benchmarks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace autotriton::tasks {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// Small folders in the layout of the benchmarks' repositories.
class BenchmarksTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "autotriton-benchmarks-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const fs::path& path, std::string_view bytes) {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path, std::ios::binary) << bytes;
  }
  static std::vector<std::string> ids(const Collection& collection) {
    std::vector<std::string> found;
    for (const Task& task : collection.tasks) found.push_back(task.task_id);
    return found;
  }

  fs::path folder_;
};

constexpr std::string_view kModule = "class Model: pass\ndef get_inputs(): pass\ndef get_init_inputs(): pass\n";

TEST_F(BenchmarksTest, KernelBenchComesInTheOrderOfItsNumbers) {
  put("KernelBench/level1/10_B.py", kModule);
  put("KernelBench/level1/9_A.py", kModule);
  put("KernelBench/level1/notes.txt", "");
  put("KernelBench/level2/1_C.py", kModule);
  put("KernelBench/level2/2_Broken.py", "x = 1\n");
  const Collection all = read_kernelbench(folder_);
  EXPECT_THAT(ids(all), ElementsAre("kernelbench/level1/9_A", "kernelbench/level1/10_B", "kernelbench/level2/1_C"));
  EXPECT_EQ(all.tasks[2].difficulty, 2);
  ASSERT_EQ(all.refused.size(), 1u);
  EXPECT_THAT(all.refused[0].where, HasSubstr("2_Broken.py"));
  EXPECT_THAT(ids(read_kernelbench(folder_ / "KernelBench", 1)), testing::SizeIs(2));
  EXPECT_THROW(read_kernelbench(folder_, 3), UserError);
  EXPECT_THROW(read_kernelbench(folder_ / "KernelBench" / "level1"), UserError);
}

TEST_F(BenchmarksTest, TritonBenchFollowsItsList) {
  const std::string ruler = std::string(146, '#') + "\n";
  put("data/TritonBench_T_v1.jsonl",
      R"([{"file": "abs.py", "difficulty": 1}, {"file": "gone.py"}, {"file": "plain.py"}, {"name": "x"}])");
  put("data/TritonBench_T_comp_alpac_v1.json", R"([{"instruction": "Write abs."}, {}, {}, {}])");
  put("data/TritonBench_T_v1/abs.py", "def abs(x): return x\n" + ruler + "def test_abs(): return abs(1)\ntest_abs()\n");
  put("data/TritonBench_T_v1/plain.py", kModule);
  const Collection all = read_tritonbench(folder_, TritonBenchSuite::kT);
  ASSERT_THAT(ids(all), ElementsAre("tritonbench-t/abs"));
  EXPECT_EQ(all.tasks[0].entry_point, "abs");
  EXPECT_EQ(all.tasks[0].instruction, "Write abs.");
  EXPECT_EQ(all.tasks[0].difficulty, 1);
  EXPECT_THAT(all.tasks[0].tests, HasSubstr("test_abs()"));
  EXPECT_EQ(all.refused.size(), 3u);
  EXPECT_THROW(read_tritonbench(folder_, TritonBenchSuite::kG), UserError);
}

TEST_F(BenchmarksTest, ListsThatDoNotMatchAreRefused) {
  put("data/TritonBench_G_v1.json", R"([{"file": "a.py"}])");
  put("data/TritonBench_G_comp_alpac_v1.json", "[]");
  EXPECT_THROW(read_tritonbench(folder_, TritonBenchSuite::kG), UserError);
  put("data/TritonBench_G_v1.json", "{");
  EXPECT_THROW(read_tritonbench(folder_, TritonBenchSuite::kG), UserError);
}

}  // namespace
}  // namespace autotriton::tasks
