#pragma once

#include <mutex>
#include <vector>

#include "reward/judge.h"

namespace autotriton::reward {

/// A backend for tests: it keeps what it is given until a test says what became of it.
class HeldBackend final : public Backend {
 public:
  struct Held {
    verify::VerifyRequest request;
    verify::PoolTicket ticket;
    std::function<void(verify::PoolResult)> done;
  };

  verify::Pool::Admission submit(verify::VerifyRequest request, verify::PoolTicket ticket,
                                 std::function<void(verify::PoolResult)> done) override {
    const std::lock_guard lock(mutex_);
    if (closed_) return verify::Pool::Admission::kClosed;
    held_.push_back({std::move(request), std::move(ticket), std::move(done)});
    ++submitted_;
    return verify::Pool::Admission::kQueued;
  }
  bool drain(Clock::time_point) override {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    bool complete = true;
    for (auto held = take(); held; held = take()) {
      held->done({});
      complete = false;
    }
    return complete;
  }
  std::size_t waiting() const override {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }
  std::size_t judging() const override { return 0; }
  int jobs() const override { return 1; }
  double expected_wait() const override { return 12.3; }
  std::string fault() const override { return fault_; }

  /// The first that is held; empty if none is.
  std::optional<Held> take() {
    const std::lock_guard lock(mutex_);
    if (held_.empty()) return std::nullopt;
    Held first = std::move(held_.front());
    held_.erase(held_.begin());
    return first;
  }
  std::size_t submitted() const { return submitted_; }
  void break_down(std::string why) { fault_ = std::move(why); }

  static verify::PoolResult verdict(verify::Reason reason) {
    verify::PoolResult result;
    result.verdict.emplace();
    result.verdict->task_id = "t";
    result.verdict->is_triton = result.verdict->tests_pass = reason == verify::Reason::kAllEvidence;
    result.verdict->conclude(reason, "because");
    result.judged_seconds = 0.5;
    return result;
  }
  static verify::PoolResult none(verify::Unjudged why) {
    verify::PoolResult result;
    result.unjudged = why;
    return result;
  }
  /// Ends the first that is held. False if none is.
  bool end_first(verify::PoolResult result) {
    auto held = take();
    if (held) held->done(std::move(result));
    return held.has_value();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Held> held_;
  std::size_t submitted_ = 0;
  bool closed_ = false;
  std::string fault_;
};

}  // namespace autotriton::reward
