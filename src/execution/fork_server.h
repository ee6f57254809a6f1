#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "execution/job.h"

/// Warm workers: one Python start for thousands of jobs. See README.md in this folder for who owns what.
///
///     ForkServer server({.python = python, .worker = worker, .confine_library = library});
///     Job job = server.spawn(JobMode::kInterpret, {}, 90);
namespace autotriton::execution {

enum class JobMode {
  kOracle,
  kInterpret,
  kCompile,
  kProbe,  ///< Our own code that tries to break out (worker/probe_confinement.py), confined as an interpreting job.
};

/// Thread-safe. A server that died is started anew by the next `spawn`.
class ForkServer {
 public:
  struct Options {
    std::filesystem::path python;
    std::filesystem::path worker;           ///< The folder worker/.
    std::filesystem::path confine_library;  ///< libautotriton_confine.so
    int interrupt = -1;                     ///< Becomes readable on Ctrl-C; not owned.
    std::chrono::seconds start_timeout{120};
    std::uint32_t without = 0;  ///< Bits of AutotritonWithout (confine.h): confinements to do without, for tests.
  };

  /// Starts nothing yet.
  explicit ForkServer(Options options);
  ~ForkServer();

  /// Starts the servers if they do not run. Throws UserError if Python cannot start them, with its last words.
  void start();

  /// A confined job that is ready for its first record. Throws InvariantError if the servers die twice while starting
  /// it.
  Job spawn(JobMode mode, const JobLimits& limits, int capability);

  /// Version of torch that the servers have; empty before `start`.
  std::string torch_version() const;

  /// How the servers themselves are confined.
  SandboxReport server_sandbox() const;

  /// Process id of the servers' parent, for tests that kill it; 0 if none runs.
  int process_id() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotriton::execution
