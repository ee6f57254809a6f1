#include "reward/fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace autotriton::reward {
namespace {

constexpr std::string_view kReference =
    "import torch\n\n\ndef f(x):\n    return x + 1\n\n\ndef get_inputs():\n    return [torch.rand(4)]\n";

verify::VerifyRequest request_with(const std::string& id, const std::string& text) {
  tasks::Task task;
  task.task_id = "t1";
  task.kind = tasks::TaskKind::kFunction;
  task.reference = std::string(kReference);
  task.entry_point = "f";
  task.meta = R"({"level":1})";
  return {.id = id, .task = std::make_shared<const tasks::Task>(task), .text = text, .raw_answer = true};
}

TEST(WorkTest, ComesOutAsItWentInButForItsId) {
  const verify::VerifyRequest request = read_work(work_bytes(request_with("a", "<think>\n```python\ndéf\n```")));
  EXPECT_EQ(request.id, "");
  EXPECT_EQ(request.text, "<think>\n```python\ndéf\n```");
  EXPECT_TRUE(request.raw_answer);
  EXPECT_EQ(request.task->task_id, "t1");
  EXPECT_EQ(request.task->kind, tasks::TaskKind::kFunction);
  EXPECT_EQ(request.task->reference, kReference);
  EXPECT_EQ(request.task->entry_point, "f");
  EXPECT_EQ(request.task->meta, R"({"level":1})");
}

TEST(WorkTest, EqualWorkHasEqualBytes) {
  EXPECT_EQ(work_bytes(request_with("a", "x")), work_bytes(request_with("b", "x")));
  EXPECT_NE(work_bytes(request_with("a", "x")), work_bytes(request_with("a", "y")));
}

TEST(WorkTest, BytesOfAnotherProgramAreRefused) {
  for (const std::string_view bytes :
       {"", "{}", "[1]", "\xff", R"({"schema":"autotriton.work/2","task":{},"text":"","raw_answer":true})",
        R"({"schema":"autotriton.work/1","task":{},"text":"","raw_answer":true})",
        R"({"schema":"autotriton.work/1","task":{"reference":"def f(x): pass"},"text":1,"raw_answer":true})"})
    EXPECT_THROW(read_work(bytes), UserError) << bytes;
}

TEST(SettingsTest, TellWhatChangesVerdictsOrRewards) {
  const Profile paper = Profile::paper();
  const verify::VerifyOptions plain;
  const std::string text = settings_text(paper, plain);
  EXPECT_THAT(text, testing::HasSubstr("profile paper, sm_90, 7 trials"));
  EXPECT_NE(settings_text(Profile::find("format"), plain), text);
  std::vector<verify::VerifyOptions> others(6, plain);
  others[0].trials = 3;
  others[1].capability = 80;
  others[2].shapes = verify::Shapes::kOriginal;
  others[3].torch_compute = verify::TorchCompute::kReport;
  others[4].budgets.set("run", 5);
  others[5].max_elements = 10;
  for (const verify::VerifyOptions& options : others) EXPECT_NE(settings_text(paper, options), text);
}

}  // namespace
}  // namespace autotriton::reward
