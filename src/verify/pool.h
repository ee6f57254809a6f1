#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "execution/fork_server.h"
#include "verify/verify.h"

namespace autotriton::verify {

struct PoolOptions {
  int jobs = 1;                   ///< Answers judged at once.
  std::size_t max_waiting = 256;  ///< Requests that may wait; one more is refused.
};

/// What a request waits for and how long.
struct PoolTicket {
  int priority = 0;  ///< Higher goes first; equal ones go in the order of their arrival.
  /// If judging has not begun by then, the request ends without a verdict.
  std::optional<std::chrono::steady_clock::time_point> start_by;
  /// Asked when judging would begin, from a pool's thread; false ends the request as cancelled. Empty: wanted.
  std::function<bool()> wanted{};
};

/// Why a request got no verdict.
enum class Unjudged { kExpired, kCancelled };

struct PoolResult {
  std::optional<Verdict> verdict;  ///< Empty: see `unjudged`.
  Unjudged unjudged = Unjudged::kCancelled;
  double waited_seconds = 0;
  double judged_seconds = 0;
};

/// Judges answers from many callers with a fixed number of verifiers on one fork server. A verifier prefers, among
/// requests of equal priority, one of the task that it judged last: its oracle is warm. Thread-safe.
///
///     Pool pool(server, options, {.jobs = 2});
///     if (pool.submit(request, {}, [](PoolResult result) { … }) == Pool::Admission::kFull) { /* come back later */ }
class Pool {
 public:
  enum class Admission { kQueued, kFull, kClosed };

  Pool(execution::ForkServer& server, VerifyOptions options, PoolOptions pool);
  /// Cancels what waits and waits for what is being judged.
  ~Pool();

  /// `done` is called once, from one of the pool's threads, unless the request was not queued. It must not throw.
  Admission submit(VerifyRequest request, PoolTicket ticket, std::function<void(PoolResult)> done);

  /// Nothing more is taken; returns when all that was taken is judged, or at the deadline, when what still waits is
  /// cancelled and what is being judged is waited for. True if nothing had to be cancelled.
  bool drain(std::chrono::steady_clock::time_point deadline);

  std::size_t waiting() const;
  std::size_t judging() const;
  int jobs() const;
  /// How long a request that comes now would wait, in seconds, from the rate so far.
  double expected_wait() const;
  /// The first fault of the set-up (no Python, no way to confine), after which the pool is closed; empty if none.
  std::string fault() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotriton::verify
