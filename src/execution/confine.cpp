#include "execution/confine.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

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
    NamedBit{kConfineResourceLimits, "resource limits"},
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

bool set_limits(const AutotritonLimits& limits) {
  bool all = limit(RLIMIT_CORE, 0);
  if (limits.address_space_bytes != 0) {
    const std::uint64_t now = mapped_bytes();
    all = now != 0 && limit(RLIMIT_AS, now + limits.address_space_bytes) && all;
  }
  if (limits.file_bytes != 0) all = limit(RLIMIT_FSIZE, limits.file_bytes) && all;
  if (limits.cpu_seconds != 0) all = limit(RLIMIT_CPU, limits.cpu_seconds) && all;
  if (limits.open_files != 0) all = limit(RLIMIT_NOFILE, limits.open_files) && all;
  if (limits.processes != 0) all = limit(RLIMIT_NPROC, limits.processes) && all;
  return limit(RLIMIT_MEMLOCK, 0) && limit(RLIMIT_MSGQUEUE, 0) && all;
}

bool drop_capabilities() {
  for (int capability = 0; capability <= 63; ++capability) {
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno == EINVAL) break;
  }
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> none{};
  return ::syscall(SYS_capset, &header, none.data()) == 0;
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
                                SCMP_SYS(msgget),
                                SCMP_SYS(semget),
                                SCMP_SYS(mq_open),
                                SCMP_SYS(socket),
                                SCMP_SYS(socketpair),
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
  if (!in_pid_namespace) {
    for (const int call :
         {SCMP_SYS(kill), SCMP_SYS(tkill), SCMP_SYS(rt_sigqueueinfo), SCMP_SYS(setsid), SCMP_SYS(setpgid)}) {
      all = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0) == 0 && all;
    }
  }
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

}  // namespace

extern "C" {

int autotriton_confined_fork(AutotritonConfineReport* report, int* pidfd) {
  *report = {};
  *pidfd = -1;
  constexpr unsigned long kSpaces =
      CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS;
  long pid = ::syscall(SYS_clone, kSpaces | CLONE_PIDFD | SIGCHLD, nullptr, pidfd, nullptr, 0UL);
  if (pid >= 0) {
    note(report, kNamespaces, true, "");
    return static_cast<int>(pid);
  }
  note(report, kNamespaces | kConfinePrivateTmp | kConfinePrivateProc, false, "clone");
  pid = ::syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, nullptr, pidfd, nullptr, 0UL);
  return static_cast<int>(pid);
}

void autotriton_confine_process(const AutotritonLimits* limits, AutotritonConfineReport* report) {
  const bool in_namespaces = (report->obtained & kNamespaces) == kNamespaces;
  ::setsid();  // A process group spans pid namespaces: kill(0, …) would reach the servers.
  if (in_namespaces) enter_own_mounts(*limits, report);
  const bool limited = set_limits(*limits);  // Reads /proc, so before it is covered.
  note(report, kConfineResourceLimits, limited, "limits");
  if (in_namespaces) {
    const bool proc = ::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, nullptr) == 0;
    note(report, kConfinePrivateProc, proc, "mount /proc");
  }
  note(report, kConfineNoCapabilities, drop_capabilities(), "drop capabilities");
  note(report, kConfineNoNewPrivileges, ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  note(report, kConfineSystemCalls, filter_system_calls(*limits, in_namespaces), "system-call filter");
}

const char* autotriton_confinement_name(std::uint32_t bit) {
  for (const NamedBit& named : kNames) {
    if (named.bit == bit) return named.name;
  }
  return nullptr;
}
}
