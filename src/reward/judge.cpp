#include "reward/judge.h"

#include <algorithm>
#include <set>

#include "base/sha256.h"
#include "tasks/task_json.h"
#include "verify/reason.h"

namespace autotriton::reward {
namespace {

constexpr int kMaxAttempts = 2;  // Of a judgement that ended by a fault of ours.
const std::string kPrefix = "autotriton_";

std::string work_key(const Item& item) {
  return sha256_hex(tasks::task_json(*item.task) + '\n' + (item.raw_answer ? "answer" : "candidate") + '\n' +
                    item.text);
}

Judged unjudged(const Item& item, std::string reason, std::string message) {
  Judged judged;
  judged.task_id = item.task ? item.task->task_id : "";
  judged.reason = std::move(reason);
  judged.message = std::move(message);
  return judged;
}

}  // namespace

class Judge::Ticket {
 public:
  std::vector<Item> items;  // Without their texts.
  std::vector<std::optional<Judged>> results;
  std::vector<std::string> keys;
  std::size_t open = 0;
  Clock::time_point deadline;
  Done done;  // Empty: answered or cancelled.
};

struct Judge::Flight {
  struct Waiter {
    std::shared_ptr<Ticket> ticket;
    std::size_t index;
  };
  std::string key;
  verify::VerifyRequest request;
  int priority = 0;
  int attempts = 0;
  std::vector<Waiter> waiters;
};

struct Judge::Call {
  Done done;
  std::vector<Judged> results;
  void operator()() { done(std::move(results)); }
};

Judge::Judge(Backend& backend, Profile profile, JudgeOptions options, server::Metrics& metrics)
    : backend_(backend), profile_(std::move(profile)), options_(options), metrics_(metrics) {
  metrics_.counter(kPrefix + "verdicts_total", "Answers that got a verdict or none, by verdict and reason.");
  metrics_.counter(kPrefix + "masked_total", "Answers without a reward, by reason.");
  metrics_.counter(kPrefix + "coalesced_total", "Answers that shared the judging of an equal one under way.");
  metrics_.counter(kPrefix + "cached_total", "Answers whose verdict was remembered.");
  metrics_.counter(kPrefix + "retried_total", "Judgements begun again after a fault of ours.");
  metrics_.counter(kPrefix + "refused_batches_total", "Batches that were not taken, by why.");
  metrics_.histogram(kPrefix + "reward", "Rewards given.", {-1, -0.5, 0, 0.2, 0.4, 0.6, 0.8, 1, 1.5, 2, 3});
  const std::vector<double> seconds = {0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 45, 90, 180};
  metrics_.histogram(kPrefix + "wait_seconds", "From an answer's arrival to the start of its judging.", seconds);
  metrics_.histogram(kPrefix + "judge_seconds", "Time that judging an answer took.", seconds);
  metrics_.gauge(kPrefix + "queue_waiting", "Answers that wait to be judged.");
  metrics_.gauge(kPrefix + "judging", "Answers that are being judged.");
  metrics_.gauge(kPrefix + "draining", "1 while the server ends, else 0.");
  metrics_.before_text([this] {
    metrics_.set(kPrefix + "queue_waiting", {}, static_cast<double>(backend_.waiting()));
    metrics_.set(kPrefix + "judging", {}, static_cast<double>(backend_.judging()));
    metrics_.set(kPrefix + "draining", {}, draining() ? 1 : 0);
  });
  expiring_ = std::thread([this] { expire_batches(); });
}

Judge::~Judge() {
  begin_drain();
  backend_.drain(Clock::now());
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  timer_.notify_all();
  expiring_.join();
}

bool Judge::draining() const {
  const std::lock_guard lock(mutex_);
  return draining_;
}

std::size_t Judge::judged_total() const {
  const std::lock_guard lock(mutex_);
  return judged_total_;
}

void Judge::begin_drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

bool Judge::drain(Clock::time_point deadline) {
  begin_drain();
  return backend_.drain(deadline);
}

std::pair<Judge::Admission, std::shared_ptr<Judge::Ticket>> Judge::submit(Batch batch, Done done) {
  const auto refused = [this](Admission admission, const char* why) {
    metrics_.add(kPrefix + "refused_batches_total", {{"why", why}});
    return std::pair(admission, std::shared_ptr<Ticket>());
  };
  auto ticket = std::make_shared<Ticket>();
  ticket->results.resize(batch.items.size());
  ticket->keys.resize(batch.items.size());
  ticket->open = batch.items.size();
  ticket->deadline = batch.deadline;
  ticket->done = std::move(done);
  for (std::size_t i = 0; i < batch.items.size(); ++i) {
    if (batch.items[i].task != nullptr) ticket->keys[i] = work_key(batch.items[i]);
  }

  std::vector<Call> calls;
  {
    const std::lock_guard lock(mutex_);
    if (draining_) return refused(Admission::kDraining, "draining");
    if (!backend_.fault().empty()) return refused(Admission::kBroken, "broken");
    std::set<std::string> fresh;
    for (const std::string& key : ticket->keys) {
      if (!key.empty() && !flights_.contains(key)) fresh.insert(key);
    }
    if (fresh.size() > options_.max_waiting) return refused(Admission::kTooLarge, "too-large");
    if (fresh.size() + backend_.waiting() > options_.max_waiting) return refused(Admission::kFull, "full");

    for (std::size_t i = 0; i < batch.items.size(); ++i) {
      Item& item = batch.items[i];
      if (item.task == nullptr) {
        Judged judged = unjudged(item, item.problem_reason, item.problem_message);
        count(judged);
        settle(*ticket, i, std::move(judged), calls);
        continue;
      }
      auto& flight = flights_[ticket->keys[i]];
      const bool is_new = flight == nullptr;
      if (is_new) {
        flight = std::make_shared<Flight>();
        flight->key = ticket->keys[i];
        flight->priority = batch.priority;
        flight->request = {.id = {}, .task = item.task, .text = std::move(item.text), .raw_answer = item.raw_answer};
      } else {
        metrics_.add(kPrefix + "coalesced_total", {});
      }
      flight->waiters.push_back({ticket, i});
      if (is_new && !launch(flight)) {
        const auto full = flight;
        flights_.erase(full->key);
        deliver(*full, unjudged(item, "queue-full", "the queue is full: come back later"), calls);
      }
    }
    if (ticket->results.empty()) calls.push_back({.done = std::exchange(ticket->done, nullptr), .results = {}});
    for (Item& item : batch.items) item.text.clear();
    ticket->items = std::move(batch.items);
    if (ticket->done) {
      const auto place = deadlines_.emplace(ticket->deadline, ticket);
      if (place == deadlines_.begin()) timer_.notify_all();
    }
  }
  for (Call& call : calls) call();
  return {Admission::kTaken, ticket};
}

// Hands a flight to the backend; false if that takes no more. Called with the lock.
bool Judge::launch(const std::shared_ptr<Flight>& flight) {
  Clock::time_point last = Clock::time_point::min();
  for (const auto& waiter : flight->waiters) last = std::max(last, waiter.ticket->deadline);
  ++flight->attempts;
  verify::PoolTicket ticket{.priority = flight->priority, .start_by = last};
  ticket.wanted = [this, flight] {
    const std::lock_guard lock(mutex_);
    return !flight->waiters.empty();
  };
  return backend_.submit(flight->request, std::move(ticket), [this, flight](verify::PoolResult result) {
    on_result(flight, std::move(result));
  }) == verify::Pool::Admission::kQueued;
}

void Judge::on_result(const std::shared_ptr<Flight>& flight, verify::PoolResult result) {
  const bool our_fault =
      result.verdict.has_value() && verify::info(result.verdict->reason).fault == verify::Fault::kOurs;
  const bool none = !result.verdict.has_value();
  const bool expired = none && result.unjudged == verify::Unjudged::kExpired;
  metrics_.observe(kPrefix + "wait_seconds", {}, result.waited_seconds);
  if (!none) metrics_.observe(kPrefix + "judge_seconds", {}, result.judged_seconds);

  // With the backend broken nothing will come of a second attempt.
  const std::string broken = backend_.fault();
  Judged judged;
  if (!none) {
    judged = evaluate(std::move(result));
  } else {
    judged.task_id = flight->request.task->task_id;
    judged.waited_seconds = result.waited_seconds;
    if (!broken.empty()) {
      judged.reason = "internal";
      judged.message = "nothing can be judged: " + broken;
    } else {
      judged.reason = expired ? "deadline" : "draining";
      judged.message = expired ? "the deadline came before judging began" : "the server is ending";
    }
  }

  std::vector<Call> calls;
  {
    const std::lock_guard lock(mutex_);
    const bool wanted = std::any_of(flight->waiters.begin(), flight->waiters.end(), [](const auto& waiter) {
      return waiter.ticket->done && waiter.ticket->deadline > Clock::now();
    });
    // Expired: for those who came later and wait longer. Cancelled: someone joined just when no one had been left.
    const bool again = none ? broken.empty() && !draining_ : our_fault && flight->attempts < kMaxAttempts && !draining_;
    if (wanted && again) {
      if (!none) metrics_.add(kPrefix + "retried_total", {});
      if (none) --flight->attempts;
      if (launch(flight)) return;
    }
    if (!none) ++judged_total_;
    flights_.erase(flight->key);
    deliver(*flight, judged, calls);
  }
  for (Call& call : calls) call();
}

Judged Judge::evaluate(verify::PoolResult result) {
  Judged judged;
  verify::Verdict verdict = std::move(*result.verdict);
  RewardValue value = profile_.set_reward(verdict);
  judged.reward = value.value;
  judged.terms = std::move(value.terms);
  judged.task_id = verdict.task_id;
  judged.outcome = std::string(verify::outcome_name(verdict.outcome));
  judged.reason = verdict.reason_id;
  judged.message = verdict.message;
  judged.waited_seconds = result.waited_seconds;
  judged.judged_seconds = result.judged_seconds;
  judged.verdict = std::make_shared<const verify::Verdict>(std::move(verdict));
  return judged;
}

void Judge::count(const Judged& judged) {
  metrics_.add(kPrefix + "verdicts_total", {{"verdict", judged.outcome}, {"reason", judged.reason}});
  if (judged.verdict != nullptr && judged.verdict->environment.contains("cached"))
    metrics_.add(kPrefix + "cached_total", {});
  if (judged.reward) {
    metrics_.observe(kPrefix + "reward", {}, *judged.reward);
  } else {
    metrics_.add(kPrefix + "masked_total", {{"reason", judged.reason}});
  }
}

void Judge::deliver(Flight& flight, const Judged& judged, std::vector<Call>& calls) {
  for (const auto& waiter : flight.waiters) {
    if (!waiter.ticket->done) continue;
    count(judged);
    settle(*waiter.ticket, waiter.index, judged, calls);
  }
  flight.waiters.clear();
}

void Judge::settle(Ticket& ticket, std::size_t index, Judged judged, std::vector<Call>& calls) {
  if (ticket.results[index]) return;
  ticket.results[index] = std::move(judged);
  if (--ticket.open > 0 || !ticket.done) return;
  Call call{.done = std::exchange(ticket.done, nullptr), .results = {}};
  for (auto& result : ticket.results) call.results.push_back(std::move(*result));
  calls.push_back(std::move(call));
}

void Judge::cancel(const std::shared_ptr<Ticket>& ticket) {
  const std::lock_guard lock(mutex_);
  ticket->done = nullptr;
  for (const std::string& key : ticket->keys) {
    const auto flight = flights_.find(key);
    if (key.empty() || flight == flights_.end()) continue;
    std::erase_if(flight->second->waiters, [&](const auto& waiter) { return waiter.ticket == ticket; });
  }
}

// The thread that ends batches whose time is over, whatever is being judged.
void Judge::expire_batches() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (ending_) return;
    if (deadlines_.empty()) {
      timer_.wait(lock, [&] { return ending_ || !deadlines_.empty(); });
      continue;
    }
    const auto next = deadlines_.begin()->first;
    if (Clock::now() < next) {
      timer_.wait_until(lock, next);
      continue;
    }
    const auto ticket = deadlines_.begin()->second.lock();
    deadlines_.erase(deadlines_.begin());
    if (!ticket || !ticket->done) continue;
    std::vector<Call> calls;
    for (std::size_t i = 0; i < ticket->results.size(); ++i) {
      if (ticket->results[i]) continue;
      Judged judged = unjudged(ticket->items[i], "deadline",
                               "not judged by the deadline: ask for more time, send fewer at once, or add cores");
      count(judged);
      settle(*ticket, i, std::move(judged), calls);
      if (const auto flight = flights_.find(ticket->keys[i]); flight != flights_.end())
        std::erase_if(flight->second->waiters, [&](const auto& waiter) { return waiter.ticket == ticket; });
    }
    lock.unlock();
    for (Call& call : calls) call();
    lock.lock();
  }
}

}  // namespace autotriton::reward
