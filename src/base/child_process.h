#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Other programs, started and certainly ended.
///
///     const Finished run = run_to_end({.arguments = {"git", "rev-parse", "HEAD"}}, {.timeout =
///     std::chrono::seconds(5)}); if (run.status && run.status->success()) use(run.out);
///
/// Not for candidates' code: that is confined by `execution`.
namespace autotriton {

/// What to start. Descriptors left at -1: standard input is empty, output and errors go where ours go.
struct Command {
  std::vector<std::string> arguments;                     ///< The program first; looked up in PATH without a slash.
  std::filesystem::path working_directory{};              ///< Empty: ours.
  std::optional<std::vector<std::string>> environment{};  ///< NAME=value each; absent: ours.
  int standard_input = -1;
  int standard_output = -1;
  int standard_error = -1;
};

/// How a process ended.
struct ExitStatus {
  int code = 0;    ///< What it returned; 0 if a signal ended it.
  int signal = 0;  ///< 0 if it returned.
  bool success() const { return code == 0 && signal == 0; }
};

/// A running program in its own process group.
class ChildProcess {
 public:
  /// Starts `command`. Throws UserError if the program or the working directory is missing. Safe beside other threads.
  static ChildProcess spawn(const Command& command);
  ChildProcess(ChildProcess&& other) noexcept;  ///< `other` then owns nothing; not copyable.
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();  ///< Kills the whole group and reaps it.

  pid_t id() const { return id_; }

  /// Waits until the program itself has ended. Empty on timeout: it still runs. May be asked again.
  std::optional<ExitStatus> wait_for(std::chrono::milliseconds timeout);

  /// Kills the whole group, reaps the program and tells how it ended (before, if it had).
  ExitStatus kill_and_reap();

 private:
  explicit ChildProcess(pid_t id) : id_(id) {}

  // The program's id and its group's; 0: nothing owned. An ended program stays unreaped until the group is killed, so
  // that its id cannot have passed to someone else's group.
  pid_t id_ = 0;
};

struct RunLimits {
  std::chrono::milliseconds timeout{60'000};
  std::size_t max_output_bytes = 16U << 20U;  ///< Of output and of errors each; what comes after is read and dropped.
};

/// A program that has ended, and what it wrote.
struct Finished {
  std::optional<ExitStatus> status;  ///< Empty: it ran past its time and was killed.
  std::string out;
  std::string error;
  bool cut = false;  ///< More was written than kept.
};

/// Runs `command` with `input` on its standard input and gathers its output (the command's descriptors are not used).
Finished run_to_end(const Command& command, const RunLimits& limits = {}, std::string_view input = {});

}  // namespace autotriton
