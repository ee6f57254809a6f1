#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "execution/fork_server.h"
#include "tasks/pairs.h"
#include "verify/verify.h"

namespace autotriton::verify {

struct BatchOptions {
  std::filesystem::path pairs;
  std::filesystem::path out;                   ///< Verdicts, one a line; "-" for standard output.
  std::optional<std::filesystem::path> tasks;  ///< A library for `task_id`.
  int jobs = 1;
  bool progress = true;
  /// Called with each verdict before it is written, from several threads: the reward may be another than the paper's.
  std::function<void(Verdict&)> complete{};
};

struct BatchSummary {
  std::uint64_t accepted = 0;
  std::uint64_t rejected = 0;
  std::uint64_t inconclusive = 0;
  std::uint64_t bad_input = 0;  ///< Lines or problems that could not be used.
  std::uint64_t our_errors = 0;
  std::uint64_t done_before = 0;  ///< Judged by an earlier run of the same output.
  bool interrupted = false;
  std::uint64_t judged() const { return accepted + rejected + inconclusive + bad_input + our_errors; }
  void count(Outcome outcome, Reason reason);
  std::string text() const;  ///< "accept 3, reject 1, inconclusive 0", and what else there was.
};

/// The verdict on a line of pairs that holds no pair.
Verdict verdict_of(const tasks::LineError& error);

/// Judges every pair of a file with `jobs` verifiers at once. A verdict is on disk the moment it is known. Lines whose
/// id already has a verdict in `out` are left alone, so a run that was ended goes on where it was. `interrupted` is
/// asked between answers. Throws UserError where the files cannot be used.
BatchSummary run_batch(execution::ForkServer& server, const VerifyOptions& verify, const BatchOptions& batch,
                       const std::function<bool()>& interrupted);

/// Exit code: 0, 2 (bad lines), 4 (errors of ours), 130.
int exit_code(const BatchSummary& summary);

}  // namespace autotriton::verify
