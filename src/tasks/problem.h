#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tasks/task.h"

/// A problem, file or source text, read into a Task.
///
///     const Task task = read_problem("softmax.py");
///
/// Its kind is told by what it defines at the top level: `class Model` (module), a line of '#' as TritonBench has
/// between reference and tests (script), else `get_inputs` beside one public function (function).
namespace autotriton::tasks {

/// Bad input that says which of two reasons a verdict would give it.
class ProblemError : public UserError {
 public:
  enum class Kind {
    kUnreadable,  ///< Missing, a folder, too large, not text.
    kInvalid,     ///< Text, but no problem.
  };
  ProblemError(Kind kind, const ErrorText& text) : UserError(text), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

/// Reads a file. The task's id is the file's name without `.py`; for `level1/19_ReLU.py`, the naming of KernelBench, it
/// is `kernelbench/level1/19_ReLU`. `entry_point` names the function where several could be meant.
Task read_problem(const std::filesystem::path& path, const std::optional<std::string>& entry_point = {});

/// Reads `source` (any bytes); errors say `where`.
Task problem_from_source(std::string_view source, std::string task_id, std::string_view where,
                         const std::optional<std::string>& entry_point = {});

}  // namespace autotriton::tasks
