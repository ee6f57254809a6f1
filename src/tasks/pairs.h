#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "tasks/task.h"
#include "tasks/task_json.h"

/// A file of pairs, a task and what a model made of it, one JSON object a line:
///
///     {"id": "a1", "problem": "softmax.py", "answer": "<think>…"}    problem: a path relative to the file, or source
///     {"task_id": "t7", "candidate": "import triton…"}               looked up in the task library
///     {"task": {"reference": "…"}, "candidate": "…"}                 the task itself
namespace autotriton::tasks {

struct Pair {
  std::string id;  ///< The line's, else "line-N".
  std::size_t line = 0;
  std::shared_ptr<const Task> task;  ///< Shared by the lines that name the same one.
  std::string text;                  ///< What the model made.
  bool raw_answer = false;           ///< `text` is a raw reply to extract code from, not source.
};

/// A line that yields no pair; the next ones still do.
struct LineError {
  enum class Kind {
    kLineUnreadable,     ///< No JSON, a field missing or of the wrong type, an id used before, too long.
    kProblemUnreadable,  ///< The problem's file is missing or no text; the task id is not known.
    kProblemInvalid,     ///< The problem is no problem.
  };
  std::string id;  ///< As far as it could be read, else "line-N".
  std::size_t line = 0;
  Kind kind = Kind::kLineUnreadable;
  std::string message;
};

class PairReader {
 public:
  struct Options {
    const TaskLibrary* tasks = nullptr;  ///< For `task_id`; may be null.
    std::size_t max_line_bytes = 64U << 20U;
  };

  /// Throws UserError if the file cannot be opened.
  PairReader(const std::filesystem::path& path, const Options& options);
  PairReader(PairReader&&) noexcept;
  ~PairReader();

  /// The next line that is not blank; empty at the end. Holds one line and the latest problems in memory.
  std::optional<std::variant<Pair, LineError>> next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Number of lines that are not blank, for progress.
std::uint64_t count_pairs(const std::filesystem::path& path);

}  // namespace autotriton::tasks
