#include "execution/cgroup.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

namespace autotriton::execution {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "autotriton-";
constexpr std::uint64_t kMaxProcesses = 4096;

bool write_text(const fs::path& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return written;
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool has_word(const std::string& words, const std::string& word) {
  std::istringstream stream(words);
  for (std::string each; stream >> each;) {
    if (each == word) return true;
  }
  return false;
}

/// Kills what is in the group and waits until it can be removed.
void end_group(const fs::path& folder) {
  write_text(folder / "cgroup.kill", "1");
  for (int wait = 0; wait < 200 && ::rmdir(folder.c_str()) != 0 && errno == EBUSY; ++wait) ::usleep(1000);
}

void end_tree(const fs::path& folder) {
  write_text(folder / "cgroup.kill", "1");
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_directory(ignored)) end_group(entry.path());
  }
  end_group(folder);
}

/// Groups of fronts that were killed before they could remove them.
void remove_stale(const fs::path& parent) {
  std::error_code ignored;
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    int pid = 0;
    const char* digits = name.data() + std::strlen(kPrefix);
    if (std::from_chars(digits, name.data() + name.size(), pid).ptr == digits) continue;
    if (::kill(pid, 0) != 0 && errno == ESRCH) stale.push_back(entry.path());
  }
  for (const fs::path& folder : stale) end_tree(folder);
}

std::uint64_t memory_of_machine() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::optional<fs::path> own_cgroup() {
  std::ifstream mounts("/proc/self/mountinfo");
  std::string line;
  std::string root;
  std::string mounted;
  while (std::getline(mounts, line)) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos || !line.substr(dash + 3).starts_with("cgroup2 ")) continue;
    std::istringstream fields(line);
    std::string id, parent, device;
    fields >> id >> parent >> device >> root >> mounted;
    break;
  }
  if (mounted.empty()) return std::nullopt;
  std::ifstream own("/proc/self/cgroup");
  while (std::getline(own, line)) {
    if (!line.starts_with("0::")) continue;
    fs::path group = line.substr(3);
    if (root != "/") group = group.lexically_relative(root);
    return (fs::path(mounted) / group.relative_path()).lexically_normal();
  }
  return std::nullopt;
}

JobCgroup::~JobCgroup() { end_group(folder_); }

bool JobCgroup::take(int pid) const { return write_text(folder_ / "cgroup.procs", std::to_string(pid)); }

std::unique_ptr<RunCgroup> RunCgroup::make(std::string& why) {
  const std::optional<fs::path> own = own_cgroup();
  if (!own) {
    why = "no control groups of version 2 are mounted";
    return nullptr;
  }
  // A group with processes in it cannot hand controllers to its children, unless it is the root; its parent may.
  std::unique_ptr<RunCgroup> best = make_below(*own, why);
  if (best != nullptr && best->memory_) return best;
  std::string beside;
  std::unique_ptr<RunCgroup> other = make_below(own->parent_path(), beside);
  if (other != nullptr && (best == nullptr || other->memory_)) return other;
  return best;
}

std::unique_ptr<RunCgroup> RunCgroup::make_below(const fs::path& parent, std::string& why) {
  static std::atomic<int> number{0};
  if (::access((parent / "cgroup.procs").c_str(), W_OK) != 0) {
    why = parent.string() + ": " + std::strerror(errno);
    return nullptr;
  }
  remove_stale(parent);
  const std::string offered = read_text(parent / "cgroup.controllers");
  for (const char* controller : {"memory", "pids"}) {
    if (has_word(offered, controller) && !has_word(read_text(parent / "cgroup.subtree_control"), controller))
      write_text(parent / "cgroup.subtree_control", std::string("+") + controller);
  }
  fs::path folder = parent / (kPrefix + std::to_string(::getpid()) + "-" + std::to_string(++number));
  if (::mkdir(folder.c_str(), 0755) != 0) {
    why = folder.string() + ": " + std::strerror(errno);
    return nullptr;
  }
  std::unique_ptr<RunCgroup> run(new RunCgroup(std::move(folder)));
  const std::string own = read_text(run->folder_ / "cgroup.controllers");
  run->memory_ = has_word(own, "memory") && write_text(run->folder_ / "cgroup.subtree_control", "+memory") &&
                 write_text(run->folder_ / "memory.max", std::to_string(memory_of_machine() / 10 * 9));
  if (run->memory_) write_text(run->folder_ / "memory.swap.max", "0");  // Not there on a kernel without swap.
  run->processes_ = has_word(own, "pids") && write_text(run->folder_ / "cgroup.subtree_control", "+pids") &&
                    write_text(run->folder_ / "pids.max", std::to_string(kMaxProcesses));
  if (::mkdir(run->servers().c_str(), 0755) != 0 || ::access((run->servers() / "cgroup.kill").c_str(), W_OK) != 0) {
    why = run->servers().string() + ": " + std::strerror(errno);
    return nullptr;
  }
  return run;
}

RunCgroup::~RunCgroup() { end_tree(folder_); }

std::unique_ptr<JobCgroup> RunCgroup::job(std::uint64_t memory_bytes, std::uint32_t processes) {
  const fs::path folder = folder_ / ("job-" + std::to_string(++jobs_));
  if (::mkdir(folder.c_str(), 0755) != 0) return nullptr;
  auto group = std::make_unique<JobCgroup>(folder);
  if (memory_) {
    write_text(folder / "memory.max", std::to_string(memory_bytes));
    write_text(folder / "memory.oom.group", "1");
  }
  if (processes_) write_text(folder / "pids.max", std::to_string(processes));
  return group;
}

}  // namespace autotriton::execution
