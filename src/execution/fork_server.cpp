#include "execution/fork_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/child_process.h"
#include "base/error.h"
#include "execution/confine.h"
#include "execution/private_folder.h"
#include "execution/server_sandbox.h"

namespace autotriton::execution {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr std::array<const char*, 3> kModeNames{"oracle", "interpret", "compile"};

std::pair<UniqueFd, UniqueFd> socket_pair() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw UserError({.where = "worker",
                     .what = std::strerror(errno),
                     .fix = "raise the open-file limit (ulimit -n) or lower --jobs"});
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::pair<UniqueFd, UniqueFd> pipe_pair() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw UserError({.where = "worker",
                     .what = std::strerror(errno),
                     .fix = "raise the open-file limit (ulimit -n) or lower --jobs"});
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// The folders that this Python imports from, as it says itself.
std::vector<fs::path> python_folders(const fs::path& python) {
  const char* program =
      "import sys, json; print(json.dumps([sys.prefix, sys.base_prefix, sys.executable] + [p for p in sys.path if p]))";
  const Finished run =
      run_to_end({.arguments = {python.string(), "-c", program}}, {.timeout = std::chrono::seconds(30)});
  const Json folders = Json::parse(run.out, nullptr, false);
  if (!run.status || !run.status->success() || !folders.is_array()) {
    throw UserError({.where = python.string(),
                     .what = "this Python does not run: " + run.error.substr(0, 500),
                     .fix = "run `make setup`, or point AUTOTRITON_PYTHON at a working one"});
  }
  std::vector<fs::path> paths;
  for (const Json& folder : folders) paths.emplace_back(folder.get<std::string>());
  return paths;
}

/// What the servers' root shows: the system's libraries, Python and its packages, our worker.
std::vector<fs::path> visible_paths(const ForkServer::Options& options) {
  std::vector<fs::path> wanted{"/usr",
                               "/bin",
                               "/sbin",
                               "/lib",
                               "/lib32",
                               "/lib64",
                               "/libx32",
                               "/etc/ld.so.cache",
                               "/etc/ld.so.conf",
                               "/etc/ld.so.conf.d",
                               "/etc/localtime",
                               "/sys/devices/system/cpu"};
  for (const fs::path& folder : python_folders(options.python)) {
    std::error_code missing;
    const fs::path real = fs::canonical(folder, missing);
    if (!missing) wanted.push_back(real);
    if (!missing && fs::absolute(folder).lexically_normal() != real)
      wanted.push_back(fs::absolute(folder).lexically_normal());
  }
  wanted.push_back(fs::canonical(options.worker));
  wanted.push_back(fs::canonical(options.confine_library));
  // A path below one that is shown already needs no mount of its own.
  std::vector<fs::path> shown;
  for (const fs::path& path : wanted) {
    const bool covered = std::any_of(shown.begin(), shown.end(), [&](const fs::path& other) {
      const fs::path relative = path.lexically_relative(other);
      return !relative.empty() && *relative.begin() != ".." && !fs::is_symlink(other);
    });
    if (!covered) shown.push_back(path);
  }
  return shown;
}

}  // namespace

struct ForkServer::Impl {
  explicit Impl(Options given) : options(std::move(given)) {}

  Options options;
  mutable std::mutex mutex;
  pid_t pid = 0;
  std::array<std::unique_ptr<Channel>, 3> servers;
  UniqueFd errors;
  std::string last_words;
  std::string torch;
  SandboxReport sandbox;
  int generation = 0;
  std::unique_ptr<RunCgroup> cgroup;
  bool in_namespaces = false;
  fs::path folders;  ///< Where jobs have their folders, if they have no mounts of their own.

  void start_locked() {
    constexpr int kStarts = 3;
    for (int start = 1;; ++start) {
      try {
        start_once();
        return;
      } catch (const EndedSilently&) {  // Killed by someone; as a rule that is over.
        if (start < kStarts) continue;
        throw SetupError(
            {.where = options.python.string(),
             .what = "the workers were ended " + std::to_string(kStarts) +
                     " times while they started, without a word of their own: by a signal, such as that of "
                     "the kernel when memory is short",
             .fix = "free memory (they need about 1 GB), or see the system's log"});
      }
    }
  }

  void start_once() {
    stop_locked();
    try {
      start_with(options.without);
    } catch (const NoNamespaces& failure) {  // They can be made here, but not used; a container's rules are often so.
      start_with(options.without | kWithoutNamespaces);
      sandbox.message = failure.why;
    }
  }

  struct EndedSilently {};

  struct NoNamespaces {
    std::string why;
  };

  void start_with(std::uint32_t without) {
    ServerRoom room{.visible = visible_paths(options), .staging = {}, .without = without, .cgroup = {}};
    std::string no_cgroup = "left out";
    if ((without & kWithoutCgroup) == 0) cgroup = RunCgroup::make(no_cgroup);
    if (cgroup != nullptr) room.cgroup = cgroup->servers();
    std::string staging = (fs::temp_directory_path() / "autotriton-room-XXXXXX").string();
    if (::mkdtemp(staging.data()) == nullptr) {
      throw UserError({.where = staging,
                       .what = std::strerror(errno),
                       .fix = "free space in it, or set TMPDIR to a folder that can be written"});
    }
    room.staging = staging;
    std::array<UniqueFd, 3> theirs;
    ServerCommand command;
    command.arguments = {options.python.string(),
                         "-s",
                         "-P",
                         (fs::canonical(options.worker) / "fork_server.py").string(),
                         "--confine",
                         fs::canonical(options.confine_library).string(),
                         "--without",
                         std::to_string(without),
                         "--folders",
                         staging,
                         "--readable",
                         lines_of(room.visible)};
    for (std::size_t index = 0; index < servers.size(); ++index) {
      auto [ours, other] = socket_pair();
      servers[index] = std::make_unique<Channel>(std::move(ours));
      theirs[index] = std::move(other);
      command.descriptors.push_back(theirs[index].get());
      command.arguments.push_back(std::string("--") + kModeNames[index]);
      command.arguments.push_back(std::to_string(index + 3));
    }
    auto [error_read, error_write] = pipe_pair();
    auto [report_read, report_write] = pipe_pair();
    command.errors = error_write.get();
    // Nothing of our environment but this: a candidate must not find keys, tokens or paths in it.
    command.environment = {"PATH=/usr/local/bin:/usr/bin:/bin",
                           "HOME=/job",
                           "TMPDIR=/job",
                           "USER=nobody",
                           "LOGNAME=nobody",
                           "LANG=C.UTF-8",
                           "PYTHONDONTWRITEBYTECODE=1",
                           "PYTHONNOUSERSITE=1",
                           "OMP_NUM_THREADS=1",
                           "OPENBLAS_NUM_THREADS=1",
                           "MKL_NUM_THREADS=1",
                           "PYTHONPATH=" + fs::canonical(options.worker).string() + extra_python_path()};
    if (const char* core = std::getenv("OPENBLAS_CORETYPE"))
      command.environment.push_back(std::string("OPENBLAS_CORETYPE=") + core);
    pid = ::fork();
    if (pid < 0) throw UserError({.where = "worker", .what = std::strerror(errno), .fix = "free processes or memory"});
    if (pid == 0) run_in_server_room(room, command, report_write.get());
    ++generation;
    for (UniqueFd& end : theirs) end.reset();
    error_write.reset();
    report_write.reset();
    errors = std::move(error_read);
    ::fcntl(errors.get(), F_SETFL, O_NONBLOCK);
    last_words.clear();
    read_report(report_read, staging, without);
    const auto deadline = std::chrono::steady_clock::now() + options.start_timeout;
    for (std::size_t index = 0; index < servers.size(); ++index) wait_for_ready(index, deadline);
  }

  static std::string extra_python_path() {
    const char* given = std::getenv("PYTHONPATH");
    return given == nullptr || *given == '\0' ? "" : std::string(":") + given;
  }

  static std::string lines_of(const std::vector<fs::path>& paths) {
    std::string lines;
    for (const fs::path& path : paths) lines += path.string() + "\n";
    return lines;
  }

  /// Waits until the servers have their room; the folder that it was built on is then free.
  void read_report(UniqueFd& report_read, const fs::path& staging, std::uint32_t without) {
    std::string text;
    std::array<char, 512> bytes;
    ssize_t count = 0;
    while ((count = ::read(report_read.get(), bytes.data(), bytes.size())) > 0)
      text.append(bytes.data(), static_cast<std::size_t>(count));
    const std::size_t failed = text.find("failed: ");
    in_namespaces = text.empty();
    if (in_namespaces || failed != std::string::npos) {
      std::error_code ignored;
      fs::remove(staging, ignored);
    } else {
      folders = staging;
    }
    sandbox = {};
    if (cgroup != nullptr) {
      sandbox.obtained.emplace_back("cgroup of the servers");
      if (cgroup->bounds_memory()) sandbox.obtained.emplace_back("cgroup memory limit");
      if (cgroup->bounds_processes()) sandbox.obtained.emplace_back("cgroup process limit");
    }
    if (in_namespaces) {
      for (const char* part : {"server namespaces", "read-only root"}) sandbox.obtained.emplace_back(part);
      return;
    }
    if (failed == std::string::npos) {
      sandbox.missing = {"server namespaces", "read-only root"};
      sandbox.message = text.substr(0, text.find('\n'));
      return;
    }
    const std::string reason = text.substr(failed, text.find('\n', failed) - failed);
    stop_locked();
    if ((without & kWithoutNamespaces) == 0 && text.find("missing: ") == std::string::npos) throw NoNamespaces{reason};
    throw SetupError({.where = "sandbox",
                      .what = "the workers cannot be confined (" + reason + ")",
                      .fix = "run as an ordinary user, or where namespaces or Landlock can be had; `autotriton doctor` "
                             "tells what this machine has"});
  }

  void wait_for_ready(std::size_t index, std::chrono::steady_clock::time_point deadline) {
    while (true) {
      Frame frame;
      const Channel::State state = servers[index]->receive(frame);
      if (state == Channel::State::kFrame) {
        const Json record = Json::parse(frame.body, nullptr, false);
        check(record.is_object() && record.value("type", "") == "ready", "the worker's first record says ready");
        torch = record.value("torch", "");
        return;
      }
      if (state != Channel::State::kNothingYet) fail_start("the workers ended while starting", true);
      std::array<pollfd, 3> set{
          {{servers[index]->fd(), POLLIN, 0}, {errors.get(), POLLIN, 0}, {options.interrupt, POLLIN, 0}}};
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
      if (left <= 0 || ::poll(set.data(), set.size(), static_cast<int>(left)) == 0)
        fail_start("the workers did not start in time", false);
      drain_errors();
      if (set[2].revents != 0) {
        stop_locked();
        throw Interrupted("while the workers started");
      }
    }
  }

  void drain_errors() {
    std::array<char, 4096> bytes;
    ssize_t count = 0;
    while (errors && (count = ::read(errors.get(), bytes.data(), bytes.size())) > 0) {
      last_words.append(bytes.data(), static_cast<std::size_t>(count));
      if (last_words.size() > 16'384) last_words.erase(0, last_words.size() - 8192);
    }
  }

  [[noreturn]] void fail_start(const std::string& what, bool ended) {
    for (int wait = 0; wait < 20 && last_words.empty(); ++wait) {
      drain_errors();
      ::usleep(10'000);
    }
    drain_errors();
    const std::string words = last_words.size() > 1500 ? last_words.substr(last_words.size() - 1500) : last_words;
    stop_locked();
    if (words.empty() && ended) throw EndedSilently{};
    throw UserError({.where = options.python.string(),
                     .what = what + (words.empty() ? "" : ":\n" + words),
                     .fix = words.empty() ? "see whether this machine is overloaded"
                                          : "mend what it says; `make setup` makes a Python that works"});
  }

  void stop_locked() {
    for (auto& server : servers) server.reset();  // Servers end when their sockets close, and with them all their jobs.
    if (pid != 0) {
      for (int wait = 0; wait < 200; ++wait) {
        const pid_t done = ::waitpid(pid, nullptr, WNOHANG);
        if (done != 0) break;
        // Without a pid namespace the process that we started ends all others; it gets the time to do so.
        if (wait == 20) ::kill(-pid, in_namespaces ? SIGKILL : SIGTERM);
        if (wait == 150) ::kill(-pid, SIGKILL);
        ::usleep(wait < 20 ? 1000 : 10'000);
      }
      pid = 0;
    }
    cgroup.reset();
    if (!folders.empty()) autotriton_remove_folder(folders.c_str());
    folders.clear();
  }

  std::optional<Job> try_spawn(JobMode mode, const JobLimits& limits, const std::string& record, int& used_generation) {
    Job::Parts parts;
    parts.interrupt = options.interrupt;
    auto [channel, their_channel] = socket_pair();
    auto [status, their_status] = socket_pair();
    auto [output, their_output] = pipe_pair();
    {
      const std::lock_guard lock(mutex);
      if (pid == 0) start_locked();
      used_generation = generation;
      drain_errors();
      // A group for each job pays where it bounds memory or is what ends a tree.
      if (cgroup != nullptr && (cgroup->bounds_memory() || !in_namespaces))
        parts.cgroup = cgroup->job(limits.address_space_bytes + limits.file_bytes + limits.tmp_bytes, limits.processes);
      const std::array<int, 3> fds{their_channel.get(), their_status.get(), their_output.get()};
      const JobMode at = mode == JobMode::kProbe ? JobMode::kInterpret : mode;
      if (!servers[static_cast<std::size_t>(at)]->send(record, fds)) return std::nullopt;
    }
    their_channel.reset();
    their_status.reset();
    their_output.reset();
    parts.channel = std::move(channel);
    parts.status = std::move(status);
    parts.output = std::move(output);
    Job job(std::move(parts));
    if (!job.wait_until_ready()) return std::nullopt;
    return job;
  }
};

ForkServer::ForkServer(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}

ForkServer::~ForkServer() {
  const std::lock_guard lock(impl_->mutex);
  impl_->stop_locked();
}

void ForkServer::start() {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->pid == 0) impl_->start_locked();
}

Job ForkServer::spawn(JobMode mode, const JobLimits& limits, int capability) {
  const Json record = {{"type", "job"},
                       {"capability", capability},
                       {"probe", mode == JobMode::kProbe},
                       {"limits",
                        {{"address_space_bytes", limits.address_space_bytes},
                         {"file_bytes", limits.file_bytes},
                         {"tmp_bytes", limits.tmp_bytes},
                         {"cpu_seconds", limits.cpu_seconds},
                         {"processes", limits.processes},
                         {"open_files", limits.open_files},
                         {"allow_exec", limits.allow_exec ? 1 : 0}}}};
  const std::string body = record.dump();
  for (int attempt = 0; attempt < 3; ++attempt) {
    int used_generation = 0;
    if (std::optional<Job> job = impl_->try_spawn(mode, limits, body, used_generation)) return std::move(*job);
    const std::lock_guard lock(impl_->mutex);
    if (impl_->generation == used_generation) impl_->start_locked();  // Nobody else has started them anew yet.
  }
  throw InvariantError("the workers died three times while starting a job; last words: " +
                       impl_->last_words.substr(0, 1000));
}

std::string ForkServer::torch_version() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->torch;
}

SandboxReport ForkServer::server_sandbox() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->sandbox;
}

int ForkServer::process_id() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->pid;
}

}  // namespace autotriton::execution
