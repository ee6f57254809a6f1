#pragma once

#include <cstdint>

/// Landlock, the kernel's way for a process without privileges to give up files, TCP and signals for good. Raw system
/// calls: its numbers are part of the kernel's interface, and the headers of older systems do not have them all.
namespace autotriton::execution {

/// What this kernel's Landlock knows: 0 none, 1 files, 2 moves between folders, 3 truncation, 4 TCP, 5 devices,
/// 6 signals and abstract sockets.
int landlock_version();

struct LandlockRequest {
  const char* readable = "";  ///< Files and folders to read and run programs from, one a line; others are unseen.
  const char* writable = "";  ///< The same for what may be written, made and removed below.
};

struct LandlockResult {
  bool files = false;
  bool network = false;  ///< No TCP.
  bool signals = false;  ///< No signal to, and no abstract socket of, a process outside.
};

/// Confines this process and what it starts, for good. Needs no_new_privs. errno tells why `files` is false.
LandlockResult landlock(const LandlockRequest& request);

}  // namespace autotriton::execution
