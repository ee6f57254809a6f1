#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

namespace autotriton::tasks {

/// Reads a text file line by line in bounded memory: a line longer than the limit is skipped and reported as such.
class LineReader {
 public:
  /// Throws UserError if `path` cannot be read or is a folder.
  LineReader(const std::filesystem::path& path, std::size_t max_line_bytes);

  /// Goes to the next line that is not blank. Returns false at the end of the file.
  bool next();

  std::string& line() { return line_; }  ///< Without its end; empty if it was too long.
  bool too_long() const { return too_long_; }
  std::size_t line_number() const { return line_number_; }  ///< From 1.

 private:
  std::filesystem::path path_;
  std::size_t max_line_bytes_;
  std::ifstream stream_;
  std::string line_;
  bool too_long_ = false;
  std::size_t line_number_ = 0;
};

}  // namespace autotriton::tasks
