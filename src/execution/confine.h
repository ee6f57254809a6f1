#pragma once

#include <cstddef>
#include <cstdint>

/// Confinement of one process. This is the C interface that the Python fork server calls through ctypes (the shared
/// library libautotriton_confine.so).
///
///     pid = autotriton_confined_fork(without, &report, &pidfd)    // a fork whose child has namespaces of its own
///     child:  autotriton_confine_process(&limits, &report)    // mounts, limits, privileges, system calls
///
/// Where namespaces cannot be had, Landlock and a longer system-call filter take their place. What could not be had is
/// a bit in `missing`, never an error: the caller decides whether that is good enough.
extern "C" {

enum AutotritonConfinement : std::uint32_t {
  kConfineUserNamespace = 1u << 0,  ///< Own user namespace, so root inside is nobody outside.
  kConfinePidNamespace = 1u << 1,   ///< Sees and signals only itself and its children; all die with its first process.
  kConfineNetworkNamespace = 1u << 2,  ///< No network, not even loopback.
  kConfineMountNamespace = 1u << 3,    ///< Own mounts: a private folder, nothing writable beside it.
  kConfineIpcNamespace = 1u << 4,
  kConfinePrivateTmp = 1u << 5,
  kConfinePrivateProc = 1u << 6,
  kConfineNoNewPrivileges = 1u << 7,
  kConfineNoCapabilities = 1u << 8,
  kConfineSystemCalls = 1u << 9,  ///< seccomp: no ptrace, mounts, namespaces, keys, bpf, memfd, sockets …
  kConfineResourceLimits = 1u << 10,
  kConfineNotRoot = 1u << 11,
  // In place of namespaces only.
  kConfineLandlockFiles = 1u << 12,    ///< Opens nothing but what it needs; writes only in its folder.
  kConfineLandlockNetwork = 1u << 13,  ///< No TCP, should a socket ever be had.
  kConfineLandlockSignals = 1u << 14,  ///< No signal to, and no abstract socket of, anything outside.
};

/// Parts that are left out although they could be had: for tests of what then takes their place.
enum AutotritonWithout : std::uint32_t {
  kWithoutNamespaces = 1u << 0,
  kWithoutLandlock = 1u << 1,
  kWithoutCgroup = 1u << 2,
};

/// Upper bounds; 0 leaves a bound as it is.
struct AutotritonLimits {
  std::uint64_t address_space_bytes;  ///< Added to what the process maps already.
  std::uint64_t file_bytes;           ///< Largest file it may write.
  std::uint64_t tmp_bytes;            ///< Size of the private folder.
  std::uint64_t cpu_seconds;
  std::uint32_t processes;  ///< Processes and threads, itself included.
  std::uint32_t open_files;
  std::uint32_t user_id;  ///< Who the process is, to be mapped in its user namespace.
  std::uint32_t group_id;
  std::uint32_t allow_exec;  ///< 1: may start programs (the compile worker runs ptxas).
  std::uint32_t without;     ///< Bits of AutotritonWithout.
  /// 1: keeps the one capability by which a process that is not root reads files that root alone may reach. Only
  /// together with Landlock, which then says what is read.
  std::uint32_t keep_read_search;
  const char* readable;  ///< For Landlock: what may be read, one path a line.
  const char* folder;    ///< For Landlock: the private folder.
};

struct AutotritonConfineReport {
  std::uint32_t obtained;  ///< Bits of AutotritonConfinement.
  std::uint32_t missing;
  char message[256];  ///< First failure, for a person; empty if none.
};

/// Forks; the child is in user, pid, network, mount, ipc and uts namespaces of its own where that can be had. Returns
/// the child's id and a descriptor for it in the parent, 0 in the child, -1 on failure. The C library's fork handlers
/// do not run, so the caller must have one thread; a Python caller runs Python's own (PyOS_BeforeFork and its two
/// mates).
int autotriton_confined_fork(std::uint32_t without, AutotritonConfineReport* report, int* pidfd);

/// Gives up, in the child, all that a job does not need: maps its user, mounts a private folder, sets the limits, drops
/// capabilities, filters system calls. Without namespaces its folder must be there already.
void autotriton_confine_process(const AutotritonLimits* limits, AutotritonConfineReport* report);

/// Short name of one bit ("pid namespace"), or nullptr.
const char* autotriton_confinement_name(std::uint32_t bit);
}
