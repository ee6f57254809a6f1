#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/file.h"

namespace autotriton::verify {

/// Where the verdicts of many answers go, one a line: a file that a later run goes on with, or standard output.
/// Not thread-safe.
class VerdictFile {
 public:
  /// "-": standard output. Throws UserError if the file cannot be used.
  explicit VerdictFile(const std::filesystem::path& path);

  /// Whether an earlier run judged it. An error of ours is no judgement: it is judged again, and the later line counts.
  bool has(std::string_view id) const { return finished_.contains(id); }

  /// The line is on disk when this returns. Throws UserError if it cannot be written.
  void write(const std::string& line);

 private:
  std::set<std::string, std::less<>> finished_;
  std::optional<LineAppender> file_;
};

}  // namespace autotriton::verify
