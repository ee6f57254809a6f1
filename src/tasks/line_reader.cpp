#include "tasks/line_reader.h"

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "tasks/python_outline.h"

namespace autotriton::tasks {

LineReader::LineReader(const std::filesystem::path& path, std::size_t max_line_bytes)
    : path_(path), max_line_bytes_(max_line_bytes), stream_(path, std::ios::binary) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw UserError({.where = path.string(), .what = "is a folder", .fix = "name a file in it"});
  }
  if (!stream_) {
    throw UserError({.where = path.string(),
                     .what = std::string("cannot be opened: ") + std::strerror(errno),
                     .fix = "check the path and its permissions"});
  }
}

bool LineReader::next() {
  while (true) {
    line_.clear();
    too_long_ = false;
    bool any = false;
    std::streambuf& buffer = *stream_.rdbuf();
    constexpr int kEnd = std::char_traits<char>::eof();
    int c = buffer.sbumpc();
    for (; c != kEnd && c != '\n'; c = buffer.sbumpc()) {
      any = true;
      if (line_.size() < max_line_bytes_) {
        line_ += static_cast<char>(c);
      } else {
        too_long_ = true;
      }
    }
    if (c == kEnd && !any) return false;
    ++line_number_;
    if (line_number_ == 1 && line_.starts_with("\xEF\xBB\xBF")) line_.erase(0, 3);
    if (too_long_) {
      line_.clear();
      return true;
    }
    if (!trimmed(line_).empty()) return true;
  }
}

}  // namespace autotriton::tasks
