#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

/// The room in which the fork servers live: a root that holds only what Python needs, read-only; no network; another
/// user than root. Every job is confined again inside it (confine.h).
namespace autotriton::execution {

struct ServerRoom {
  std::vector<std::filesystem::path> visible;  ///< Files and folders bound read-only at their own paths.
  std::filesystem::path staging;               ///< An empty folder: the root is built on it, or jobs' folders go there.
  std::uint32_t without = 0;                   ///< Bits of AutotritonWithout.
  std::filesystem::path cgroup;                ///< The servers' group; empty if there is none.
};

/// What one start of the servers runs.
struct ServerCommand {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  ///< NAME=value each; nothing is inherited.
  std::vector<int> descriptors;          ///< Become 3, 4, 5 …; all others are closed.
  int errors = -1;                       ///< Standard output and error.
};

/// For the child of a fork: builds the room, gives up privileges and becomes the command. Never returns. Where
/// namespaces cannot be had (or are to be left out) it confines the command with Landlock, as another user than root,
/// and waits beside it to end whatever it leaves; where not even that can be had, an ordinary user runs it as it is and
/// root does not. What was missed is written to `report_fd` (a line each, "missing: …" or "failed: …") before the
/// command starts.
[[noreturn]] void run_in_server_room(const ServerRoom& room, const ServerCommand& command, int report_fd);

}  // namespace autotriton::execution
