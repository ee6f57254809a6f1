#include "verify/pool.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace autotriton::verify {
namespace {

using testing::ElementsAre;

// Scripts are concluded without any process, so these tests judge at once; a gate in a callback holds the one worker.
std::shared_ptr<const tasks::Task> task(const std::string& name) {
  tasks::Task made;
  made.task_id = name;
  made.kind = tasks::TaskKind::kScript;
  made.reference = name;
  return std::make_shared<const tasks::Task>(std::move(made));
}

execution::ForkServer& no_server() {
  static execution::ForkServer server({.python = "/nonexistent", .worker = "/nonexistent", .confine_library = ""});
  return server;
}

class PoolTest : public testing::Test {
 protected:
  Pool::Admission submit(const std::string& id, const std::string& task_name, int priority = 0,
                         std::optional<std::chrono::steady_clock::time_point> start_by = {}) {
    return pool_.submit({.id = id, .task = task(task_name), .text = "x"}, {.priority = priority, .start_by = start_by},
                        [this, id](PoolResult result) {
                          const std::lock_guard lock(mutex_);
                          order_.push_back(result.verdict                          ? id
                                           : result.unjudged == Unjudged::kExpired ? id + " expired"
                                                                                   : id + " cancelled");
                        });
  }
  /// Holds the worker until `open_gate`; returns when it is held.
  void close_gate(const std::string& task_name) {
    std::promise<void> held;
    pool_.submit({.id = "gate", .task = task(task_name), .text = "x"}, {},
                 [&, opened = gate_.get_future().share()](PoolResult) {
                   held.set_value();
                   opened.wait();
                 });
    held.get_future().wait();
  }
  void open_gate() { gate_.set_value(); }
  bool drain() { return pool_.drain(std::chrono::steady_clock::now() + std::chrono::seconds(30)); }
  std::vector<std::string> order() {
    const std::lock_guard lock(mutex_);
    return order_;
  }

  std::mutex mutex_;
  std::vector<std::string> order_;
  std::promise<void> gate_;
  Pool pool_{no_server(), {}, {.jobs = 1, .max_waiting = 4}};
};

TEST_F(PoolTest, HigherPrioritiesGoFirstAndEqualOnesInTheOrderOfArrival) {
  close_gate("t");
  submit("low", "a", -1);
  submit("first", "b", 0);
  submit("second", "c", 0);
  submit("high", "d", 5);
  open_gate();
  EXPECT_TRUE(drain());
  EXPECT_THAT(order(), ElementsAre("high", "first", "second", "low"));
}

TEST_F(PoolTest, ARequestOfTheTaskJudgedLastGoesBeforeOthersOfItsPriority) {
  close_gate("warm");
  submit("cold", "other", 0);
  submit("same", "warm", 0);
  open_gate();
  EXPECT_TRUE(drain());
  EXPECT_THAT(order(), ElementsAre("same", "cold"));
}

TEST_F(PoolTest, AFullQueueRefusesAndSaysHowLongToWait) {
  close_gate("t");
  for (int index = 0; index < 4; ++index) EXPECT_EQ(submit(std::to_string(index), "t"), Pool::Admission::kQueued);
  EXPECT_EQ(submit("one too many", "t"), Pool::Admission::kFull);
  EXPECT_EQ(pool_.waiting(), 4U);
  EXPECT_EQ(pool_.judging(), 1U);
  EXPECT_GT(pool_.expected_wait(), 0);
  open_gate();
  EXPECT_TRUE(drain());
  EXPECT_EQ(order().size(), 4U);
}

TEST_F(PoolTest, ARequestThatCouldNotBeginInTimeEndsWithoutAVerdict) {
  close_gate("t");
  submit("late", "t", 0, std::chrono::steady_clock::now() - std::chrono::seconds(1));
  open_gate();
  EXPECT_TRUE(drain());
  EXPECT_THAT(order(), ElementsAre("late expired"));
}

TEST_F(PoolTest, ADrainThatRunsOutOfTimeCancelsWhatWaitsAndWaitsForWhatIsJudged) {
  close_gate("t");
  submit("waits", "t");
  std::future<bool> drained =
      std::async(std::launch::async, [&] { return pool_.drain(std::chrono::steady_clock::now()); });
  while (order().empty()) std::this_thread::yield();
  EXPECT_THAT(order(), ElementsAre("waits cancelled"));
  EXPECT_EQ(submit("after", "t"), Pool::Admission::kClosed);
  EXPECT_EQ(drained.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  open_gate();
  EXPECT_FALSE(drained.get());
}

TEST(PoolWithoutPythonTest, ClosesWithTheFaultAndAnswersEverybody) {
  Pool pool(no_server(), {}, {.jobs = 2, .max_waiting = 100});
  tasks::Task made;
  made.task_id = "m";
  made.kind = tasks::TaskKind::kFunction;
  made.entry_point = "f";
  made.reference = "def f(x): return x";
  const auto shared = std::make_shared<const tasks::Task>(made);
  const std::string source =
      "import triton\nimport triton.language as tl\nimport torch\n\n\n@triton.jit\ndef k(x, o, B: tl.constexpr):\n"
      "    i = tl.arange(0, B)\n    tl.store(o + i, tl.load(x + i))\n\n\ndef f(x):\n    o = torch.empty_like(x)\n"
      "    k[(1,)](x, o, 16)\n    return o\n";
  std::atomic<int> answered{0};
  std::atomic<int> verdicts{0};
  int queued = 0;
  for (int index = 0; index < 20; ++index) {
    const auto admission = pool.submit({.id = "x", .task = shared, .text = source}, {}, [&](PoolResult result) {
      if (result.verdict) ++verdicts;
      ++answered;
    });
    if (admission == Pool::Admission::kQueued) ++queued;
  }
  pool.drain(std::chrono::steady_clock::now() + std::chrono::seconds(60));
  EXPECT_GE(queued, 1);
  EXPECT_EQ(answered, queued);
  EXPECT_EQ(verdicts, 0);
  EXPECT_THAT(pool.fault(), testing::Not(testing::IsEmpty()));
  EXPECT_EQ(pool.submit({.id = "x", .task = shared, .text = source}, {}, [](PoolResult) {}), Pool::Admission::kClosed);
}

}  // namespace
}  // namespace autotriton::verify
