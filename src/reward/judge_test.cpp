#include "reward/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "reward/held_backend.h"

namespace autotriton::reward {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using verify::Reason;
using verify::Unjudged;

class JudgeTest : public testing::Test {
 protected:
  Item item(const std::string& text, const std::string& task_id = "t") {
    auto task = std::make_shared<tasks::Task>();
    task->task_id = task_id;
    task->reference = "reference";
    return {.task = task, .text = text};
  }
  Batch batch(std::vector<Item> items, std::chrono::milliseconds time = 60s) {
    return {.items = std::move(items), .deadline = Clock::now() + time};
  }
  // Submits, and returns where the results will be.
  std::future<std::vector<Judged>> submit(Batch given, Judge::Admission expected = Judge::Admission::kTaken) {
    auto promise = std::make_shared<std::promise<std::vector<Judged>>>();
    auto [admission, ticket] = judge_.submit(
        std::move(given), [promise](std::vector<Judged> results) { promise->set_value(std::move(results)); });
    EXPECT_EQ(admission, expected);
    last_ticket_ = ticket;
    return promise->get_future();
  }
  static bool is_there(std::future<std::vector<Judged>>& results) {
    return results.wait_for(0s) == std::future_status::ready;
  }

  HeldBackend backend_;
  server::Metrics metrics_;
  Judge judge_{backend_, Profile::paper(), {.max_waiting = 3}, metrics_};
  std::shared_ptr<Judge::Ticket> last_ticket_;
};

TEST_F(JudgeTest, ABatchIsAnsweredInItsOrderWhenItsLastIsJudged) {
  auto results = submit(batch({item("a"), item("b")}));
  auto first = backend_.take();
  auto second = backend_.take();
  second->done(HeldBackend::verdict(Reason::kWrongValues));
  EXPECT_FALSE(is_there(results));
  first->done(HeldBackend::verdict(Reason::kAllEvidence));
  const auto judged = results.get();
  EXPECT_EQ(judged[0].reward, 1.0);
  EXPECT_EQ(judged[0].outcome, "accept");
  EXPECT_EQ(judged[1].reward, 0.0);
  EXPECT_EQ(judged[1].reason, "wrong-values");
}

TEST_F(JudgeTest, AnEmptyBatchIsAnsweredAtOnce) {
  auto results = submit(batch({}));
  // Nothing is left to settle, so the answer must not wait for a deadline.
  ASSERT_EQ(results.wait_for(5s), std::future_status::ready);
  EXPECT_TRUE(results.get().empty());
}

TEST_F(JudgeTest, EqualWorkUnderWayIsJudgedOnce) {
  auto one = submit(batch({item("a"), item("a")}));
  auto other = submit(batch({item("a")}));
  auto different_task = submit(batch({item("a", "u")}));
  EXPECT_EQ(backend_.submitted(), 2U);
  backend_.end_first(HeldBackend::verdict(Reason::kAllEvidence));
  EXPECT_EQ(one.get()[1].reward, 1.0);
  EXPECT_EQ(other.get()[0].reward, 1.0);
  EXPECT_FALSE(is_there(different_task));
  submit(batch({item("a")}));
  EXPECT_EQ(backend_.submitted(), 3U) << "what has ended is judged anew";
}

TEST_F(JudgeTest, InconclusiveAndOurFaultsHaveNoReward) {
  auto results = submit(batch({item("a"), item("b")}));
  backend_.end_first(HeldBackend::verdict(Reason::kTaskUnsupported));
  backend_.end_first(HeldBackend::verdict(Reason::kWorkerLost));
  EXPECT_TRUE(backend_.end_first(HeldBackend::verdict(Reason::kWorkerLost))) << "a fault of ours is tried once more";
  const auto judged = results.get();
  EXPECT_EQ(judged[0].reward, std::nullopt);
  EXPECT_EQ(judged[0].reason, "task-unsupported");
  EXPECT_EQ(judged[1].reward, std::nullopt);
  EXPECT_EQ(judged[1].reason, "worker-lost");
  EXPECT_EQ(backend_.submitted(), 3U);
}

TEST_F(JudgeTest, AFaultOfOursThatPassesCostsNothing) {
  auto results = submit(batch({item("a")}));
  backend_.end_first(HeldBackend::verdict(Reason::kWorkerLost));
  EXPECT_FALSE(is_there(results));
  backend_.end_first(HeldBackend::verdict(Reason::kAllEvidence));
  EXPECT_EQ(results.get()[0].reward, 1.0);
}

TEST_F(JudgeTest, WhatIsNotJudgedByTheDeadlineHasNoRewardAndTheRestKeepsItsOwn) {
  auto results = submit(batch({item("a"), item("b")}, 200ms));
  backend_.end_first(HeldBackend::verdict(Reason::kWrongValues));
  const auto judged = results.get();
  EXPECT_EQ(judged[0].reward, 0.0);
  EXPECT_EQ(judged[1].reward, std::nullopt);
  EXPECT_EQ(judged[1].reason, "deadline");
  EXPECT_FALSE(backend_.take()->ticket.wanted()) << "nobody waits for the second any more";
}

TEST_F(JudgeTest, WhoWaitsLongerThanTheFirstIsNotEndedWithIt) {
  auto hasty = submit(batch({item("a")}, 50ms));
  auto patient = submit(batch({item("a")}, 60s));
  EXPECT_EQ(hasty.get()[0].reason, "deadline");
  // The backend began too late for the first.
  backend_.end_first(HeldBackend::none(Unjudged::kExpired));
  EXPECT_FALSE(is_there(patient));
  backend_.end_first(HeldBackend::verdict(Reason::kAllEvidence));
  EXPECT_EQ(patient.get()[0].reward, 1.0);
}

TEST_F(JudgeTest, ABatchThatDoesNotFitIsRefusedWhole) {
  submit(batch({item("a"), item("b")}));
  submit(batch({item("c"), item("d")}), Judge::Admission::kFull);
  EXPECT_EQ(backend_.submitted(), 2U);
  auto fitting = submit(batch({item("a"), item("c")}));
  EXPECT_EQ(backend_.submitted(), 3U) << "what is under way takes no room";
  submit(batch({item("1"), item("2"), item("3"), item("4")}), Judge::Admission::kTooLarge);
}

TEST_F(JudgeTest, WorkThatNobodyWaitsForIsNotWanted) {
  auto results = submit(batch({item("a")}));
  judge_.cancel(last_ticket_);
  auto held = backend_.take();
  EXPECT_FALSE(held->ticket.wanted());
  auto late = submit(batch({item("a")}));
  EXPECT_TRUE(held->ticket.wanted()) << "someone joined";
  held->done(HeldBackend::none(Unjudged::kCancelled));
  EXPECT_TRUE(backend_.end_first(HeldBackend::verdict(Reason::kAllEvidence))) << "it is begun again for who joined";
  EXPECT_EQ(late.get()[0].reward, 1.0);
  EXPECT_THROW(results.get(), std::future_error) << "who went away is never told";
}

TEST_F(JudgeTest, DrainingTakesNothingNewAndEndsWhatIsLeftWithoutReward) {
  auto results = submit(batch({item("a")}));
  judge_.begin_drain();
  submit(batch({item("b")}), Judge::Admission::kDraining);
  EXPECT_FALSE(is_there(results));
  EXPECT_FALSE(judge_.drain(Clock::now()));
  const auto judged = results.get();
  EXPECT_EQ(judged[0].reward, std::nullopt);
  EXPECT_EQ(judged[0].reason, "draining");
}

TEST_F(JudgeTest, ABrokenBackendIsSaidToBeSo) {
  auto results = submit(batch({item("a")}));
  backend_.break_down("no Python");
  backend_.end_first(HeldBackend::none(Unjudged::kCancelled));
  const auto judged = results.get();
  EXPECT_EQ(judged[0].reward, std::nullopt);
  EXPECT_THAT(judged[0].message, HasSubstr("no Python"));
  submit(batch({item("b")}), Judge::Admission::kBroken);
}

TEST_F(JudgeTest, AnItemWhoseTaskIsWrongDoesNotHoldUpTheOthers) {
  auto results = submit(batch(
      {{.task = nullptr, .text = {}, .problem_reason = "problem-invalid", .problem_message = "no Model"}, item("a")}));
  backend_.end_first(HeldBackend::verdict(Reason::kAllEvidence));
  const auto judged = results.get();
  EXPECT_EQ(judged[0].reward, std::nullopt);
  EXPECT_EQ(judged[0].reason, "problem-invalid");
  EXPECT_EQ(judged[1].reward, 1.0);
}

TEST_F(JudgeTest, MetricsTellRewardsReasonsAndWhatWasMasked) {
  auto results = submit(batch({item("a"), item("b")}));
  backend_.end_first(HeldBackend::verdict(Reason::kAllEvidence));
  backend_.end_first(HeldBackend::verdict(Reason::kInterpreterGap));
  results.get();
  const std::string text = metrics_.text();
  EXPECT_THAT(text, HasSubstr(R"(autotriton_verdicts_total{reason="all-evidence",verdict="accept"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(autotriton_masked_total{reason="interpreter-gap"} 1)"));
  EXPECT_THAT(text, HasSubstr("autotriton_reward_sum 1"));
}

}  // namespace
}  // namespace autotriton::reward
