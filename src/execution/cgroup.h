#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

/// Control groups (version 2), where the system lets us make them: one for a run, children of it for the servers and
/// for each job. They bound what no other limit counts (memory of all processes together) and end everything at once.
namespace autotriton::execution {

/// A job's group: kills what is in it and removes it when it leaves scope.
class JobCgroup {
 public:
  explicit JobCgroup(std::filesystem::path folder) : folder_(std::move(folder)) {}
  JobCgroup(const JobCgroup&) = delete;
  JobCgroup& operator=(const JobCgroup&) = delete;
  ~JobCgroup();

  bool take(int pid) const;  ///< Moves a process into it.

 private:
  std::filesystem::path folder_;
};

/// The group of one ForkServer.
class RunCgroup {
 public:
  /// Makes one below this process's group or beside it; null where that may not be done. `why` then says so.
  static std::unique_ptr<RunCgroup> make(std::string& why);
  /// The same below `parent`.
  static std::unique_ptr<RunCgroup> make_below(const std::filesystem::path& parent, std::string& why);
  RunCgroup(const RunCgroup&) = delete;
  RunCgroup& operator=(const RunCgroup&) = delete;
  ~RunCgroup();  ///< Kills what is left in it and removes it.

  bool bounds_memory() const { return memory_; }
  bool bounds_processes() const { return processes_; }

  std::filesystem::path servers() const { return folder_ / "servers"; }
  /// A group for one job. Null if it cannot be made now.
  std::unique_ptr<JobCgroup> job(std::uint64_t memory_bytes, std::uint32_t processes);

 private:
  explicit RunCgroup(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;
  bool memory_ = false;
  bool processes_ = false;
  std::uint64_t jobs_ = 0;
};

/// Where groups of version 2 are mounted, and the group of this process in it.
std::optional<std::filesystem::path> own_cgroup();

}  // namespace autotriton::execution
