#include "verify/pool.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"

namespace autotriton::verify {
namespace {

using Clock = std::chrono::steady_clock;

/// How often a request may be passed over in favour of one whose oracle is warm.
constexpr int kMaxPassedOver = 16;
constexpr double kRateMemory = 0.9;  ///< Weight of the past in the running mean of a judgement's seconds.

std::size_t task_key(const tasks::Task& task) {
  return std::hash<std::string>()(task.reference) ^ (std::hash<std::string>()(task.entry_point) << 1U);
}

}  // namespace

struct Pool::Impl {
  struct Entry {
    VerifyRequest request;
    PoolTicket ticket;
    std::function<void(PoolResult)> done;
    Clock::time_point arrived;
    std::size_t task = 0;
    int passed_over = 0;
  };

  Impl(execution::ForkServer& given, VerifyOptions chosen, PoolOptions pool)
      : server(given), options(std::move(chosen)), limits(pool) {
    last_task.resize(static_cast<std::size_t>(limits.jobs), 0);
    for (int worker = 0; worker < limits.jobs; ++worker)
      threads.emplace_back([this, worker] { work(static_cast<std::size_t>(worker)); });
  }

  execution::ForkServer& server;
  const VerifyOptions options;
  const PoolOptions limits;

  mutable std::mutex mutex;
  std::condition_variable something_waits;
  std::condition_variable something_ended;
  std::list<Entry> queue;  ///< By priority, then by arrival.
  std::vector<std::size_t> last_task;
  std::size_t judging = 0;
  bool closed = false;  ///< Nothing more is taken.
  bool ending = false;  ///< The threads leave.
  double mean_seconds = 1;
  std::string fault;
  std::vector<std::jthread> threads;  // Last: they use the others.

  Admission submit(VerifyRequest request, PoolTicket ticket, std::function<void(PoolResult)> done) {
    Entry entry{.request = std::move(request),
                .ticket = ticket,
                .done = std::move(done),
                .arrived = Clock::now(),
                .task = 0,
                .passed_over = 0};
    entry.task = task_key(*entry.request.task);
    {
      const std::lock_guard lock(mutex);
      if (closed) return Admission::kClosed;
      if (queue.size() >= limits.max_waiting) return Admission::kFull;
      const auto place = std::find_if(queue.begin(), queue.end(),
                                      [&](const Entry& other) { return other.ticket.priority < ticket.priority; });
      queue.insert(place, std::move(entry));
    }
    something_waits.notify_one();
    return Admission::kQueued;
  }

  /// The request that this worker takes: of the first priority's the one whose oracle is warm here, else one that no
  /// other worker has the oracle for, else the first. Only with a queue that is not empty.
  std::list<Entry>::iterator choose(std::size_t worker) {
    const auto first = queue.begin();
    if (first->passed_over >= kMaxPassedOver) return first;
    const auto end =
        std::find_if(first, queue.end(), [&](const Entry& e) { return e.ticket.priority != first->ticket.priority; });
    auto chosen = std::find_if(first, end, [&](const Entry& e) { return e.task == last_task[worker]; });
    if (chosen == end) {
      chosen = std::find_if(first, end, [&](const Entry& e) {
        return std::find(last_task.begin(), last_task.end(), e.task) == last_task.end();
      });
    }
    if (chosen == end) return first;
    if (chosen != first) ++first->passed_over;
    return chosen;
  }

  void work(std::size_t worker) {
    Verifier verifier(server, options);
    std::unique_lock lock(mutex);
    while (true) {
      something_waits.wait(lock, [&] { return ending || !queue.empty(); });
      if (queue.empty()) return;
      const auto chosen = choose(worker);
      Entry entry = std::move(*chosen);
      queue.erase(chosen);
      last_task[worker] = entry.task;
      ++judging;
      lock.unlock();
      PoolResult result = judge(verifier, entry);
      const double seconds = result.judged_seconds;
      const bool judged = result.verdict.has_value();
      entry.done(std::move(result));
      lock.lock();
      --judging;
      if (judged) mean_seconds = kRateMemory * mean_seconds + (1 - kRateMemory) * seconds;
      something_ended.notify_all();
    }
  }

  PoolResult judge(Verifier& verifier, const Entry& entry) {
    PoolResult result;
    const auto start = Clock::now();
    result.waited_seconds = std::chrono::duration<double>(start - entry.arrived).count();
    if (entry.ticket.start_by && start > *entry.ticket.start_by) {
      result.unjudged = Unjudged::kExpired;
      return result;
    }
    if (entry.ticket.wanted && !entry.ticket.wanted()) return result;  // Cancelled.
    try {
      result.verdict = verifier.verify(entry.request);
    } catch (const Interrupted&) {
      close("interrupted");
    } catch (const std::exception& error) {
      close(error.what());
    }
    result.judged_seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return result;
  }

  /// The set-up is wrong: no request can be judged any more.
  void close(const std::string& why) {
    {
      const std::lock_guard lock(mutex);
      if (fault.empty()) fault = why;
      closed = true;
    }
    cancel_waiting();
  }

  std::size_t cancel_waiting() {
    std::list<Entry> cancelled;
    {
      const std::lock_guard lock(mutex);
      cancelled.swap(queue);
    }
    for (Entry& entry : cancelled) {
      PoolResult result;
      result.waited_seconds = std::chrono::duration<double>(Clock::now() - entry.arrived).count();
      entry.done(std::move(result));
    }
    something_ended.notify_all();
    return cancelled.size();
  }

  bool drain(Clock::time_point deadline) {
    std::unique_lock lock(mutex);
    closed = true;
    const auto idle = [&] { return queue.empty() && judging == 0; };
    something_ended.wait_until(lock, deadline, idle);
    lock.unlock();
    const bool complete = cancel_waiting() == 0;
    lock.lock();
    something_ended.wait(lock, idle);
    return complete;
  }
};

Pool::Pool(execution::ForkServer& server, VerifyOptions options, PoolOptions pool)
    : impl_(std::make_unique<Impl>(server, std::move(options), pool)) {
  check(pool.jobs > 0, "a pool has at least one verifier");
}

Pool::~Pool() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->closed = true;
  }
  impl_->cancel_waiting();
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ending = true;
  }
  impl_->something_waits.notify_all();
}

Pool::Admission Pool::submit(VerifyRequest request, PoolTicket ticket, std::function<void(PoolResult)> done) {
  return impl_->submit(std::move(request), std::move(ticket), std::move(done));
}

bool Pool::drain(Clock::time_point deadline) { return impl_->drain(deadline); }

std::size_t Pool::waiting() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->queue.size();
}

std::size_t Pool::judging() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->judging;
}

int Pool::jobs() const { return impl_->limits.jobs; }

double Pool::expected_wait() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->mean_seconds * static_cast<double>(impl_->queue.size() + impl_->judging) / impl_->limits.jobs;
}

std::string Pool::fault() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->fault;
}

}  // namespace autotriton::verify
