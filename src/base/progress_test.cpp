#include "base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace autotriton {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::ElementsAre;
using testing::StartsWith;

TEST(ProgressLineTest, ShowsShareRateAndTimeLeft) {
  EXPECT_EQ(
      progress_line({.label = "verdicts", .done = 120, .total = 1000, .elapsed = seconds(30), .counts = "accept 12"}),
      "120/1000 verdicts (12%), 4/s, 3m40s left, accept 12");
  EXPECT_EQ(progress_line({.label = "verdicts", .done = 10, .total = 40'000, .elapsed = seconds(4)}),
            "10/40000 verdicts (0%), 2.5/s, 4h26m left");
}

TEST(ProgressLineTest, AnEarlierRunsWorkIsNoPartOfTheRate) {
  EXPECT_EQ(progress_line({.label = "v", .done = 900, .done_before = 800, .total = 1000, .elapsed = seconds(10)}),
            "900/1000 v (90%), 10/s, 10s left");
}

TEST(ProgressLineTest, LeavesOutWhatIsNotKnown) {
  EXPECT_EQ(progress_line({.label = "v"}), "0 v");
  EXPECT_EQ(progress_line({.label = "v", .done = 50, .total = 50, .elapsed = seconds(75)}),
            "50/50 v (100%), 0.67/s, 1m15s");
}

struct Recorder {
  std::vector<std::string> writes;
  steady_clock::time_point now{};
  Progress::Writer writer() {
    return [this](std::string_view text) { writes.emplace_back(text); };
  }
  Progress::Clock clock() {
    return [this] { return now; };
  }
};

TEST(ProgressTest, WithoutATerminalALineComesEveryInterval) {
  Recorder recorder;
  Progress progress({.label = "v", .total = 4}, /*terminal=*/false, recorder.writer(), recorder.clock());
  for (std::uint64_t done = 1; done <= 4; ++done) {
    recorder.now += seconds(6);
    progress.update(done);
  }
  progress.finish();
  progress.finish();
  EXPECT_THAT(recorder.writes, ElementsAre(StartsWith("2/4 v"), StartsWith("4/4 v"), "4/4 v (100%), 0.17/s, 24s\n"));
}

TEST(ProgressTest, OnATerminalOneLineIsWrittenOver) {
  Recorder recorder;
  Progress progress({.label = "v"}, /*terminal=*/true, recorder.writer(), recorder.clock());
  progress.update(1);  // Too soon to show.
  recorder.now += seconds(1);
  progress.update(2, "ok 2");
  progress.finish();
  EXPECT_THAT(recorder.writes, ElementsAre("\r\033[K2 v, 2/s, 1s, ok 2", "\r\033[K2 v, 2/s, 1s, ok 2", "\n"));
}

}  // namespace
}  // namespace autotriton
