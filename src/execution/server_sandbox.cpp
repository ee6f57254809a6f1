#include "execution/server_sandbox.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

#include "execution/confine.h"
#include "execution/landlock.h"
#include "execution/private_folder.h"

namespace autotriton::execution {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kNobody = 65534;

void report(int fd, const std::string& kind, const std::string& what) {
  const std::string line = kind + ": " + what + ": " + std::strerror(errno) + "\n";
  [[maybe_unused]] const ssize_t ignored = ::write(fd, line.data(), line.size());
}

bool write_text(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return written;
}

/// Own namespaces; as an ordinary user inside a user namespace of its own.
bool enter_namespaces(bool as_root) {
  constexpr int kSpaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  if (as_root) return ::unshare(kSpaces) == 0;
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWUSER | kSpaces) != 0) return false;
  return write_text("/proc/self/setgroups", "deny") &&
         write_text("/proc/self/uid_map", std::to_string(uid) + " " + std::to_string(uid) + " 1\n") &&
         write_text("/proc/self/gid_map", std::to_string(gid) + " " + std::to_string(gid) + " 1\n");
}

/// Makes every folder above `path` below `root`.
bool make_parents(const fs::path& root, const fs::path& path) {
  fs::path made = root;
  for (const fs::path& part : path.parent_path().relative_path()) {
    made /= part;
    if (::mkdir(made.c_str(), 0755) != 0 && errno != EEXIST) return false;
  }
  return true;
}

bool bind_read_only(const fs::path& root, const fs::path& source) {
  const fs::path target = root / source.relative_path();
  if (!make_parents(root, source)) return false;
  struct stat info {};
  if (::lstat(source.c_str(), &info) != 0) return errno == ENOENT;
  if (S_ISLNK(info.st_mode)) {  // /bin -> usr/bin on merged systems.
    std::array<char, 4096> link{};
    const ssize_t length = ::readlink(source.c_str(), link.data(), link.size() - 1);
    return length > 0 && (::symlink(link.data(), target.c_str()) == 0 || errno == EEXIST);
  }
  if (S_ISDIR(info.st_mode)) {
    if (::mkdir(target.c_str(), 0755) != 0 && errno != EEXIST) return false;
  } else {
    const int file = ::open(target.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0444);
    if (file < 0) return false;
    ::close(file);
  }
  if (::mount(source.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) return false;
  // An unprivileged remount must keep the flags that the source mount has.
  struct statvfs flags {};
  unsigned long kept = MS_NOSUID;
  if (::statvfs(target.c_str(), &flags) == 0) {
    if ((flags.f_flag & ST_NODEV) != 0) kept |= MS_NODEV;
    if ((flags.f_flag & ST_NOEXEC) != 0) kept |= MS_NOEXEC;
    if ((flags.f_flag & ST_NOATIME) != 0) kept |= MS_NOATIME;
    if ((flags.f_flag & ST_RELATIME) != 0) kept |= MS_RELATIME;
  }
  return ::mount(nullptr, target.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kept, nullptr) == 0;
}

bool build_root(const ServerRoom& room, int report_fd) {
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  if (::mount("tmpfs", room.staging.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,mode=0755") != 0) return false;
  for (const fs::path& path : room.visible) {
    if (!bind_read_only(room.staging, path)) {
      report(report_fd, "failed", "bind " + path.string());
      return false;
    }
  }
  for (const char* device : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}) {
    if (!bind_read_only(room.staging, device)) return false;
  }
  for (const char* folder : {"/tmp", "/proc", "/job"}) {
    if (::mkdir((room.staging.string() + folder).c_str(), 0755) != 0 && errno != EEXIST) return false;
  }
  // While the old one is still in sight: a user namespace may mount /proc only where it could see one.
  if (::mount("proc", (room.staging / "proc").c_str(), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) {
    report(report_fd, "failed", "mount /proc");
    return false;
  }
  if (::chdir(room.staging.c_str()) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0) return false;
  if (::umount2(".", MNT_DETACH) != 0 || ::chdir("/") != 0) return false;
  if (::mount("tmpfs", "/job", "tmpfs", MS_NOSUID | MS_NODEV, "size=16m,mode=1777") != 0) return false;
  return ::mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr) == 0;
}

bool become_nobody() {
  for (int capability = 0; capability <= 63; ++capability) {  // What no program that it starts can have again either.
    if (capability == CAP_DAC_READ_SEARCH) continue;
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno == EINVAL) break;
  }
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0 && ::setuid(0) != 0;
}

/// Whether everyone may read `path`: its own bits, and those of every folder above it.
bool readable_by_all(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return errno == ENOENT;
  if ((info.st_mode & S_IROTH) == 0 || (S_ISDIR(info.st_mode) && (info.st_mode & S_IXOTH) == 0)) return false;
  for (fs::path above = path.parent_path(); above != above.parent_path(); above = above.parent_path()) {
    if (::stat(above.c_str(), &info) != 0 || (info.st_mode & S_IXOTH) == 0) return false;
  }
  return true;
}

/// From root to nobody, with the one capability by which nobody reads what root alone may reach.
bool become_nobody_who_reads() {
  if (::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 || !become_nobody()) return false;
  constexpr std::uint32_t kBit = 1U << CAP_DAC_READ_SEARCH;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets{};
  sets[0] = {.effective = kBit, .permitted = kBit, .inheritable = kBit};
  return ::syscall(SYS_capset, &header, sets.data()) == 0 &&
         ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH, 0, 0) == 0;
}

std::string joined(const std::vector<fs::path>& paths) {
  std::string lines;
  for (const fs::path& path : paths) lines += path.string() + "\n";
  return lines;
}

[[noreturn]] void become(const ServerCommand& command) {
  // First above all wanted numbers, then down into place, so that no move closes another's source.
  std::vector<int> moved;
  for (const int fd : command.descriptors) moved.push_back(::fcntl(fd, F_DUPFD_CLOEXEC, 64));
  const int errors = ::fcntl(command.errors, F_DUPFD_CLOEXEC, 64);
  for (std::size_t index = 0; index < moved.size(); ++index) ::dup2(moved[index], static_cast<int>(index) + 3);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, 0);
  ::dup2(errors, 1);
  ::dup2(errors, 2);
  ::syscall(SYS_close_range, static_cast<unsigned>(command.descriptors.size() + 3), ~0U, 0);
  std::vector<char*> arguments;
  for (const std::string& argument : command.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> environment;
  for (const std::string& variable : command.environment) environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);
  ::execve(arguments.front(), arguments.data(), environment.data());
  const std::string message = "cannot start " + command.arguments.front() + ": " + std::strerror(errno) + "\n";
  [[maybe_unused]] const ssize_t ignored = ::write(2, message.data(), message.size());
  ::_exit(127);
}

/// Children of this process; those of processes that ended are among them, since it is their reaper.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::array<char, 512> text{};
    const int stat = ::open((entry.path() / "stat").c_str(), O_RDONLY | O_CLOEXEC);
    if (stat < 0) continue;
    const ssize_t length = ::read(stat, text.data(), text.size() - 1);
    ::close(stat);
    const std::string_view line(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
    const std::size_t end = line.rfind(')');  // The program's name may hold anything.
    if (end == std::string_view::npos || end + 4 >= line.size()) continue;
    if (std::atoi(line.data() + end + 4) == ::getpid()) found.push_back(std::atoi(name.c_str()));
  }
  return found;
}

/// Waits for the servers' first process, or for the word to end it (SIGTERM); then ends whatever they left. Everything
/// that a server or job started and that lost its parent becomes a child of this process.
[[noreturn]] void wait_and_sweep(pid_t first, const sigset_t& signals, const fs::path& folders) {
  int status = 0;
  while (true) {
    const pid_t done = ::waitpid(-1, &status, WNOHANG);
    if (done == first) break;
    if (done > 0) continue;
    if (::sigwaitinfo(&signals, nullptr) == SIGTERM) {
      ::kill(-first, SIGKILL);
      ::waitpid(first, &status, 0);
      break;
    }
  }
  // A job cannot leave its process group, so one signal to the group leaves none of it behind.
  for (int round = 0; round < 500; ++round) {
    for (const pid_t child : children()) {
      const pid_t group = ::getpgid(child);
      if (group > 1 && group != ::getpgid(0)) ::kill(-group, SIGKILL);
      ::kill(child, SIGKILL);
    }
    pid_t gone = 0;
    while ((gone = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (gone < 0 && errno == ECHILD) break;
    const timespec pause{.tv_sec = 0, .tv_nsec = 10'000'000};
    ::nanosleep(&pause, nullptr);
  }
  autotriton_remove_folder(folders.c_str());
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/// Where namespaces cannot be had.
[[noreturn]] void run_without_namespaces(const ServerRoom& room, ServerCommand command, bool as_root, int report_fd) {
  const int version = (room.without & kWithoutLandlock) != 0 ? 0 : landlock_version();
  if (version == 0) {
    errno = EOPNOTSUPP;
    report(report_fd, as_root ? "failed" : "missing", "landlock");
    if (as_root) ::_exit(126);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGCHLD);
  ::sigaddset(&signals, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  if (as_root) {
    const bool open_to_all = std::all_of(room.visible.begin(), room.visible.end(), readable_by_all);
    if (::chown(room.staging.c_str(), kNobody, kNobody) != 0 ||
        !(open_to_all ? become_nobody() : become_nobody_who_reads())) {
      report(report_fd, "failed", "leave root");
      ::_exit(126);
    }
    if (!open_to_all) command.arguments.emplace_back("--keep-read-search");
  }
  const pid_t first = ::fork();
  if (first < 0) {
    report(report_fd, "failed", "fork");
    ::_exit(126);
  }
  if (first == 0) {
    ::setpgid(0, 0);
    ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (version != 0) {
      const std::string readable =
          joined(room.visible) + "/proc\n/dev/null\n/dev/zero\n/dev/full\n/dev/random\n/dev/urandom\n";
      const std::string writable = room.staging.string() + "\n/dev/null";
      if (!landlock({.readable = readable.c_str(), .writable = writable.c_str()}).files) {
        report(report_fd, "failed", "landlock");
        ::_exit(126);
      }
    }
    ::close(report_fd);
    become(command);
  }
  ::syscall(SYS_close_range, 0U, ~0U, 0U);
  wait_and_sweep(first, signals, room.staging);
}

}  // namespace

void run_in_server_room(const ServerRoom& room, const ServerCommand& command, int report_fd) {
  ::setpgid(0, 0);  // Ctrl-C at the terminal is for the front, which then ends us.
  const int above = ::open(room.staging.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  const bool as_root = ::geteuid() == 0;
  if (!room.cgroup.empty()) write_text((room.cgroup / "cgroup.procs").c_str(), "0");
  errno = EOPNOTSUPP;
  if ((room.without & kWithoutNamespaces) != 0 || !enter_namespaces(as_root)) {
    report(report_fd, "missing", "server namespaces");
    run_without_namespaces(room, command, as_root, report_fd);
  }
  const pid_t first = ::fork();  // The first process of the pid namespace: when it ends, all in it do.
  if (first < 0) {
    report(report_fd, "failed", "fork");
    ::_exit(126);
  }
  if (first == 0) {
    if (!build_root(room, report_fd)) {
      report(report_fd, "failed", "server root");
      ::_exit(126);
    }
    // Outside nothing was mounted on it. Removed here, it is not left behind by a front that is killed just now.
    ::unlinkat(above, room.staging.filename().c_str(), AT_REMOVEDIR);
    if (as_root && !become_nobody()) {
      report(report_fd, "failed", "leave root");
      ::_exit(126);
    }
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    ::close(report_fd);
    become(command);
  }
  // Nothing stays open here: with the front's ends of the sockets in hand the servers would not notice its death.
  ::syscall(SYS_close_range, 0U, ~0U, 0U);
  int status = 0;
  while (::waitpid(first, &status, 0) < 0 && errno == EINTR) {
  }
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

}  // namespace autotriton::execution
