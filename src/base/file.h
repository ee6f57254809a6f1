#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

/// Files read whole, replaced whole, or grown by whole lines. What goes wrong is a UserError naming the path and the
/// system's reason; a full disk says what to free.
namespace autotriton {

/// The largest problem, candidate or answer anyone may hand in.
inline constexpr std::uint64_t kMaxSourceBytes = 50'000'000;

/// Returns the bytes of `path`, which may be a pipe or `/dev/stdin`. Throws UserError if it is missing, a folder,
/// unreadable, or holds more than `max_bytes`.
std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes = kMaxSourceBytes);

/// Puts `bytes` at `path` so that a reader, or a crash, sees the old content or the new and never a part: written
/// beside it, synced, renamed. A device or pipe (`/dev/stdout`) is written directly.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

/// Appends lines to a file that a later run can go on with, such as the verdicts of a long job.
///
///     LineAppender out = LineAppender::open("verdicts.jsonl");   // drops the half line of a run that was killed
///     out.append(verdict_json);                                  // on disk when it returns, or not there at all
///
/// Not thread-safe: one owner.
class LineAppender {
 public:
  /// Opens or makes `path`; bytes after the last line end are cut off.
  static LineAppender open(const std::filesystem::path& path);
  LineAppender(LineAppender&& other) noexcept;
  LineAppender& operator=(LineAppender&&) = delete;
  ~LineAppender();

  /// Adds `line` (no line end inside, checked) and a line end, and syncs. If the disk is full, throws UserError and
  /// leaves the file as it was.
  void append(std::string_view line);

  /// Bytes of an unfinished line that `open` removed.
  std::uint64_t dropped_bytes() const { return dropped_bytes_; }

 private:
  LineAppender(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool regular_ = false;    // A device or pipe has no size to cut back to.
  std::uint64_t size_ = 0;  // Of the whole lines, in bytes.
  std::uint64_t dropped_bytes_ = 0;
};

}  // namespace autotriton
