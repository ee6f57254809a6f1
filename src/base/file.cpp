#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace autotriton {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view doing, int error) {
  std::string fix = "check the path and its permissions";
  if (error == ENOSPC || error == EDQUOT) fix = "free some space there (`df -h`) and run the same command again";
  if (error == EFBIG) fix = "raise the file size limit (`ulimit -f`) or write to another file system";
  if (error == ENOENT) fix = "check the path for a typing error";
  throw UserError({.where = path.string(), .what = std::string(doing) + ": " + std::strerror(error), .fix = fix});
}

// Closes a descriptor at the end of the scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }
  int close() { return ::close(std::exchange(number_, -1)); }

 private:
  int number_;
};

// Writes all of `bytes`; returns 0 or the error.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

// Pipes and devices know no sync, and that is no failure.
int sync_to_disk(int descriptor) {
  if (::fdatasync(descriptor) == 0 || errno == EINVAL || errno == EROFS) return 0;
  return errno;
}

bool is_special(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

}  // namespace

std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail(path, "cannot be opened", errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail(path, "cannot be examined", errno);
  if (S_ISDIR(status.st_mode)) {
    throw UserError({.where = path.string(), .what = "is a folder", .fix = "name a file in it"});
  }
  std::string bytes;
  if (S_ISREG(status.st_mode))
    bytes.reserve(std::min<std::uint64_t>(static_cast<std::uint64_t>(status.st_size), max_bytes));
  std::array<char, 65536> buffer;
  while (true) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0) {
      if (errno == EINTR) continue;
      fail(path, "cannot be read", errno);
    }
    if (got == 0) return bytes;
    bytes.append(buffer.data(), static_cast<std::size_t>(got));
    if (bytes.size() > max_bytes) {
      throw UserError({.where = path.string(),
                       .what = "holds more than the " + std::to_string(max_bytes) + " bytes allowed",
                       .fix = "check that it is the right file"});
    }
  }
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  if (is_special(path)) {
    Descriptor device(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (device.get() < 0) fail(path, "cannot be opened for writing", errno);
    if (const int error = write_all(device.get(), bytes)) fail(path, "cannot be written", error);
    return;
  }
  static std::atomic<unsigned> counter{0};  // Tells two writers of this process apart.
  std::filesystem::path aside = path;
  aside += ".part-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
  Descriptor file(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0) fail(path, "cannot be written", errno);
  int error = write_all(file.get(), bytes);
  if (error == 0) error = sync_to_disk(file.get());
  if (file.close() != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(aside.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(aside.c_str());
    fail(path, "cannot be written", error);
  }
  // The rename itself lasts only once its folder is on disk; a file system without such a sync is not our failure.
  const auto parent = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const Descriptor folder(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) sync_to_disk(folder.get());
}

LineAppender LineAppender::open(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND, 0666);
  if (descriptor < 0 && !is_special(path)) fail(path, "cannot be opened for writing", errno);
  LineAppender appender(path, descriptor < 0 ? ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_APPEND) : descriptor);
  if (appender.descriptor_ < 0) fail(path, "cannot be opened for writing", errno);
  struct stat status {};
  if (::fstat(appender.descriptor_, &status) != 0) fail(path, "cannot be examined", errno);
  appender.regular_ = S_ISREG(status.st_mode);
  if (!appender.regular_) return appender;

  // Look for the last line end from the back.
  const auto size = static_cast<std::uint64_t>(status.st_size);
  std::uint64_t whole = size;
  std::array<char, 65536> buffer;
  while (whole > 0) {
    const std::uint64_t from = whole > buffer.size() ? whole - buffer.size() : 0;
    const ssize_t got = ::pread(appender.descriptor_, buffer.data(), whole - from, static_cast<off_t>(from));
    if (got < 0) fail(path, "cannot be read", errno);
    const std::string_view chunk(buffer.data(), static_cast<std::size_t>(got));
    if (const auto at = chunk.rfind('\n'); at != std::string_view::npos) {
      whole = from + at + 1;
      break;
    }
    whole = from;
  }
  if (whole != size && ::ftruncate(appender.descriptor_, static_cast<off_t>(whole)) != 0) {
    fail(path, "cannot be cut back to its last whole line", errno);
  }
  appender.size_ = whole;
  appender.dropped_bytes_ = size - whole;
  return appender;
}

LineAppender::LineAppender(LineAppender&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      regular_(other.regular_),
      size_(other.size_),
      dropped_bytes_(other.dropped_bytes_) {}

LineAppender::~LineAppender() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void LineAppender::append(std::string_view line) {
  check(line.find('\n') == std::string_view::npos, "a line holds no line end");
  std::string bytes(line);
  bytes += '\n';
  int error = write_all(descriptor_, bytes);
  if (error == 0) error = sync_to_disk(descriptor_);
  if (error == 0) {
    size_ += bytes.size();
    return;
  }
  // A failure here leaves a half line, which the next `open` removes.
  if (regular_ && ::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) error = errno;
  fail(path_, "cannot be written", error);
}

}  // namespace autotriton
