#include "execution/landlock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>

namespace autotriton::execution {
namespace {

// The same on every architecture.
constexpr long kCreateRuleset = 444;
constexpr long kAddRule = 445;
constexpr long kRestrictSelf = 446;
constexpr unsigned kVersionFlag = 1;
constexpr int kRulePathBeneath = 1;

/// struct landlock_ruleset_attr; an older kernel takes a shorter one.
struct Ruleset {
  std::uint64_t files;
  std::uint64_t tcp;     // From version 4.
  std::uint64_t scoped;  // From version 6.
};

struct [[gnu::packed]] PathRule {
  std::uint64_t allowed;
  std::int32_t parent;
};

// LANDLOCK_ACCESS_FS_*, by bit.
constexpr std::uint64_t kExecute = 1U << 0U;
constexpr std::uint64_t kWriteFile = 1U << 1U;
constexpr std::uint64_t kReadFile = 1U << 2U;
constexpr std::uint64_t kReadFolder = 1U << 3U;
constexpr std::uint64_t kRemoveFolder = 1U << 4U;
constexpr std::uint64_t kRemoveFile = 1U << 5U;
constexpr std::uint64_t kMakeFolder = 1U << 7U;
constexpr std::uint64_t kMakeFile = 1U << 8U;
constexpr std::uint64_t kMakeLink = 1U << 12U;
constexpr std::uint64_t kMove = 1U << 13U;      // From version 2; before, moves between folders are refused.
constexpr std::uint64_t kTruncate = 1U << 14U;  // From version 3; before, only the system-call filter refuses it.
constexpr std::uint64_t kDevices = 1U << 15U;   // From version 5.

constexpr std::uint64_t kReading = kExecute | kReadFile | kReadFolder;
// Neither devices nor sockets nor pipes with names.
constexpr std::uint64_t kWriting =
    kReading | kWriteFile | kRemoveFolder | kRemoveFile | kMakeFolder | kMakeFile | kMakeLink | kMove | kTruncate;
constexpr std::uint64_t kOnlyFolders =
    kReadFolder | kRemoveFolder | kRemoveFile | kMakeFolder | kMakeFile | kMakeLink | kMove;

std::uint64_t known_rights(int version) {
  std::uint64_t rights = (std::uint64_t{1} << 13U) - 1;
  if (version >= 2) rights |= kMove;
  if (version >= 3) rights |= kTruncate;
  if (version >= 5) rights |= kDevices;
  return rights;
}

/// Allows `rights` on each path of `lines`. A path that is not there is no loss.
bool allow(int ruleset, std::string_view lines, std::uint64_t rights, std::uint64_t known) {
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    const std::string path(lines.substr(0, end));
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    if (path.empty()) continue;
    const int parent = ::open(path.c_str(), O_PATH | O_CLOEXEC);
    if (parent < 0) continue;
    struct stat info {};
    const bool folder = ::fstat(parent, &info) == 0 && S_ISDIR(info.st_mode);
    const PathRule rule{rights & known & (folder ? ~std::uint64_t{0} : ~kOnlyFolders), parent};
    const bool added = ::syscall(kAddRule, ruleset, kRulePathBeneath, &rule, 0) == 0;
    ::close(parent);
    if (!added) return false;
  }
  return true;
}

}  // namespace

int landlock_version() {
  const long version = ::syscall(kCreateRuleset, nullptr, 0, kVersionFlag);
  return version > 0 ? static_cast<int>(version) : 0;
}

LandlockResult landlock(const LandlockRequest& request) {
  const int version = landlock_version();
  if (version == 0) return {};
  const std::uint64_t known = known_rights(version);
  // TCP: bind and connect. Scopes: abstract sockets and signals. No rule allows any of them again.
  const Ruleset attributes{known, version >= 4 ? 3U : 0U, version >= 6 ? 3U : 0U};
  const std::size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  const int ruleset = static_cast<int>(::syscall(kCreateRuleset, &attributes, size, 0));
  if (ruleset < 0) return {};
  const bool confined = allow(ruleset, request.readable, kReading, known) &&
                        allow(ruleset, request.writable, kWriting, known) && ::syscall(kRestrictSelf, ruleset, 0) == 0;
  const int error = errno;
  ::close(ruleset);
  errno = error;
  return {.files = confined, .network = confined && version >= 4, .signals = confined && version >= 6};
}

}  // namespace autotriton::execution
