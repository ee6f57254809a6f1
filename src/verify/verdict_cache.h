#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "execution/fork_server.h"
#include "verify/verdict.h"
#include "verify/verify.h"

namespace autotriton::verify {

/// Verdicts by content, in one SQLite file that several processes may share. The key is all that a verdict follows
/// from: the task, the answer, the options, this program, the workers and their Python environment. A program that
/// changed asks again. Thread-safe.
///
/// Kept are accepts, refusals and inconclusive verdicts that a second judgement would repeat; never a fault of ours,
/// and never one that rests on a time limit. A cache that cannot be written any more (a full disk) goes on without.
class VerdictCache {
 public:
  /// Opens or makes the file (":memory:" for none). `who` is the program and its workers, see `identity`. Throws
  /// UserError where the file is no verdict cache or cannot be opened. Beyond `max_entries` the oldest are dropped.
  VerdictCache(const std::filesystem::path& file, std::string who, std::uint64_t max_entries = 200'000);
  ~VerdictCache();

  /// A digest of the program, the folder of workers, and the Python environment's contents as far as they show in its
  /// folders' times.
  static std::string identity(const std::filesystem::path& program, const execution::ForkServer::Options& server);

  /// The verdict of the same request under the same options, with the request's id and `environment["cached"]`.
  std::optional<Verdict> find(const VerifyRequest& request, const VerifyOptions& options);
  void keep(const VerifyRequest& request, const VerifyOptions& options, const Verdict& verdict);

  std::uint64_t hits() const;
  std::uint64_t misses() const;
  /// Why nothing is kept any more; empty while all is well.
  std::string fault() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotriton::verify
