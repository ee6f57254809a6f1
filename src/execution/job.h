#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "execution/cgroup.h"
#include "execution/channel.h"

namespace autotriton::execution {

/// What a job may use; see AutotritonLimits in confine.h.
struct JobLimits {
  std::uint64_t address_space_bytes = std::uint64_t{4} << 30;  ///< Beyond what the warm server maps.
  std::uint64_t file_bytes = std::uint64_t{1} << 30;
  std::uint64_t tmp_bytes = std::uint64_t{64} << 20;
  std::uint64_t cpu_seconds = 600;  ///< A backstop; budgets end a job sooner.
  std::uint32_t processes = 1;
  std::uint32_t open_files = 256;
  bool allow_exec = false;
};

/// Which confinements a job has, by name. What stands in for a missing one (Landlock for namespaces) is among those
/// obtained; what is neither there nor stood in for leaves something open, and that is what matters.
struct SandboxReport {
  std::vector<std::string> obtained;
  std::vector<std::string> missing;  ///< Without the extras: control groups, and Landlock where there are namespaces.
  std::vector<std::string> open;     ///< What a job is not kept from: "files", "network", "other processes", …
  std::string message;               ///< Why the first missing one could not be had.
  bool complete() const { return open.empty(); }
};

struct JobEnd {
  int signal = 0;  ///< 0 if it returned.
  int code = 0;
  std::uint64_t max_rss_bytes = 0;
  double cpu_seconds = 0;
};

/// What happened next to a job.
struct JobEvent {
  enum class Kind {
    kRecord,       ///< `frame` holds it.
    kEnded,        ///< The process ended; `end` says how.
    kTimeout,      ///< Nothing by the deadline; the job still runs.
    kMalformed,    ///< It sent something that is not a record.
    kLost,         ///< Its server vanished: our side failed.
    kInterrupted,  ///< The descriptor given as interrupt became readable.
  };
  Kind kind = Kind::kLost;
  Frame frame;
  JobEnd end;
};

/// One confined process. Leaving the scope kills it and everything that it started.
class Job {
 public:
  struct Parts {
    UniqueFd channel;
    UniqueFd status;
    UniqueFd output;
    std::unique_ptr<JobCgroup> cgroup{};  ///< May be null.
    int interrupt = -1;                   ///< Not owned; -1 for none.
    std::chrono::milliseconds start_timeout{20'000};
  };

  explicit Job(Parts parts);
  Job(Job&&) noexcept;
  Job& operator=(Job&&) noexcept;
  ~Job();

  /// Waits until the job is confined and ready. False if it never got there.
  bool wait_until_ready();

  /// False if the job has closed its end.
  bool send(std::string_view body, std::span<const int> descriptors = {});

  /// The next thing that happens, by `deadline`. Output is drained meanwhile.
  JobEvent next(std::chrono::steady_clock::time_point deadline);

  /// SIGKILL to the job and all that it started; waits until they are gone, five seconds at most.
  JobEnd kill();

  /// The last part of what the job printed, stdout and stderr mixed.
  std::string output_tail(std::size_t max_bytes = 4000) const;
  std::uint64_t output_bytes() const;

  const SandboxReport& sandbox() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// An anonymous memory file of `bytes` (0: the peer sizes it). Throws UserError if there is no room.
UniqueFd make_memory_file(const char* name, std::uint64_t bytes);

/// Forbids any change of a memory file's size and contents. False if someone maps it for writing.
bool seal_memory_file(const UniqueFd& file);

}  // namespace autotriton::execution
