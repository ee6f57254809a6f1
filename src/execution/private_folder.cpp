#include "execution/private_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace {

constexpr int kMaxDepth = 32;
constexpr std::uint64_t kMaxEntries = 100'000;
constexpr std::uint64_t kEndless = std::numeric_limits<std::uint64_t>::max();

bool is_dots(const char* name) { return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0; }

/// Names in the folder that `fd` stands for; takes the descriptor.
std::vector<std::string> names_in(int fd, std::uint64_t most) {
  std::vector<std::string> names;
  DIR* folder = ::fdopendir(fd);
  if (folder == nullptr) {
    ::close(fd);
    return names;
  }
  while (const dirent* entry = ::readdir(folder)) {
    if (!is_dots(entry->d_name)) names.emplace_back(entry->d_name);
    if (names.size() > most) break;
  }
  ::closedir(folder);
  return names;
}

int open_folder(int at, const char* name) {
  return ::openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

struct Use {
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
  bool endless = false;
};

void add_use(int fd, int depth, Use& use) {
  if (depth > kMaxDepth) use.endless = true;
  for (const std::string& name : names_in(::dup(fd), kMaxEntries)) {
    if (use.endless || ++use.entries > kMaxEntries) {
      use.endless = true;
      return;
    }
    struct stat info {};
    if (::fstatat(fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    use.bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
    if (!S_ISDIR(info.st_mode)) continue;
    const int below = open_folder(fd, name.c_str());
    if (below < 0) continue;
    add_use(below, depth + 1, use);
    ::close(below);
  }
}

}  // namespace

extern "C" {

void autotriton_folder_use(const char* path, std::uint64_t* bytes, std::uint64_t* entries) {
  *bytes = *entries = 0;
  const int top = open_folder(AT_FDCWD, path);
  if (top < 0) return;
  Use use;
  add_use(top, 0, use);
  ::close(top);
  *bytes = use.endless ? kEndless : use.bytes;
  *entries = use.endless ? kEndless : use.entries;
}

int autotriton_remove_folder(const char* path) {
  const int top = open_folder(AT_FDCWD, path);
  if (top < 0) return ::unlink(path);
  ::fchmod(top, 0700);
  // A folder below is emptied of files and its own folders moved up, under names that nothing has: so no depth is too
  // deep. Each round removes at least one level.
  unsigned long long moved = 0;
  bool progress = true;
  while (progress) {
    progress = false;
    for (const std::string& name : names_in(open_folder(top, "."), kMaxEntries)) {
      if (::unlinkat(top, name.c_str(), 0) == 0) {
        progress = true;
        continue;
      }
      ::fchmodat(top, name.c_str(), 0700, 0);  // It is no link: those were unlinked.
      const int below = open_folder(top, name.c_str());
      if (below < 0) continue;
      for (const std::string& inner : names_in(open_folder(below, "."), kMaxEntries)) {
        if (::unlinkat(below, inner.c_str(), 0) == 0) {
          progress = true;
          continue;
        }
        ::fchmodat(below, inner.c_str(), 0700, 0);  // A folder is moved only by who may write to it.
        char fresh[64];
        do {
          std::snprintf(fresh, sizeof fresh, ".moved-%llu", ++moved);
        } while (::faccessat(top, fresh, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
        if (::renameat(below, inner.c_str(), top, fresh) == 0) progress = true;
      }
      ::close(below);
      if (::unlinkat(top, name.c_str(), AT_REMOVEDIR) == 0) progress = true;
    }
  }
  ::close(top);
  return ::rmdir(path);
}
}
