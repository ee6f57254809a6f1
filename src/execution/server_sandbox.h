#pragma once

#include <filesystem>
#include <string>
#include <vector>

/// The room in which the fork servers live: a root that holds only what Python needs, read-only; no network; another
/// user than root. Every job is confined again inside it (confine.h).
namespace autotriton::execution {

struct ServerRoom {
  std::vector<std::filesystem::path> visible;  ///< Files and folders bound read-only at their own paths.
  std::filesystem::path staging;               ///< An empty folder to build the root on.
};

/// What one start of the servers runs.
struct ServerCommand {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  ///< NAME=value each; nothing is inherited.
  std::vector<int> descriptors;          ///< Become 3, 4, 5 …; all others are closed.
  int errors = -1;                       ///< Standard output and error.
};

/// For the child of a fork: builds the room, gives up privileges and becomes the command. Never returns. Where
/// namespaces cannot be had it runs the command without them, unless that would mean running as root; what was missed
/// is written to `report_fd` (a line each, "missing: …" or "failed: …") before the command starts.
[[noreturn]] void run_in_server_room(const ServerRoom& room, const ServerCommand& command, int report_fd);

}  // namespace autotriton::execution
