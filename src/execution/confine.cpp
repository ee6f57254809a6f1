#include "execution/confine.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "execution/landlock.h"

namespace {

struct NamedBit {
  std::uint32_t bit;
  const char* name;
};

constexpr std::array kNames{
    NamedBit{kConfineUserNamespace, "user namespace"},       NamedBit{kConfinePidNamespace, "pid namespace"},
    NamedBit{kConfineNetworkNamespace, "network namespace"}, NamedBit{kConfineMountNamespace, "mount namespace"},
    NamedBit{kConfineIpcNamespace, "ipc namespace"},         NamedBit{kConfinePrivateTmp, "private folder"},
    NamedBit{kConfinePrivateProc, "private /proc"},          NamedBit{kConfineNoNewPrivileges, "no new privileges"},
    NamedBit{kConfineNoCapabilities, "no capabilities"},     NamedBit{kConfineSystemCalls, "system-call filter"},
    NamedBit{kConfineResourceLimits, "resource limits"},     NamedBit{kConfineNotRoot, "not root"},
    NamedBit{kConfineLandlockFiles, "landlock files"},       NamedBit{kConfineLandlockNetwork, "landlock network"},
    NamedBit{kConfineLandlockSignals, "landlock signals"},
};

void note(AutotritonConfineReport* report, std::uint32_t bits, bool obtained, const char* step) {
  if (obtained) {
    report->obtained |= bits;
    return;
  }
  report->missing |= bits;
  if (report->message[0] == '\0') {
    std::snprintf(report->message, sizeof report->message, "%s: %s", step, std::strerror(errno));
  }
}

bool write_file(const char* path, const char* text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const auto length = static_cast<ssize_t>(std::strlen(text));
  const bool written = ::write(fd, text, static_cast<std::size_t>(length)) == length;
  ::close(fd);
  return written;
}

bool map_identity(uid_t uid, gid_t gid) {
  char line[64];
  if (!write_file("/proc/self/setgroups", "deny") && errno != ENOENT) return false;
  std::snprintf(line, sizeof line, "%u %u 1\n", uid, uid);
  if (!write_file("/proc/self/uid_map", line)) return false;
  std::snprintf(line, sizeof line, "%u %u 1\n", gid, gid);
  return write_file("/proc/self/gid_map", line);
}

/// Pages mapped now, in bytes; 0 if it cannot be read.
std::uint64_t mapped_bytes() {
  const int fd = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[128] = {};
  const ssize_t length = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  unsigned long long pages = 0;
  if (length <= 0 || std::sscanf(text, "%llu", &pages) != 1) return 0;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

bool limit(int resource, std::uint64_t value) {
  rlimit current{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &current) != 0) return false;
  const rlim_t bound = std::min<rlim_t>(value, current.rlim_max);
  const rlimit wanted{bound, bound};
  return ::setrlimit(static_cast<__rlimit_resource>(resource), &wanted) == 0;
}

/// Processes and threads that this user has on the whole machine, this one included.
std::uint64_t tasks_of_user() {
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return 0;
  const uid_t user = ::getuid();
  std::uint64_t count = 0;
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    char path[64];
    struct stat info {};
    std::snprintf(path, sizeof path, "/proc/%.20s/task", entry->d_name);
    if (::stat(path, &info) == 0 && info.st_uid == user) count += info.st_nlink - 2;  // A folder for each task.
  }
  ::closedir(folder);
  return count;
}

/// Without a user namespace of its own a job shares the count of its user's processes with the whole machine, which
/// moves meanwhile: room for others keeps the limit from refusing what the job may have.
constexpr std::uint64_t kRoomForOthers = 256;

bool set_limits(const AutotritonLimits& limits, bool own_user_count) {
  bool all = limit(RLIMIT_CORE, 0);
  if (limits.address_space_bytes != 0) {
    const std::uint64_t now = mapped_bytes();
    all = now != 0 && limit(RLIMIT_AS, now + limits.address_space_bytes) && all;
  }
  if (limits.file_bytes != 0) all = limit(RLIMIT_FSIZE, limits.file_bytes) && all;
  if (limits.cpu_seconds != 0) all = limit(RLIMIT_CPU, limits.cpu_seconds) && all;
  if (limits.open_files != 0) all = limit(RLIMIT_NOFILE, limits.open_files) && all;
  if (limits.processes != 0) {
    const std::uint64_t others = own_user_count || limits.processes == 1 ? 0 : tasks_of_user() + kRoomForOthers;
    all = limit(RLIMIT_NPROC, others + limits.processes) && all;
  }
  return limit(RLIMIT_MEMLOCK, 0) && limit(RLIMIT_MSGQUEUE, 0) && all;
}

bool drop_capabilities(bool keep_read_search) {
  for (int capability = 0; capability <= 63; ++capability) {
    if (keep_read_search && capability == CAP_DAC_READ_SEARCH) continue;
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno == EINVAL) break;
  }
  if (!keep_read_search) ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> left{};
  if (keep_read_search) {
    constexpr std::uint32_t kBit = 1U << CAP_DAC_READ_SEARCH;
    left[0] = {.effective = kBit, .permitted = kBit, .inheritable = kBit};
  }
  return ::syscall(SYS_capset, &header, left.data()) == 0 && !keep_read_search;
}

/// Where no namespace keeps a job apart: refuses what reaches other processes of the same user, what Landlock does not
/// watch over (modes, owners, times and attributes of files that this user owns), and leaving the process group by
/// which all of the job is ended.
bool refuse_what_namespaces_hid(scmp_filter_ctx filter) {
  constexpr int kFchmodat2 = 452;  // Newer than the headers of some systems.
  constexpr int kSetxattrat = 463;
  constexpr int kRemovexattrat = 466;
  bool all = true;
  for (const int call : {SCMP_SYS(kill),
                         SCMP_SYS(tkill),
                         SCMP_SYS(rt_sigqueueinfo),
                         SCMP_SYS(rt_tgsigqueueinfo),
                         SCMP_SYS(setsid),
                         SCMP_SYS(setpgid),
                         SCMP_SYS(setpriority),
                         SCMP_SYS(ioprio_set),
                         SCMP_SYS(sched_setparam),
                         SCMP_SYS(sched_setattr),
                         SCMP_SYS(sched_setscheduler),
                         SCMP_SYS(move_pages),
                         SCMP_SYS(migrate_pages),
                         SCMP_SYS(chmod),
                         SCMP_SYS(fchmod),
                         SCMP_SYS(fchmodat),
                         kFchmodat2,
                         SCMP_SYS(chown),
                         SCMP_SYS(fchown),
                         SCMP_SYS(lchown),
                         SCMP_SYS(fchownat),
                         SCMP_SYS(setxattr),
                         SCMP_SYS(lsetxattr),
                         SCMP_SYS(fsetxattr),
                         SCMP_SYS(removexattr),
                         SCMP_SYS(lremovexattr),
                         SCMP_SYS(fremovexattr),
                         kSetxattrat,
                         kRemovexattrat,
                         SCMP_SYS(utime),
                         SCMP_SYS(utimes),
                         SCMP_SYS(futimesat),
                         SCMP_SYS(utimensat),
                         SCMP_SYS(truncate)}) {
    all = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0) == 0 && all;
  }
  // A signal to itself is how abort works.
  all = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(tgkill), 1,
                         SCMP_A0(SCMP_CMP_NE, static_cast<scmp_datum_t>(::getpid()))) == 0 &&
        all;
  for (const int call : {SCMP_SYS(prlimit64), SCMP_SYS(sched_setaffinity)}) {  // 0: the caller itself.
    all = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 1, SCMP_A0(SCMP_CMP_NE, 0)) == 0 && all;
  }
  // Whoever a descriptor's events are sent to as signals.
  for (const scmp_datum_t command : {F_SETOWN, F_SETOWN_EX, F_SETSIG}) {
    all = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(fcntl), 1,
                           SCMP_A1(SCMP_CMP_MASKED_EQ, 0xFFFFFFFF, command)) == 0 &&
          all;
  }
  for (const scmp_datum_t command : {FIOSETOWN, SIOCSPGRP}) {
    all = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                           SCMP_A1(SCMP_CMP_MASKED_EQ, 0xFFFFFFFF, command)) == 0 &&
          all;
  }
  return all;
}

/// Refused with EPERM: what reaches another process, the kernel's settings, or memory that no limit counts. Signals
/// stay allowed, since the pid namespace already keeps them inside; where there is none, they are refused as well.
bool filter_system_calls(const AutotritonLimits& limits, bool in_pid_namespace) {
  constexpr std::array kRefused{SCMP_SYS(ptrace),
                                SCMP_SYS(process_vm_readv),
                                SCMP_SYS(process_vm_writev),
                                SCMP_SYS(process_madvise),
                                SCMP_SYS(kcmp),
                                SCMP_SYS(pidfd_open),
                                SCMP_SYS(pidfd_getfd),
                                SCMP_SYS(pidfd_send_signal),
                                SCMP_SYS(mount),
                                SCMP_SYS(umount2),
                                SCMP_SYS(pivot_root),
                                SCMP_SYS(chroot),
                                SCMP_SYS(move_mount),
                                SCMP_SYS(fsopen),
                                SCMP_SYS(fsmount),
                                SCMP_SYS(fsconfig),
                                SCMP_SYS(open_tree),
                                SCMP_SYS(mount_setattr),
                                SCMP_SYS(unshare),
                                SCMP_SYS(setns),
                                SCMP_SYS(keyctl),
                                SCMP_SYS(add_key),
                                SCMP_SYS(request_key),
                                SCMP_SYS(bpf),
                                SCMP_SYS(perf_event_open),
                                SCMP_SYS(userfaultfd),
                                SCMP_SYS(io_uring_setup),
                                SCMP_SYS(io_uring_enter),
                                SCMP_SYS(io_uring_register),
                                SCMP_SYS(memfd_create),
                                SCMP_SYS(memfd_secret),
                                SCMP_SYS(shmget),
                                SCMP_SYS(shmat),
                                SCMP_SYS(shmctl),
                                SCMP_SYS(msgget),
                                SCMP_SYS(msgctl),
                                SCMP_SYS(msgsnd),
                                SCMP_SYS(msgrcv),
                                SCMP_SYS(semget),
                                SCMP_SYS(semctl),
                                SCMP_SYS(semop),
                                SCMP_SYS(semtimedop),
                                SCMP_SYS(mq_open),
                                SCMP_SYS(mq_unlink),
                                SCMP_SYS(socket),
                                SCMP_SYS(socketpair),
                                SCMP_SYS(connect),
                                SCMP_SYS(bind),
                                SCMP_SYS(listen),
                                SCMP_SYS(syslog),
                                SCMP_SYS(personality),
                                SCMP_SYS(quotactl),
                                SCMP_SYS(swapon),
                                SCMP_SYS(swapoff),
                                SCMP_SYS(reboot),
                                SCMP_SYS(kexec_load),
                                SCMP_SYS(init_module),
                                SCMP_SYS(finit_module),
                                SCMP_SYS(delete_module),
                                SCMP_SYS(iopl),
                                SCMP_SYS(ioperm),
                                SCMP_SYS(setuid),
                                SCMP_SYS(setgid),
                                SCMP_SYS(setresuid),
                                SCMP_SYS(setresgid),
                                SCMP_SYS(setgroups),
                                SCMP_SYS(fanotify_init),
                                SCMP_SYS(inotify_init1),
                                SCMP_SYS(open_by_handle_at),
                                SCMP_SYS(name_to_handle_at),
                                SCMP_SYS(acct),
                                SCMP_SYS(sethostname)};
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  if (filter == nullptr) return false;
  bool all = true;
  for (const int call : kRefused) all = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0) == 0 && all;
  for (const scmp_datum_t flag : {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS}) {
    all = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                           SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag)) == 0 &&
          all;
  }
  // clone3 hides its flags in memory, where a filter cannot look; ENOSYS makes the C library fall back to clone.
  all = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) == 0 && all;
  if (limits.allow_exec == 0) {
    all = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(execve), 0) == 0 && all;
    all = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(execveat), 0) == 0 && all;
  }
  if (limits.processes == 1) {  // As the limit on processes says it, which a user with many of them may not have.
    for (const int call : {SCMP_SYS(clone), SCMP_SYS(fork), SCMP_SYS(vfork)}) {
      all = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAGAIN), call, 0) == 0 && all;
    }
  }
  if (!in_pid_namespace) all = refuse_what_namespaces_hid(filter) && all;
  all = seccomp_load(filter) == 0 && all;
  seccomp_release(filter);
  return all;
}

constexpr std::uint32_t kNamespaces = kConfineUserNamespace | kConfinePidNamespace | kConfineNetworkNamespace |
                                      kConfineMountNamespace | kConfineIpcNamespace;

/// In new namespaces: says who we are in them, cuts the mounts off and mounts the private folder.
void enter_own_mounts(const AutotritonLimits& limits, AutotritonConfineReport* report) {
  // An id that is not mapped reads as the overflow id, which is also what the servers of a root front run as.
  note(report, kConfineUserNamespace, map_identity(limits.user_id, limits.group_id), "uid_map");
  note(report, kConfineMountNamespace, ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0,
       "make mounts private");
  char options[64];
  const std::uint64_t bytes = limits.tmp_bytes != 0 ? limits.tmp_bytes : (64u << 20);
  std::snprintf(options, sizeof options, "size=%llu,nr_inodes=4096,mode=0700", static_cast<unsigned long long>(bytes));
  // /job exists in the servers' own root; elsewhere /tmp is what a job may write to.
  const char* folder = ::access("/job", F_OK) == 0 ? "/job" : "/tmp";
  note(report, kConfinePrivateTmp, ::mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, options) == 0,
       "mount private folder");
}

/// In place of namespaces: what may be opened, and what may be reached at all.
void enter_landlock(const AutotritonLimits& limits, AutotritonConfineReport* report) {
  if ((limits.without & kWithoutLandlock) != 0) {
    errno = EOPNOTSUPP;
    note(report, kConfineLandlockFiles | kConfineLandlockNetwork | kConfineLandlockSignals, false, "landlock left out");
    return;
  }
  const std::string readable =
      std::string(limits.readable) +
      "\n/dev/null\n/dev/zero\n/dev/full\n/dev/random\n/dev/urandom\n/proc/cpuinfo\n/proc/meminfo\n/proc/self/fd\n"
      "/proc/self/maps\n/proc/self/stat\n/proc/self/statm\n/proc/self/status";
  const std::string writable = std::string(limits.folder) + "\n/dev/null\n/dev/zero\n/dev/full";
  const auto result = autotriton::execution::landlock({.readable = readable.c_str(), .writable = writable.c_str()});
  note(report, kConfineLandlockFiles, result.files, "landlock");
  note(report, kConfineLandlockNetwork, result.network, "landlock has no rules for TCP here");
  note(report, kConfineLandlockSignals, result.signals, "landlock has no rules for signals here");
}

}  // namespace

extern "C" {

int autotriton_confined_fork(std::uint32_t without, AutotritonConfineReport* report, int* pidfd) {
  *report = {};
  *pidfd = -1;
  constexpr unsigned long kSpaces =
      CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS;
  long pid = -1;
  errno = EOPNOTSUPP;
  if ((without & kWithoutNamespaces) == 0) {
    pid = ::syscall(SYS_clone, kSpaces | CLONE_PIDFD | SIGCHLD, nullptr, pidfd, nullptr, 0UL);
    if (pid >= 0) {
      note(report, kNamespaces, true, "");
      return static_cast<int>(pid);
    }
  }
  note(report, kNamespaces | kConfinePrivateProc, false, "namespaces");
  pid = ::syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, nullptr, pidfd, nullptr, 0UL);
  return static_cast<int>(pid);
}

void autotriton_confine_process(const AutotritonLimits* limits, AutotritonConfineReport* report) {
  const bool in_namespaces = (report->obtained & kNamespaces) == kNamespaces;
  ::setsid();  // A process group spans pid namespaces: kill(0, …) would reach the servers.
  if (in_namespaces) enter_own_mounts(*limits, report);
  const bool limited = set_limits(*limits, in_namespaces);  // Reads /proc, so before it is covered.
  note(report, kConfineResourceLimits, limited, "limits");
  if (in_namespaces) {
    const bool proc = ::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, nullptr) == 0;
    note(report, kConfinePrivateProc, proc, "mount /proc");
  } else {
    note(report, kConfinePrivateTmp, ::access(limits->folder, W_OK | X_OK) == 0, limits->folder);
  }
  note(report, kConfineNoCapabilities, drop_capabilities(limits->keep_read_search != 0), "a capability is kept");
  uid_t real = 0;
  uid_t effective = 0;
  uid_t saved = 0;
  const bool known = ::getresuid(&real, &effective, &saved) == 0;
  note(report, kConfineNotRoot, known && real != 0 && effective != 0 && saved != 0, "runs as root");
  note(report, kConfineNoNewPrivileges, ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  if (!in_namespaces) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);  // Its server ends it; should that die first, the kernel does.
    enter_landlock(*limits, report);
  }
  note(report, kConfineSystemCalls, filter_system_calls(*limits, in_namespaces), "system-call filter");
}

const char* autotriton_confinement_name(std::uint32_t bit) {
  for (const NamedBit& named : kNames) {
    if (named.bit == bit) return named.name;
  }
  return nullptr;
}
}
