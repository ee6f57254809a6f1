#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "reward/profile.h"
#include "server/metrics.h"
#include "tasks/task.h"
#include "verify/pool.h"

/// Batches of answers in, rewards out: deadlines, back-pressure, equal work done once.
namespace autotriton::reward {

using Clock = std::chrono::steady_clock;

/// Where answers are judged. A pool of this machine is one; a queue that a fleet works on can be another.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual verify::Pool::Admission submit(verify::VerifyRequest request, verify::PoolTicket ticket,
                                         std::function<void(verify::PoolResult)> done) = 0;
  virtual bool drain(Clock::time_point deadline) = 0;
  virtual std::size_t waiting() const = 0;
  virtual std::size_t judging() const = 0;
  virtual int jobs() const = 0;
  virtual double expected_wait() const = 0;
  virtual std::string fault() const = 0;  ///< Why nothing can be judged any more; empty if it can.
};

/// This machine's pool, which must live longer.
class LocalBackend final : public Backend {
 public:
  explicit LocalBackend(verify::Pool& pool) : pool_(pool) {}
  verify::Pool::Admission submit(verify::VerifyRequest request, verify::PoolTicket ticket,
                                 std::function<void(verify::PoolResult)> done) override {
    return pool_.submit(std::move(request), std::move(ticket), std::move(done));
  }
  bool drain(Clock::time_point deadline) override { return pool_.drain(deadline); }
  std::size_t waiting() const override { return pool_.waiting(); }
  std::size_t judging() const override { return pool_.judging(); }
  int jobs() const override { return pool_.jobs(); }
  double expected_wait() const override { return pool_.expected_wait(); }
  std::string fault() const override { return pool_.fault(); }

 private:
  verify::Pool& pool_;
};

/// One answer to be judged, or why it cannot be.
struct Item {
  std::shared_ptr<const tasks::Task> task;  ///< Null: see `problem`.
  std::string text;
  bool raw_answer = true;  ///< A model's reply, from which code is taken.
  std::string problem_reason{};
  std::string problem_message{};
};

/// What became of an item. Without a verdict, `outcome` is "error" and `reason` one of those of the service:
/// `deadline`, `draining`, `cancelled`, `queue-full`, `prompt-mismatch`, or what was wrong with the task.
struct Judged {
  std::optional<double> reward;  ///< Empty: mask the sample, `reason` says why.
  std::string task_id;
  std::string outcome = "error";
  std::string reason;
  std::string message;
  std::map<std::string, double> terms;
  std::shared_ptr<const verify::Verdict> verdict;  ///< Shared by all who asked for the same; its id is empty.
  double waited_seconds = 0;
  double judged_seconds = 0;
};

struct Batch {
  std::vector<Item> items;
  int priority = 0;  ///< Higher goes first.
  Clock::time_point deadline;
};

struct JudgeOptions {
  std::size_t max_waiting = 1024;  ///< Answers that may wait; a batch that does not fit is refused whole.
};

/// Equal work (task, text, kind of text) that is under way is done once. A fault of ours is tried once more. An item
/// that is not judged by its batch's deadline has no reward. Thread-safe.
class Judge {
 public:
  enum class Admission { kTaken, kFull, kTooLarge, kDraining, kBroken };
  using Done = std::function<void(std::vector<Judged>)>;

  /// `backend` and `metrics` must live longer. Declares `autotriton_…` metrics.
  Judge(Backend& backend, Profile profile, JudgeOptions options, server::Metrics& metrics);
  /// Ends what is left as cancelled.
  ~Judge();

  /// One batch that was taken.
  class Ticket;

  /// `done` is called once, from any thread, with one result an item in their order; never if the batch is not taken
  /// or was cancelled.
  std::pair<Admission, std::shared_ptr<Ticket>> submit(Batch batch, Done done);

  /// Nobody waits for it any more: what no one else wants and has not begun is not judged.
  void cancel(const std::shared_ptr<Ticket>& ticket);

  /// Takes nothing new from now on.
  void begin_drain();
  /// Waits until all is judged, or until `deadline`, when what still waits ends as `draining`. True if all was judged.
  bool drain(Clock::time_point deadline);

  bool draining() const;
  const Backend& backend() const { return backend_; }
  const Profile& profile() const { return profile_; }
  std::size_t max_waiting() const { return options_.max_waiting; }
  std::size_t judged_total() const;

 private:
  struct Flight;
  struct Call;  // A `done` to be made once no lock is held.

  void on_result(const std::shared_ptr<Flight>& flight, verify::PoolResult result);
  bool launch(const std::shared_ptr<Flight>& flight);
  void deliver(Flight& flight, const Judged& judged, std::vector<Call>& calls);
  static void settle(Ticket& ticket, std::size_t index, Judged judged, std::vector<Call>& calls);
  Judged evaluate(verify::PoolResult result);
  void count(const Judged& judged);
  void expire_batches();

  Backend& backend_;
  const Profile profile_;
  const JudgeOptions options_;
  server::Metrics& metrics_;

  mutable std::mutex mutex_;
  std::condition_variable timer_;
  std::unordered_map<std::string, std::shared_ptr<Flight>> flights_;  // By digest of the work.
  std::multimap<Clock::time_point, std::weak_ptr<Ticket>> deadlines_;
  std::size_t judged_total_ = 0;
  bool draining_ = false;
  bool ending_ = false;
  std::thread expiring_;
};

}  // namespace autotriton::reward
