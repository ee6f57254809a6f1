#include "reward/fleet.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/progress.h"
#include "base/sha256.h"
#include "tasks/pairs.h"
#include "tasks/task_json.h"
#include "verify/verdict_file.h"

namespace autotriton::reward {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using Json = nlohmann::ordered_json;

constexpr std::string_view kWorkSchema = "autotriton.work/1";

std::string target_name(int capability) { return "sm_" + std::to_string(capability); }

std::string_view shapes_name(verify::Shapes shapes) {
  return shapes == verify::Shapes::kOriginal ? "original" : shapes == verify::Shapes::kScaled ? "scaled" : "both";
}

}  // namespace

std::string work_bytes(const verify::VerifyRequest& request) {
  const Json work = {{"schema", kWorkSchema},
                     {"task", Json::parse(tasks::task_json(*request.task))},
                     {"text", request.text},
                     {"raw_answer", request.raw_answer}};
  return work.dump(-1, ' ', false, Json::error_handler_t::replace);
}

verify::VerifyRequest read_work(std::string_view bytes) {
  const Json work = Json::parse(bytes, nullptr, false);
  const auto has = [&](const char* field, Json::value_t type) {
    return work.is_object() && work.contains(field) && work[field].type() == type;
  };
  if (!has("schema", Json::value_t::string) || work["schema"] != kWorkSchema || !has("task", Json::value_t::object) ||
      !has("text", Json::value_t::string) || !has("raw_answer", Json::value_t::boolean)) {
    throw UserError({.where = "an item of the queue",
                     .what = "it is no work of this version (" + std::string(kWorkSchema) + ")",
                     .fix = "let producers and workers be of one version, and give other programs another queue"});
  }
  const tasks::Task task = tasks::parse_task(work["task"].dump(), "an item of the queue", "queued");
  return {.id = {},
          .task = std::make_shared<const tasks::Task>(task),
          .text = work["text"],
          .raw_answer = work["raw_answer"]};
}

std::string settings_text(const Profile& profile, const verify::VerifyOptions& options) {
  std::string text = "profile " + profile.label() + ", " + target_name(options.capability) + ", " +
                     std::to_string(options.trials) + " trials, shapes " + std::string(shapes_name(options.shapes));
  text += options.torch_compute == verify::TorchCompute::kReport ? ", PyTorch reported" : ", PyTorch refused";
  text += ", " + std::to_string(options.max_elements) + " elements";
  if (options.require_sandbox) text += ", whole sandbox";
  for (const auto& [stage, seconds] : options.budgets.changed())
    text += ", " + stage + " " + Json(seconds).dump() + " s";
  return text;
}

// The worker --------------------------------------------------------------------------------------------------------

struct FleetWorker::Impl {
  Impl(queue::Options options, verify::Pool& given_pool, Profile given_profile, std::string settings,
       const Logger& given_log)
      : pool(given_pool),
        profile(std::move(given_profile)),
        log(given_log),
        worker(with_interrupt(std::move(options)), std::move(settings)) {}

  queue::Options with_interrupt(queue::Options options) {
    options.interrupted = [this] { return stopping.load(); };
    return options;
  }

  void run();
  bool hand_to_pool(const queue::Item& item);
  void on_result(const queue::Item& item, verify::PoolResult result);
  void fail_for_good(const std::string& why);

  verify::Pool& pool;
  const Profile profile;
  const Logger& log;
  std::atomic<bool> stopping{false};
  queue::Worker worker;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::size_t in_pool = 0;
  Counts counts;
  std::string fault;
  std::thread taking;
};

void FleetWorker::Impl::fail_for_good(const std::string& why) {
  {
    const std::lock_guard lock(mutex);
    if (fault.empty()) fault = why;
  }
  stopping = true;
  changed.notify_all();
}

void FleetWorker::Impl::run() {
  // No more than can be judged at once: what only waits here would lose a try if this machine were lost.
  const auto limit = static_cast<std::size_t>(pool.jobs());
  try {
    while (!stopping) {
      {
        std::unique_lock lock(mutex);
        changed.wait_for(lock, milliseconds(500), [&] { return stopping || in_pool < limit; });
        if (stopping || in_pool >= limit) continue;
      }
      const auto item = worker.take(milliseconds(500));
      if (!item) continue;
      if (stopping) {
        worker.hand_back(*item);
        return;
      }
      // The pool is full of others' requests: come back when it has done some.
      if (!hand_to_pool(*item)) std::this_thread::sleep_for(milliseconds(200));
    }
  } catch (const Interrupted&) {
    return;
  } catch (const std::exception& error) {
    fail_for_good(error.what());
  }
}

/// False: the pool took it not, and it is back in the queue.
bool FleetWorker::Impl::hand_to_pool(const queue::Item& item) {
  verify::VerifyRequest request;
  try {
    request = read_work(item.bytes);
  } catch (const UserError& error) {  // Another worker would read the same.
    verify::Verdict verdict;
    verdict.conclude(verify::Reason::kLineUnreadable, error.what());
    profile.set_reward(verdict);
    worker.complete(item, verify::to_json(verdict));
    return true;
  }
  {
    const std::lock_guard lock(mutex);
    ++in_pool;
  }
  // What has not begun when a drain starts is for others.
  verify::PoolTicket ticket;
  ticket.wanted = [this] { return !stopping; };
  const auto admission = pool.submit(std::move(request), std::move(ticket),
                                     [this, item](verify::PoolResult result) { on_result(item, std::move(result)); });
  if (admission == verify::Pool::Admission::kQueued) return true;
  worker.hand_back(item);
  {
    const std::lock_guard lock(mutex);
    --in_pool;
    ++counts.given_back;
  }
  if (admission == verify::Pool::Admission::kClosed) {
    const std::string why = pool.fault();
    if (why.empty()) {
      stopping = true;
    } else {
      fail_for_good(why);
    }
  }
  return false;
}

void FleetWorker::Impl::on_result(const queue::Item& item, verify::PoolResult result) {
  std::uint64_t Counts::*what = &Counts::given_back;
  try {
    if (!result.verdict) {
      worker.hand_back(item);
    } else if (verify::info(result.verdict->reason).fault == verify::Fault::kOurs) {
      what = &Counts::failed;
      const std::string why = result.verdict->reason_id + ": " + result.verdict->message;
      log.warning("item " + item.key.substr(0, 12) + ", try " + std::to_string(item.tries) + ": " + why);
      worker.fail(item, why);
    } else {
      profile.set_reward(*result.verdict);
      what = worker.complete(item, verify::to_json(*result.verdict)) ? &Counts::judged : &Counts::late;
    }
  } catch (const std::exception& error) {
    // Redis stayed away. The item goes to another worker when our lease on it is over.
    fail_for_good(error.what());
  }
  // Notified under the lock: once it is free, the destructor may end.
  const std::lock_guard lock(mutex);
  ++(counts.*what);
  --in_pool;
  changed.notify_all();
}

FleetWorker::FleetWorker(queue::Options options, verify::Pool& pool, Profile profile, std::string settings,
                         const Logger& log)
    : impl_(std::make_unique<Impl>(std::move(options), pool, std::move(profile), std::move(settings), log)) {
  impl_->taking = std::thread([this] { impl_->run(); });
}

FleetWorker::~FleetWorker() {
  stop_taking();
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] { return impl_->in_pool == 0; });
}

void FleetWorker::stop_taking() {
  impl_->stopping = true;
  impl_->changed.notify_all();
  if (impl_->taking.joinable()) impl_->taking.join();
}

FleetWorker::Counts FleetWorker::counts() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->counts;
}

std::size_t FleetWorker::holding() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->in_pool;
}

std::string FleetWorker::fault() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->fault;
}

// The producer ------------------------------------------------------------------------------------------------------

namespace {

constexpr std::size_t kWindow = 1'000;  // Items that a producer waits for at once.
constexpr milliseconds kReminder{10'000};
constexpr milliseconds kLonely{5'000};

class FleetBatch {
 public:
  FleetBatch(const queue::Options& options, const verify::BatchOptions& batch, const std::function<bool()>& interrupted,
             const std::function<void(const std::string&)>& tell)
      : library_(batch.tasks ? std::optional(tasks::TaskLibrary::from_file(*batch.tasks)) : std::nullopt),
        reader_(batch.pairs, reading(library_)),
        file_(batch.out),
        producer_(options),
        interrupted_(interrupted),
        tell_(tell) {
    if (batch.progress)
      progress_.emplace(Progress::Options{.label = "verdicts", .total = tasks::count_pairs(batch.pairs)});
  }

  verify::BatchSummary run() {
    try {
      while (!interrupted_() && !(read_all_ && waiting_.empty() && !unplaced_)) {
        const bool put_some = fill();
        const bool got_some = collect();
        remind();
        if (!put_some && !got_some) std::this_thread::sleep_for(milliseconds(100));
      }
    } catch (const Interrupted&) {
      // Redis was away and the user did not want to wait.
    }
    if (progress_) progress_->finish();
    summary_.interrupted = interrupted_();
    return summary_;
  }

 private:
  struct Work {
    std::string bytes;
    std::vector<std::string> ids;  // Of all pairs that ask for it.
  };

  static tasks::PairReader::Options reading(const std::optional<tasks::TaskLibrary>& library) {
    tasks::PairReader::Options options;
    options.tasks = library ? &*library : nullptr;
    return options;
  }

  /// Puts work into the queue while there is room. True if anything was.
  bool fill() {
    bool put_some = false;
    while (waiting_.size() < kWindow && !interrupted_()) {
      if (!unplaced_) unplaced_ = next_work();
      if (!unplaced_) return put_some;
      auto& [key, work] = *unplaced_;
      if (const auto same = waiting_.find(key); same != waiting_.end()) {
        same->second.ids.push_back(work.ids.front());
      } else {
        if (producer_.put(key, work.bytes) == queue::Producer::Put::kFull) return put_some;
        keys_.push_back(key);
        waiting_.emplace(key, std::move(work));
      }
      unplaced_.reset();
      put_some = true;
    }
    return put_some;
  }

  std::optional<std::pair<std::string, Work>> next_work() {
    while (auto next = reader_.next()) {
      const std::string id = std::visit([](const auto& item) { return item.id; }, *next);
      if (file_.has(id)) {
        ++summary_.done_before;
      } else if (const auto* error = std::get_if<tasks::LineError>(&*next)) {
        const verify::Verdict verdict = verify::verdict_of(*error);
        write(verify::to_json(verdict), verdict.outcome, verdict.reason);
      } else {
        const auto& pair = std::get<tasks::Pair>(*next);
        std::string bytes = work_bytes({.id = {}, .task = pair.task, .text = pair.text, .raw_answer = pair.raw_answer});
        std::string key = sha256_hex(bytes);
        return std::pair(std::move(key), Work{.bytes = std::move(bytes), .ids = {id}});
      }
    }
    read_all_ = true;
    return std::nullopt;
  }

  /// Writes what came. True if anything did.
  bool collect() {
    const std::vector<queue::Outcome> outcomes = producer_.collect(keys_);
    for (const queue::Outcome& outcome : outcomes) {
      const auto found = waiting_.find(outcome.key);
      for (const std::string& id : found->second.ids) write_outcome(id, outcome);
      producer_.forget(outcome.key);
      waiting_.erase(found);
      std::erase(keys_, outcome.key);
      last_news_ = Clock::now();
    }
    return !outcomes.empty();
  }

  void write_outcome(const std::string& id, const queue::Outcome& outcome) {
    if (!outcome.dead) {
      Json record = Json::parse(outcome.bytes, nullptr, false);
      const auto field = [&](const char* name) {
        return record.is_object() && record.contains(name) && record[name].is_string() ? record[name].get<std::string>()
                                                                                       : std::string();
      };
      const std::string word = field("verdict");
      for (const verify::Outcome kind : {verify::Outcome::kAccept, verify::Outcome::kReject,
                                         verify::Outcome::kInconclusive, verify::Outcome::kError}) {
        if (verify::outcome_name(kind) != word) continue;
        record["id"] = id;
        write(record.dump(-1, ' ', false, Json::error_handler_t::replace), kind,
              verify::reason_from_id(field("reason")).value_or(verify::Reason::kRule));
        return;
      }
    }
    verify::Verdict verdict;
    verdict.id = id;
    verdict.conclude(verify::Reason::kWorkerLost,
                     outcome.dead ? "the fleet gave it up: " + outcome.bytes
                                  : "what came out of the queue is no verdict; does another program use it?");
    write(verify::to_json(verdict), verdict.outcome, verdict.reason);
  }

  void write(const std::string& line, verify::Outcome outcome, verify::Reason reason) {
    file_.write(line);
    summary_.count(outcome, reason);
    if (progress_) progress_->update(summary_.done_before + summary_.judged(), summary_.text());
  }

  /// Now and then puts again what is waited for: Redis may have lost it, or another producer collected its result. And
  /// says so, once, if nobody works.
  void remind() {
    const auto now = Clock::now();
    if (!told_ && !waiting_.empty() && now - last_news_ > kLonely) {
      told_ = true;
      if (producer_.state().settings.empty())
        tell_("no worker is at the queue yet; `autotriton reward --queue URL` starts one, on any machine");
    }
    if (now - last_reminder_ < kReminder) return;
    last_reminder_ = now;
    for (const auto& [key, work] : waiting_) producer_.put(key, work.bytes);
  }

  std::optional<tasks::TaskLibrary> library_;
  tasks::PairReader reader_;
  verify::VerdictFile file_;
  queue::Producer producer_;
  const std::function<bool()>& interrupted_;
  const std::function<void(const std::string&)>& tell_;
  std::optional<Progress> progress_;
  std::unordered_map<std::string, Work> waiting_;
  std::vector<std::string> keys_;  // Of `waiting_`.
  std::optional<std::pair<std::string, Work>> unplaced_;
  bool read_all_ = false;
  bool told_ = false;
  Clock::time_point last_news_ = Clock::now();
  Clock::time_point last_reminder_ = Clock::now();
  verify::BatchSummary summary_;
};

}  // namespace

verify::BatchSummary run_fleet_batch(const queue::Options& options, const verify::BatchOptions& batch,
                                     const std::function<bool()>& interrupted,
                                     const std::function<void(const std::string&)>& tell) {
  queue::Options patient = options;
  patient.interrupted = interrupted;
  return FleetBatch(patient, batch, interrupted, tell).run();
}

}  // namespace autotriton::reward
