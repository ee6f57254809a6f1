#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/log.h"
#include "queue/queue.h"
#include "reward/profile.h"
#include "verify/batch.h"
#include "verify/pool.h"

/// Many machines that judge from one queue.
///
///     FleetWorker worker(queue_options, pool, profile, settings_text(profile, options), log);   // on each machine
///     run_fleet_batch(queue_options, batch, interrupted, tell);                                 // on one
namespace autotriton::reward {

/// What an item of the queue holds: a task, a text, and what kind of text it is. Equal work has equal bytes: the
/// request's id is no part of it.
std::string work_bytes(const verify::VerifyRequest& request);
/// Throws UserError for bytes that nobody made with `work_bytes`.
verify::VerifyRequest read_work(std::string_view bytes);

/// How a worker judges, in one line: two workers with equal lines give equal verdicts.
std::string settings_text(const Profile& profile, const verify::VerifyOptions& options);

/// Takes items from a queue and has them judged by a pool, which others may use too. A verdict that is a fault of this
/// machine goes to another worker.
class FleetWorker {
 public:
  struct Counts {
    std::uint64_t judged = 0;      ///< Verdicts that became results.
    std::uint64_t late = 0;        ///< Verdicts that another worker was quicker with.
    std::uint64_t failed = 0;      ///< Faults of ours: left to others.
    std::uint64_t given_back = 0;  ///< Not begun.
  };

  /// Starts at once. `pool` and `log` must live longer. Throws UserError where the queue cannot be used.
  FleetWorker(queue::Options options, verify::Pool& pool, Profile profile, std::string settings, const Logger& log);
  /// Waits for what the pool still has of ours: drain the pool first.
  ~FleetWorker();

  /// Takes nothing more. What the pool drops when it is drained goes back to the queue, and costs no try.
  void stop_taking();

  Counts counts() const;
  std::size_t holding() const;  ///< Items that the pool has.
  std::string fault() const;  ///< Why nothing is taken any more: the queue's or the pool's fault; empty if all is well.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// `verify --jsonl` by a fleet: puts every pair without a verdict into the queue and writes verdicts as they come. A
/// run that ended goes on where it was, results that came meanwhile included; so does one whose queue was lost. A dead
/// letter becomes an error of ours, `worker-lost`. `tell` is called with what the user should know. Throws UserError.
verify::BatchSummary run_fleet_batch(const queue::Options& options, const verify::BatchOptions& batch,
                                     const std::function<bool()>& interrupted,
                                     const std::function<void(const std::string&)>& tell);

}  // namespace autotriton::reward
